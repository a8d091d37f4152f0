// The arbiter `fence`: who goes on alone after a command that powers the partner's machine off, and who never does.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr Nanos kLease = kSecond;
constexpr Nanos kLong = 10 * kLease;

void by_fence(Scenario& s) { s.arbiter = {engine::ArbiterKind::fence, kA, {}}; }

/// Both nodes' commands wait for the test.
struct Fenced {
  explicit Fenced(const ScriptedPair::Adjust& adjust = by_fence) : pair(pair_program(), adjust) {
    for (const NodeSide side : {kA, kB}) pair.host(side).fence().hold();
  }
  SimFence& fence(NodeSide side) { return pair.host(side).fence(); }
  void cut() {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  }
  void mend() {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
  }
  /// Contact is lost, and each of these has begun its command.
  bool cut_until_fencing(std::initializer_list<NodeSide> sides) {
    cut();
    return pair.wait_for(
        [&] {
          bool all = true;
          for (const NodeSide side : sides) all &= fence(side).waits();
          return all;
        },
        3 * kLease);
  }
  void power_off(NodeSide side) { pair.host(side).end(Host::End::power_cut); }
  bool goes_alone(NodeSide side, Nanos patience = kLong) {
    return pair.wait_for([&] { return pair.is(side, MirrorState::solo); }, patience);
  }
  bool joins() {
    return pair.wait_for([&] { return pair.in_sync(); });
  }
  ScriptedPair pair;
};

TEST(Fence, WhoSeesThePartnerPoweredOffGoesOnAndBringsItUpToDateLater) {
  for (const NodeSide winner : {kA, kB}) {
    Fenced world;
    const NodeSide loser = engine::other(winner);
    ASSERT_EQ(world.pair.written(loser, 8, 1), std::error_code{});
    ASSERT_TRUE(world.cut_until_fencing({kA, kB}));
    EXPECT_FALSE(world.pair.is(winner, MirrorState::solo));
    world.power_off(loser);
    world.fence(winner).answer("");
    ASSERT_TRUE(world.goes_alone(winner));
    ASSERT_EQ(world.pair.written(winner, 8, 2), std::error_code{});
    world.mend();
    world.pair.host(loser).boot();
    ASSERT_TRUE(world.joins());
    EXPECT_EQ(world.pair.value_at(loser, 8), 2);
    EXPECT_EQ(world.fence(winner).begun(), 1u);
    EXPECT_EQ(world.pair.violation(), "");
  }
}

TEST(Fence, NobodyGoesOnBeforeTheCommandHasSucceeded) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA, kB}));
  auto& held = world.pair.write(kA, 8, 1);
  world.pair.run_for(kLong);
  for (const NodeSide side : {kA, kB}) EXPECT_TRUE(world.pair.is(side, MirrorState::suspended));
  EXPECT_TRUE(!held.done || held.status());
  for (const NodeSide side : {kA, kB}) world.fence(side).answer("No answer from the device.");
  world.pair.run_for(kLease);
  for (const NodeSide side : {kA, kB}) EXPECT_TRUE(world.pair.is(side, MirrorState::suspended));
  EXPECT_NE(world.pair.status(kA).reason.find("No answer from the device."), std::string::npos);
  world.mend();
  ASSERT_TRUE(world.joins());
  EXPECT_EQ(world.pair.violation(), "");
}

TEST(Fence, ACommandThatFailedIsTriedAgain) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  world.fence(kA).answer("No answer from the device.");
  const Nanos failed = world.pair.world().scheduler.now();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fence(kA).begun() == 2; }, kLong));
  EXPECT_GE(world.pair.world().scheduler.now() - failed,
            static_cast<Nanos>(replication::Fencing::kAgainAfter.count()) * 9 / 10);
  world.power_off(kB);
  world.fence(kA).answer("");
  EXPECT_TRUE(world.goes_alone(kA));
}

/// The partner is dead: whoever it let wait for a lease of its own waits for nobody. The lease is waited for all the
/// same: a command that lies does no harm then to what the partner's initiators read.
TEST(Fence, ASuccessIsNoReasonToForgetALeaseThatWasGranted) {
  Fenced world([](Scenario& s) {
    by_fence(s);
    s.longer_lease = 0;
  });
  world.cut();
  const Nanos cut = world.pair.world().scheduler.now();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fence(kA).waits(); }, 3 * kLease));
  world.power_off(kB);
  world.fence(kA).answer("");
  ASSERT_TRUE(world.goes_alone(kA));
  EXPECT_GE(world.pair.world().scheduler.now() - cut, kLease);
}

/// Whoever won may be powered off by what the loser had sent before it died itself.
TEST(Fence, BothPoweredOffGoOnWithTheWinnersDataWhoeverStartsFirst) {
  for (const NodeSide first : {kA, kB}) {
    Fenced world;
    ASSERT_TRUE(world.cut_until_fencing({kA, kB}));
    world.power_off(kB);
    world.fence(kA).answer("");
    ASSERT_TRUE(world.goes_alone(kA));
    ASSERT_EQ(world.pair.written(kA, 8, 7), std::error_code{});
    world.power_off(kA);
    world.mend();
    world.pair.host(first).boot();
    world.pair.run_for(kLong);
    EXPECT_EQ(world.pair.status(first).serving, first == kA) << "B's copy lacks what A acknowledged alone";
    EXPECT_EQ(world.fence(first).begun(), 1u) << "a process that was not in sync powers nobody off";
    world.pair.host(engine::other(first)).boot();
    ASSERT_TRUE(world.joins());
    EXPECT_EQ(world.pair.value_at(kB, 8), 7);
    EXPECT_EQ(world.pair.violation(), "");
  }
}

/// Neither had recorded anything: each has all that was acknowledged, and neither goes on without the other.
TEST(Fence, BothPoweredOffAtOnceWaitForOneAnother) {
  Fenced world;
  ASSERT_EQ(world.pair.written(kA, 8, 3), std::error_code{});
  ASSERT_TRUE(world.cut_until_fencing({kA, kB}));
  for (const NodeSide side : {kA, kB}) world.power_off(side);
  world.pair.host(kA).boot();
  world.pair.run_for(kLong);
  EXPECT_FALSE(world.pair.status(kA).serving);
  EXPECT_EQ(world.fence(kA).begun(), 1u);
  EXPECT_NE(world.pair.status(kA).reason.find("not in sync"), std::string::npos) << world.pair.status(kA).reason;
  world.mend();
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.joins());
  EXPECT_EQ(world.pair.value_at(kB, 8), 3);
}

/// Its command may go on without it, and succeed: nobody is told, and the next process starts from the record.
TEST(Fence, AProcessThatEndedWhileItsCommandRanLeavesNoRightToGoOn) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  world.pair.host(kA).end(Host::End::killed);
  world.power_off(kB);
  world.pair.host(kA).boot();
  world.pair.run_for(kLong);
  EXPECT_FALSE(world.pair.status(kA).serving);
  EXPECT_EQ(world.fence(kA).begun(), 1u);
  world.mend();
  world.pair.host(kB).boot();
  EXPECT_TRUE(world.joins());
}

TEST(Fence, AStoreThatStandsStillPowersNobodyOff) {
  Fenced world;
  hang(world.pair, kA);
  ASSERT_TRUE(world.cut_until_fencing({kB}));
  world.pair.run_for(kLong);
  EXPECT_EQ(world.fence(kA).begun(), 0u);
  world.pair.mend(kA);
}

/// With a delay on this side there may be time to call it back.
TEST(Fence, ACommandIsStoppedWhenTheStoreOfWhoAskedFails) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = f.flush_error = f.read_error = kAlways; });
  world.pair.host(kA).program()->set_write_cache(0, true);
  world.pair.host(kA).program()->set_write_cache(0, false);  // it flushes, and so finds out
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fence(kA).stopped() == 1; }, kLong));
  EXPECT_FALSE(world.fence(kA).waits());
}

TEST(Fence, ACommandIsStoppedWhenThePartnerIsBack) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA, kB}));
  world.mend();
  ASSERT_TRUE(world.joins());
  for (const NodeSide side : {kA, kB}) {
    EXPECT_EQ(world.fence(side).stopped(), 1u);
    EXPECT_FALSE(world.fence(side).waits());
  }
}

/// It was of another time without contact.
TEST(Fence, EachLossOfThePartnerTakesACommandOfItsOwn) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  world.power_off(kB);
  world.fence(kA).answer("");
  ASSERT_TRUE(world.goes_alone(kA));
  world.mend();
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.joins());
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  EXPECT_EQ(world.fence(kA).begun(), 2u);
  world.pair.run_for(kLong);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
}

/// What it needs to be proven takes longer than the command: the success waits for it.
TEST(Fence, ThePartnerIsBackBeforeTheLeaseIsOverAndTheTwoAgree) {
  Fenced world;
  ASSERT_TRUE(world.cut_until_fencing({kA}));
  world.power_off(kB);
  world.pair.host(kB).boot();
  world.mend();
  world.fence(kA).answer("");
  ASSERT_TRUE(world.joins());
  EXPECT_EQ(world.pair.violation(), "");
}

/// A lockstepd that has just started there tells that it has not got the volume, and no machine is powered off for it.
TEST(Fence, APartnerThatSaysThatItHasNotGotTheVolumeIsLeftRunning) {
  Fenced world;
  world.pair.host(kB).program()->detach(0, [] {});
  ASSERT_TRUE(world.goes_alone(kA));
  EXPECT_EQ(world.fence(kA).begun(), 0u);
}

TEST(Fence, WithoutACommandNobodyGoesOn) {
  Fenced world;
  for (const NodeSide side : {kA, kB}) world.fence(side).take_away();
  world.cut();
  world.pair.run_for(kLong);
  for (const NodeSide side : {kA, kB}) {
    EXPECT_TRUE(world.pair.is(side, MirrorState::suspended));
    EXPECT_NE(world.pair.status(side).reason.find("no command"), std::string::npos) << world.pair.status(side).reason;
  }
  world.mend();
  EXPECT_TRUE(world.joins());
}

}  // namespace
}  // namespace lockstep::simulation
