// Two shards a node, each with a volume of its own: what they share, and what each has for itself.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr Nanos kLease = kSecond;

void in_two_shards(Scenario& s) {
  s.several_shards = true;
  s.shards = 2;
  s.shards_of = {0, 1};
  s.latest_wake = 100 * kMicrosecond;
  engine::DiskInfo second = s.volumes.front();
  second.id.bytes[0] ^= 1;
  second.name = "volume1";
  second.serial = "SIM1";
  second.size = s.volume_size();
  s.volumes.push_back(second);
}

void preferring_a(Scenario& s) {
  in_two_shards(s);
  s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
}

void by_fence(Scenario& s) {
  in_two_shards(s);
  s.arbiter = {engine::ArbiterKind::fence, kA, {}};
}

struct Shards {
  explicit Shards(const ScriptedPair::Adjust& adjust) : pair(pair_program(), adjust) {
    for (const NodeSide side : {kA, kB}) pair.host(side).fence().hold();
  }
  void cut(std::size_t shard) {
    for (const NodeSide side : {kA, kB}) pair.world().cut_path(shard, side, false);
  }
  void mend(std::size_t shard) {
    for (const NodeSide side : {kA, kB}) pair.world().cut_path(shard, side, true);
  }
  [[nodiscard]] bool is(NodeSide side, unsigned volume, MirrorState state) {
    const auto status = pair.host(side).status(volume);
    return status && status->state == state;
  }
  [[nodiscard]] unsigned closings(NodeSide side) { return pair.host(side).fences(); }
  SimFence& fence(NodeSide side) { return pair.host(side).fence(); }

  ScriptedPair pair;
};

TEST(Shards, OneWhoseLinkIsCutDecidesForItsVolumesAlone) {
  Shards shards(preferring_a);
  shards.cut(1);
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.is(kA, 1, MirrorState::solo); }));
  EXPECT_TRUE(shards.is(kA, 0, MirrorState::in_sync));
  EXPECT_TRUE(shards.is(kB, 0, MirrorState::in_sync));
  EXPECT_EQ(shards.closings(kB), 1u) << "the one that lost its lease closes its hosts' sessions, for both shards";
  shards.mend(1);
  EXPECT_TRUE(shards.pair.wait_for([&] { return shards.pair.in_sync(); }));
  EXPECT_EQ(shards.pair.violation(), "");
}

TEST(Shards, SessionsAreClosedWhenTheOthersHaveDrained) {
  Shards shards(preferring_a);
  shards.cut(0);
  shards.pair.run_for(kLease * 7 / 10);
  // A forward of the other shard's is on its way when the lease runs out, and its link is in contact all the time.
  shards.pair.world().way_from(kB, 1).hold(SimLink::Flow::requests, true);
  auto& forwarded = shards.pair.write(kB, 5, 0x51, 1, 1);
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.is(kB, 0, MirrorState::suspended); }, kLease / 2));
  shards.pair.run_for(kLease / 10);
  EXPECT_TRUE(shards.is(kB, 1, MirrorState::in_sync));
  EXPECT_EQ(shards.closings(kB), 0u);
  shards.pair.world().way_from(kB, 1).hold(SimLink::Flow::requests, false);
  EXPECT_TRUE(shards.pair.wait_for([&] { return shards.closings(kB) == 1; }, kLease / 2));
  EXPECT_TRUE(shards.pair.wait_for([&] { return forwarded.done; }));
  EXPECT_EQ(shards.pair.violation(), "");
}

TEST(Shards, AThreadThatStandsStillKeepsSessionsFromBeingClosed) {
  Shards shards(preferring_a);
  shards.cut(0);
  shards.pair.run_for(kLease * 7 / 10);
  shards.pair.host(kB).freeze_thread(1);
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.is(kB, 0, MirrorState::suspended); }));
  shards.pair.run_for(5 * kLease);
  EXPECT_EQ(shards.closings(kB), 0u);
  shards.pair.host(kB).thaw();
  EXPECT_TRUE(shards.pair.wait_for([&] { return shards.closings(kB) == 1; }));
}

// The first shard's command began while the second was in contact: since then the partner's next process has come, and
// may be in an epoch with that one.
TEST(Shards, ACommandCountsForWhatWasAskedAboutBeforeItBegan) {
  Shards shards(by_fence);
  shards.cut(0);
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.fence(kA).begun() == 1; }));
  shards.pair.run_for(kLease);
  ASSERT_TRUE(shards.is(kA, 1, MirrorState::in_sync));
  shards.cut(1);
  shards.pair.run_for(3 * kLease);
  EXPECT_TRUE(shards.is(kA, 1, MirrorState::suspended));
  shards.fence(kA).answer("");
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.is(kA, 0, MirrorState::solo); }));
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.fence(kA).begun() == 2; }));
  shards.pair.run_for(3 * kLease);
  EXPECT_TRUE(shards.is(kA, 1, MirrorState::suspended));
  shards.fence(kA).answer("");
  EXPECT_TRUE(shards.pair.wait_for([&] { return shards.is(kA, 1, MirrorState::solo); }));
}

TEST(Shards, NobodyGoesOnForAVolumeThatThePartnerHasInAnother) {
  Shards shards(by_fence);
  shards.pair.host(kB).end(Host::End::killed);
  shards.pair.host(kB).misplace(1);
  shards.pair.host(kB).boot();
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.pair.host(kB).status(1).has_value(); }));
  ASSERT_TRUE(shards.pair.wait_for([&] { return shards.is(kB, 0, MirrorState::in_sync); }));
  shards.pair.run_for(5 * kLease);
  EXPECT_FALSE(shards.is(kA, 1, MirrorState::solo)) << "the partner's process has it";
  EXPECT_FALSE(shards.is(kB, 1, MirrorState::solo));
  shards.pair.host(kB).end(Host::End::killed);
  shards.pair.host(kB).boot();
  EXPECT_TRUE(shards.pair.wait_for([&] { return shards.pair.in_sync(); }));
  EXPECT_EQ(shards.pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
