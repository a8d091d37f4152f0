#pragma once
// How much memory lockstepd may come to use by its configuration, and how much it may have.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mgmt/data_plane/configuration.hpp"

namespace lockstep::data_plane {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  bool of_control_group = false;  ///< systemd's MemoryMax, or another control group's memory.max; else the machine's
};

/// Bytes: the buffers of all reactors and of each shard's link, with RDMA those for messages, and kBesideBuffers.
[[nodiscard]] std::uint64_t memory_bound(const Configuration& configuration);

/// Sessions, volumes' maps and code: far more than a node with a thousand sessions is measured to take (tests/load).
constexpr std::uint64_t kBesideBuffers = 256ULL << 20;

/// The least that holds for this process: the machine's memory, or that of a control group (version 2) that it is in.
/// Nothing when it can't be read. `root` holds proc and sys/fs/cgroup.
[[nodiscard]] std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root = "/");

/// A sentence for an operator when the bound does not fit into the limit.
[[nodiscard]] std::optional<std::string> memory_problem(const Configuration& configuration, const MemoryLimit& limit);

}  // namespace lockstep::data_plane
