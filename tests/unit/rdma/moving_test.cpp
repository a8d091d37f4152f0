// What of the order and the moment of a move is chance, beside what contract_test.cpp says of any provider.
#include <set>

#include <gmock/gmock.h>

#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using testing::ElementsAre;

TEST(RdmaMoving, ReadsBeyondWhatWasGrantedWaitInTheProviderAndNothingBehindThem) {
  for_many_connections([](World& world) {
    const auto remote = world.grant(5, true, false);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    for (std::uint64_t id = 1; id <= 12; ++id) world.answerer.pair->read(world.page(id), remote, id);
    world.send(world.answerer, bytes_of("passes"), 20);
    world.run();
    EXPECT_EQ(world.target.counts().most_reads, 4u);
    EXPECT_EQ(world.target.counts().reads, 12u);
    EXPECT_TRUE(world.caller.was_told("receive 1"));
    for (std::uint64_t id = 1; id < 12; ++id) {
      EXPECT_LT(world.answerer.place("read " + std::to_string(id)),
                world.answerer.place("read " + std::to_string(id + 1)));
    }
  });
}

TEST(RdmaMoving, AReadMayBePassedByAWriteThatWasPostedAfterIt) {
  std::set<bool> seen;
  for_many_connections([&](World& world) {
    const auto remote = world.grant(5, true, true);
    const std::vector<std::byte> before(world.far_page(5).begin(), world.far_page(5).end());
    world.answerer.pair->read(world.page(1), remote, 1);
    world.answerer.pair->write(world.page(2), remote, 2);
    world.run();
    seen.insert(std::ranges::equal(world.page(1), before));
  });
  EXPECT_EQ(seen.size(), 2u);
}

TEST(RdmaMoving, AnAnswerMayBeReceivedBeforeItsRequestIsKnownToHaveArrived) {
  std::set<bool> seen;
  for_many_connections([&](World& world) {
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.answerer.when_completed = [&](const rdma::Completion& completion) {
      if (completion.work == rdma::Work::receive) world.send(world.answerer, bytes_of("answer"), 2);
    };
    world.send(world.caller, world.far_page(1), 1);
    world.run();
    ASSERT_TRUE(world.caller.was_told("receive 1") && world.caller.was_told("send 1"));
    seen.insert(world.caller.place("receive 1") < world.caller.place("send 1"));
  });
  EXPECT_EQ(seen.size(), 2u);
}

TEST(RdmaMoving, ACompletionSaysThatEarlierWritesWithoutOneAreOver) {
  for_many_connections([](World& world) {
    const auto remote = world.grant(5, false, true);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.answerer.pair->write(world.page(1), remote, 0);
    world.send(world.answerer, world.page(2), 2);
    world.answerer.when_completed = [&](const rdma::Completion&) {
      std::ranges::fill(world.page(1), std::byte{7});
      std::ranges::fill(world.page(2), std::byte{7});
    };
    world.run();
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "send 2"));
  });
}

TEST(RdmaMoving, WhatIsPostedAndNotCompletedMeansNothing) {
  int differs = 0;
  for_many_connections([&](World& world) {
    const std::vector<std::byte> before(world.page(1).begin(), world.page(1).end());
    const auto remote = world.grant(5, true, false);
    world.answerer.pair->read(world.page(1), remote, 1);
    EXPECT_FALSE(std::ranges::equal(world.page(1), before));
    while (!world.answerer.was_told("read 1")) {
      if (world.target.counts().reads == 1 && !std::ranges::equal(world.page(1), world.far_page(5))) ++differs;
      ASSERT_TRUE(world.clock.step({std::chrono::seconds(100)}));
    }
    EXPECT_TRUE(std::ranges::equal(world.page(1), world.far_page(5)));
  });
  EXPECT_GT(differs, 0) << "the data may have come and not be there yet";
}

}  // namespace
}  // namespace lockstep::test
