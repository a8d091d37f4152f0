#pragma once
// Steps that a real A takes together with a B that the test plays.
#include <utility>

#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {

/// A proposes another epoch of both, and B takes it; what else B keeps it goes on keeping.
inline void agree_anew(PlayedB& world) {
  const std::size_t before = world.b.proposals.size();
  world.b.state.attempted = world.b.state.record.number + 10;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.proposals.size() > before; }));
  world.b.state.record = world.b.proposals.back();
  world.b.state.attempted = 0;
  const auto agreed = [&] {
    return world.pair.is(kA, MirrorState::in_sync) && world.pair.status(kA).epoch.id == world.b.state.record.id;
  };
  ASSERT_TRUE(world.pair.wait_for(agreed));
}

/// The processes of both end, and the next ones agree to go on together: A is the source of what may differ.
inline void restart_both(PlayedB& world) {
  auto kept = std::exchange(world.b.keeps, [](const Message& m) { return is(m, MessageType::propose); });
  const std::size_t before = world.b.proposals.size();
  world.b.state.running = world.b.state.serving = false;
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  world.b.restart();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.proposals.size() > before; }));
  world.b.state.record = world.b.proposals.back();
  world.b.state.running = world.b.state.serving = true;
  world.b.keeps = std::move(kept);
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::in_sync); }));
}

/// What is in force at A.
[[nodiscard]] inline scsi::LuState unit_state(PlayedB& world) {
  auto& io = world.pair.read_state(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return io.done; }));
  return scsi::LuState::decode(io.request.data.first(io.request.transferred)).value_or(scsi::LuState{});
}

}  // namespace lockstep::simulation
