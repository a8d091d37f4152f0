// Windows: what a peer may do with memory that was exposed to it, until when, and to whom that is told.
#include <set>

#include <gmock/gmock.h>

#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using rdma::Access;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kWindows = 3;

void link(World& world) {
  world.domain = rdma::Domain::link;
  world.wanted.windows = kWindows;
}

/// Connections of the link: the caller exposes, the answerer reads and writes.
template <class Body>
void for_many_links(const Body& body) {
  for_many_seeds([&](World& world) {
    link(world);
    world.connect();
    if (!testing::Test::HasFailure()) body(world);
    EXPECT_THAT(world.target.faults(), IsEmpty());
  });
}

/// The answerer hears of whatever the caller exposed until now.
void tell_peer(World& world) {
  world.answerer.pair->receive(world.page(19), {}, 90);
  world.send(world.caller, bytes_of("a key"), 90);
  world.run();
}

rdma::Remote expose(World& world, std::size_t far, Access access) {
  const auto remote = world.caller.pair->expose(world.far_page(far), access);
  tell_peer(world);
  return remote;
}

void answer(World& world, std::uint64_t id, std::uint32_t key) {
  world.caller.pair->receive(world.far_page(19), {}, id);
  world.send(world.answerer, bytes_of("done"), id, key);
}

void expect_access_error(World& world, rdma::Work work, std::uint64_t id) {
  world.run();
  EXPECT_EQ(world.answerer.error_of(work, id), FakeStatus::remote_access);
  EXPECT_TRUE(world.answerer.was_told("lost") && world.caller.was_told("lost"));
}

// --- What it lets the peer do ---------------------------------------------------------------------------------------

TEST(RdmaWindows, ThePeerReadsThroughOneThatMayBeRead) {
  for_many_links([](World& world) {
    const auto remote = expose(world, 5, Access::read);
    EXPECT_EQ(remote.address, reinterpret_cast<std::uintptr_t>(world.far_page(5).data()));
    world.answerer.pair->read(world.page(2).first(1000), {.address = remote.address + 96, .key = remote.key}, 4);
    world.run();
    EXPECT_TRUE(world.answerer.was_told("read 4"));
    EXPECT_TRUE(std::ranges::equal(world.page(2).first(1000), world.far_page(5).subspan(96, 1000)));
  });
}

TEST(RdmaWindows, ThePeerWritesThroughOneThatMayBeWritten) {
  for_many_links([](World& world) {
    const auto remote = expose(world, 5, Access::write);
    world.answerer.pair->write(world.page(2), remote, 0);
    answer(world, 7, remote.key);
    world.run();
    EXPECT_TRUE(world.caller.was_told("receive 7"));
    EXPECT_TRUE(std::ranges::equal(world.page(2), world.far_page(5)));
  });
}

TEST(RdmaWindows, ThePeerMayDoNothingElse) {
  const auto expect_refused = [](rdma::Work work, const auto& post) {
    for_many_links([&](World& world) {
      const auto before = world.initiator_memory;
      post(world, *world.answerer.pair);
      expect_access_error(world, work, 1);
      // Of a window that may be written, what comes late may still change it.
      EXPECT_TRUE(std::ranges::equal(world.far_page(6), std::span(before).subspan(6 * World::kPage, World::kPage)));
    });
  };
  expect_refused(rdma::Work::write,
                 [](World& world, auto& pair) { pair.write(world.page(0), expose(world, 6, Access::read), 1); });
  expect_refused(rdma::Work::read,
                 [](World& world, auto& pair) { pair.read(world.page(0), expose(world, 5, Access::write), 1); });
  expect_refused(rdma::Work::write, [](World& world, auto& pair) {  // one byte beyond the end
    const auto remote = expose(world, 5, Access::write);
    pair.write(world.page(0), {.address = remote.address + 1, .key = remote.key}, 1);
  });
  expect_refused(rdma::Work::read, [](World& world, auto& pair) {  // one byte before the beginning
    const auto remote = expose(world, 5, Access::read);
    pair.read(world.page(0), {.address = remote.address - 1, .key = remote.key}, 1);
  });
}

TEST(RdmaWindows, AKeyIsWorthNothingOnAnotherConnection) {
  for_many_links([](World& world) {
    const auto remote = expose(world, 5, Access::read);
    Side caller, answerer;
    caller.pair = world.initiator.connect(*world.initiator_completions, rdma::Domain::link, "", "10.0.0.1:3260",
                                          world.wanted, {}, caller);
    world.run();
    answerer.pair =
        world.calls.at(0)->accept(*world.target_completions, rdma::Domain::link, world.wanted, {}, answerer);
    world.calls.clear();
    world.run();
    answerer.pair->read(world.page(0), remote, 1);
    world.run();
    EXPECT_EQ(answerer.error_of(rdma::Work::read, 1), FakeStatus::remote_access);
    EXPECT_FALSE(world.caller.was_told("lost"));
    caller.close();
    answerer.close();
    world.run();
    EXPECT_TRUE(world.initiator.is_granted(remote.key)) << "another connection's end shuts nothing";
  });
}

TEST(RdmaWindows, WhatThePeerHearsBeforeTheWindowIsOpenedIsWorthNothingYet) {
  std::set<bool> was_lost;
  for_many_links([&](World& world) {
    world.answerer.pair->receive(world.page(1), {}, 1);
    world.send(world.caller, bytes_of("a key that is to come"), 1);
    const auto remote = world.caller.pair->expose(world.far_page(5), Access::read);
    world.answerer.when_completed = [&](const rdma::Completion& completion) {
      if (completion.work == rdma::Work::receive) world.answerer.pair->read(world.page(2), remote, 2);
    };
    world.run();
    was_lost.insert(world.answerer.was_told("lost"));
  });
  EXPECT_EQ(was_lost.size(), 2u);
}

// --- Until when -----------------------------------------------------------------------------------------------------

TEST(RdmaWindows, ThePeersSendShutsOneAndItIsFreeForAnother) {
  for_many_links([](World& world) {
    std::vector<rdma::Remote> open;
    for (std::size_t far = 0; far < kWindows; ++far) open.push_back(expose(world, far, Access::read));
    EXPECT_EQ(world.target.counts().windows, kWindows);
    answer(world, 7, open[1].key);
    world.run();
    EXPECT_EQ(world.caller.completions.back().invalidated, open[1].key);
    EXPECT_FALSE(world.initiator.is_granted(open[1].key));
    EXPECT_TRUE(world.initiator.is_granted(open[2].key));
    EXPECT_EQ(world.target.counts().windows, kWindows - 1);
    const auto again = expose(world, 1, Access::read);
    EXPECT_NE(again.key, open[1].key);
    EXPECT_EQ(world.target.counts().windows, kWindows);
    EXPECT_EQ(world.target.counts().most_windows, kWindows);
    world.answerer.pair->read(world.page(2), again, 3);
    world.run();
    EXPECT_TRUE(world.answerer.was_told("read 3"));
    world.answerer.pair->read(world.page(0), open[1], 4);
    expect_access_error(world, rdma::Work::read, 4);
  });
}

TEST(RdmaWindows, HidingOneIsToldWhenItIsShut) {
  for_many_links([](World& world) {
    const auto remote = expose(world, 5, Access::write);
    world.caller.pair->hide(remote.key, 8);
    world.run();
    EXPECT_THAT(world.caller.told, ElementsAre("up", "send 90", "hide 8"));
    EXPECT_FALSE(world.initiator.is_granted(remote.key));
    EXPECT_EQ(world.target.counts().windows, 0u);
    const auto before = world.far_copy(5);
    world.answerer.pair->write(world.page(0), remote, 1);
    expect_access_error(world, rdma::Work::write, 1);
    EXPECT_TRUE(std::ranges::equal(world.far_page(5), before));
  });
}

TEST(RdmaWindows, WhatThePeerReadsWhileOneIsHiddenIsTheMemoryOrAnError) {
  std::set<bool> was_read;
  for_many_links([&](World& world) {
    const auto remote = expose(world, 5, Access::read);
    world.answerer.pair->read(world.page(0), remote, 1);
    world.caller.pair->hide(remote.key, 8);
    world.run();
    was_read.insert(world.answerer.error_of(rdma::Work::read, 1) != FakeStatus::remote_access);
  });
  EXPECT_EQ(was_read.size(), 2u);
}

TEST(RdmaWindows, NoPeerIsNeededToOpenAndShutOne) {
  for_many_links([](World& world) {
    world.target.lose_packets(true);
    const auto remote = world.caller.pair->expose(world.far_page(5), Access::read);
    world.caller.pair->hide(remote.key, 1);
    world.run();
    EXPECT_TRUE(world.caller.was_told("hide 1"));
  });
}

TEST(RdmaWindows, AKeyThatIsHiddenAndInvalidatedLosesTheConnectionWhicheverComesFirst) {
  std::set<std::string> faults;
  for_many_links([&](World& world) {
    const auto remote = expose(world, 5, Access::read);
    answer(world, 7, remote.key);
    world.caller.pair->hide(remote.key, 8);
    world.run();
    EXPECT_TRUE(world.caller.was_told("lost"));
    EXPECT_TRUE(world.answerer.was_told("lost"));
    const auto found = world.target.take_faults();
    EXPECT_EQ(found.size(), 1u) << "it is against the rules";
    faults.insert(found.begin(), found.end());
  });
  EXPECT_THAT(faults,
              testing::UnorderedElementsAre(testing::HasSubstr("hide 8: the peer has invalidated its key"),
                                            testing::HasSubstr("a key was hidden, and then invalidated by the peer")));
}

TEST(RdmaWindows, TheConnectionsEndShutsAllAndItsLossNone) {
  int written_late = 0;
  for_many_links([&](World& world) {
    const auto read = expose(world, 5, Access::read);
    const auto write = expose(world, 6, Access::write);
    const auto read_before = world.far_copy(5);
    world.target.lose(1);
    while (!world.caller.was_told("lost")) ASSERT_TRUE(world.clock.step({std::chrono::seconds(10)}));
    EXPECT_TRUE(world.initiator.is_granted(read.key) && world.initiator.is_granted(write.key));
    EXPECT_EQ(world.target.counts().windows, 2u);
    const auto write_before = world.far_copy(6);
    world.close(world.caller);
    while (!world.caller.closed) ASSERT_TRUE(world.clock.step({std::chrono::seconds(10)}));
    EXPECT_FALSE(world.initiator.is_granted(read.key) || world.initiator.is_granted(write.key));
    EXPECT_EQ(world.target.counts().windows, 0u);
    EXPECT_TRUE(std::ranges::equal(world.far_page(5), read_before));
    if (!std::ranges::equal(world.far_page(6), write_before)) ++written_late;
    std::ranges::fill(world.far_page(6), std::byte{7});
    world.run();
    EXPECT_EQ(std::ranges::count(world.far_page(6), std::byte{7}), 4096);
  });
  EXPECT_GT(written_late, 100) << "what may be written is the peer's until then";
}

TEST(RdmaWindows, AProcessThatDiedHasNone) {
  for_many_links([](World& world) {
    const auto remote = expose(world, 5, Access::write);
    world.initiator.abandon(*world.initiator_completions);
    EXPECT_FALSE(world.initiator.is_granted(remote.key));
    EXPECT_EQ(world.target.counts().windows, 0u);
    world.caller.pair.reset();
  });
}

TEST(RdmaWindows, OfAConnectionThatIsLostNoneIsOpenedOrHidden) {
  for_many_links([](World& world) {
    const auto before = world.caller.pair->expose(world.far_page(5), Access::read);
    world.target.lose(1);
    world.run();
    ASSERT_TRUE(world.caller.was_told("lost"));
    const auto told = world.caller.told;
    for (int more = 0; more < 10; ++more) {
      EXPECT_FALSE(world.initiator.is_granted(world.caller.pair->expose(world.far_page(6), Access::read).key));
    }
    world.caller.pair->hide(before.key, 1);
    world.run();
    EXPECT_EQ(world.caller.told, told);
  });
}

// --- How many, and failing ------------------------------------------------------------------------------------------

TEST(RdmaWindows, ADeviceWithoutEnoughOfThemLosesTheCallerThatWantsSome) {
  for (const std::uint32_t has : {0u, kWindows - 1}) {
    for_many_seeds([&](World& world) {
      link(world);
      world.initiator.device().windows = has;
      world.listen();
      world.call();
      world.run();
      EXPECT_THAT(world.caller.told, ElementsAre("lost"));
      EXPECT_EQ(world.caller.lost, FakeStatus::no_windows);
      EXPECT_THAT(world.calls, IsEmpty());
    });
  }
}

TEST(RdmaWindows, ADeviceWithoutThemLosesTheAnswererThatWantsSomeAndTheCallerIsRefused) {
  for_many_seeds([](World& world) {
    link(world);
    world.target.device().windows = 0;
    world.listen();
    world.call();
    world.run();
    world.accept();
    world.run();
    EXPECT_EQ(world.answerer.lost, FakeStatus::no_windows);
    EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
  });
}

TEST(RdmaWindows, ASideThatWantsNoneNeedsNone) {
  for_many_seeds([](World& world) {
    world.initiator.device().windows = world.target.device().windows = 0;
    world.connect();
    EXPECT_FALSE(world.caller.was_told("lost"));
  });
}

TEST(RdmaWindows, HidingMayFailWithEveryStatus) {
  for (const auto status : FakeStatus::all) {
    for_many_links([&](World& world) {
      const auto remote = expose(world, 5, Access::read);
      world.initiator.fail_next(rdma::Work::hide, std::make_error_code(status));
      world.caller.pair->hide(remote.key, 1);
      world.run();
      EXPECT_EQ(world.caller.error_of(rdma::Work::hide, 1), status);
      EXPECT_EQ(world.caller.lost, status);
      EXPECT_TRUE(world.initiator.is_granted(remote.key)) << "it is shut with the connection";
    });
  }
}

TEST(RdmaWindows, AnyCallOfTheProviderMayFail) {
  for (std::uint64_t number = 1; number <= 5; ++number) {
    for_many_seeds([&](World& world) {
      link(world);
      world.listen();
      world.initiator.fail_call(number);  // connect, expose, send, expose, hide
      world.call();
      world.run();
      if (number == 1) {
        EXPECT_EQ(world.caller.lost, std::errc::not_enough_memory);
        return;
      }
      world.accept();
      world.run();
      ASSERT_TRUE(world.caller.was_told("up"));
      (void)expose(world, 5, Access::read);
      const auto remote = world.caller.pair->expose(world.far_page(6), Access::write);
      world.caller.pair->hide(remote.key, 3);
      world.run();
      EXPECT_EQ(world.caller.lost, std::errc::not_enough_memory);
      EXPECT_TRUE(world.answerer.was_told("lost"));
      world.close(world.caller);
      world.run();
      EXPECT_EQ(world.target.counts().windows, 0u);
      EXPECT_THAT(world.target.faults(), IsEmpty());
    });
  }
}

// --- Arenas ---------------------------------------------------------------------------------------------------------

TEST(RdmaArenas, MemoryIsRegisteredThatLiesInOneOfThem) {
  for_many_seeds([](World& world) {
    std::vector<std::byte> elsewhere(World::kPage);
    world.listen();
    world.call();
    EXPECT_FALSE(world.caller.pair->is_registered(world.far_page(0)));
    world.run();
    world.accept();
    world.run();
    EXPECT_TRUE(world.caller.pair->is_registered(world.far_page(0)));
    EXPECT_TRUE(world.caller.pair->is_registered(world.initiator_memory));
    EXPECT_FALSE(world.caller.pair->is_registered(elsewhere));
    EXPECT_FALSE(world.caller.pair->is_registered(world.page(0))) << "of the other machine";
    world.initiator.add_arena(elsewhere);
    EXPECT_TRUE(world.caller.pair->is_registered(elsewhere));
    world.initiator.remove_arena(elsewhere);
    EXPECT_FALSE(world.caller.pair->is_registered(elsewhere));
    EXPECT_TRUE(world.caller.pair->is_registered(world.far_page(0)));
  });
}

TEST(RdmaArenas, OneIsRemovedWhenWhatLiesInItIsOver) {
  for_many_links([](World& world) {
    std::vector<std::byte> elsewhere(3 * World::kPage);
    const std::span<std::byte> memory(elsewhere);
    world.initiator.add_arena(elsewhere);
    world.answerer.pair->receive(world.page(1), {}, 1);
    world.send(world.caller, memory.first(World::kPage), 1);
    const auto remote = world.caller.pair->expose(memory.subspan(World::kPage, World::kPage), Access::read);
    world.caller.pair->hide(remote.key, 2);
    world.caller.pair->receive(memory.last(World::kPage), {}, 3);
    world.run();
    world.send(world.answerer, bytes_of("fills it"), 3);
    world.run();
    EXPECT_THAT(world.caller.told, Contains("receive 3"));
    world.initiator.remove_arena(elsewhere);
  });
}

}  // namespace
}  // namespace lockstep::test
