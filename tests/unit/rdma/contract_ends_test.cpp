// What engine/rdma/verbs.hpp promises of windows, errors and ends, of every provider that there is.
#include <gmock/gmock.h>

#include CONTRACT_WORLDS

namespace lockstep::test {
namespace {

using rdma::Access;
using rdma::Work;
using testing::ElementsAre;

template <class Contract>
struct RdmaContractEnds : testing::Test {};
TYPED_TEST_SUITE(RdmaContractEnds, Contracts, ContractNames);

template <class Contract>
void expect_both_lost(Contract& world) {
  world.run_until([&] { return world.caller.was_told("lost") && world.answerer.was_told("lost"); });
  world.run();
  EXPECT_EQ(world.caller.times("lost"), 1u);
  EXPECT_EQ(world.answerer.times("lost"), 1u);
}

// --- Windows --------------------------------------------------------------------------------------------------------

TYPED_TEST(RdmaContractEnds, AWrongKeyRangeOrRightIsARemoteAccessError) {
  const auto expect_refused = [](Work work, const auto& post) {
    for_each_connection<TypeParam>([&](auto& world) {
      const std::vector<std::byte> before(world.far_page(6).begin(), world.far_page(6).end());
      post(world, *world.answerer.pair);
      expect_both_lost(world);
      EXPECT_EQ(world.answerer.error_of(work, 1), TypeParam::kRemoteAccess);
      EXPECT_EQ(world.answerer.lost, TypeParam::kRemoteAccess);
      EXPECT_TRUE(std::ranges::equal(world.far_page(6), before));
    });
  };
  expect_refused(Work::write, [](auto& world, auto& pair) {  // may only be read
    pair.write(world.page(0), expose(world, 6, Access::read), 1);
  });
  expect_refused(Work::read, [](auto& world, auto& pair) {  // may only be written
    pair.read(world.page(0), expose(world, 5, Access::write), 1);
  });
  expect_refused(Work::write, [](auto& world, auto& pair) {  // one byte beyond the end
    const auto remote = expose(world, 5, Access::write);
    pair.write(world.page(0), {.address = remote.address + 1, .key = remote.key}, 1);
  });
  expect_refused(Work::read, [](auto& world, auto& pair) {  // one byte before the beginning
    const auto remote = expose(world, 5, Access::read);
    pair.read(world.page(0), {.address = remote.address - 1, .key = remote.key}, 1);
  });
  expect_refused(Work::read, [](auto& world, auto& pair) {  // at the other end of all addresses
    const auto remote = expose(world, 5, Access::read);
    pair.read(world.page(0), {.address = ~std::uint64_t{0} - 100, .key = remote.key}, 1);
  });
  expect_refused(Work::read, [](auto& world, auto& pair) {  // of nobody
    pair.read(world.page(0), {.address = expose(world, 5, Access::read).address, .key = 0x7777}, 1);
  });
}

TYPED_TEST(RdmaContractEnds, AKeyThatWasInvalidatedIsDead) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 0, Access::read);
    world.caller.pair->receive(world.far_page(1), {}, 1);
    world.send(world.answerer, bytes_of("done"), 1, remote.key);
    world.run_until([&] { return world.caller.was_told("receive 1"); });
    EXPECT_EQ(invalidated_by(world.caller, 1), remote.key);
    world.answerer.pair->read(world.page(0), remote, 2);
    expect_both_lost(world);
    EXPECT_EQ(world.answerer.error_of(Work::read, 2), TypeParam::kRemoteAccess);
  });
}

TYPED_TEST(RdmaContractEnds, AKeyThatWasHiddenIsDeadAndItsPlaceIsFree) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::write);
    for (std::uint64_t round = 1; round <= 2 * kContractWindows; ++round) {
      const auto other = world.caller.pair->expose(world.far_page(6), Access::read);
      world.caller.pair->hide(other.key, round);
      world.run_until([&] { return world.caller.was_told("hide " + std::to_string(round)); });
    }
    world.caller.pair->hide(remote.key, 50);
    world.run_until([&] { return world.caller.was_told("hide 50"); });
    const std::vector<std::byte> before(world.far_page(5).begin(), world.far_page(5).end());
    world.answerer.pair->write(world.page(0), remote, 1);
    expect_both_lost(world);
    EXPECT_EQ(world.answerer.error_of(Work::write, 1), TypeParam::kRemoteAccess);
    EXPECT_TRUE(std::ranges::equal(world.far_page(5), before));
  });
}

TYPED_TEST(RdmaContractEnds, WindowsAreOpenedAndShutInTheOrderOfThePosts) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(1), {}, 1);
    world.answerer.pair->receive(world.page(2), {}, 2);
    world.send(world.caller, bytes_of("before"), 1);
    const auto one = world.caller.pair->expose(world.far_page(5), Access::read);
    world.caller.pair->hide(one.key, 2);
    const auto other = world.caller.pair->expose(world.far_page(5), Access::read);
    world.send(world.caller, bytes_of("after"), 3);
    world.caller.pair->hide(other.key, 4);
    world.run_until([&] { return world.caller.was_told("hide 4"); });
    EXPECT_THAT(world.caller.told, ElementsAre("up", "send 1", "hide 2", "send 3", "hide 4"));
  });
}

TYPED_TEST(RdmaContractEnds, APeerThatInvalidatesWhatIsNoWindowLosesTheConnection) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::read);
    world.caller.pair->receive(world.far_page(1), {}, 1);
    world.send(world.answerer, bytes_of("done"), 1, remote.key + 1000);
    expect_both_lost(world);
    EXPECT_FALSE(world.caller.was_told("receive 1"));
  });
}

TYPED_TEST(RdmaContractEnds, MemoryIsRegisteredWhenAllOfItLiesInAnArena) {
  for_each_connection<TypeParam>([](auto& world) {
    const std::vector<std::byte> elsewhere(100);
    EXPECT_TRUE(world.caller.pair->is_registered(world.initiator_memory));
    EXPECT_FALSE(world.caller.pair->is_registered(elsewhere));
    const std::span<const std::byte> beyond(world.initiator_memory.data() + 1, world.initiator_memory.size());
    EXPECT_FALSE(world.caller.pair->is_registered(beyond));
  });
}

// --- Errors and ends ------------------------------------------------------------------------------------------------

TYPED_TEST(RdmaContractEnds, AMessageWithoutAReceiveIsCountedAndLosesTheConnection) {
  TypeParam::each([](auto& world) {
    world.connect();
    world.never_wait_for_receives();
    world.send(world.caller, world.far_page(0), 1);
    world.run_until([&] { return world.caller.was_told("lost"); });
    world.run();
    EXPECT_EQ(world.messages_without_receive(), 1u);
    EXPECT_EQ(world.caller.error_of(Work::send, 1), TypeParam::kNoReceive);
    EXPECT_EQ(world.caller.lost, TypeParam::kNoReceive);
    world.close(world.caller);
    world.run_until([&] { return world.answerer.was_told("lost"); });
  });
}

TYPED_TEST(RdmaContractEnds, AMessageLongerThanItsReceiveIsAnErrorOnBothSides) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->receive(world.page(0).first(48), world.page(1).first(51), 1);
    world.send(world.caller, world.far_page(0).first(100), 1);
    expect_both_lost(world);
    EXPECT_EQ(world.answerer.error_of(Work::receive, 1), TypeParam::kLength);
    EXPECT_EQ(world.answerer.lost, TypeParam::kLength);
    EXPECT_EQ(world.caller.error_of(Work::send, 1), TypeParam::kRemoteInvalid);
  });
}

TYPED_TEST(RdmaContractEnds, AWriteWithoutACompletionThatFailsIsToldAsTheReasonOfTheLoss) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.pair->write(world.page(0), expose(world, 5, Access::read), 0);
    expect_both_lost(world);
    EXPECT_EQ(world.answerer.lost, TypeParam::kRemoteAccess);
    EXPECT_FALSE(world.answerer.was_told("write 0 failed"));
  });
}

TYPED_TEST(RdmaContractEnds, OneSideClosesAndTheOtherHearsOfIt) {
  for_each_connection<TypeParam>([](auto& world) {
    world.close(world.caller);
    EXPECT_FALSE(world.caller.closed) << "not in close()";
    world.run_until([&] { return world.caller.closed && world.answerer.was_told("lost"); });
    EXPECT_THAT(world.caller.told, ElementsAre("up"));
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "lost"));
  });
}

TYPED_TEST(RdmaContractEnds, NothingIsToldOrTouchedOnceItIsClosed) {
  for_each_connection<TypeParam>([](auto& world) {
    const auto remote = expose(world, 5, Access::write);
    world.answerer.pair->receive(world.page(0), {}, 1);
    for (int sent = 0; sent < 10; ++sent) world.answerer.pair->write(world.page(1), remote, 1);
    world.send(world.caller, world.far_page(0), 1);
    world.close(world.caller);
    world.close(world.answerer);
    const auto told = std::pair(world.caller.told, world.answerer.told);
    world.run_until([&] { return world.caller.closed && world.answerer.closed; });
    std::ranges::fill(world.page(0), std::byte{7});
    std::ranges::fill(world.far_page(5), std::byte{7});
    world.run();
    EXPECT_EQ(std::ranges::count(world.page(0), std::byte{7}), 4096);
    EXPECT_EQ(std::ranges::count(world.far_page(5), std::byte{7}), 4096);
    EXPECT_EQ(std::pair(world.caller.told, world.answerer.told), told);
  });
}

TYPED_TEST(RdmaContractEnds, AMessageToASideThatIsClosingIsNoFault) {
  for_each_connection<TypeParam>([](auto& world) {
    world.close(world.answerer);
    world.send(world.caller, world.far_page(0), 1);
    world.run_until([&] { return world.caller.was_told("lost"); });
  });
}

TYPED_TEST(RdmaContractEnds, WhatHappensInsideOfItsUserMayCloseIt) {
  for_each_connection<TypeParam>([](auto& world) {
    world.answerer.when_completed = [&](const rdma::Completion&) { world.close(world.answerer); };
    for (std::uint64_t id = 1; id <= 3; ++id) world.answerer.pair->receive(world.page(id), {}, id);
    for (std::uint64_t id = 1; id <= 3; ++id) world.send(world.caller, bytes_of("message"), id);
    world.run_until([&] { return world.answerer.closed; });
    EXPECT_THAT(world.answerer.told, ElementsAre("up", "receive 1"));
  });
}

}  // namespace
}  // namespace lockstep::test
