// What devices have and grant, what they do not, and the memory that is registered with them.
#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

using rdma::RdmaErrc;

/// Both ends are lost, and the caller for that reason.
template <class Change>
void expect_caller_lost(RdmaErrc why, const Change& change) {
  RealContract::each([&](RealContract& world) {
    change(world);
    EXPECT_FALSE(Script(world).run());
    EXPECT_EQ(world.caller.lost, why) << world.caller.lost.message();
  });
}

void change_attributes(void (*change)(ibv_device_attr&)) {
  auto attributes = VerbsLibrary::attributes();
  change(attributes);
  VerbsLibrary::set_attributes(attributes);
}

TEST(RealDevices, WithoutWindowsServeInitiatorsButNotTheLink) {
  const auto none = [](ibv_device_attr& has) { has.device_cap_flags &= ~unsigned{IBV_DEVICE_MEM_WINDOW_TYPE_2B}; };
  expect_caller_lost(RdmaErrc::no_windows, [&](RealContract&) { change_attributes(none); });
  RealContract::each([&](RealContract& world) {
    change_attributes(none);
    world.domain = rdma::Domain::initiators;
    world.wanted.windows = 0;
    world.connect();
  });
}

TEST(RealDevices, WithShorterQueuesThanAreWantedAreNotUsed) {
  expect_caller_lost(RdmaErrc::too_many_work,
                     [](RealContract&) { change_attributes([](ibv_device_attr& has) { has.max_qp_wr = 20; }); });
  expect_caller_lost(RdmaErrc::too_many_work,
                     [](RealContract&) { change_attributes([](ibv_device_attr& has) { has.max_cqe = 40; }); });
}

TEST(RealDevices, ThatRefuseALengthOfInlineDataAreAskedForLess) {
  for (const std::uint32_t has : {0u, 1u, 20u, 64u, 300u}) {
    RealContract::each([&](RealContract& world) {
      VerbsLibrary::set_max_inline(has);
      world.domain = rdma::Domain::initiators;
      world.wanted.windows = 0;
      world.connect();
      const std::uint32_t wanted = World::kWanted.max_inline;
      EXPECT_LE(world.caller.pair->limits().max_inline, std::min(has, wanted));
      EXPECT_GE(2 * world.caller.pair->limits().max_inline + 1, std::min(has, wanted));
    });
  }
}

TEST(RealDevices, ThatServeNoReadsLoseWhoAsksForOne) {
  expect_caller_lost(RdmaErrc::address_changed, [](RealContract&) {
    VerbsLibrary::replace_event(RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ADDR_CHANGE, 0);
  });
  RealContract::each([](RealContract& world) {
    change_attributes([](ibv_device_attr& has) { has.max_qp_rd_atom = 0; });
    world.connect();
    EXPECT_EQ(world.answerer.pair->limits().reads, 0u);
    world.answerer.pair->read(world.page(1), {.address = 1, .key = 1}, 1);
    world.run_until([&] { return world.answerer.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, RdmaErrc::no_reads);
  });
}

TEST(RealArenas, ThatADeviceCouldNotHaveAreTriedAgainByTheLinkThatNeedsThem) {
  RealContract::each([](RealContract& world) {
    EXPECT_TRUE(Script(world).run());
    std::vector<std::byte> more(4096);
    const auto before = VerbsLibrary::count("memory region");
    VerbsLibrary::fail_call("ibv_reg_mr", 2, EIO);  // the second domain is the link's
    world.target->add_arena(more);
    EXPECT_EQ(VerbsLibrary::count("memory region"), before + 1);
    VerbsLibrary::fail_call("ibv_reg_mr", 1, EIO);
    EXPECT_FALSE(Script(world).run());
    EXPECT_EQ(world.answerer.lost, std::errc::io_error);
    EXPECT_TRUE(Script(world).run());
    EXPECT_EQ(VerbsLibrary::count("memory region"), before + 2);
    world.target->remove_arena(more);
    EXPECT_EQ(VerbsLibrary::count("memory region"), before);
  });
}

TEST(RealArenas, ThatADeviceDoesNotLetGoOfAreLetGoWithIt) {
  RealContract::each([](RealContract& world) {
    EXPECT_TRUE(Script(world).run());
    std::vector<std::byte> more(4096);
    world.target->add_arena(more);
    const auto before = VerbsLibrary::count("memory region");
    VerbsLibrary::fail_call("ibv_dereg_mr", 1, EBUSY);
    world.target->remove_arena(more);
    EXPECT_EQ(VerbsLibrary::count("memory region"), before - 1);
    world.target->add_arena(more);
    EXPECT_TRUE(Script(world).run());
    world.target->remove_arena(more);
  });
}

TEST(RealArenas, BeyondWhatADeviceIsToldOfLoseTheLink) {
  expect_caller_lost(RdmaErrc::too_many_arenas, [](RealContract& world) {
    static std::vector<std::byte> many(1024);
    for (std::size_t at = 0; at < 256; ++at) world.initiator->add_arena(std::span(many).subspan(at, 1));
  });
}

TEST(RealArenas, MemoryInNoneLosesWhoPostsIt) {
  for_each_connection<RealContract>([](RealContract& world) {
    std::vector<std::byte> elsewhere(4096);
    world.answerer.pair->receive(elsewhere, {}, 1);
    world.run_until([&] { return world.answerer.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, RdmaErrc::not_registered);
    EXPECT_EQ(world.caller.pair->expose(elsewhere, rdma::Access::read).key, 0u);
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_EQ(world.caller.lost, RdmaErrc::not_registered);
  });
}

}  // namespace
}  // namespace lockstep::test
