// What engine/rdma/verbs.hpp promises of calls and of what moves, of every provider that there is: on the fake with
// each of many seeds, on the others once. CONTRACT_WORLDS says on which.
#include <gmock/gmock.h>

#include CONTRACT_WORLDS

namespace lockstep::test {
namespace {

using rdma::Access;
using rdma::Work;
using testing::ElementsAre;
using testing::IsEmpty;

template <class Contract>
struct RdmaContract : testing::Test {};
TYPED_TEST_SUITE(RdmaContract, Contracts, ContractNames);

// --- Memory ---------------------------------------------------------------------------------------------------------

TYPED_TEST(RdmaContract, MemoryIsRegisteredWithItsArenaAndNotByUse) {
  for_each_connection<TypeParam>([](auto& world) {
    rdma::Fabric& fabric = world.called_fabric();
    const rdma::Registrations before = fabric.registrations();
    EXPECT_GE(before.regions, 1u);
    EXPECT_EQ(before.made, before.regions);
    EXPECT_EQ(before.bytes, before.regions * world.target_memory.size());
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.send(world.answerer, world.page(0).first(100), 2);
    world.run_until([&] { return world.caller.was_told("receive 1") && world.answerer.was_told("send 2"); });
    EXPECT_EQ(fabric.registrations(), before);
    std::vector<std::byte> more(World::kPage);
    fabric.add_arena(more);
    EXPECT_EQ(fabric.registrations().bytes, before.bytes + before.regions * World::kPage);
    fabric.remove_arena(more);
    EXPECT_EQ(fabric.registrations().regions, before.regions);
    EXPECT_EQ(fabric.registrations().bytes, before.bytes);
    EXPECT_EQ(fabric.registrations().made, 2 * before.made);
    EXPECT_EQ(fabric.registrations().refused, 0u);
  });
}

// --- Calls ----------------------------------------------------------------------------------------------------------

TYPED_TEST(RdmaContract, ACallThatIsAcceptedStandsOnBothSides) {
  for_each_connection<TypeParam>([](auto& world) {
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
    EXPECT_THAT(world.answerer.told, ElementsAre("up"));
    EXPECT_EQ(world.caller.pair->peer_address(), TypeParam::kHere);
    EXPECT_EQ(world.answerer.pair->local_address(), TypeParam::kHere);
    EXPECT_EQ(world.answerer.pair->peer_address(), world.caller.pair->local_address());
    EXPECT_THAT(world.caller.pair->local_address(), testing::StartsWith("10.0.0.2:4"));
    EXPECT_GT(world.caller.pair->limits().reads, 0u);
    EXPECT_EQ(world.caller.pair->limits().sends, World::kWanted.sends);
    EXPECT_TRUE(world.caller.pair->limits().invalidates);
  });
}

TYPED_TEST(RdmaContract, PrivateDataComesPaddedAsTheLibraryShowsIt) {
  TypeParam::each([](auto& world) {
    world.listen();
    world.call(TypeParam::kHere, "ask");
    world.run_until([&] { return !world.calls.empty(); });
    auto asked = bytes_of("ask");
    asked.resize(56);
    EXPECT_TRUE(std::ranges::equal(world.calls[0]->private_data(), asked));
    EXPECT_TRUE(world.calls[0]->can_invalidate());
    world.accept("answer");
    world.run_until([&] { return world.caller.was_told("up"); });
    auto answered = bytes_of("answer");
    answered.resize(196);
    EXPECT_EQ(world.caller.answer, answered);
    EXPECT_THAT(world.answerer.answer, IsEmpty());
  });
}

TYPED_TEST(RdmaContract, WhereNobodyListensACallIsRefused) {
  TypeParam::each([](auto& world) {
    world.listen();
    world.call("10.0.0.1:3261");
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_THAT(world.caller.told, ElementsAre("lost"));
    EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
  });
}

TYPED_TEST(RdmaContract, ACallThatIsDroppedIsRefused) {
  TypeParam::each([](auto& world) {
    world.listen();
    world.call();
    world.run_until([&] { return !world.calls.empty(); });
    world.calls.clear();
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
  });
}

TYPED_TEST(RdmaContract, NoCallComesWhenItsListenerIsGoneAndAnotherMayListenThere) {
  TypeParam::each([](auto& world) {
    world.listen();
    world.listener.reset();
    world.call();
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_THAT(world.calls, IsEmpty());
    EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
    world.listen();
  });
}

TYPED_TEST(RdmaContract, AListenerOnAnyAddressHearsThemAll) {
  TypeParam::each([](auto& world) {
    world.listen("0.0.0.0:3260");
    world.call("10.0.0.7:3260");
    world.run_until([&] { return !world.calls.empty(); });
    EXPECT_EQ(world.calls[0]->local_address(), "10.0.0.7:3260");
  });
}

TYPED_TEST(RdmaContract, AnAddressHasOneListenerAndPort0IsAnyThatIsFree) {
  TypeParam::each([](auto& world) {
    world.listen();
    auto& fabric = world.called_fabric();
    const auto ignore = [](std::unique_ptr<rdma::Call>) {};
    const auto again = fabric.listen(*world.target_completions, TypeParam::kHere, ignore);
    ASSERT_FALSE(again);
    EXPECT_THAT(again.error().message, testing::HasSubstr(TypeParam::kHere));
    const auto one = fabric.listen(*world.target_completions, "10.0.0.1:0", ignore);
    const auto other = fabric.listen(*world.target_completions, "10.0.0.1:0", ignore);
    ASSERT_TRUE(one && other);
    EXPECT_NE((*one)->address(), (*other)->address());
  });
}

TYPED_TEST(RdmaContract, ACallMayBeClosedInsteadOfWaitedFor) {
  TypeParam::each([](auto& world) {
    world.listen();
    world.call();
    world.caller.pair->receive(world.far_page(0), {}, 1);
    world.close(world.caller);
    EXPECT_FALSE(world.caller.closed) << "not in close()";
    world.run_until([&] { return world.caller.closed; });
    EXPECT_THAT(world.caller.told, IsEmpty());
  });
}

// --- What moves -----------------------------------------------------------------------------------------------------

TYPED_TEST(RdmaContract, AMessageFillsTheFirstPieceOfItsReceiveThenTheSecond) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(0).first(48), world.page(1), 7);
    world.send(world.caller, world.far_page(3).first(1000), 9);
    world.run_until([&] { return world.answerer.was_told("receive 7") && world.caller.was_told("send 9"); });
    EXPECT_EQ(world.answerer.completions[0].bytes, 1000u);
    EXPECT_TRUE(std::ranges::equal(world.page(0).first(48), world.far_page(3).first(48)));
    EXPECT_TRUE(std::ranges::equal(world.page(1).first(952), world.far_page(3).subspan(48, 952)));
  });
}

TYPED_TEST(RdmaContract, AMessageOfSeveralPiecesIsOne) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    const std::array<std::span<const std::byte>, 3> pieces = {world.far_page(0).first(10), std::span<const std::byte>(),
                                                              world.far_page(1).first(300)};
    world.caller.pair->send({.pieces = pieces, .invalidates = {}, .id = 1});
    world.run_until([&] { return world.answerer.was_told("receive 1"); });
    EXPECT_TRUE(std::ranges::equal(world.page(0).first(10), world.far_page(0).first(10)));
    EXPECT_TRUE(std::ranges::equal(world.page(0).subspan(10, 300), world.far_page(1).first(300)));
    EXPECT_EQ(world.answerer.completions[0].bytes, 310u);
  });
}

TYPED_TEST(RdmaContract, ALongMessageAWriteAndAReadComeWhole) {
  for_each_connection<TypeParam>([](auto& world) {
    const std::size_t kLong = 18 * World::kPage;
    const auto remote = world.caller.pair->expose(std::span(world.initiator_memory).first(kLong), Access::read);
    world.answerer.pair->receive(world.page(19), {}, 1);
    world.send(world.caller, bytes_of("a key"), 1);
    world.run_until([&] { return world.answerer.was_told("receive 1"); });
    world.answerer.pair->read(std::span(world.target_memory).first(kLong), remote, 2);
    world.run_until([&] { return world.answerer.was_told("read 2"); });
    EXPECT_TRUE(std::ranges::equal(std::span(world.target_memory).first(kLong),
                                   std::span(world.initiator_memory).first(kLong)));
    // The same bytes go back, shifted by one.
    const auto shifted = std::span(world.initiator_memory).subspan(1, kLong);
    world.caller.pair->receive(shifted.first(5), shifted.subspan(5), 3);
    world.send(world.answerer, std::span(world.target_memory).first(kLong), 3, remote.key);
    world.run_until([&] { return world.caller.was_told("receive 3"); });
    EXPECT_TRUE(std::ranges::equal(shifted, std::span(world.target_memory).first(kLong)));
    const auto written = world.caller.pair->expose(std::span(world.initiator_memory).first(kLong), Access::write);
    world.answerer.pair->receive(world.page(19), {}, 4);
    world.send(world.caller, bytes_of("a key"), 4);
    world.run_until([&] { return world.answerer.was_told("receive 4"); });
    world.answerer.pair->write(std::span(world.target_memory).first(kLong), written, 5);
    world.run_until([&] { return world.answerer.was_told("write 5"); });
    EXPECT_TRUE(std::ranges::equal(std::span(world.initiator_memory).first(kLong),
                                   std::span(world.target_memory).first(kLong)));
  });
}

TYPED_TEST(RdmaContract, MessagesArriveInTheOrderOfTheirPosts) {
  for_each_connection<TypeParam>([](auto& world) {
    for (std::uint64_t id = 1; id <= 5; ++id) world.answerer.pair->receive(world.page(id), {}, id);
    for (std::uint64_t id = 1; id <= 5; ++id) world.send(world.caller, world.far_page(id).first(100 * id), id);
    world.run_until([&] { return world.answerer.was_told("receive 5") && world.caller.was_told("send 5"); });
    EXPECT_THAT(world.answerer.told,
                ElementsAre("up", "receive 1", "receive 2", "receive 3", "receive 4", "receive 5"));
    EXPECT_THAT(world.caller.told, ElementsAre("up", "send 1", "send 2", "send 3", "send 4", "send 5"));
    for (std::size_t id = 1; id <= 5; ++id) EXPECT_EQ(world.answerer.completions[id - 1].bytes, 100 * id);
  });
}

TYPED_TEST(RdmaContract, WhatIsInlineIsThePostersAgainAtOnce) {
  for_each_connection<TypeParam>([](auto& world) {
    world.caller.pair->receive(world.far_page(0), {}, 1);
    auto bytes = bytes_of("in no arena, and soon something else");
    const auto sent = bytes;
    world.send(world.answerer, bytes, 0);
    std::ranges::fill(bytes, std::byte{0});
    world.run_until([&] { return world.caller.was_told("receive 1"); });
    EXPECT_TRUE(std::ranges::equal(world.far_page(0).first(sent.size()), sent));
    world.run();
    EXPECT_THAT(world.answerer.told, ElementsAre("up"));
  });
}

TYPED_TEST(RdmaContract, AnEmptyMessageIsAMessage) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.caller.pair->send({.pieces = {}, .invalidates = {}, .id = 2});
    world.run_until([&] { return world.answerer.was_told("receive 1") && world.caller.was_told("send 2"); });
  });
}

TYPED_TEST(RdmaContract, NothingMovesWhileItIsPosted) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(0), {}, 1);
    world.send(world.caller, bytes_of("later"), 1);
    EXPECT_THAT(world.answerer.told, ElementsAre("up"));
    world.run_until([&] { return world.answerer.was_told("receive 1"); });
  });
}

TYPED_TEST(RdmaContract, AWriteHasArrivedWhenAMessageThatWasSentAfterItIsReceived) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::write);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    bool had_arrived = false;
    world.caller.when_completed = [&](const rdma::Completion& completion) {
      if (completion.work == Work::receive) had_arrived = std::ranges::equal(world.far_page(5), world.page(2));
    };
    world.answerer.pair->write(world.page(2), remote, 0);
    world.send(world.answerer, bytes_of("written"), 3, remote.key);
    world.run_until([&] { return world.caller.was_told("receive 1") && world.answerer.was_told("send 3"); });
    EXPECT_TRUE(had_arrived);
    EXPECT_EQ(invalidated_by(world.caller, 1), remote.key);
    EXPECT_FALSE(world.answerer.was_told("write 0"));
  });
}

TYPED_TEST(RdmaContract, AReadBringsWhatLiesAtThePeer) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::read);
    world.answerer.pair->read(world.page(2).first(1000), {.address = remote.address + 96, .key = remote.key}, 4);
    world.run_until([&] { return world.answerer.was_told("read 4"); });
    EXPECT_TRUE(std::ranges::equal(world.page(2).first(1000), world.far_page(5).subspan(96, 1000)));
  });
}

TYPED_TEST(RdmaContract, AReadComesAfterWhatWasPostedBeforeIt) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto half = world.far_page(5).first(2048);
    const auto written = world.caller.pair->expose(half, Access::write);
    const auto read = expose(world, 5, Access::read);
    world.answerer.pair->write(world.page(1).first(2048), written, 1);
    world.answerer.pair->read(world.page(2), read, 2);
    world.run_until([&] { return world.answerer.was_told("read 2") && world.answerer.was_told("write 1"); });
    EXPECT_TRUE(std::ranges::equal(world.page(2).first(2048), world.page(1).first(2048)));
    EXPECT_TRUE(std::ranges::equal(world.page(2).subspan(2048), world.far_page(5).subspan(2048)));
  });
}

TYPED_TEST(RdmaContract, ReadsBeyondWhatWasGrantedWaitInTheProvider) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::read);
    world.caller.pair->receive(world.far_page(0), {}, 1);
    for (std::uint64_t id = 1; id <= 12; ++id) world.answerer.pair->read(world.page(id), remote, id);
    world.send(world.answerer, bytes_of("passes"), 20);
    world.run_until([&] { return world.answerer.was_told("read 12") && world.caller.was_told("receive 1"); });
    for (std::uint64_t id = 1; id < 12; ++id) {
      EXPECT_LT(world.answerer.place("read " + std::to_string(id)),
                world.answerer.place("read " + std::to_string(id + 1)));
    }
  });
}

TYPED_TEST(RdmaContract, ACompletionSaysThatEarlierOnesWithoutAreOverAndTheyCountUntilThen) {
  for_each_connection<TypeParam>([](auto& world) {
    for (int round = 0; round < 3; ++round) {
      const auto told = world.caller.times("send 9");
      for (std::uint64_t id = 1; id <= 16; ++id) world.answerer.pair->receive(world.page(id), {}, id);
      for (int sent = 0; sent < 15; ++sent) world.send(world.caller, bytes_of("inline"), 0);
      world.send(world.caller, bytes_of("inline"), 9);
      world.run_until([&] { return world.caller.times("send 9") > told && world.answerer.times("receive 16") > told; });
    }
  });
}

}  // namespace
}  // namespace lockstep::test
