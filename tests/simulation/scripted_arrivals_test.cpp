// What a node whose partner the test plays stops and begins when it arrives in another phase.
#include <algorithm>

#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

void patient_b(Scenario& s) {
  patient(s);
  s.first_sequencer = kB;
}

// ---- new operations ------------------------------------------------------------------------------------------------

TEST(NewOperations, WaitWhileARecordIsOnItsWay) {
  PlayedB world(patient_b);
  world.hang_metadata();
  world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(kSoon);
  world.b.keeps = PlayedB::silent;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, 2 * kLease));
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(write.done) << "it is decided with the record who serves it";
}

TEST(NewOperations, AreRefusedWhereSessionsWereClosed) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }));
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  EXPECT_TRUE(write.done);
  EXPECT_EQ(write.status(), make_error_code(Errc::not_serving));
}

TEST(Observer, IsToldOfEachPhaseThatServesNoMore) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.host(kA).state(0), MirrorState::suspended);
}

// ---- a target ------------------------------------------------------------------------------------------------------

/// B, which is equal by then, and is asked for an epoch of both.
struct AlmostJoined : PlayedB {
  AlmostJoined() {
    go_on_alone();
    b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
    b.tell_state();
    const std::size_t before = b.proposals.size();
    EXPECT_TRUE(pair.wait_for([&] { return b.proposals.size() > before; }));
  }
};

TEST(Target, ThatDoesNotJoinIsBroughtUpToDateNoMore) {
  AlmostJoined world;
  ASSERT_TRUE(world.pair.status(kA).resync.running);
  world.b.let_go(Errc::refused);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.pair.status(kA).serving);
  EXPECT_FALSE(world.pair.status(kA).resync.running);
}

/// This node stood still, by the partner's clock: what the target did not answer goes on without it, and is copied.
TEST(Target, ThatMissedAWriteWhenContactWasLostIsGivenItAgain) {
  PlayedB world;
  world.go_on_alone();
  ASSERT_EQ(world.pair.written(kA, 20 * kBlockOfBoth, 1), std::error_code{});
  world.b.keeps = [](const Message& m) { return is(m, MessageType::copy) || is(m, MessageType::replicate); };
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::copy).empty(); }));
  world.pair.write(kA, kBlockOfBoth, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::replicate).empty(); }));
  world.b.clock_ahead = 3 * kLease;
  world.pair.run_for(kLease / 2);
  world.b.let_go_first(Errc::ok);
  world.b.let_go(Errc::stale);
  const auto copied = [&] {
    return std::ranges::any_of(world.b.received(MessageType::copy),
                               [](const Message& m) { return m.extent.offset == kBlockOfBoth * kBlock; });
  };
  EXPECT_TRUE(world.pair.wait_for(copied, kLease));
}

// ---- leaving -------------------------------------------------------------------------------------------------------

TEST(Adopting, ClosesTheSessionsThatWereServedUnderTheOldEpoch) {
  PlayedB world;
  world.leave_a_behind();
  EXPECT_EQ(world.fences(), 1u);
}

/// B has it, or not, when it is alone: only its word counts.
struct LeftWithAWrite : PlayedB {
  LeftWithAWrite() : PlayedB(patient) { EXPECT_EQ(pair.written(kA, kBlockOfBoth, 3), std::error_code{}); }
  ScriptedPair::Io& write() {
    auto& io = pair.write(kA, kBlockOfBoth, 1);
    const std::size_t before = b.received(MessageType::replicate).size();
    EXPECT_TRUE(pair.wait_for([&] { return b.received(MessageType::replicate).size() > before; }));
    return io;
  }
};

TEST(LeftWrite, ThatThePartnerHeldEndsWhenItLetsGo) {
  LeftWithAWrite world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate); };
  auto& write = world.write();
  world.leave_a_behind();
  world.pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  world.b.let_go(Errc::stale);
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
}

TEST(LeftWrite, ThatThePartnerRefusedHasAnUnknownOutcome) {
  LeftWithAWrite world;
  world.b.says = [](const Message& m) { return is(m, MessageType::replicate) ? Errc::stale : Errc::ok; };
  auto& write = world.write();
  world.pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  world.leave_a_behind();
  ASSERT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
}

TEST(LeftWrite, ThatTheStoreHeldEndsWhenItReturns) {
  LeftWithAWrite world;
  world.b.says = [](const Message& m) { return is(m, MessageType::replicate) ? Errc::stale : Errc::ok; };
  hang(world.pair, kA);
  auto& write = world.write();
  world.pair.run_for(kSoon);
  world.leave_a_behind();
  ASSERT_FALSE(write.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).data(0).in_flight() == 0; }, kSoon));
  EXPECT_TRUE(write.done);
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
}

// ---- recording -----------------------------------------------------------------------------------------------------

TEST(Joining, ServesNothingFromBeforeItRecords) {
  PlayedB world(patient_b);
  world.hang_metadata();
  world.b.propose(world.next(MemberSet::both()));
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::in_sync));
  world.b.keeps = PlayedB::silent;
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, 2 * kLease));
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.pair.violation().size());
}

/// After a split brain: B went on alone, too, and its copy is kept.
TEST(GivingUp, ServesNothingFromBeforeItRecords) {
  PlayedB world(patient);
  world.go_on_alone();
  world.b.state.record = world.next(MemberSet::only(kB), 100);
  world.b.state.record.ancestors.clear();
  world.b.state.serving = true;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::split_brain); }));
  ASSERT_TRUE(world.pair.status(kA).serving);
  world.hang_metadata();
  world.pair.host(kA).program()->give_up(0, [](const engine::Result<void>&) {});
  world.pair.run_for(10 * kSoon);
  EXPECT_GT(world.pair.host(kA).metadata(0).in_flight(), 0u);
  EXPECT_FALSE(world.pair.status(kA).serving);
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.members == MemberSet::only(kB); }, kLease));
}

/// A proposed an epoch of both, and B did not take it: nobody knows who goes on. Another volume's metadata fails then.
TEST(HeldOperations, OfSessionsThatAreClosedForAnotherVolumeAreNotStarted) {
  PlayedB world([](Scenario& s) {
    a_orders(s);
    s.volumes.push_back(s.volumes[0]);
    s.volumes[1].id.bytes[0] ^= 1;
    s.volumes[1].size = s.volume_size();
  });
  const engine::Uuid first = world.pair.world().scenario.volumes[0].id;
  world.b.amends = [first](const Message& m, Message& header, std::vector<std::byte>&) {
    if (is(m, MessageType::state) && m.volume != first) header.status = Errc::resource_exhausted;
  };
  world.b.keeps = [first](const Message& m) { return is(m, MessageType::propose) && m.volume == first; };
  world.b.state.attempted = 50;
  world.b.tell_state();
  const auto asked = [&] {
    const auto all = world.b.received(MessageType::propose);
    return std::ranges::any_of(all, [&](const Message& m) { return m.volume == first; });
  };
  ASSERT_TRUE(world.pair.wait_for(asked));
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.b.let_go(Errc::refused);
  world.pair.run_for(5 * kMillisecond);
  ASSERT_TRUE(world.pair.is(kA, MirrorState::suspended));
  ASSERT_FALSE(write.done);
  StoreFaults faults;
  faults.write_error = kAlways;
  world.pair.host(kA).metadata(1).set_faults(faults);
  world.pair.write(kA, kBlockOfBoth, 1, 1, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease));
  world.pair.run_for(kSoon);
  EXPECT_TRUE(write.done);
  EXPECT_EQ(write.status(), make_error_code(Errc::not_serving));
}

}  // namespace
}  // namespace lockstep::simulation
