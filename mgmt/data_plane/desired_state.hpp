#pragma once
// What node.apply asks for, as values (docs/developer/rpc.md). Reading checks each field by itself; what contradicts
// the machine or another field is found, and reported by name, when it is carried out.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/metadata/identity.hpp"
#include "engine/seams/clock.hpp"
#include "mgmt/data_plane/json_rpc.hpp"
#include "mgmt/data_plane/volume_spec.hpp"
#include "replication/arbiter/witness_access.hpp"

namespace lockstep::data_plane {

constexpr std::size_t kMaxVolumes = 1024;
constexpr std::size_t kMaxPortals = 16;
constexpr std::size_t kMaxAccessEntries = 1024;
constexpr std::size_t kMaxLun = 16383;  ///< flat space addressing, SAM-5 4.7.7.3

/// An IP address and a TCP port: "10.0.0.1:3260", "[fd00::1]:3260".
struct SocketAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const SocketAddress&) const = default;
  [[nodiscard]] static std::optional<SocketAddress> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
};

/// How far a pair has come on the way to a link with TLS. Nodes that are one step apart understand one another.
enum class LinkTlsMode : std::uint8_t {
  accepted,  ///< calls without TLS; is called with or without
  used,      ///< calls with TLS; is called with or without
  required,  ///< nothing without TLS
};

/// Who this node is on the link, and who its partner is.
struct LinkTls {
  std::string certificate;  ///< PEM
  std::string key;          ///< PEM
  std::string partner;      ///< SHA-256 of the partner's certificate, 64 hex digits
  LinkTlsMode mode = LinkTlsMode::required;
  bool operator==(const LinkTls&) const = default;
};

constexpr std::size_t kMaxMorePaths = 3;
/// One more path of the link.
struct PathSpec {
  SocketAddress listen;
  SocketAddress connect;
  bool last_resort = false;  ///< heartbeats go by it; data when no other path is left
  bool operator==(const PathSpec&) const = default;
};

struct LinkSpec {
  SocketAddress listen;
  SocketAddress connect;
  Authentication authentication;         ///< what this node shows, and lets in
  std::optional<Authentication> also{};  ///< lets in, too: of before, or to come
  std::optional<LinkTls> tls{};          ///< nothing: no TLS, either way
  /// While an address takes the place of another: the other one of this node's, and of the partner's.
  std::optional<SocketAddress> listen_beside{}, connect_beside{};
  std::vector<PathSpec> more_paths{};  ///< beside that from `listen` to `connect`
  bool operator==(const LinkSpec&) const = default;
};

struct PartnerSpec {
  std::string name;
  std::vector<SocketAddress> portals;
  LinkSpec link;
  bool operator==(const PartnerSpec&) const = default;
};

struct TargetSpec {
  std::string name;
  std::vector<SocketAddress> portals;
  std::optional<Authentication> discovery_auth;
  bool operator==(const TargetSpec&) const = default;
};

struct SettingsSpec {
  engine::Duration lease = std::chrono::milliseconds(1500);
  /// The one that `lease` takes the place of, or that is about to take its place: it counts, too. 0: there is none.
  engine::Duration other_lease{0};
  std::uint64_t resync_floor = std::uint64_t{8} << 20;  ///< bytes a second
  std::uint64_t resync_ceiling = 0;                     ///< bytes a second, 0: none
  bool operator==(const SettingsSpec&) const = default;
};

/// The secrets that the link had when the witness's records were first sealed: they outlive the link's.
struct SealSpec {
  std::string one;
  std::string other;
};

struct DesiredState {
  std::uint64_t revision = 0;
  engine::Uuid pair;
  std::string pair_name;
  engine::NodeSide side = engine::NodeSide::a;
  engine::Uuid node;
  std::string node_name;
  TargetSpec target;
  std::optional<PartnerSpec> partner;
  bool names_arbiter = false;  ///< else the volumes go by what they name
  engine::ArbiterSettings arbiter;
  bool witness_changing = false;              ///< another one is about to be named: none is asked until then
  replication::WitnessAccess witness_access;  ///< holds secrets
  std::optional<SealSpec> seal;               ///< of the witness's records; nothing: the link's own
  SettingsSpec settings;
  std::vector<VolumeSpec> volumes;
};

/// Addresses that are to be listened at, which need not be in use.
struct ListenTry {
  std::vector<SocketAddress> addresses;
};

/// A path of the link that is to be measured.
struct LinkTest {
  SocketAddress to;  ///< where it goes
  bool over_rdma = false;
};

/// A way to the partner that need not be in use; `from` is an address of this node's, whatever its port.
struct LinkTry {
  SocketAddress from;
  SocketAddress connect;
};

struct WitnessTry {
  std::string endpoint;
  engine::Uuid pair;                  ///< whose keys are asked for: etcd may let its user see no others
  replication::WitnessAccess access;  ///< holds secrets
};

/// The records of a pair's volumes at an etcd that is its witness no more.
struct WitnessForget {
  WitnessTry at;
  std::vector<engine::Uuid> volumes;
  std::uint64_t keep = 0;  ///< the cluster in use: nothing is removed there. 0: none is in use
};

struct ReplicaCreate {
  engine::VolumeIdentity identity;
  engine::EpochRecord epoch;
  std::string data;
  std::string metadata;
  bool thin = true;
  bool clean = true;
  bool encrypted = false;
  /// Else it takes the place of a copy that is lost, and serves nothing before it was brought up to date.
  [[nodiscard]] bool is_member() const { return epoch.members.contains(identity.owner); }
};

struct ReplicaGrow {
  engine::Uuid volume;
  std::uint64_t size = 0;  ///< bytes of the volume that there is to be room for
};

struct ReplicaDelete {
  engine::Uuid volume;
  std::optional<engine::NodeSide> side;  ///< whose replica; this node's when not said
  std::uint64_t size = 0;                ///< bytes of the volume; needed for block devices only
  std::string data;
  std::string metadata;
  bool keep_witness = false;  ///< the volume lives on, in the partner's replica or in another copy here
};

[[nodiscard]] std::expected<DesiredState, RpcError> read_desired_state(const nlohmann::json& params);
[[nodiscard]] std::expected<ListenTry, RpcError> read_listen_try(const nlohmann::json& params);
[[nodiscard]] std::expected<LinkTry, RpcError> read_link_try(const nlohmann::json& params);
[[nodiscard]] std::expected<LinkTest, RpcError> read_link_test(const nlohmann::json& params);
[[nodiscard]] std::expected<WitnessTry, RpcError> read_witness_try(const nlohmann::json& params);
[[nodiscard]] std::expected<WitnessForget, RpcError> read_witness_forget(const nlohmann::json& params);
[[nodiscard]] std::expected<ReplicaCreate, RpcError> read_replica_create(const nlohmann::json& params);
[[nodiscard]] std::expected<ReplicaGrow, RpcError> read_replica_grow(const nlohmann::json& params);
[[nodiscard]] std::expected<ReplicaDelete, RpcError> read_replica_delete(const nlohmann::json& params);

}  // namespace lockstep::data_plane
