#pragma once
// What the operator wants of a pair: the whole desired state as one value. A change makes a new value, which becomes
// the next revision on both nodes (revision.hpp); nothing in it belongs to one node's process or disk. Its records are
// described: what is named in a description is in the document, the tables and the API (docs/developer/management.md).
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "mgmt/control/refusal.hpp"
#include "replication/arbiter/witness_access.hpp"

namespace lockstep::mgmt {

using engine::NodeSide;
using engine::Uuid;

[[nodiscard]] inline const char* side_name(NodeSide side) { return side == NodeSide::a ? "a" : "b"; }

struct Chap {
  std::string user;
  std::string secret;
  bool operator==(const Chap&) const = default;
};
BOOST_DESCRIBE_STRUCT(Chap, (), (user, secret))

struct PairSettings {
  std::int64_t lease_ms = 1500;
  std::int64_t resync_floor = std::int64_t{8} << 20;  ///< bytes a second
  std::int64_t resync_ceiling = 0;                    ///< bytes a second, 0: none
  /// While one lease takes the place of another: the other one of the two, which counts, too (lease_jobs.hpp). 0: none.
  std::int64_t other_lease_ms = 0;
  bool operator==(const PairSettings&) const = default;
};
BOOST_DESCRIBE_STRUCT(PairSettings, (), (lease_ms, resync_floor, resync_ceiling, other_lease_ms))

struct Arbiter {
  bool witness = false;                ///< else, without a fence: the preferred node goes on
  std::vector<std::string> endpoints;  ///< of the witness
  NodeSide preferred = NodeSide::a;
  replication::WitnessAccess access;  ///< to the witness; holds secrets
  /// Another one is about to take its place, and until then none decides: neither node asks a witness, and the volumes
  /// name one, so that no side is preferred.
  bool changing = false;
  /// Neither: each node has a command that powers its partner off, in a file that root writes there. Nothing of it is
  /// here.
  bool fence = false;
  bool operator==(const Arbiter&) const = default;
};
BOOST_DESCRIBE_STRUCT(Arbiter, (), (witness, endpoints, preferred, access, changing, fence))

/// What the witness's records are sealed with, where it is not the link's secrets.
struct SealSecrets {
  std::string one;
  std::string other;
  bool operator==(const SealSecrets&) const = default;
};
BOOST_DESCRIBE_STRUCT(SealSecrets, (), (one, other))

/// The link's other secrets, while one pair of them takes the place of another: let in beside those in force.
struct LinkBeside {
  Chap link;
  Chap link_mutual;
  bool are_old = false;  ///< they were in force; else they are about to be
  bool operator==(const LinkBeside&) const = default;
};
BOOST_DESCRIBE_STRUCT(LinkBeside, (), (link, link_mutual, are_old))

/// How far the pair has come on the way to a replication link with TLS (link_tls_jobs.hpp).
enum class LinkProtection : std::uint8_t {
  off,
  accepted,  ///< both nodes call without TLS, and are called with or without
  used,      ///< both call with TLS, and are called with or without
  required,  ///< nothing without TLS
};
BOOST_DESCRIBE_ENUM(LinkProtection, off, accepted, used, required)

struct Pair {
  Uuid id;
  std::string name;
  std::string target_name;
  Arbiter arbiter;
  PairSettings settings;
  Chap link;         ///< what the node that opens the partner link proves itself with
  Chap link_mutual;  ///< what the other one answers with
  std::int64_t created_ms = 0;
  std::int64_t next_lun = 0;  ///< where the search for a new volume's LUN begins: behind the last one given
  /// What whoever asks for the target's name and portals proves itself with; nothing: everybody is told.
  std::optional<Chap> discovery{};
  /// The link's first secrets, where it has others now: with others the witness's records would be a stranger's.
  std::optional<SealSecrets> seal{};
  std::optional<LinkBeside> link_beside{};
  LinkProtection link_protection = LinkProtection::off;
  bool operator==(const Pair&) const = default;
};
BOOST_DESCRIBE_STRUCT(Pair, (),
                      (id, name, target_name, arbiter, settings, link, link_mutual, created_ms, next_lun, discovery,
                       seal, link_beside, link_protection))

/// Addresses at which a node is reached, too, while others take their place: about to be in force, or of before. Empty:
/// there is none.
struct NodeBeside {
  std::string link_address;
  std::string management_address;
  [[nodiscard]] bool empty() const { return link_address.empty() && management_address.empty(); }
  bool operator==(const NodeBeside&) const = default;
};
BOOST_DESCRIBE_STRUCT(NodeBeside, (), (link_address, management_address))

struct Node {
  Uuid id;
  NodeSide side = NodeSide::a;
  std::string name;
  std::vector<std::string> portals;  ///< address:port each
  std::string link_address;
  std::string management_address;
  std::string fingerprint;  ///< of its TLS certificate
  NodeBeside beside{};
  /// Of the link's further paths (link_paths.hpp): the other node's, at the same place of its list, is on the same
  /// network. The lists of both nodes are of one length.
  std::vector<std::string> more_link_addresses{};
  std::vector<std::string> last_link_addresses{};  ///< of paths that carry data when no other is left
  bool operator==(const Node&) const = default;
};
BOOST_DESCRIBE_STRUCT(Node, (),
                      (id, side, name, portals, link_address, management_address, fingerprint, beside,
                       more_link_addresses, last_link_addresses))

/// Which files on a node's disk are its copy of a volume. One that takes the place of a copy that is lost has the next
/// number, so that the lost one, should it turn up, is not taken for it.
struct Copy {
  std::int64_t number = 1;
  std::string folder;    ///< empty: the node's own, of its configuration file
  bool retired = false;  ///< out of service, to be replaced
  /// The other node made the volume, or removed its copy of one that is being deleted, while this one was away: there
  /// is none here, and `retired` is set, too.
  bool unmade = false;
  bool operator==(const Copy&) const = default;
};
BOOST_DESCRIBE_STRUCT(Copy, (), (number, folder, retired, unmade))

enum class Lifecycle : std::uint8_t { creating, ready, deleting };
BOOST_DESCRIBE_ENUM(Lifecycle, creating, ready, deleting)

struct Volume {
  Uuid id{};
  std::string name{};
  std::string serial{};
  std::int64_t lun = 0;
  std::int64_t size = 0;  ///< bytes
  std::int64_t block_size = 512;
  std::int64_t physical_block = 4096;
  bool thin = true;
  bool read_only = false;
  bool removable = false;
  bool encrypted = false;  ///< on each node's disk, with a key of that node's own; never changes
  bool write_cache = false;
  Lifecycle lifecycle = Lifecycle::creating;
  Uuid first_epoch{};                 ///< the id of epoch number 1, the same on both nodes
  bool any_initiator = false;         ///< there is no list: whatever host may use it; `access` is empty then
  std::vector<std::string> access{};  ///< initiators' names, sorted; nobody else may use it
  /// Set while the volume is being filled from another array: nobody may use it then but the importing node itself,
  /// which proves itself with this, and read_only is not yet in force.
  std::string import_secret{};
  std::int64_t created_ms = 0;
  std::int64_t shard = 0;        ///< of the pair's mirrors (mgmt/data_plane/pair.hpp); never changes
  std::array<Copy, 2> copies{};  ///< by side
  bool operator==(const Volume&) const = default;
  [[nodiscard]] const Copy& copy(NodeSide side) const { return copies[static_cast<std::size_t>(side)]; }
  [[nodiscard]] Copy& copy(NodeSide side) { return copies[static_cast<std::size_t>(side)]; }
  [[nodiscard]] bool is_closed() const { return !any_initiator && access.empty(); }  ///< to every host
};
BOOST_DESCRIBE_STRUCT(Volume, (),
                      (id, name, serial, lun, size, block_size, physical_block, thin, read_only, removable, encrypted,
                       write_cache, lifecycle, first_epoch, any_initiator, access, import_secret, created_ms, shard,
                       copies))

/// What an initiator was let in with before it was given other credentials, and is until then beside them. Whoever
/// shows `chap` is answered with this `mutual`.
struct OldCredentials {
  Chap chap;
  std::optional<Chap> mutual;
  std::int64_t until_ms = 0;  ///< wall clock
  bool operator==(const OldCredentials&) const = default;
};
BOOST_DESCRIBE_STRUCT(OldCredentials, (), (chap, mutual, until_ms))

struct Initiator {
  std::string iqn;
  std::optional<Chap> chap;
  std::optional<Chap> mutual;
  std::int64_t created_ms = 0;
  std::optional<OldCredentials> old{};  ///< only beside `chap`
  bool operator==(const Initiator&) const = default;
};
BOOST_DESCRIBE_STRUCT(Initiator, (), (iqn, chap, mutual, created_ms, old))

enum class Role : std::uint8_t { admin, viewer };
BOOST_DESCRIBE_ENUM(Role, admin, viewer)

struct Token {
  Uuid id;
  std::string name;
  std::string digest;  ///< SHA-256 of the secret, hex; the secret itself is never kept
  Role role = Role::admin;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;  ///< 0: never
  bool operator==(const Token&) const = default;
};
BOOST_DESCRIBE_STRUCT(Token, (), (id, name, digest, role, created_ms, expires_ms))

struct Configuration {
  std::optional<Pair> pair;
  std::vector<Node> nodes;            ///< by side; one, then two
  std::vector<Volume> volumes;        ///< by name
  std::vector<Initiator> initiators;  ///< by iqn
  std::vector<Token> tokens;          ///< by name
  bool operator==(const Configuration&) const = default;

  [[nodiscard]] const Node* node(NodeSide side) const;
  [[nodiscard]] const Volume* volume(const Uuid& id) const;
  [[nodiscard]] Volume* volume(const Uuid& id);
  [[nodiscard]] const Initiator* initiator(std::string_view iqn) const;
  /// That has volumes: the link has so many ports above each of its own.
  [[nodiscard]] unsigned highest_shard() const;
  /// Puts every list into its order.
  void sort();
};
BOOST_DESCRIBE_STRUCT(Configuration, (), (pair, nodes, volumes, initiators, tokens))

/// The form in which a configuration travels to the partner and waits as a tentative revision: JSON, versioned.
[[nodiscard]] std::string to_document(const Configuration& configuration);
constexpr int kNewestDocument = 11;      ///< the newest version of that form that this program reads
constexpr int kSilentAboutVersions = 2;  ///< what a node reads that doesn't say: from before it was said
/// The version that the configuration's document has: the oldest that can tell all of it, so that a node which is not
/// upgraded yet reads what it can know, and refuses what it would get wrong.
[[nodiscard]] int document_version(const Configuration& configuration);
/// Refusal malformed or internal when the text is not a document that this version knows.
[[nodiscard]] Outcome<Configuration> from_document(std::string_view document);

/// "witness", "preferred" or "fence".
[[nodiscard]] const char* kind_name(const Arbiter& arbiter);
/// "off", "accepted", "used" or "required".
[[nodiscard]] const char* name_of(LinkProtection protection);
/// The arbiter alone, secrets included: between the nodes, and for a job that goes from one to another.
[[nodiscard]] std::string arbiter_document(const Arbiter& arbiter);
[[nodiscard]] Outcome<Arbiter> arbiter_from_document(std::string_view document);

}  // namespace lockstep::mgmt
