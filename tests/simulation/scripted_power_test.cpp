// What of the unit's state outlives the end of processes: told to initiators as a power-on, or not at all.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

struct Registered {
  Registered() {
    scsi::LuRequest request = registration();
    request.parameters[20] = std::byte{0};  // without APTPL: until power is lost
    change(request);
    EXPECT_EQ(state(kA).registrations.size(), 1u);
  }
  void change(const scsi::LuRequest& request) {
    auto& io = pair.change_state(kA, request);
    ASSERT_TRUE(pair.wait_for([&] { return io.done; }));
    ASSERT_EQ(io.status(), std::error_code{});
  }
  [[nodiscard]] scsi::LuState state(NodeSide side) {
    auto& io = pair.read_state(side);
    EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
    return scsi::LuState::decode(io.request.data.first(io.request.transferred)).value_or(scsi::LuState{});
  }
  void lose_b() {
    pair.host(kB).end(Host::End::killed);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
  }
  ScriptedPair pair{pair_program(), [](Scenario& s) { s.reservations = true; }};
};

TEST(PowerOn, IsWhenBothRestarted) {
  Registered world;
  for (const NodeSide side : {kA, kB}) world.pair.host(side).end(Host::End::power_cut);
  for (const NodeSide side : {kA, kB}) world.pair.host(side).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  for (const NodeSide side : {kA, kB}) EXPECT_TRUE(world.state(side).registrations.empty());
}

/// However long the node that orders takes to record it.
TEST(PowerOn, IsInForceBeforeTheOtherNodeTellsAnythingOfTheUnit) {
  Registered world;
  for (const NodeSide side : {kA, kB}) world.pair.host(side).end(Host::End::power_cut);
  for (const NodeSide side : {kA, kB}) world.pair.host(side).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::in_sync); }));
  const NodeSide orders = world.pair.status(kA).epoch.sequencer;
  StoreFaults faults = world.pair.host(orders).metadata(0).faults();
  faults.hang = kAlways;
  world.pair.host(orders).metadata(0).set_faults(faults);
  const auto& read = world.pair.read_state(engine::other(orders));
  world.pair.run_for(300 * kMillisecond);
  EXPECT_FALSE(read.done);
}

/// The one that follows is in sync first, by a message. The other dies before it has told anything.
TEST(PowerOn, IsWhenTheNodeThatOrdersIsGoneBeforeItToldTheOther) {
  Registered world;
  for (const NodeSide side : {kA, kB}) world.pair.host(side).end(Host::End::power_cut);
  for (const NodeSide side : {kA, kB}) world.pair.host(side).boot();
  const auto is_in_sync = [&](NodeSide side) { return world.pair.is(side, MirrorState::in_sync); };
  ASSERT_TRUE(world.pair.wait_for([&] { return is_in_sync(kA) || is_in_sync(kB); }));
  const NodeSide follows = is_in_sync(kA) ? kA : kB;
  ASSERT_FALSE(is_in_sync(engine::other(follows)));
  world.pair.host(engine::other(follows)).end(Host::End::killed);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(follows, MirrorState::solo); }));
  EXPECT_TRUE(world.state(follows).registrations.empty());
}

TEST(PowerOn, IsWhenTheOnlyMemberRestarted) {
  Registered world;
  world.lose_b();
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_TRUE(world.state(kA).registrations.empty());
}

TEST(PowerOn, IsNotWhenAMemberWentOn) {
  Registered world;
  world.lose_b();
  EXPECT_EQ(world.state(kA).registrations.size(), 1u);
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  for (const NodeSide side : {kA, kB}) EXPECT_EQ(world.state(side).registrations.size(), 1u);
}

/// RESERVE(6) is of a session, and sessions end with the node that they came to.
TEST(LostPort, ReleasesWhatWasReservedThroughItAndNothingElse) {
  for (const std::uint16_t port : {1, 2}) {
    Registered world;
    scsi::LuRequest reserve;
    reserve.kind = scsi::LuRequestKind::reserve;
    reserve.nexus = registration().nexus;
    reserve.nexus.port = port;
    scsi::LuRequest clear = registration();
    clear.parameters[15] = std::byte{0};
    world.change(clear);
    world.change(reserve);
    ASSERT_TRUE(world.state(kA).reserved_by);
    world.lose_b();
    EXPECT_EQ(world.state(kA).reserved_by.has_value(), port == 1);
  }
}

/// A write that was checked before holds up the change until the store is given up, and has returned it.
TEST(LostPort, IsNotForgottenWhenTheOnlyStoreHangsMeanwhile) {
  Registered world;
  ScriptedPair& pair = world.pair;
  scsi::LuRequest reserve;
  reserve.kind = scsi::LuRequestKind::reserve;
  reserve.nexus = registration().nexus;
  reserve.nexus.port = 2;
  scsi::LuRequest clear = registration();
  clear.parameters[15] = std::byte{0};
  world.change(clear);
  world.change(reserve);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kA);
  pair.write(kA, 8, 2);
  pair.run_for(20 * kMillisecond);
  pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.lose_b();
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kA).serving; }));
  pair.host(kA).data(0).release_first_hung();
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).serving; }));
  EXPECT_FALSE(world.state(kA).reserved_by);
}

}  // namespace
}  // namespace lockstep::simulation
