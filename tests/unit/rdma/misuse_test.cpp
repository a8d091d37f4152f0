// Each thing that a user may not do is found, and told in a sentence.
#include <gmock/gmock.h>

#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// `misuse` is found whatever chance chooses, and nothing else is.
template <class Misuse>
void expect_fault(const std::string& part, const Misuse& misuse) {
  for_many_seeds([&](World& world) {
    world.connect();
    misuse(world);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr(part)));
  });
}

TEST(RdmaMisuse, AMessageThatIsChangedBeforeItsCompletion) {
  expect_fault("its bytes were changed", [](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    while (!world.caller.was_told("send 1")) {
      if (!world.has_fault("its bytes")) world.far_page(0)[world.random.next() % 4096] ^= std::byte{1};
      ASSERT_TRUE(world.clock.step(world.clock.now() + std::chrono::seconds(1)));
    }
  });
}

TEST(RdmaMisuse, AMessageThatIsChangedAfterItLeftAndBeforeItsCompletion) {
  for_many_seeds([](World& world) {
    world.connect();
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    while (world.target.counts().sends == 0 && world.clock.step(world.clock.now() + std::chrono::seconds(1))) {
    }
    ASSERT_FALSE(world.caller.was_told("send 1"));
    world.far_page(0)[17] ^= std::byte{1};
    world.run();
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("caller, send 1: its bytes were changed")));
  });
}

TEST(RdmaMisuse, AWriteThatNobodyWaitsForAndWhoseMemoryIsReused) {
  expect_fault("its bytes were changed", [](World& world) {
    world.answerer.pair->write(world.page(0), world.grant(0, false, true), 0);
    world.run();
    world.page(0)[4095] ^= std::byte{1};  // no completion said that it is over
    world.caller.pair->receive(world.far_page(1), {}, 1);
    world.send(world.answerer, bytes_of("covers it"), 1);
    world.run();
  });
}

TEST(RdmaMisuse, AReceiveWhoseMemoryIsWrittenByItsPoster) {
  expect_fault("its memory was written", [](World& world) {
    world.answerer.pair->receive(world.page(0), world.page(1), 1);
    world.run();
    world.page(1)[100] ^= std::byte{1};
    world.send(world.caller, bytes_of("short"), 1);
    world.run();
  });
}

TEST(RdmaMisuse, AReadWhoseMemoryIsWrittenByItsPoster) {
  expect_fault("its memory was written", [](World& world) {
    world.answerer.pair->read(world.page(0), world.grant(0, true, false), 1);
    world.page(0)[100] ^= std::byte{1};
    world.run();
  });
}

TEST(RdmaMisuse, MemoryThatIsPostedTwice) {
  expect_fault("its memory was written", [](World& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.answerer.pair->receive(world.page(0).subspan(4000), {}, 2);
    world.target.look();
  });
}

TEST(RdmaMisuse, AMessageWhoseBytesLieInAReceive) {
  expect_fault("its bytes were changed", [](World& world) {
    world.answerer.pair->receive(world.page(1), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.run();
  });
}

TEST(RdmaMisuse, MemoryThatIsReusedWhileTheConnectionIsLostAndNotClosed) {
  for_many_seeds([](World& world) {
    world.connect();
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.answerer.pair->read(world.page(1), world.grant(0, true, false), 1);
    world.target.lose(1);
    while (!world.answerer.was_told("lost")) ASSERT_TRUE(world.clock.step({std::chrono::seconds(10)}));
    const bool is_handed_back = world.answerer.was_told("receive 1 failed");
    world.close(world.answerer);
    std::ranges::fill(world.page(0), std::byte{7});
    world.run();
    // What is nobody's yet is spoilt, and that it was written is told.
    EXPECT_EQ(world.has_fault("receive 1: its memory was written"), !is_handed_back);
    EXPECT_EQ(std::ranges::count(world.page(0), std::byte{7}) == 4096, is_handed_back);
  });
}

TEST(RdmaMisuse, AMessageWhoseMemoryIsReusedWhileTheConnectionIsLostAndNotClosed) {
  for_many_seeds([](World& world) {
    world.connect();
    world.target.lose_packets(true);
    world.send(world.answerer, world.page(0), 1);
    world.target.lose(1);
    while (!world.answerer.was_told("lost")) ASSERT_TRUE(world.clock.step({std::chrono::seconds(10)}));
    const bool is_handed_back = world.answerer.was_told("send 1 failed");
    world.page(0)[0] ^= std::byte{1};
    world.close(world.answerer);
    world.run();
    EXPECT_EQ(world.has_fault("send 1: its bytes were changed"), !is_handed_back);
  });
}

TEST(RdmaMisuse, MemoryThatIsInNoArena) {
  std::vector<std::byte> elsewhere(4096);
  expect_fault("its memory is in no arena", [&](World& world) {
    world.send(world.caller, elsewhere, 1);
    world.run();
    EXPECT_EQ(world.caller.error_of(rdma::Work::send, 1), FakeStatus::protection);
    EXPECT_TRUE(world.caller.was_told("lost"));
  });
  expect_fault("its memory is in no arena",
               [&](World& world) { world.caller.pair->receive(world.far_page(0), elsewhere, 1); });
  expect_fault("its memory is in no arena",
               [&](World& world) { world.answerer.pair->read(elsewhere, world.grant(0, true, false), 1); });
  expect_fault("its memory is in no arena",
               [&](World& world) { world.answerer.pair->write(elsewhere, world.grant(0, true, true), 1); });
  // Of the peer's memory, too.
  expect_fault("its memory is in no arena",
               [&](World& world) { world.answerer.pair->receive(world.far_page(0), {}, 1); });
}

TEST(RdmaMisuse, MoreThanWasGranted) {
  expect_fault("receive 17: it is one more than was granted", [](World& world) {
    for (std::uint64_t id = 1; id <= 17; ++id) world.answerer.pair->receive(world.page(id), {}, id);
  });
  // Of those without a completion, each counts until a later one has completed.
  expect_fault("send 17: it is one more than was granted", [](World& world) {
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t id = 1; id <= 8; ++id) world.caller.pair->receive(world.far_page(id), {}, id);
      for (int sent = 0; sent < 8; ++sent) world.send(world.answerer, bytes_of("inline"), 0);
      world.run();
    }
    world.send(world.answerer, bytes_of("inline"), 17);
  });
}

TEST(RdmaMisuse, WhatTheDeviceCannotDo) {
  for_many_seeds([](World& world) {
    world.target.device().max_message = 4096;
    world.target.device().invalidates = false;
    world.connect();
    const auto remote = world.initiator.grant(rdma::Domain::initiators, world.initiator_memory, true, true);
    for (std::uint64_t id = 1; id <= 2; ++id) world.caller.pair->receive(world.far_page(id), {}, id);
    world.answerer.pair->read(std::span(world.target_memory).first(4097), remote, 1);
    world.send(world.answerer, bytes_of("answer"), 2, remote.key);
    EXPECT_THAT(world.target.take_faults(),
                ElementsAre(HasSubstr("read 1: it is longer than"), HasSubstr("send 2: it invalidates")));
  });
  for_many_seeds([](World& world) {
    world.initiator.device().serves_reads = 0;
    world.connect();
    world.answerer.pair->read(world.page(0), world.grant(0, true, false), 1);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("no reads were granted")));
  });
}

TEST(RdmaMisuse, ASendOfManyPiecesOrWithoutACompletionThoughItIsNotInline) {
  expect_fault("it has too many pieces", [](World& world) {
    const auto piece = std::span<const std::byte>(world.page(0).first(10));
    const std::array pieces = {piece, piece, piece, piece};
    world.answerer.pair->send({.pieces = pieces, .invalidates = {}, .id = 1});
  });
  expect_fault("nobody will be told", [](World& world) { world.send(world.answerer, world.page(0).first(65), 0); });
}

TEST(RdmaMisuse, WhatIsPostedTooEarlyOrTooLate) {
  for_many_seeds([](World& world) {
    world.listen();
    world.call();
    world.send(world.caller, bytes_of("too early"), 1);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("posted before on_established()")));
  });
  expect_fault("receive 1: it was posted after close()", [](World& world) {
    world.close(world.answerer);
    world.answerer.pair->receive(world.page(0), {}, 1);
  });
}

TEST(RdmaMisuse, WhatEndsInTheWrongOrder) {
  expect_fault("close() was called twice", [](World& world) {
    world.close(world.answerer);
    world.close(world.answerer);
  });
  expect_fault("destroyed before close() had called back", [](World& world) {
    world.answerer.pair.reset();
    world.run();
    EXPECT_TRUE(world.caller.was_told("lost"));
  });
  expect_fault("its completions were destroyed", [](World& world) {
    world.listener.reset();
    world.target_completions.reset();
    world.answerer.pair.reset();
  });
}

TEST(RdmaMisuse, ACallThatIsAcceptedTwice) {
  World world(1);
  world.listen();
  world.call();
  world.run();
  const auto call = std::move(world.calls.at(0));
  world.calls.clear();
  const auto accept = [&] {
    return call->accept(*world.target_completions, rdma::Domain::link, World::kWanted, {}, world.answerer);
  };
  world.answerer.pair = accept();
  const auto again = accept();
  EXPECT_THAT(world.target.take_faults(), ElementsAre("a call was accepted twice"));
  world.close(world.answerer);
  world.run();
}

// --- Windows and arenas ---------------------------------------------------------------------------------------------

/// As expect_fault(), with connections that have two windows.
template <class Misuse>
void expect_window_fault(const std::string& part, const Misuse& misuse) {
  for_many_seeds([&](World& world) {
    world.domain = rdma::Domain::link;
    world.wanted.windows = 2;
    world.connect();
    misuse(world, *world.caller.pair);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr(part)));
  });
}

TEST(RdmaMisuse, MemoryThatIsExposedAndInNoArena) {
  std::vector<std::byte> elsewhere(4096);
  expect_window_fault("caller, expose 0: its memory is in no arena", [&](World& world, auto& pair) {
    const auto remote = pair.expose(elsewhere, rdma::Access::read);
    world.run();
    EXPECT_FALSE(world.initiator.is_granted(remote.key));
    EXPECT_EQ(world.caller.lost, FakeStatus::protection);
  });
  expect_window_fault("nothing is exposed", [](World&, auto& pair) { (void)pair.expose({}, rdma::Access::read); });
}

TEST(RdmaMisuse, MoreWindowsThanWereWanted) {
  const auto expose = [](World& world) { return world.caller.pair->expose(world.far_page(0), rdma::Access::read); };
  expect_window_fault("one window more than was wanted", [&](World& world, auto&) {
    for (int more = 0; more < 3; ++more) (void)expose(world);
  });
  // One that is being shut is open until that is told.
  expect_window_fault("one window more than was wanted", [&](World& world, auto& pair) {
    (void)expose(world);
    pair.hide(expose(world).key, 1);
    (void)expose(world);
  });
  expect_fault("one window more than was wanted", [&](World& world) { (void)expose(world); });
}

TEST(RdmaMisuse, AWindowOfAnInitiatorsConnection) {
  for_many_seeds([](World& world) {
    world.wanted.windows = 1;
    world.listen();
    world.call();
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("windows are of the link's domain only")));
  });
}

TEST(RdmaMisuse, AWindowIsHiddenThatIsNotOpen) {
  expect_window_fault("hide 1: its key is of no window", [](World&, auto& pair) { pair.hide(17, 1); });
  expect_window_fault("hide 2: its window is being shut already", [](World& world, auto& pair) {
    const auto remote = pair.expose(world.far_page(0), rdma::Access::read);
    pair.hide(remote.key, 1);
    pair.hide(remote.key, 2);
  });
  expect_window_fault("hide 2: its key is of no window", [](World& world, auto& pair) {
    const auto remote = pair.expose(world.far_page(0), rdma::Access::read);
    pair.hide(remote.key, 1);
    world.run();
    pair.hide(remote.key, 2);
  });
  expect_window_fault("hide 0: nobody will be told", [](World& world, auto& pair) {
    pair.hide(pair.expose(world.far_page(0), rdma::Access::read).key, 0);
  });
}

TEST(RdmaMisuse, AWindowThatIsOpenedTooEarlyOrTooLate) {
  for_many_seeds([](World& world) {
    world.domain = rdma::Domain::link;
    world.wanted.windows = 1;
    world.listen();
    world.call();
    (void)world.caller.pair->expose(world.far_page(0), rdma::Access::read);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("posted before on_established()")));
  });
  expect_window_fault("posted after close()", [](World& world, auto& pair) {
    world.close(world.caller);
    (void)pair.expose(world.far_page(0), rdma::Access::read);
  });
}

TEST(RdmaMisuse, MoreIsExposedThanMayBePosted) {
  for_many_seeds([](World& world) {
    world.domain = rdma::Domain::link;
    world.wanted.windows = 20;
    world.connect();
    for (int more = 0; more <= 16; ++more) (void)world.caller.pair->expose(world.far_page(0), rdma::Access::read);
    EXPECT_THAT(world.target.take_faults(), ElementsAre(HasSubstr("expose 0: it is one more than was granted")));
  });
}

TEST(RdmaMisuse, AnArenaIsRemovedThatIsInUse) {
  expect_window_fault("receive 1: its arena was removed", [](World& world, auto& pair) {
    pair.receive(world.far_page(0), {}, 1);
    world.initiator.remove_arena(world.initiator_memory);
  });
  expect_window_fault("send 1: its arena was removed", [](World& world, auto&) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.initiator.remove_arena(world.initiator_memory);
  });
  expect_window_fault("an arena was removed in which a window is open", [](World& world, auto& pair) {
    (void)pair.expose(world.far_page(0), rdma::Access::read);
    world.run();
    world.initiator.remove_arena(world.initiator_memory);
  });
  expect_fault("an arena was removed that was not added",
               [](World& world) { world.initiator.remove_arena(world.page(0)); });
}

}  // namespace
}  // namespace lockstep::test
