// How connections end: by an error, by either side, by the network, by the device.
#include <set>

#include <gmock/gmock.h>

#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The next step of time, until something is so.
template <class Condition>
void run_until(World& world, const Condition& condition) {
  while (!condition()) ASSERT_TRUE(world.clock.step({std::chrono::seconds(100)})) << "nothing is about to happen";
}

void expect_both_lost(World& world) {
  world.run();
  EXPECT_EQ(world.caller.times("lost"), 1u);
  EXPECT_EQ(world.answerer.times("lost"), 1u);
}

// --- Errors ---------------------------------------------------------------------------------------------------------

TEST(RdmaEnds, AWrongKeyRangeOrRightIsARemoteAccessError) {
  const auto expect_refused = [](const auto& post) {
    for_many_connections([&](World& world) {
      const auto before = world.initiator_memory;
      post(world, *world.answerer.pair);
      expect_both_lost(world);
      ASSERT_FALSE(world.answerer.completions.empty());
      EXPECT_EQ(world.answerer.completions[0].error, FakeStatus::remote_access);
      EXPECT_EQ(world.answerer.lost, FakeStatus::remote_access);
      EXPECT_EQ(world.initiator_memory, before);
    });
  };
  expect_refused([](World& world, auto& pair) {  // may only be read
    pair.write(world.page(0), world.grant(0, true, false), 1);
  });
  expect_refused([](World& world, auto& pair) {  // may only be written
    pair.read(world.page(0), world.grant(0, false, true), 1);
  });
  expect_refused([](World& world, auto& pair) {  // one byte beyond the end
    const auto remote = world.grant(0, true, true);
    pair.write(world.page(0), {.address = remote.address + 1, .key = remote.key}, 1);
  });
  expect_refused([](World& world, auto& pair) {  // one byte before the beginning
    const auto remote = world.grant(1, true, true);
    pair.read(world.page(0), {.address = remote.address - 1, .key = remote.key}, 1);
  });
  expect_refused([](World& world, auto& pair) {  // of the other protection domain
    pair.read(world.page(0), world.initiator.grant(rdma::Domain::link, world.far_page(0), true, true), 1);
  });
  expect_refused([](World& world, auto& pair) {  // of the own machine
    pair.read(world.page(0), world.target.grant(rdma::Domain::initiators, world.page(1), true, true), 1);
  });
  expect_refused([](World& world, auto& pair) {  // not any more
    const auto remote = world.grant(0, true, true);
    world.initiator.revoke(remote.key);
    pair.write(world.page(0), remote, 1);
  });
}

TEST(RdmaEnds, InvalidatingAKeyThatIsNotGrantedLosesTheConnection) {
  std::set<bool> failed;
  for_many_connections([&](World& world) {
    const auto remote = world.initiator.grant(rdma::Domain::link, world.far_page(0), true, true);
    world.caller.pair->receive(world.far_page(1), {}, 1);
    world.send(world.answerer, bytes_of("done"), 1, remote.key);
    expect_both_lost(world);
    EXPECT_FALSE(world.caller.was_told("receive 1"));
    EXPECT_TRUE(world.initiator.is_granted(remote.key));
    failed.insert(world.answerer.error_of(rdma::Work::send, 1) == FakeStatus::remote_access);
  });
  EXPECT_EQ(failed.size(), 2u) << "the peer's device objects, or the peer does";
}

TEST(RdmaEnds, AReadMayFailWhenItsKeyIsInvalidatedBehindIt) {
  std::set<bool> failed;
  for_many_connections([&](World& world) {
    const auto remote = world.grant(0, true, true);
    world.caller.pair->receive(world.far_page(1), {}, 1);
    world.answerer.pair->read(world.page(0), remote, 1);
    world.send(world.answerer, bytes_of("too early"), 2, remote.key);
    world.run();
    failed.insert(world.answerer.was_told("lost"));
  });
  EXPECT_EQ(failed.size(), 2u) << "a send may pass a read";
}

TEST(RdmaEnds, EveryWorkMayFailWithEveryStatus) {
  for (const auto status : FakeStatus::all) {
    for (const auto work : {rdma::Work::send, rdma::Work::receive, rdma::Work::read, rdma::Work::write}) {
      for_many_connections([&](World& world) {
        const auto remote = world.grant(0, true, true);
        world.target.fail_next(work, std::make_error_code(status));
        world.answerer.pair->receive(world.page(0), {}, 1);
        world.caller.pair->receive(world.far_page(1), {}, 1);
        world.send(world.caller, bytes_of("message"), 1);
        world.answerer.pair->write(world.page(1), remote, 1);
        world.answerer.pair->read(world.page(2), remote, 1);
        world.send(world.answerer, bytes_of("message"), 2);
        expect_both_lost(world);
        EXPECT_EQ(world.answerer.error_of(work, work == rdma::Work::send ? 2 : 1), status);
        EXPECT_EQ(world.answerer.lost, status);
        const auto& told = world.answerer.completions;
        const auto first = std::ranges::find_if(told, [](const auto& c) { return static_cast<bool>(c.error); });
        ASSERT_NE(first, told.end());
        EXPECT_EQ(first->work, work) << "the first with an error is the cause";
      });
    }
  }
}

// --- Losing ---------------------------------------------------------------------------------------------------------

TEST(RdmaEnds, TheLossIsToldBeforeBetweenOrAfterCompletionsAndTheseMayBeMissing) {
  std::set<std::size_t> places, told;
  for_many_connections([&](World& world) {
    for (std::uint64_t id = 1; id <= 4; ++id) world.answerer.pair->receive(world.page(id), {}, id);
    world.target.lose(1);
    expect_both_lost(world);
    EXPECT_EQ(world.answerer.lost, std::errc::connection_reset);
    places.insert(world.answerer.place("lost"));
    told.insert(world.answerer.completions.size());
    for (std::size_t at = 0; at < world.answerer.completions.size(); ++at) {
      EXPECT_EQ(world.answerer.completions[at].id, at + 1);
      EXPECT_EQ(world.answerer.completions[at].error, FakeStatus::flushed);
    }
  });
  EXPECT_EQ(places.size(), 5u);
  EXPECT_EQ(told.size(), 5u);
}

TEST(RdmaEnds, AMessageThatArrivedIsNotAlwaysKnownToHave) {
  std::set<std::pair<bool, bool>> seen;
  for_many_connections([&](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.run_for(std::chrono::microseconds(world.random.next() % 200));
    world.target.lose(1);
    expect_both_lost(world);
    const bool has_arrived = world.answerer.was_told("receive 1");
    const bool is_known = world.caller.was_told("send 1");
    if (has_arrived) {
      EXPECT_TRUE(std::ranges::equal(world.page(0), world.far_page(0)));
    }
    seen.emplace(has_arrived, is_known);
  });
  EXPECT_EQ(seen.size(), 4u);
}

TEST(RdmaEnds, MemoryIsTheDevicesUntilCloseHasCalledBack) {
  int written = 0;
  for_many_connections([&](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.target.lose(1);
    run_until(world, [&] { return world.answerer.was_told("lost"); });
    if (world.answerer.was_told("receive 1 failed")) return;
    std::vector<std::byte> then(world.page(0).begin(), world.page(0).end());
    world.close(world.answerer);
    run_until(world, [&] { return world.answerer.closed; });
    if (!std::ranges::equal(world.page(0), then)) ++written;
    std::ranges::fill(world.page(0), std::byte{7});
    world.run();
    EXPECT_EQ(std::ranges::count(world.page(0), std::byte{7}), 4096);
  });
  EXPECT_GT(written, 50);
}

TEST(RdmaEnds, OneSideClosesAndTheOtherHearsOfIt) {
  for_many_connections([](World& world) {
    world.close(world.caller);
    EXPECT_FALSE(world.caller.closed) << "not in close()";
    world.run();
    EXPECT_TRUE(world.caller.closed);
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "lost"));
    EXPECT_THAT(world.target.connections(), ElementsAre(1u));
    world.close(world.answerer);
    world.run();
    EXPECT_THAT(world.target.connections(), IsEmpty());
  });
}

TEST(RdmaEnds, BothSidesMayCloseAtOnce) {
  for_many_connections([](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.run_for(std::chrono::microseconds(world.random.next() % 100));
    world.close(world.caller);
    world.close(world.answerer);
    const auto told = world.answerer.told;
    world.run();
    EXPECT_TRUE(world.caller.closed && world.answerer.closed);
    EXPECT_EQ(world.answerer.told, told) << "nothing is told after close()";
  });
}

// --- Silence --------------------------------------------------------------------------------------------------------

TEST(RdmaEnds, APeerThatVanishedGivesNoError) {
  for_many_connections([](World& world) {
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.initiator.lose_packets(true);
    world.send(world.answerer, world.page(0), 1);
    world.run_for(std::chrono::seconds(20));
    EXPECT_THAT(world.answerer.told, ElementsAre("up"));
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
    world.close(world.answerer);
    world.run();
    EXPECT_TRUE(world.answerer.closed) << "closing needs no peer";
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
  });
}

TEST(RdmaEnds, AnAnswerIntoSilenceIsOverAfterAWhile) {
  for_many_seeds([](World& world) {
    world.listen();
    world.call();
    world.run();
    world.initiator.lose_packets(true);
    world.accept();
    world.run_for(std::chrono::seconds(3));
    EXPECT_THAT(world.answerer.told, ElementsAre("lost"));
    EXPECT_EQ(world.answerer.lost, FakeStatus::unanswered);
  });
}

TEST(RdmaEnds, WhatWaitedForPacketsGoesOnWhenTheyGetThrough) {
  for_many_connections([](World& world) {
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.target.lose_packets(1, true);
    world.send(world.answerer, world.page(0), 1);
    world.run_for(std::chrono::seconds(1));
    world.target.lose_packets(1, false);
    world.run();
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "send 1"));
    EXPECT_THAT(world.caller.told, ElementsAre("up", "receive 1"));
  });
}

TEST(RdmaEnds, ADeviceThatIsRemovedTellsOfTheLossAndNothingElse) {
  for_many_connections([](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.target.remove_device();
    world.send(world.answerer, world.page(1), 1);
    world.run();
    world.answerer.pair->receive(world.page(2), {}, 2);
    world.send(world.answerer, world.page(1), 2);
    world.run_for(std::chrono::seconds(20));
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "lost"));
    EXPECT_EQ(world.answerer.lost, FakeStatus::fatal);
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
    world.close(world.answerer);
    world.run();
    EXPECT_TRUE(world.answerer.closed);
  });
}

TEST(RdmaEnds, ADeviceThatIsBackTakesCallsAgain) {
  for_many_seeds([](World& world) {
    world.initiator.remove_device();
    world.listen();
    world.call();
    world.run();
    EXPECT_THAT(world.caller.told, ElementsAre("lost"));
    world.close(world.caller);
    world.run();
    world.initiator.restore_device();
    Side again;
    again.pair = world.initiator.connect(*world.initiator_completions, rdma::Domain::link, "", "10.0.0.1:3260",
                                         World::kWanted, {}, again);
    world.run();
    EXPECT_EQ(world.calls.size(), 1u);
    again.close();
    world.run();
  });
}

// --- Failing calls, dying processes ---------------------------------------------------------------------------------

TEST(RdmaEnds, AnyCallOfTheProviderMayFail) {
  for (std::uint64_t number = 1; number <= 7; ++number) {
    for_many_seeds([&](World& world) {
      const auto remote = world.grant(0, true, true);
      world.target.fail_call(number);
      const auto listener = world.target.listen(*world.target_completions, "10.0.0.1:3260",
                                                [&](auto call) { world.calls.push_back(std::move(call)); });
      EXPECT_EQ(!listener, number == 1);
      world.call();
      world.caller.pair->receive(world.far_page(1), {}, 1);
      world.run();
      if (!listener) return;
      world.accept();
      world.answerer.pair->receive(world.page(0), {}, 1);
      world.run();
      if (world.answerer.was_told("up")) {
        world.answerer.pair->write(world.page(1), remote, 1);
        world.answerer.pair->read(world.page(2), remote, 2);
        world.send(world.answerer, world.page(1), 3);
      }
      world.run();
      EXPECT_EQ(world.answerer.was_told("lost"), number <= 6);
      EXPECT_EQ(world.caller.was_told("lost"), number <= 6);
      if (number <= 6) {
        EXPECT_EQ(world.answerer.lost, std::errc::not_enough_memory);
      }
      EXPECT_THAT(world.target.faults(), IsEmpty());
    });
  }
}

TEST(RdmaEnds, AProcessThatDiedIsNotCalledAndItsPeersHearOfIt) {
  for_many_connections([](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.run_for(std::chrono::microseconds(world.random.next() % 100));
    const auto told = world.answerer.told;
    world.target.abandon(*world.target_completions);
    world.answerer.pair.reset();
    world.listener.reset();
    world.target_completions.reset();
    std::ranges::fill(world.page(0), std::byte{7});
    world.run();
    EXPECT_EQ(world.answerer.told, told);
    EXPECT_TRUE(world.caller.was_told("lost"));
    EXPECT_EQ(std::ranges::count(world.page(0), std::byte{7}), 4096);
  });
}

}  // namespace
}  // namespace lockstep::test
