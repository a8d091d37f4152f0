// What a reset of the unit, or PREEMPT AND ABORT, ends at the node that it did not come to: commands that go on by
// another request later, and those that have made none yet.
#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

scsi::LuRequest unit_reset() {
  scsi::LuRequest request;
  request.kind = scsi::LuRequestKind::unit_reset;
  request.nexus = registration().nexus;
  return request;
}

/// The nexus of ScriptedPair's commands registers with key 2.
scsi::LuRequest registration_of_host() {
  scsi::LuRequest request = registration();
  request.nexus = ScriptedPair::host_nexus();
  request.parameters[15] = std::byte{2};
  return request;
}

/// Of that, by the other one.
scsi::LuRequest preempt_and_abort() {
  scsi::LuRequest request = registration();
  request.service_action = 5;
  request.scope_and_type = 1;
  request.parameters[7] = std::byte{1};
  request.parameters[15] = std::byte{2};
  request.parameters[20] = {};
  return request;
}

/// A has what B orders, and the other way round. `ends` comes to the one node while a command of many requests is at
/// work through the other.
void expect_the_end(engine::NodeSide side, const std::vector<scsi::LuRequest>& before, const scsi::LuRequest& ends) {
  SCOPED_TRACE(side == kA ? "the command came to A, which orders" : "the command came to B");
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  for (const scsi::LuRequest& each : before) {
    auto& change = pair.change_state(kA, each);
    ASSERT_TRUE(pair.wait_for([&] { return change.done; }));
    ASSERT_EQ(change.status(), std::error_code{});
  }
  hang(pair, kA);
  pair.remember_command(side);
  auto& first = pair.write(side, 8, 2);
  pair.run_for(50 * kMillisecond);
  auto& change = pair.change_state(other(side), ends);
  pair.run_for(50 * kMillisecond);
  ASSERT_FALSE(first.done || change.done);
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return first.done; }, kSecond));
  auto& second = pair.write(side, 16, 2);
  ASSERT_TRUE(pair.wait_for([&] { return second.done && change.done; }, kSecond));
  EXPECT_EQ(change.status(), std::error_code{});
  EXPECT_TRUE(second.status()) << "it came before: aborted, or lost on its way while the reset was made";
  EXPECT_EQ(pair.written(side, 24, 2), make_error_code(Errc::aborted)) << "it waited in its session all the time";
  pair.forget_command();
  EXPECT_EQ(pair.written(side, 32, 3), std::error_code{}) << "what came since";
  EXPECT_EQ(pair.value_at(other(side), 16), 0);
  EXPECT_EQ(pair.value_at(other(side), 24), 0);
  EXPECT_EQ(pair.violation(), "");
}

TEST(UnitReset, LetsNothingMoreBeginOfACommandThatTheOtherNodeHadReceived) {
  expect_the_end(kA, {}, unit_reset());
  expect_the_end(kB, {}, unit_reset());
}

/// Nothing is reserved: what comes after it may write.
TEST(PreemptAndAbort, LetsNothingMoreBeginOfACommandOfWhomItPreempts) {
  const std::vector<scsi::LuRequest> both = {registration(), registration_of_host()};
  expect_the_end(kA, both, preempt_and_abort());
  expect_the_end(kB, both, preempt_and_abort());
}

TEST(PreemptAndAbort, LeavesOthersCommandsAlone) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  scsi::LuRequest third = registration_of_host();
  third.nexus.initiator += "-of-another";
  pair.remember_command(kB);
  for (const scsi::LuRequest& each : {registration(), third, preempt_and_abort()}) {
    auto& change = pair.change_state(kA, each);
    ASSERT_TRUE(pair.wait_for([&] { return change.done; }));
    ASSERT_EQ(change.status(), std::error_code{});
  }
  EXPECT_EQ(pair.written(kB, 8, 2), std::error_code{});
}

/// It waits in its session while the volume goes and comes: who has it then does not know what was reset before.
TEST(UnitReset, LetsNothingBeginOfACommandThatCameBeforeTheVolumeWasAttachedAgain) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  pair.remember_command(kB);
  auto& reset = pair.change_state(kA, unit_reset());
  ASSERT_TRUE(pair.wait_for([&] { return reset.done; }));
  bool detached = false;
  pair.host(kB).program()->detach(0, [&] { detached = true; });
  ASSERT_TRUE(pair.wait_for([&] { return detached; }));
  pair.host(kB).program()->attach_again(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.written(kB, 8, 2), make_error_code(Errc::aborted));
  pair.forget_command();
  EXPECT_EQ(pair.written(kB, 16, 3), std::error_code{});
  EXPECT_EQ(pair.value_at(kA, 8), 0);
}

TEST(UnitReset, LetsWhatTheUnitDoesByItselfGoOn) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  pair.remember_command(kB);
  auto& reset = pair.change_state(kA, unit_reset());
  ASSERT_TRUE(pair.wait_for([&] { return reset.done; }));
  auto& own = pair.write_of_the_unit(kB, 8, 3);
  ASSERT_TRUE(pair.wait_for([&] { return own.done; }));
  EXPECT_EQ(own.status(), std::error_code{});
}

// ---- changes that a node was not told of as they were made ----------------------------------------------------------

void b_orders_with_state(Scenario& s) {
  patient(s);
  s.first_sequencer = kB;
  s.reservations = true;
}

struct FollowsLate : PlayedB {
  FollowsLate() : PlayedB(b_orders_with_state) {}
  /// A is told of a state `by` versions later, and nothing of what made it.
  void tell(std::uint64_t by, std::uint16_t flags) {
    scsi::LuState unit;
    unit.version = version += by;
    const auto bytes = unit.encode();
    const auto events = scsi::encode_events({});
    Message m = b.message(MessageType::lu_state);
    m.sequence = unit.version;
    m.extent = {bytes.size(), events.size()};
    m.flags = flags;
    auto payload = bytes;
    payload.insert(payload.end(), events.begin(), events.end());
    EXPECT_TRUE(b.ask(m, std::move(payload), scsi::kMaxLuState).ended_with(Errc::ok));
  }
  std::error_code written() { return pair.written(kA, kBlockOfBoth, 1); }
};

/// B made a change while it could not tell: it was perhaps a reset, or the last of several.
TEST(UnitState, ThatIsToldLaterThanItWasMadeEndsWhatCameBefore) {
  FollowsLate world;
  world.leave_a_behind();
  world.tell(1, 0);
  world.pair.remember_command(kA);
  EXPECT_EQ(world.written(), std::error_code{});
  world.tell(1, 0);
  EXPECT_EQ(world.written(), std::error_code{}) << "it was told of each change, and none was a reset";
  world.tell(1, replication::kFlagLate);
  EXPECT_EQ(world.written(), make_error_code(Errc::aborted));
  world.pair.remember_command(kA);
  EXPECT_EQ(world.written(), std::error_code{});
  world.tell(2, 0);
  EXPECT_EQ(world.written(), make_error_code(Errc::aborted));
}

}  // namespace
}  // namespace lockstep::simulation
