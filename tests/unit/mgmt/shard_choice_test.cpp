// Where a new volume lives.
#include "mgmt/control/shard_choice.hpp"

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

NodeReport with_links(std::vector<bool> connected) {
  NodeReport report;
  report.running = true;
  auto& status = report.status.emplace();
  for (std::size_t i = 0; i < connected.size(); ++i)
    status.shards.push_back({.number = static_cast<std::int64_t>(i), .connected = connected[i]});
  return report;
}

Configuration with_volumes(std::vector<std::int64_t> shards) {
  Configuration configuration;
  for (const std::int64_t shard : shards) configuration.volumes.emplace_back().shard = shard;
  return configuration;
}

using Shards = std::vector<std::int64_t>;

TEST(ShardChoice, TakesAShardWhoseLinkStandsAsBothNodesSay) {
  EXPECT_EQ(usable_shards(with_links({true, true, false, true}), with_links({true, true, true, true})),
            (Shards{0, 1, 3}));
  EXPECT_EQ(usable_shards(with_links({true, true, true, true}), with_links({true, false, true})), (Shards{0, 2}));
}

TEST(ShardChoice, TakesTheFirstWhateverItsLinkDoes) {
  EXPECT_EQ(usable_shards(with_links({false, false}), with_links({false, false})), Shards{0});
  EXPECT_EQ(usable_shards(NodeReport{}, with_links({true, true})), Shards{0}) << "lockstepd does not answer";
  EXPECT_EQ(usable_shards(with_links({true, true}), NodeReport{}), Shards{0}) << "nor does the partner";
  EXPECT_EQ(usable_shards(with_links({true, true}), with_links({})), Shards{0})
      << "which is of before there were several";
}

TEST(ShardChoice, TakesNoneThatLacksAPathOfTheFirst) {
  NodeReport lacks = with_links({true, true, true});
  lacks.status->shards[1].paths_down = {"10.9.0.2:3261"};
  EXPECT_EQ(usable_shards(with_links({true, true, true}), lacks), (Shards{0, 2}));
}

TEST(ShardChoice, SpreadsVolumesAndPrefersTheFirst) {
  EXPECT_EQ(emptiest_shard({0, 1}, with_volumes({})), 0);
  EXPECT_EQ(emptiest_shard({0, 1}, with_volumes({0})), 1);
  EXPECT_EQ(emptiest_shard({0, 1}, with_volumes({0, 1})), 0);
  EXPECT_EQ(emptiest_shard({0, 2}, with_volumes({0, 0, 1, 2})), 2) << "what is in others counts for nothing";
}

}  // namespace
}  // namespace lockstep::mgmt
