// What initiators are told and what is started when their sessions are closed; and the unit's state.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

void two_volumes(Scenario& s) {
  s.reservations = true;
  s.volumes.push_back(s.volumes[0]);
  s.volumes[1].id.bytes[0] ^= 1;
  s.volumes[1].size = s.volume_size();
}

/// The second volume can't keep its state on `side` any more: all sessions of that node are closed.
void fence_for_the_second_volume(ScriptedPair& pair, NodeSide side) {
  StoreFaults faults = pair.host(side).metadata(1).faults();
  faults.write_error = kAlways;
  pair.host(side).metadata(1).set_faults(faults);
  auto& change = pair.change_state(kA, registration(), 1);
  ASSERT_TRUE(pair.wait_for([&] { return change.done || !pair.host(side).status(1)->serving; }, kSecond));
}

/// Written here, not told there: its outcome was unknown, and what a crash made of it is what initiators meet.
TEST(UnitState, AChangeThatACrashCutOffMayComeIntoForceWithTheNextProcess) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  scsi::LuRequest request = registration();
  auto& registered = pair.change_state(kA, request);
  ASSERT_TRUE(pair.wait_for([&] { return registered.done; }));
  ASSERT_EQ(registered.status(), std::error_code{});
  const auto lose_power = [&] {
    for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  };
  lose_power();
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));  // PRGENERATION is zero again: power takes nothing else
  pair.run_for(kSecond);
  const auto floor = pair.world().states->floor(0);

  pair.world().cut(kA, false);
  request.service_action = 1;  // RESERVE
  request.scope_and_type = 1;
  request.parameters[7] = std::byte{1};
  request.parameters[15] = request.parameters[20] = std::byte{0};
  auto& reserved = pair.change_state(kA, request);
  pair.run_for(50 * kMillisecond);
  ASSERT_FALSE(reserved.done);
  lose_power();
  pair.world().cut(kA, true);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  auto& shown = pair.read_state(kA);
  ASSERT_TRUE(pair.wait_for([&] { return shown.done; }));
  const auto bytes = shown.request.data.first(shown.request.transferred);
  const auto state = scsi::LuState::decode(bytes);
  ASSERT_TRUE(state && state->reservation) << "it was not written: the test shows nothing";
  pair.world().states->state_shown(pair.host(kA), 0, bytes, floor);
  EXPECT_EQ(pair.violation(), "");
}

/// Its initiator tries again on the other path; what it sent before must not come after that.
TEST(Fence, WhatAnotherVolumeHadQueuedHereIsNotStartedAnyMore) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kA);
  auto& first = pair.write(kA, 8, 2);
  pair.run_for(20 * kMillisecond);
  auto& queued = pair.write(kA, 8, 3);
  pair.run_for(20 * kMillisecond);
  ASSERT_FALSE(first.done || queued.done);
  fence_for_the_second_volume(pair, kA);
  EXPECT_TRUE(queued.done);
  EXPECT_EQ(queued.status(), make_error_code(engine::Errc::not_serving));
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return first.done; }));
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 2) << "started after its session was closed";
  EXPECT_EQ(pair.violation(), "");
}

/// It is on its way: only the partner's answer, or time, tells that it won't be started any more.
TEST(Fence, SessionsAreClosedWhenWhatAnotherVolumeForwardedHasBeenAnswered) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().cut(kB, false);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(5 * kMillisecond);
  fence_for_the_second_volume(pair, kB);
  pair.run_for(100 * kMillisecond);
  EXPECT_EQ(pair.host(kB).fences(), 0u) << "its initiator would try again through the other node now";
  pair.world().cut(kB, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() == 1; }, 2 * kSecond));
  EXPECT_TRUE(forwarded.done);
  EXPECT_EQ(pair.written(kA, 8, 3), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 3) << "what was sent before came after it";
  EXPECT_EQ(pair.violation(), "");
}

/// An initiator could take it for the last word; what was not answered it sends again.
TEST(Fence, NothingIsRefusedBeforeTheSessionsAreClosed) {
  ScriptedPair pair(pair_program(), two_volumes);
  pair.world().cut(kB, false);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(5 * kMillisecond);
  fence_for_the_second_volume(pair, kB);
  auto& refused = pair.change_state(kB, registration(), 1);
  pair.run_for(20 * kMillisecond);
  ASSERT_EQ(pair.host(kB).fences(), 0u) << "the test shows nothing";
  EXPECT_FALSE(refused.done);
  pair.world().cut(kB, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() == 1; }, 2 * kSecond));
  EXPECT_TRUE(refused.done && forwarded.done);
  EXPECT_EQ(refused.status(), make_error_code(engine::Errc::not_serving));
}

TEST(Fence, WhatAnotherVolumeHeldBackForTheUnitsStateIsNotForwardedAnyMore) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  StoreFaults faults = pair.host(kB).metadata(0).faults();
  faults.hang = kAlways;
  pair.host(kB).metadata(0).set_faults(faults);
  auto& change = pair.change_state(kA, registration());
  pair.run_for(20 * kMillisecond);
  auto& held = pair.write(kB, 8, 3);
  pair.run_for(20 * kMillisecond);
  ASSERT_FALSE(change.done || held.done);
  fence_for_the_second_volume(pair, kB);
  EXPECT_TRUE(held.done);
  EXPECT_EQ(held.status(), make_error_code(engine::Errc::not_serving));
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return change.done; }));
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 1) << "started after its session was closed";
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
