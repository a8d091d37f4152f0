#pragma once
// What node.apply (docs/developer/rpc.md) and replica.create are told, made from the configuration. Pure.
#include <cstdint>
#include <filesystem>
#include <string>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// Whom alone a volume lets in while it is being filled from another array.
struct Importer {
  std::string initiator;
  Chap chap;
};
[[nodiscard]] Importer importer_of(const Volume& volume);

/// Where a volume's data and metadata stand on this node.
struct ReplicaFiles {
  std::string data;
  std::string metadata;
};
/// `folder`: the node's own.
[[nodiscard]] ReplicaFiles replica_files(const std::filesystem::path& folder, const Uuid& volume,
                                         const Copy& copy = {});

/// Parameters of node.apply. `configuration` has a pair, and a node of this side. Volumes that are being made or
/// deleted are left out: their replicas are not there yet, or not any more; so are those whose copy here is retired,
/// and credentials of before whose time is over at `now_ms`.
[[nodiscard]] std::string apply_parameters(const Configuration& configuration, std::int64_t revision, NodeSide side,
                                           const std::filesystem::path& folder, std::int64_t now_ms = 0);

/// The epoch in which a volume lives on in one copy alone.
struct LoneEpoch {
  std::int64_t number = 0;
  std::string id;
  NodeSide member = NodeSide::a;
  std::int64_t size = 0;  ///< bytes of the volume in it
  bool operator==(const LoneEpoch&) const = default;
};
BOOST_DESCRIBE_STRUCT(LoneEpoch, (), (number, id, member, size))

/// How a replica begins.
struct ReplicaBirth {
  bool both = true;   ///< members of the first epoch: both nodes; else the one that makes it alone
  bool clean = true;  ///< false: this replica has to be brought up to date
  /// It takes the place of a lost one, as no member of this epoch of the other's; instead of `both`.
  std::optional<LoneEpoch> joins{};
};
BOOST_DESCRIBE_STRUCT(ReplicaBirth, (), (both, clean, joins))
[[nodiscard]] std::string create_parameters(const Configuration& configuration, const Volume& volume, NodeSide side,
                                            const ReplicaBirth& birth, const std::filesystem::path& folder);

/// Parameters of witness.try.
[[nodiscard]] std::string try_parameters(const std::string& endpoint, const replication::WitnessAccess& access,
                                         const Uuid& pair);
/// Parameters of witness.forget, of all volumes that there are. `keep`: the cluster in use, as witness.try gives it.
[[nodiscard]] std::string forget_parameters(const std::string& endpoint, const replication::WitnessAccess& access,
                                            const std::string& keep, const Configuration& configuration);

}  // namespace lockstep::mgmt
