// How fast a resync goes beside hosts, and beside another volume's: no faster than its ceiling, no slower than its
// floor.
#include <algorithm>

#include <gtest/gtest.h>

#include "replication/core/resync_governor.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

/// B's copies are blank ones from now on, and A copies all of its own to them.
bool is_replaced(ScriptedPair& pair, unsigned volumes = 1) {
  for (unsigned v = 0; v < volumes; ++v) pair.host(kB).program()->leave(v);
  const auto left = [&](unsigned v) {
    const auto status = pair.host(kA).status(v);
    return status && status->state == MirrorState::solo;
  };
  if (!pair.wait_for([&] { return left(0) && left(volumes - 1); })) return false;
  for (unsigned v = 0; v < volumes; ++v) pair.host(kB).replace_copy(v);
  return pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); });
}

/// Until both are in sync.
double seconds(ScriptedPair& pair) {
  const Nanos from = pair.world().scheduler.now();
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, 600 * kSecond));
  return static_cast<double>(pair.world().scheduler.now() - from) / static_cast<double>(kSecond);
}

TEST(ResyncPace, OneVolumeTakesTheTimeThatTheCeilingSays) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.resync_ceiling = 8 * s.region_size; });
  ASSERT_TRUE(is_replaced(pair));
  const double took = seconds(pair);
  EXPECT_GE(took, 7) << "64 regions, eight a second";
  EXPECT_LE(took, 10);
  EXPECT_EQ(pair.violation(), "");
}

/// What is held back goes on when it may, also where all copies have ended and heartbeats are rare.
TEST(ResyncPace, ReachesTheCeilingWhereNothingElseHappens) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.regions = 256;
    s.resync_ceiling = 64 * s.region_size;
    s.lease = 10 * kSecond;
    s.heartbeat = 2 * kSecond;
  });
  ASSERT_TRUE(is_replaced(pair));
  const double took = seconds(pair);
  EXPECT_GE(took, 3.5) << "256 regions, 64 a second";
  EXPECT_LE(took, 6);
  EXPECT_EQ(pair.violation(), "");
}

TEST(ResyncPace, TwoVolumesHaveOneCeiling) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.resync_ceiling = 8 * s.region_size;
    s.volumes[0].size = s.volume_size();
    s.volumes.push_back(s.volumes[0]);
    s.volumes[1].id.bytes[15] ^= 1;
  });
  ASSERT_TRUE(is_replaced(pair, 2));
  EXPECT_GE(seconds(pair), 14) << "twice 64 regions, eight a second";
  EXPECT_EQ(pair.violation(), "");
}

TEST(ResyncPace, WidensWhereNobodyIsServed) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.regions = 2048;
    s.resync_floor = 0;
  });
  ASSERT_TRUE(is_replaced(pair));
  EXPECT_LE(seconds(pair), 8) << "at the slowest rate it would take 32 seconds";
  EXPECT_EQ(pair.violation(), "");
}

/// Sixteen writes under way at all times, for so long.
void write_for(ScriptedPair& pair, Nanos time) {
  std::vector<ScriptedPair::Io*> under_way;
  const Nanos end = pair.world().scheduler.now() + time;
  for (std::uint64_t i = 0; pair.world().scheduler.now() < end; ++i) {
    std::erase_if(under_way, [](const auto* io) { return io->done; });
    while (under_way.size() < 16) under_way.push_back(&pair.write(kA, (i * 16 + under_way.size()) % 64, 1));
    pair.run_for(kMillisecond);
  }
}

TEST(ResyncPace, NarrowsToTheFloorWhenWritesTakeLonger) {
  constexpr std::uint64_t kRegions = 8192;
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.regions = kRegions;
    s.resync_floor = 0;
  });
  const auto copied = [&] { return pair.status(kA).resync.bytes_done; };
  ASSERT_TRUE(is_replaced(pair));
  write_for(pair, kSecond);
  pair.spoil(kA, [](StoreFaults& f) { f.slowest = 40 * kMillisecond; });
  write_for(pair, 2 * kSecond);
  ASSERT_TRUE(pair.is(kA, MirrorState::syncing_source)) << "the test was too slow";
  const std::uint64_t before = copied();
  write_for(pair, 5 * kSecond);
  EXPECT_LE(copied() - before, 5 * 3 * replication::ResyncGovernor::kSlowest);
  EXPECT_GE(copied() - before, 5 * replication::ResyncGovernor::kSlowest / 2) << "it goes on";
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
