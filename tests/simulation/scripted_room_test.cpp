// What a node knows of the space of a thin volume, its own and its partner's, and when it forgets it.
#include <algorithm>

#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kBlocks = 8;  ///< of a region
constexpr std::uint64_t kFirst = 8 * kBlocks;

struct Room : PlayedB {
  Room() : PlayedB(patient) {}
  [[nodiscard]] std::size_t asked() const { return b.received(MessageType::reserve).size(); }
  void done(const ScriptedPair::Io& io) {
    ASSERT_TRUE(pair.wait_for([&] { return io.done; }, kLease));
    ASSERT_EQ(io.status(), std::error_code{});
  }
  void expect_known(std::uint64_t block, bool yes) {
    const std::size_t before = asked();
    done(pair.write(kA, block, 1));
    EXPECT_EQ(asked() - before, yes ? 0u : 1u);
  }
};

TEST(RoomThere, IsAskedForOnceForARegion) {
  Room world;
  world.expect_known(kFirst, false);
  world.expect_known(kFirst + 1, true);
  world.expect_known(kFirst + kBlocks, false);
}

TEST(RoomThere, IsForgottenWithTheEpoch) {
  Room world;
  world.expect_known(kFirst, false);
  agree_anew(world);
  world.expect_known(kFirst + 1, false);
}

TEST(RoomThere, IsForgottenWhereAPartOfARegionIsGivenBack) {
  Room world;
  world.expect_known(kFirst, false);
  world.done(world.pair.submit(kA, DiskOpcode::unmap, kFirst, kBlocks / 2, 0));
  world.expect_known(kFirst + 1, false);
}

TEST(RoomThere, ThatWasFoundBeforeSomethingWasGivenBackDoesNotCount) {
  Room world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::reserve); };
  auto& write = world.pair.write(kA, kFirst, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.asked() == 1; }, kLease));
  world.done(world.pair.submit(kA, DiskOpcode::unmap, kFirst + 1, kBlocks - 1, 0));
  world.b.keeps = [](const Message&) { return false; };
  world.b.let_go(Errc::ok);
  world.done(write);
  world.expect_known(kFirst + 1, false);
}

TEST(RoomThere, IsOfWholeRegions) {
  Room world;
  world.b.amends = [](const Message& m, Message& header, std::vector<std::byte>&) {
    if (is(m, MessageType::reserve)) header.extent.offset += kBlocks / 2 * kBlock;
  };
  world.expect_known(kFirst, false);
  world.expect_known(kFirst + 1, false);
  world.expect_known(kFirst + kBlocks, false);
}

/// The states were not exchanged yet on a new way out.
TEST(RoomThere, WhoWaitsToAskForItHoldsUpNoTransition) {
  Room world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  const auto states = [&] { return world.b.received(MessageType::state).size(); };
  const std::size_t before = states();
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return states() > before; }));
  world.pair.write(kA, kFirst, 1);
  world.pair.run_for(kSoon);
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }, kLease));
  EXPECT_TRUE(leave.ended_with(Errc::ok));
}

/// Regions of two granules, each of which a store gives back alone.
TEST(RoomHere, ThatWasFoundBeforeSomethingWasGivenBackDoesNotCount) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.region_size = 8192; });
  constexpr std::uint64_t kGranule = 8, kFirstOfTwo = 64;
  ASSERT_EQ(pair.written(kA, kFirstOfTwo, 1, 2 * kGranule), std::error_code{});
  for (const auto side : {kA, kB}) pair.host(side).end(Host::End::killed);
  for (const auto side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync() && !pair.status(kA).resync.running; }));
  ASSERT_EQ(pair.value_at(kA, kFirstOfTwo), 1);
  pair.host(kA).data(0).stand_still();
  auto& write = pair.write(kA, kFirstOfTwo, 2);
  auto& unmap = pair.submit(kA, DiskOpcode::unmap, kFirstOfTwo + kGranule, kGranule, 0);
  pair.run_for(kSoon);
  pair.host(kA).data(0).go_on();
  ASSERT_TRUE(pair.wait_for([&] { return write.done && unmap.done; }));
  ASSERT_EQ(write.status(), std::error_code{});
  ASSERT_EQ(unmap.status(), std::error_code{});
  pair.spoil(kA, [](StoreFaults& f) { f.full = true; });
  EXPECT_EQ(pair.written(kA, kFirstOfTwo + kGranule, 3), make_error_code(Errc::no_space));
  EXPECT_TRUE(pair.in_sync());
  EXPECT_EQ(pair.violation(), "");
}

// ---- WRITE SAME ----------------------------------------------------------------------------------------------------

/// Of more than a buffer.
TEST(WriteSame, OfALongRangeIsThereAndDurableWhenItIsAcknowledged) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 512; });
  constexpr std::uint64_t kBegin = 16, kCount = 3000;
  auto& io = pair.submit(kA, DiskOpcode::write_same, kBegin, kCount, 7);
  ASSERT_TRUE(pair.wait_for([&] { return io.done; }));
  ASSERT_EQ(io.status(), std::error_code{});
  for (const auto side : {kA, kB}) {
    const auto stable = pair.host(side).data(0).stable().subspan(kBegin * kBlock, kCount * kBlock);
    EXPECT_TRUE(std::ranges::all_of(stable, [](std::byte b) { return b == std::byte{7}; }));
    EXPECT_EQ(pair.value_at(side, kBegin + kCount), 0);
    EXPECT_EQ(pair.value_at(side, kBegin - 1), 0);
  }
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
