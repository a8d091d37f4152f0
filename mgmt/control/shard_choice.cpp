#include "mgmt/control/shard_choice.hpp"

#include <algorithm>

#include "mgmt/data_plane/volume_spec.hpp"

namespace lockstep::mgmt {

namespace {
const ShardStatus* standing(const NodeReport& report, std::int64_t number) {
  if (!report.running || !report.status) return nullptr;
  const auto& shards = report.status->shards;
  const auto found = std::ranges::find(shards, number, &ShardStatus::number);
  return found == shards.end() || !found->connected || !found->paths_down.empty() ? nullptr : &*found;
}
}  // namespace

/// Either node knows of its own way out alone.
std::vector<std::int64_t> usable_shards(const NodeReport& here, const NodeReport& there) {
  std::vector<std::int64_t> usable{0};
  for (std::int64_t number = 1; number < data_plane::kMaxShards; ++number) {
    if (standing(here, number) && standing(there, number)) usable.push_back(number);
  }
  return usable;
}

std::int64_t emptiest_shard(const std::vector<std::int64_t>& usable, const Configuration& configuration) {
  const auto volumes_in = [&](std::int64_t shard) {
    return std::ranges::count(configuration.volumes, shard, &Volume::shard);
  };
  return *std::ranges::min_element(usable, {}, volumes_in);
}

}  // namespace lockstep::mgmt
