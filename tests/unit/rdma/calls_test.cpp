// How connections come about, and how calls fail, beside what contract_test.cpp says of any provider.
#include <gmock/gmock.h>

#include "engine/runtime/reactor.hpp"
#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RdmaCalls, NoCallComesAfterItsListenerIsGone) {
  for_many_seeds([](World& world) {
    world.listen();
    world.call();
    world.run_for(std::chrono::microseconds(world.random.next() % 250));
    const bool had_come = !world.calls.empty();
    world.listener.reset();
    world.run();
    EXPECT_EQ(!world.calls.empty(), had_come);
    if (!had_come) {
      EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
    }
  });
}

TEST(RdmaCalls, ACallIntoSilenceIsOverAfterAWhile) {
  for_many_seeds([](World& world) {
    world.listen();
    world.target.lose_packets(true);
    world.call();
    world.run();
    EXPECT_THAT(world.caller.told, IsEmpty());
    world.run_for(std::chrono::seconds(3));
    EXPECT_THAT(world.caller.told, ElementsAre("lost"));
    EXPECT_EQ(world.caller.lost, FakeStatus::unanswered);
  });
}

TEST(RdmaCalls, WhatCameBeforeTheConnectionStandsIsToldAfterwards) {
  int came_before = 0;
  for_many_seeds([&](World& world) {
    world.listen();
    world.call();
    world.run();
    world.accept();
    world.answerer.pair->receive(world.page(0), {}, 1);
    while (world.clock.step(world.clock.now() + std::chrono::milliseconds(20))) {
      if (world.caller.told == std::vector<std::string>{"up"} && world.caller.completions.empty()) {
        world.caller.told.emplace_back("sent");
        world.send(world.caller, world.far_page(0), 1);
      }
      if (world.answerer.told.empty() && world.target.counts().sends == 1) ++came_before;
    }
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "receive 1"));
    EXPECT_THAT(world.target.faults(), IsEmpty());
  });
  EXPECT_GT(came_before, 0);
}

TEST(RdmaCalls, TheFabricGrantsWhatBothDevicesHave) {
  World world(1);
  world.target.device().max_inline = 28;
  world.target.device().invalidates = false;
  world.initiator.device().serves_reads = 2;
  world.initiator.device().sends = 5;
  world.connect();
  const auto& limits = world.answerer.pair->limits();
  EXPECT_EQ(limits.sends, World::kWanted.sends);
  EXPECT_EQ(limits.reads, 2u);
  EXPECT_EQ(limits.max_inline, 28u);
  EXPECT_FALSE(limits.invalidates);
  EXPECT_EQ(world.caller.pair->limits().sends, 5u);
  EXPECT_EQ(world.caller.pair->limits().max_inline, World::kWanted.max_inline);
}

TEST(RdmaCalls, ACallMayBeClosedInsteadOfWaitedFor) {
  for_many_seeds([](World& world) {
    world.listen();
    world.call();
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.run_for(std::chrono::microseconds(world.random.next() % 500));
    if (!world.calls.empty()) world.accept();
    world.run_for(std::chrono::microseconds(world.random.next() % 500));
    world.close(world.caller);
    world.run();
    if (!world.calls.empty()) world.accept();
    world.run();
    EXPECT_TRUE(world.caller.closed);
    if (world.answerer.pair != nullptr) {
      EXPECT_EQ(world.answerer.told.back(), "lost");
    }
    EXPECT_THAT(world.target.faults(), IsEmpty());
  });
}

TEST(RdmaCalls, AReactorIsAClockToo) {
  engine::Reactor reactor;
  StepRandom random(1);
  std::vector<std::byte> memory(8192);
  FakeFabric fabric(reactor, random);
  fabric.add_arena(memory);
  const auto completions = fabric.attach(reactor);
  Side caller, answerer;
  const auto listener = fabric.listen(*completions, "127.0.0.1:3260", [&](std::unique_ptr<rdma::Call> call) {
    answerer.pair = call->accept(*completions, rdma::Domain::link, World::kWanted, {}, answerer);
    answerer.pair->receive(std::span(memory).first(4096), {}, 1);
  });
  answerer.when_completed = [&](const rdma::Completion&) {
    caller.close();
    answerer.pair->close([&] { reactor.stop(); });
  };
  caller.pair = fabric.connect(*completions, rdma::Domain::link, "", "127.0.0.1:3260", World::kWanted, {}, caller);
  caller.when_up = [&] {
    const std::array pieces = {std::span<const std::byte>(memory).subspan(4096, 100)};
    caller.pair->send({.pieces = pieces, .invalidates = {}, .id = 1});
  };
  reactor.call_after(std::chrono::seconds(30), [&] { reactor.stop(); });  // not for ever, if it does not work
  reactor.run();
  ASSERT_TRUE(answerer.was_told("receive 1"));
  EXPECT_THAT(fabric.faults(), IsEmpty());
  while (!caller.closed) {
    reactor.call_after(std::chrono::milliseconds(3), [&] { reactor.stop(); });
    reactor.run();
  }
}

}  // namespace
}  // namespace lockstep::test
