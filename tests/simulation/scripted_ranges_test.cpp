// Holes, on both nodes and after a resync.
#include <gtest/gtest.h>

#include "replication/core/regions.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

/// Blocks from `block` on that are of one kind; negative when they are a hole.
std::int64_t run_at(ScriptedPair& pair, NodeSide side, std::uint64_t block) {
  const auto left = pair.world().scenario.volume_size() / kBlock - block;
  auto& asked = pair.submit(side, engine::DiskOpcode::find_run, block, static_cast<std::uint32_t>(left), 0xee);
  EXPECT_TRUE(pair.wait_for([&] { return asked.done; }));
  EXPECT_EQ(asked.status(), std::error_code{});
  const auto run = engine::decode_run(asked.request.data.first(asked.request.transferred));
  const auto blocks = static_cast<std::int64_t>(run.length / kBlock);
  return run.hole ? -blocks : blocks;
}

std::error_code unmapped(ScriptedPair& pair, NodeSide side, std::uint64_t block, std::uint32_t count) {
  auto& io = pair.submit(side, engine::DiskOpcode::unmap, block, count, 0);
  EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
  return io.status();
}

void has_many_regions(Scenario& scenario) { scenario.regions = 4 * replication::Regions::kChunk; }

TEST(Ranges, WhatIsGivenBackThroughEitherMemberIsAHoleOnBothAndCleanAfterAWhile) {
  for (const NodeSide through : {kA, kB}) {
    ScriptedPair pair(pair_program(), has_many_regions);
    const auto blocks = static_cast<std::int64_t>(pair.world().scenario.volume_size() / kBlock);
    for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 30, 1), std::error_code{});
    EXPECT_EQ(run_at(pair, kA, 0), 8);
    EXPECT_EQ(run_at(pair, kB, 30), 2) << "from the asked block to the end of its granule";
    EXPECT_EQ(unmapped(pair, through, 8, static_cast<std::uint32_t>(blocks - 8)), std::error_code{});
    for (const NodeSide side : {kA, kB}) {
      EXPECT_EQ(run_at(pair, side, 0), 8);
      EXPECT_EQ(run_at(pair, side, 8), 8 - blocks);
      EXPECT_EQ(pair.value_at(side, 30), 0);
      EXPECT_EQ(pair.value_at(side, 0), 1);
    }
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes == 0 && pair.status(kB).dirty_bytes == 0; }));
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Ranges, AHoleMadeWhileAReplicaWasAwayIsAHoleThereAfterTheResync) {
  ScriptedPair pair(pair_program(), has_many_regions);
  const auto blocks = static_cast<std::int64_t>(pair.world().scenario.volume_size() / kBlock);
  for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 30, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  EXPECT_EQ(unmapped(pair, kA, 0, static_cast<std::uint32_t>(blocks)), std::error_code{});
  ASSERT_EQ(pair.written(kA, 800, 2), std::error_code{});
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const NodeSide side : {kA, kB}) {
    EXPECT_EQ(run_at(pair, side, 0), -800);
    EXPECT_EQ(run_at(pair, side, 800), 8);
    EXPECT_EQ(run_at(pair, side, 808), 808 - blocks);
  }
}

TEST(Ranges, AReplicaThatIsNoMemberAsksThePartnerWhereHolesAre) {
  ScriptedPair pair(pair_program(), has_many_regions);
  ASSERT_EQ(pair.written(kA, 0, 1, 8), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 8, 2, 8);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_EQ(pair.written(kA, 16, 3, 8), std::error_code{});
  EXPECT_EQ(run_at(pair, kB, 0), 24) << "its own store does not even answer";
}

}  // namespace
}  // namespace lockstep::simulation
