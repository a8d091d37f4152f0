#include "mgmt/control/shard_choice.hpp"

#include <algorithm>

namespace lockstep::mgmt {

namespace {
template <class Counts>
std::vector<std::int64_t> first_and(const NodeReport& here, Counts counts) {
  std::vector<std::int64_t> usable{0};
  if (!here.running || !here.status) return usable;
  for (const ShardStatus& shard : here.status->shards) {
    if (shard.number != 0 && counts(shard)) usable.push_back(shard.number);
  }
  return usable;
}
}  // namespace

/// Either node knows of its own way out alone.
std::vector<std::int64_t> usable_shards(const NodeReport& here, const NodeReport& there) {
  return first_and(here, [&](const ShardStatus& mine) {
    return mine.connected && there.running && there.status &&
           std::ranges::any_of(there.status->shards, [&](const ShardStatus& theirs) {
             return theirs.number == mine.number && theirs.connected;
           });
  });
}

std::vector<std::int64_t> shards_of(const NodeReport& here) {
  return first_and(here, [](const ShardStatus&) { return true; });
}

std::int64_t emptiest_shard(const std::vector<std::int64_t>& usable, const Configuration& configuration) {
  const auto volumes_in = [&](std::int64_t shard) {
    return std::ranges::count(configuration.volumes, shard, &Volume::shard);
  };
  return *std::ranges::min_element(usable, {}, volumes_in);
}

}  // namespace lockstep::mgmt
