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
[[nodiscard]] ReplicaFiles replica_files(const std::filesystem::path& folder, const Uuid& volume);

/// Parameters of node.apply. `configuration` has a pair, and a node of this side. Volumes that are being made or
/// deleted are left out: their replicas are not there yet, or not any more.
[[nodiscard]] std::string apply_parameters(const Configuration& configuration, std::int64_t revision, NodeSide side,
                                           const std::filesystem::path& folder);

/// How a replica begins.
struct ReplicaBirth {
  bool both = true;   ///< members of the first epoch: both nodes; else side A alone
  bool clean = true;  ///< false: this replica has to be brought up to date
};
[[nodiscard]] std::string create_parameters(const Configuration& configuration, const Volume& volume, NodeSide side,
                                            const ReplicaBirth& birth, const std::filesystem::path& folder);

/// Parameters of witness.try.
[[nodiscard]] std::string try_parameters(const std::string& endpoint, const replication::WitnessAccess& access);

}  // namespace lockstep::mgmt
