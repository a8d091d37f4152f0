// Generations, by which a copy that was set back in time is known: who raises them, and what waits for that; beside a
// partner that the test plays.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

Message generation_of(const PlayedB& world) {
  Message m = world.b.message(MessageType::generation);
  m.tag = world.b.generation;
  return m;
}

TEST(Generation, IsRaisedInTheEpochInForceAlone) {
  PlayedB world(b_orders);
  Message m = generation_of(world);
  m.epoch.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m).ended_with(Errc::stale));
  EXPECT_TRUE(world.b.ask(generation_of(world)).ended_with(Errc::ok));
}

/// Attached anew it has raised more, which the partner tells the one that is gone.
TEST(Generation, OfADetachedVolumeIsNotJudgedByALateAnswer) {
  PlayedB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  world.pair.run_for(3 * kSecond);
  const auto told = world.pair.host(kA).program()->learnt(0)->generation;
  world.pair.host(kA).program()->detach(0, [] {});
  world.b.amends = [told](const Message& question, Message& header, std::vector<std::byte>&) {
    if (is(question, MessageType::state)) header.sequence = told + 1;
  };
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSecond);
  EXPECT_FALSE(world.pair.host(kA).found_set_back());
  EXPECT_EQ(world.pair.violation(), "");
}

/// B would clear bits with it, of what this copy lacks.
TEST(Generation, IsNotRaisedByAReplicaThatWasSetBack) {
  PlayedB world(b_orders);
  world.b.knows_generation = std::uint64_t{1} << 40;
  // Another process: the one before knows what it has told.
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.tell_state().ended_with(Errc::ok); }));
  EXPECT_TRUE(world.b.ask(generation_of(world)).ended_with(Errc::stale));
}

/// A copy of before would not be known by its generation, and the bits that tell what it lacks are gone.
TEST(DirtyBits, AreKeptWhileAPartnerRaisesNoGeneration) {
  PlayedB world;
  world.b.says = [](const Message& m) { return is(m, MessageType::generation) ? Errc::stale : Errc::ok; };
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 1));
  world.pair.run_for(10 * kSecond);
  EXPECT_TRUE(world.b.received(MessageType::clear).empty());
  EXPECT_GT(world.pair.status(kA).dirty_bytes, 0u);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).dirty_bytes == 0; }, 10 * kSecond));
}

TEST(DirtyBits, AreClearedWhenThePartnersGenerationIsDurableHere) {
  PlayedB world;
  world.b.generation += 5;
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 1));
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::clear).empty(); }));
  EXPECT_EQ(world.pair.host(kA).program()->learnt(0)->partner_generation, world.b.generation);
}

/// Its dirty map is of before, too.
TEST(Source, CopiesNothingToATargetThatWasSetBackBeforeThatHasMarkedItself) {
  PlayedB world;
  world.b.generation += 1000;
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 1));
  const auto known = [&] { return world.pair.host(kA).program()->learnt(0)->partner_generation; };
  ASSERT_TRUE(world.pair.wait_for([&] { return known() == world.b.generation; }));
  world.b.generation -= 1000;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::map); };
  world.go_on_alone();
  world.pair.run_for(3 * kLease);
  EXPECT_TRUE(world.b.received(MessageType::map).empty());
  world.b.generation += 2000;
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::map).empty(); }, 3 * kLease));
}

}  // namespace
}  // namespace lockstep::simulation
