// What a node answers a partner that resyncs from it or to it, and what it tells an operator beside such a partner.
#include "engine/base/byte_order.hpp"
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;

TEST(Map, IsToldFromTheWordThatWasAskedFor) {
  PlayedB world([](Scenario& s) {
    a_orders(s);
    s.regions = 256;
  });
  world.go_on_alone();
  constexpr std::uint64_t kRegion = 70;
  ASSERT_FALSE(world.pair.written(kA, kRegion * 4096 / kBlock, 1));
  const auto word = [&](std::uint64_t at) {
    Message m = world.b.message(MessageType::map);
    m.extent = {at, 1};
    const auto& answer = world.b.ask(m, {}, 8);
    EXPECT_TRUE(answer.ended_with(Errc::ok));
    return engine::load_be<std::uint64_t>(answer.in.data());
  };
  EXPECT_TRUE(word(1) >> (kRegion - 64) & 1);
  EXPECT_FALSE(word(0) >> (kRegion - 64) & 1);
  EXPECT_EQ(word(2), 0u);
}

TEST(Fetch, IsAnsweredInItsEpochAlone) {
  PlayedB world;
  Message m = world.b.message(MessageType::fetch);
  m.extent = {0, kBlock};
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::ok));
  m.epoch.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::stale));
}

/// It may have lost what it was to make durable.
TEST(Flush, IsNotAnsweredByANodeWhoseStoreFailed) {
  PlayedB world(b_orders);
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::flush)).ended_with(Errc::ok));
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = 0; });
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::flush)).ended_with(Errc::stale));
}

TEST(Force, IsRefusedBesideAPartnerThatServes) {
  PlayedB world;
  world.b.state.serving = true;
  world.leave_a_behind();
  world.b.state.serving = true;
  world.b.tell_state();
  std::optional<bool> forced;
  world.pair.host(kA).program()->force_solo(0, true, [&](engine::Result<void> r) { forced = r.has_value(); });
  ASSERT_TRUE(world.pair.wait_for([&] { return forced.has_value(); }));
  EXPECT_FALSE(*forced);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
}

}  // namespace
}  // namespace lockstep::simulation
