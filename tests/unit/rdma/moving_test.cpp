// What moves over a connection: sends into receives, reads and writes of memory that the peer granted.
#include <set>

#include <gmock/gmock.h>

#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using testing::ElementsAre;

TEST(RdmaMoving, AMessageFillsTheFirstPieceOfItsReceiveThenTheSecond) {
  for_many_connections([](World& world) {
    world.answerer.pair->receive(world.page(0).first(48), world.page(1), 7);
    world.send(world.caller, world.far_page(3).first(1000), 9);
    world.run();
    ASSERT_TRUE(world.answerer.was_told("receive 7"));
    EXPECT_TRUE(world.caller.was_told("send 9"));
    EXPECT_EQ(world.answerer.completions[0].bytes, 1000u);
    EXPECT_TRUE(std::ranges::equal(world.page(0).first(48), world.far_page(3).first(48)));
    EXPECT_TRUE(std::ranges::equal(world.page(1).first(952), world.far_page(3).subspan(48, 952)));
  });
}

TEST(RdmaMoving, MessagesArriveInTheOrderOfTheirPosts) {
  for_many_connections([](World& world) {
    for (std::uint64_t id = 1; id <= 5; ++id) world.answerer.pair->receive(world.page(id), {}, id);
    for (std::uint64_t id = 1; id <= 5; ++id) world.send(world.caller, world.far_page(id).first(100 * id), id);
    world.run();
    EXPECT_THAT(world.answerer.told,
                ElementsAre("up", "receive 1", "receive 2", "receive 3", "receive 4", "receive 5"));
    EXPECT_THAT(world.caller.told, ElementsAre("up", "send 1", "send 2", "send 3", "send 4", "send 5"));
    for (std::size_t id = 1; id <= 5; ++id) EXPECT_EQ(world.answerer.completions[id - 1].bytes, 100 * id);
  });
}

TEST(RdmaMoving, WhatIsInlineIsThePostersAgainAtOnce) {
  for_many_connections([](World& world) {
    world.caller.pair->receive(world.far_page(0), {}, 1);
    auto bytes = bytes_of("in no arena, and soon something else");
    const auto sent = bytes;
    world.send(world.answerer, bytes, 0);
    std::ranges::fill(bytes, std::byte{0});
    world.run();
    ASSERT_TRUE(world.caller.was_told("receive 1"));
    EXPECT_TRUE(std::ranges::equal(world.far_page(0).first(sent.size()), sent));
    EXPECT_THAT(world.answerer.told, ElementsAre("up"));
  });
}

TEST(RdmaMoving, AnEmptyMessageIsAMessage) {
  for_many_connections([](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.caller.pair->send({.pieces = {}, .invalidates = {}, .id = 2});
    world.run();
    EXPECT_TRUE(world.answerer.was_told("receive 1"));
    EXPECT_TRUE(world.caller.was_told("send 2"));
  });
}

TEST(RdmaMoving, AWriteHasArrivedWhenAMessageThatWasSentAfterItIsReceived) {
  for_many_connections([](World& world) {
    const auto remote = world.grant(5, false, true);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    bool had_arrived = false;
    world.caller.when_completed = [&](const rdma::Completion&) {
      had_arrived = std::ranges::equal(world.far_page(5), world.page(2));
    };
    world.answerer.pair->write(world.page(2), remote, 0);
    world.send(world.answerer, bytes_of("written"), 3, remote.key);
    world.run();
    EXPECT_TRUE(had_arrived);
    EXPECT_EQ(world.caller.completions.at(0).invalidated, remote.key);
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "send 3"));
  });
}

TEST(RdmaMoving, AReadBringsWhatLiesAtThePeer) {
  for_many_connections([](World& world) {
    const auto remote = world.grant(5, true, false);
    world.answerer.pair->read(world.page(2).first(1000), {.address = remote.address + 96, .key = remote.key}, 4);
    world.run();
    EXPECT_TRUE(world.answerer.was_told("read 4"));
    EXPECT_TRUE(std::ranges::equal(world.page(2).first(1000), world.far_page(5).subspan(96, 1000)));
  });
}

TEST(RdmaMoving, AReadSeesWhatWasWrittenBeforeIt) {
  for_many_connections([](World& world) {
    const auto remote = world.grant(5, true, true);
    world.answerer.pair->write(world.page(1), remote, 1);
    world.answerer.pair->read(world.page(2), remote, 2);
    world.run();
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "write 1", "read 2"));
    EXPECT_TRUE(std::ranges::equal(world.page(2), world.page(1)));
  });
}

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
