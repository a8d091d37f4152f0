// What may differ between A and a B that the test plays is made equal: before it is used, and before B counts as equal.
#include <algorithm>

#include "replication/core/resync.hpp"
#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kRegion = 4096;
constexpr std::uint64_t kBlocks = kRegion / kBlock;  ///< of a region

bool is_copy(const Message& m) { return is(m, MessageType::copy); }

void keeps_bits(Scenario& s) {
  patient(s);
  s.clean_after = 600 * kSecond;
  s.regions = 256;
  s.dirty_bound = s.volume_size();
}

struct Union : PlayedB {
  explicit Union(const ScriptedPair::Adjust& adjust = keeps_bits) : PlayedB(adjust) {}
  void write_region(std::uint64_t region, int fill = 1) {
    ASSERT_EQ(pair.written(kA, region * kBlocks, fill), std::error_code{});
  }
  [[nodiscard]] std::size_t copies() const { return b.received(MessageType::copy).size(); }
  [[nodiscard]] std::ptrdiff_t copies_of(std::uint64_t region) const {
    const auto all = b.received(MessageType::copy);
    return std::ranges::count_if(all, [&](const Message& m) { return m.extent.offset == region * kRegion; });
  }
  bool soon(const std::function<bool()>& what) { return pair.wait_for(what, 5 * kSoon); }
};

// ---- in sync, after both restarted ---------------------------------------------------------------------------------

TEST(MakingEqual, ComesBeforeTheUseOfAnyRegionOfAnOperation) {
  Union world;
  world.write_region(2);
  world.b.keeps = is_copy;
  restart_both(world);
  auto& across = world.pair.read(kA, kBlocks, 2 * kBlocks);
  auto& beside = world.pair.read(kA, kBlocks, 1);
  EXPECT_TRUE(world.pair.wait_for([&] { return beside.done; }, kLease));
  world.pair.run_for(5 * kSoon);
  EXPECT_FALSE(across.done);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon([&] { return across.done; }));
}

TEST(MakingEqual, ComesBeforeTheUseOfAWideRange) {
  Union world;
  world.write_region(70);
  world.b.keeps = is_copy;
  restart_both(world);
  auto& unmap = world.pair.submit(kA, DiskOpcode::unmap, 0, 200 * kBlocks, 0);
  world.pair.run_for(10 * kSoon);
  EXPECT_TRUE(world.b.received(MessageType::replicate).empty());
  EXPECT_FALSE(unmap.done);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon([&] { return unmap.done; }));
}

TEST(MakingEqual, BeginsWithThePartnersMapAndNothingIsUsedBefore) {
  Union world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::map); };
  restart_both(world);
  auto& read = world.pair.read(kA, kBlocks);
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(read.done);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon([&] { return read.done; }));
}

/// More regions than are copied at once.
TEST(MakingEqual, IsToldWhenNothingDiffersAnyMore) {
  constexpr std::uint64_t kRegions = replication::Resync::kMaxCopies + 4;
  Union world;
  for (std::uint64_t region = 0; region < kRegions; ++region) world.write_region(region);
  world.b.keeps = is_copy;
  restart_both(world);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.copies() == replication::Resync::kMaxCopies; }, kLease));
  world.pair.run_for(10 * kSoon);
  EXPECT_TRUE(world.b.received(MessageType::equal).empty());
  world.b.keeps = [](const Message&) { return false; };
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon([&] { return !world.b.received(MessageType::equal).empty(); }));
  EXPECT_EQ(world.copies(), kRegions);
}

/// What differs is asked for a page at a time; this volume's map has a second one.
TEST(MakingEqual, HeedsAllPagesOfThePartnersMap) {
  constexpr std::uint64_t kPage = replication::Resync::kMapWords, kDiffers = kPage * 64 + 3;
  Union world([](Scenario& s) {
    keeps_bits(s);
    s.regions = kPage * 64 + 100;
    s.volumes[0].size = s.volume_size();
  });
  world.b.amends = [](const Message& m, Message&, std::vector<std::byte>& payload) {
    if (is(m, MessageType::map) && m.extent.offset == kPage) payload[7] = std::byte{1u << (kDiffers % 64)};
  };
  restart_both(world);
  ASSERT_TRUE(world.soon([&] { return !world.b.received(MessageType::equal).empty(); }));
  EXPECT_EQ(world.copies_of(kDiffers), 1);
  EXPECT_EQ(world.copies(), 1u);
  const auto asked = world.b.received(MessageType::map);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].extent.offset, 0u);
  EXPECT_EQ(asked[1].extent.offset, kPage);
}

/// B has said that it has the space of a region, and gives it back when a hole is copied over it.
TEST(MakingEqual, WithAHoleTakesThePartnersSpace) {
  Union world;
  world.write_region(5, 0);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::map); };
  restart_both(world);
  ASSERT_TRUE(world.soon([&] { return !world.b.received(MessageType::map).empty(); }));
  hang(world.pair, kA);
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.soon([&] { return world.pair.host(kA).data(0).in_flight() > 0; }));
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.b.amends = [](const Message& m, Message& header, std::vector<std::byte>&) {
    if (is(m, MessageType::reserve)) header.extent = {m.extent.offset, 4 * kRegion};
  };
  world.write_region(4);
  world.pair.host(kA).data(0).release_first_hung();
  ASSERT_TRUE(world.soon([&] { return world.copies_of(5) == 1; }));
  world.pair.run_for(kSoon);
  const auto asked = [&] { return world.b.received(MessageType::reserve).size(); };
  const std::size_t before = asked();
  world.write_region(6);
  EXPECT_EQ(asked(), before) << "of this one B has said that it has the space";
  world.write_region(5);
  EXPECT_EQ(asked(), before + 1);
}

/// A can't read a block of a region, asks B for all of it, and looks for space to write that. Then it goes on alone.
struct CalledOff : Union {
  CalledOff()
      : Union([](Scenario& s) {
          keeps_bits(s);
          s.volumes[0].thin = true;
        }) {
    write_region(1, 7);
    mine.lose_sector(kBlocks + 1);
    b.keeps = is_fetch;
    b.amends = [](const Message& m, Message&, std::vector<std::byte>& payload) {
      if (is_fetch(m)) payload.assign(m.extent.length, std::byte{3});
    };
    restart_both(*this);
    read = &pair.read(kA, kBlocks);
    EXPECT_TRUE(soon([&] { return b.received(MessageType::fetch).size() == 1; }));
    hang(pair, kA);
    b.let_go(Errc::ok);
    EXPECT_TRUE(soon([&] { return mine.in_flight() == 1; }));
  }
  static bool is_fetch(const Message& m) { return is(m, MessageType::fetch); }
  void go_alone() {
    pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
    b.state.able = false;
    b.tell_state();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 2 * kLease));
    pair.run_for(10 * kSoon);
  }
  void ends() {
    mine.release_hung();
    ASSERT_TRUE(soon([&] { return read->done && mine.in_flight() == 0; }));
    EXPECT_EQ(pair.value_at(kA, kBlocks), read->first());
  }
  SimStore& mine = pair.host(kA).data(0);
  ScriptedPair::Io* read = nullptr;
};

TEST(MakingEqual, IsAwaitedWhereTheStoreHasItWhenItIsCalledOff) {
  CalledOff world;
  world.mine.release_first_hung();
  world.pair.run_for(kSoon);
  ASSERT_EQ(world.mine.in_flight(), 1u) << "the write";
  world.go_alone();
  EXPECT_FALSE(world.read->done);
  world.ends();
  EXPECT_EQ(world.read->first(), 3);
}

TEST(MakingEqual, WritesNothingMoreWhenItWasCalledOffMeanwhile) {
  CalledOff world;
  world.go_alone();
  world.ends();
  EXPECT_EQ(world.read->first(), 7);
}

/// B's disk holds what it was sent or asked for, and B has left for that.
struct HeldThere : Union {
  explicit HeldThere(MessageType what) {
    write_region(2);
    if (what == MessageType::fetch) pair.host(kA).data(0).lose_sector(2 * kBlocks + 1);
    b.keeps = [what](const Message& m) { return is(m, what); };
    restart_both(*this);
    EXPECT_TRUE(soon([&] { return b.received(what).size() == 1; }));
    b.state.able = false;
    b.tell_state();
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 2 * kLease));
    b.state.record = pair.status(kA).epoch;
  }
};

TEST(MakingEqual, KeepsNoRegionThatThePartnersDiskHoldsForEver) {
  for (const MessageType what : {MessageType::copy, MessageType::fetch}) {
    HeldThere world(what);
    auto& write = world.pair.write(kA, 2 * kBlocks, 9);
    EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 4 * kLease));
    EXPECT_EQ(write.status(), std::error_code{});
  }
}

TEST(MakingEqual, KeepsNoVolumeThatIsDetachedWaitingForThePartnersDisk) {
  for (const MessageType what : {MessageType::copy, MessageType::fetch}) {
    HeldThere world(what);
    bool detached = false;
    world.pair.host(kA).program()->detach(0, [&] { detached = true; });
    EXPECT_TRUE(world.pair.wait_for([&] { return detached; }, 10 * kLease));
  }
}

// ---- alone, with a target ------------------------------------------------------------------------------------------

TEST(Source, TakesNoMapThatItAskedForBeforeItsTargetWasLost) {
  Union world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::map); };
  world.go_on_alone();
  const auto maps = [&] { return world.b.received(MessageType::map).size(); };
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return maps() == 1; }, kLease));
  world.write_region(2);
  world.b.state.able = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, 2 * kLease));
  world.b.state.able = true;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return maps() == 2; }, 2 * kLease));
  world.b.let_go_first(Errc::ok);
  world.pair.run_for(5 * kSoon);
  EXPECT_EQ(world.copies(), 0u);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon([&] { return world.copies() == 1; }));
}

/// It may be gone after a power cut.
TEST(Source, SendsNothingThatAFailedWriteLeftBeforeItIsWrittenAgain) {
  Union world;
  world.go_on_alone();
  world.write_region(1);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_NE(world.pair.written(kA, kBlocks, 2), std::error_code{});
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::syncing_source); }));
  world.pair.run_for(3 * kSecond);
  EXPECT_EQ(world.copies(), 0u);
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.copies() == 1; }, 3 * kSecond));
}

TEST(Source, LetsNobodyJoinThatLacksWhatItCannotRead) {
  for (const std::uint64_t region : {1, 2}) {
    Union world;
    world.go_on_alone();
    world.write_region(region);
    world.pair.spoil(kA, [](StoreFaults& f) { f.read_error = kAlways; });
    const std::size_t before = world.b.proposals.size();
    world.b.tell_state();
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::syncing_source); }));
    world.pair.run_for(3 * kSecond);
    EXPECT_EQ(world.b.proposals.size(), before);
    world.pair.mend(kA);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.b.proposals.size() > before; }, 3 * kSecond));
    EXPECT_EQ(world.copies_of(region), 1);
  }
}

TEST(Source, CopiesAgainWhateverItsStoreFailedAndTheTargetHas) {
  Union world;
  world.go_on_alone();
  ASSERT_EQ(world.pair.written(kA, kBlocks, 1, 2 * kBlocks), std::error_code{});
  world.write_region(20);
  world.b.keeps = [](const Message& m) { return is_copy(m) && m.extent.offset == 20 * kRegion; };
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.copies() == 3; }, kLease));
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_NE(world.pair.written(kA, kBlocks, 2, 2 * kBlocks), std::error_code{});
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.copies_of(1) == 2 && world.copies_of(2) == 2; }, 3 * kSecond));
}

}  // namespace
}  // namespace lockstep::simulation
