#include "mgmt/data_plane/memory_bound.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "mgmt/data_plane/pair_shard.hpp"
#include "mgmt/data_plane/rdma_devices.hpp"

namespace lockstep::data_plane {
namespace {

std::uint64_t messages_bound(const Configuration& c) {
  const unsigned shards = std::min(c.reactors, kMaxShards);
  return c.rdma ? c.reactors * RdmaDevices::kMessages + shards * ShardRdma::kMemory : 0;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{}) return {};
  return value;
}

std::optional<std::uint64_t> memory_of_machine(const std::filesystem::path& root) {
  constexpr std::string_view kKey = "MemTotal:";
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const auto digit = line.find_first_not_of(' ', kKey.size());
    if (digit == std::string::npos) return {};
    const auto kib = number_of(std::string_view(line).substr(digit));
    if (!kib) return {};
    return *kib << 10;
  }
  return {};
}

/// Below the mount of version 2: "0::/system.slice/lockstepd.service" names it without its leading slash.
std::filesystem::path control_group(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

std::uint64_t memory_bound(const Configuration& c) {
  const unsigned shards = std::min(c.reactors, kMaxShards);
  return ((c.reactors * c.buffer_mib + shards * c.link_buffer_mib) << 20) + (shards - 1) * PairShard::kStash +
         messages_bound(c) + kBesideBuffers;
}

std::optional<MemoryLimit> memory_limit(const std::filesystem::path& root) {
  std::optional<MemoryLimit> least;
  if (const auto all = memory_of_machine(root)) least = MemoryLimit{.bytes = *all, .of_control_group = false};
  for (auto group = control_group(root); !group.empty(); group = group.parent_path()) {
    std::ifstream file(root / "sys/fs/cgroup" / group / "memory.max");
    std::string text;
    std::getline(file, text);
    const auto bytes = number_of(text);  // "max": none
    if (bytes && (!least || *bytes < least->bytes)) least = MemoryLimit{.bytes = *bytes, .of_control_group = true};
  }
  return least;
}

std::optional<std::string> memory_problem(const Configuration& c, const MemoryLimit& limit) {
  const std::uint64_t bound = memory_bound(c);
  if (bound <= limit.bytes) return {};
  return fmt::format(
      "lockstepd may come to use {} MiB of memory (reactors = {}, buffer_mib = {}, link_buffer_mib = {}, and {} MiB "
      "beside), but {} {} MiB: under load it may be ended for want of it. {}",
      bound >> 20, c.reactors, c.buffer_mib, c.link_buffer_mib, (messages_bound(c) + kBesideBuffers) >> 20,
      limit.of_control_group ? "its unit (MemoryMax) allows" : "this machine has", limit.bytes >> 20,
      limit.of_control_group ? "Lower them in lockstepd.toml, or raise MemoryMax, and restart lockstepd."
                             : "Lower them in lockstepd.toml and restart lockstepd, or give the machine more.");
}

}  // namespace lockstep::data_plane
