#include "mgmt/control/shard_choice.hpp"

#include <algorithm>

namespace lockstep::mgmt {

std::vector<std::int64_t> usable_shards(const NodeReport& here, bool has_partner) {
  std::vector<std::int64_t> usable{0};
  if (!here.running || !here.status) return usable;
  for (const ShardStatus& shard : here.status->shards) {
    if (shard.number != 0 && (shard.connected || !has_partner)) usable.push_back(shard.number);
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
