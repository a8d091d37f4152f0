// A machine that is set back to a snapshot with its memory: its process goes on as the one that it was, and ends as
// soon as it has heard of itself. And what of its numbers is used twice, where the other node meets that first.
#include "replication/link/channel/channel_frames.hpp"
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::Uuid;

void over_one_path(Scenario&) {}
void over_two_paths(Scenario& s) {
  s.several_paths = true;
  s.paths = 2;
  s.link_version = replication::kSeveralPaths;
}

struct SetBack {
  explicit SetBack(engine::NodeSide s, const ScriptedPair::Adjust& adjust) : side(s), pair(pair_program(), adjust) {
    pair.host(side).remember();
    pair.host(side).end(Host::End::killed);
    pair.host(side).boot();
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    // What is written then is in neither dirty map when the machine is set back.
    for (const auto each : {kA, kB}) EXPECT_FALSE(pair.written(each, block_of(each), 1));
    pair.run_for(10 * kSecond);
    for (const auto each : {kA, kB}) EXPECT_FALSE(pair.written(each, block_of(each), 2));
    pair.run_for(10 * kSecond);
    was = process();
  }
  [[nodiscard]] static std::uint64_t block_of(engine::NodeSide through) { return through == kA ? 8 : 200; }
  [[nodiscard]] Uuid process() { return pair.host(side).running() ? pair.host(side).program()->process() : Uuid{}; }
  [[nodiscard]] bool is_another() { return !process().is_nil() && process() != was; }
  void expect_all_is_there(int value) {
    ASSERT_TRUE(pair.wait_for([&] { return is_another() && pair.in_sync(); })) << pair.status(side).reason;
    for (const auto through : {kA, kB}) {
      for (const auto written : {kA, kB}) EXPECT_EQ(pair.value_at(through, block_of(written)), value);
    }
    EXPECT_EQ(pair.violation(), "");
  }
  engine::NodeSide side;
  ScriptedPair pair;
  Uuid was;
};

TEST(SetBackWithItsMemory, AProcessEndsAndTheNextOneIsBroughtUpToDate) {
  for (const auto side : {kA, kB}) {
    for (const auto& adjust : {over_one_path, over_two_paths}) {
      SetBack world(side, adjust);
      world.pair.host(side).set_back_with_memory();
      EXPECT_EQ(world.process(), world.was) << "the same one runs on";
      world.expect_all_is_there(2);
    }
  }
}

TEST(SetBackWithItsMemory, WhatItsHostsSendMeanwhileIsCarriedOutOrRefused) {
  for (const auto side : {kA, kB}) {
    for (const auto& adjust : {over_one_path, over_two_paths}) {
      SetBack world(side, adjust);
      world.pair.host(side).set_back_with_memory();
      world.pair.run_for(kMillisecond);
      EXPECT_FALSE(world.pair.written(other(side), SetBack::block_of(kA), 3));
      EXPECT_FALSE(world.pair.written(other(side), SetBack::block_of(kB), 3));
      world.expect_all_is_there(3);
    }
  }
}

TEST(SetBackWithItsMemory, ItsPartnerGoesOnWithoutIt) {
  for (const auto side : {kA, kB}) {
    SetBack world(side, over_one_path);
    world.pair.host(side).set_back_with_memory();
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(other(side), MirrorState::solo); }, 10 * kSecond));
  }
}

// ---- numbers that are used twice -----------------------------------------------------------------------------------

/// B is no partner any more, and another process of its node is.
void expect_only_the_next_one_is_heard(PlayedB& world) {
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, kSoon));
  Message hello;
  hello.type = MessageType::hello;
  hello.epoch = world.pair.world().scenario.pair;
  hello.flags = replication::kFlagSideB;
  EXPECT_TRUE(world.b.ask(hello).ended_with(Errc::stale));
  world.b.restart();
  EXPECT_TRUE(world.b.in_touch());
}

TEST(NumberUsedTwice, OfAnOrderIsNotTakenForTheOneBefore) {
  PlayedB world(b_orders);
  ASSERT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  Message other_one = world.order(1);
  other_one.extent.offset += kBlock;
  EXPECT_TRUE(world.b.ask(other_one, PlayedB::block_of(2)).ended_with(Errc::stale));
  expect_only_the_next_one_is_heard(world);
}

TEST(NumberUsedTwice, OfAnOrderThatIsFinishedIsNotSaidToBeCarriedOut) {
  PlayedB world(b_orders);
  ASSERT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  Message m = world.b.message(MessageType::watermark);
  m.watermark = PlayedB::kNumbers + 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::ok));
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(2)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 1);
  expect_only_the_next_one_is_heard(world);
}

/// Its host would be told that a write has been done which no store has.
TEST(NumberUsedTwice, OfAForwardIsNotAnsweredWithTheOthersResult) {
  for (const bool other_opcode : {false, true}) {
    PlayedB world;
    ASSERT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
    Message other_one = world.forward(1);
    if (!other_opcode) other_one.extent.offset += kBlock;
    if (other_opcode) other_one.opcode = DiskOpcode::write_zeroes;
    auto data = other_opcode ? std::vector<std::byte>{} : PlayedB::block_of(2);
    EXPECT_TRUE(world.b.ask(other_one, std::move(data)).ended_with(Errc::corrupt));
    expect_only_the_next_one_is_heard(world);
  }
}

TEST(NumberUsedTwice, OfAForwardThatComesAgainIsTheSameOne) {
  PlayedB world;
  ASSERT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  Message asks = world.forward(1);
  asks.opcode = DiskOpcode::check_access;
  EXPECT_TRUE(world.b.ask(asks).ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.status(kA).serving);
}

// ---- what the two know of one another's generations ----------------------------------------------------------------

/// A has told B generations; that B knows of a later one is of a past that A does not remember.
TEST(SetBackWithItsMemory, AProcessOfWhichThePartnerKnowsALaterGenerationEnds) {
  PlayedB world;
  const Uuid was = world.pair.host(kA).program()->process();
  ASSERT_FALSE(world.pair.written(kA, 100, 1));
  world.pair.run_for(10 * kSecond);  // in which one is raised
  world.b.knows_generation = world.pair.host(kA).program()->learnt(0)->generation + 1;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.host(kA).running(); }, kSecond));
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).running(); }, 2 * kSecond));
  EXPECT_NE(world.pair.host(kA).program()->process(), was);
}

}  // namespace
}  // namespace lockstep::simulation
