// Growing a metadata area in use: power cuts at every step, and what is written meanwhile.
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::vector<std::byte> bytes_of(std::size_t count, int seed) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return out;
}

// From 5 GiB: within the last map block; new map blocks over a part of the state; far beyond the state.
constexpr std::uint64_t kSizes[] = {5 * kGiB + 300 * kMiB, 40 * kGiB, 200 * kGiB};

struct Grow : testing::Test {
  static constexpr std::uint64_t kRegion = 65536;
  FaultStore store{MetadataArea::size_with_state(400 * kGiB, kRegion)};
  VolumeIdentity identity = sample_identity();
  std::unique_ptr<MetadataArea> area;
  std::optional<Error> error;
  std::optional<std::error_code> outcome;

  void make() {
    error.reset();
    MetadataArea::format(store, identity, sample_epoch(), InitialMap::clean, [this](auto r) { take(std::move(r)); });
    store.run();
    ASSERT_TRUE(area) << error->message;
    mark(3);
    mark(5 * kGiB / kRegion - 1);
    write_state(bytes_of(9000, 1));
    store.run();
  }
  void take(Result<std::unique_ptr<MetadataArea>> result) {
    area = result ? std::move(*result) : nullptr;
    if (!result) error = result.error();
  }
  void open() {
    area.reset();
    error.reset();
    MetadataArea::open(store, identity.volume, identity.owner, [this](auto r) { take(std::move(r)); });
    store.run();
    ASSERT_TRUE(area) << error->message;
  }
  void mark(std::uint64_t region) {
    area->set_dirty({region * kRegion, 512}, [](std::error_code e) { EXPECT_FALSE(e); });
  }
  void write_state(const std::vector<std::byte>& state) {
    area->write_state(state, [](std::error_code e) { EXPECT_FALSE(e); });
  }
  void start(std::uint64_t size) {
    outcome.reset();
    area->grow(size, [this](std::error_code e) { outcome = e; });
  }
  std::error_code grow(std::uint64_t size) {
    start(size);
    store.run();
    return outcome.value_or(Errc::timed_out);
  }
  std::vector<std::byte> kept() { return {area->state().begin(), area->state().end()}; }
  void expect_all_as_it_was() {
    EXPECT_EQ(kept(), bytes_of(9000, 1));
    EXPECT_EQ(area->epoch(), sample_epoch());
    EXPECT_EQ(area->dirty_count(), 2u);
    EXPECT_TRUE(area->is_durably_dirty({3 * kRegion, 512}));
    EXPECT_TRUE(area->is_durably_dirty({5 * kGiB - 512, 512}));
  }
};

TEST_F(Grow, KeepsEverythingAndAddsCleanRegionsThatCanBeUsed) {
  for (const std::uint64_t size : kSizes) {
    make();
    ASSERT_FALSE(grow(size)) << size;
    for (int opened = 0; opened < 2; ++opened) {
      EXPECT_EQ(area->identity().size, size);
      EXPECT_EQ(area->region_count(), size / kRegion);
      expect_all_as_it_was();
      open();
    }
    mark(size / kRegion - 1);
    write_state(bytes_of(100, 2));
    store.run();
    store.cut_power();
    open();
    EXPECT_TRUE(area->is_dirty(size / kRegion - 1));
    EXPECT_EQ(area->dirty_count(), 3u);
    EXPECT_EQ(kept(), bytes_of(100, 2));
  }
}

TEST_F(Grow, APowerCutAtAnyStepLeavesTheOldSizeOrTheNewOneAndAllElseAsItWas) {
  for (const std::uint64_t size : kSizes) {
    for (const std::size_t torn : {0u, 1u, 7u, 8u, 40u}) {
      bool ended = false;
      for (int steps = 0; !ended; ++steps) {
        make();
        start(size);
        for (int i = 0; i < steps && store.waiting() > 0; ++i) store.step();
        ended = outcome.has_value();
        store.cut_power(torn);
        open();
        const std::uint64_t now = area->identity().size;
        EXPECT_TRUE(now == size || (now == 5 * kGiB && !ended)) << size << " after " << steps << " torn " << torn;
        EXPECT_EQ(area->region_count(), now / kRegion);
        expect_all_as_it_was();
        ASSERT_FALSE(grow(size));
        open();
        EXPECT_EQ(area->identity().size, size);
        expect_all_as_it_was();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Grow, WhatIsWrittenMeanwhileIsKept) {
  for (const std::uint64_t size : kSizes) {
    bool ended = false;
    for (int steps = 0; !ended; ++steps) {
      make();
      start(size);
      for (int i = 0; i < steps && store.waiting() > 0; ++i) store.step();
      ended = outcome.has_value();
      EpochRecord next = sample_epoch(2);
      bool state_written = false;
      area->write_state(bytes_of(20000, 5), [&](std::error_code e) { state_written = !e; });
      area->write_epoch(next, [](std::error_code e) { EXPECT_FALSE(e); });
      mark(5 * kGiB / kRegion - 2);
      store.run();
      EXPECT_EQ(outcome, std::error_code{});
      EXPECT_TRUE(state_written);
      store.cut_power();
      open();
      EXPECT_EQ(area->identity().size, size);
      EXPECT_EQ(kept(), bytes_of(20000, 5)) << size << " after " << steps;
      EXPECT_EQ(area->epoch(), next);
      EXPECT_TRUE(area->is_dirty(5 * kGiB / kRegion - 2));
      EXPECT_EQ(area->dirty_count(), 3u);
      if (HasFailure()) return;
    }
  }
}

/// The state of before a write or the one written, the latter if the write has ended.
TEST_F(Grow, APowerCutWhileAStateIsWrittenBesideTheMoveLeavesOneThatCanBeRead) {
  bool ended = false;
  for (int before = 0; !ended; ++before) {
    bool over = false;
    for (int after = 0; !over; ++after) {
      make();
      start(40 * kGiB);
      for (int i = 0; i < before && store.waiting() > 0; ++i) store.step();
      ended = outcome.has_value();
      bool written = false;
      area->write_state(bytes_of(20000, 5), [&](std::error_code e) { written = !e; });
      for (int i = 0; i < after && store.waiting() > 0; ++i) store.step();
      over = store.waiting() == 0;
      store.cut_power();
      open();
      ASSERT_TRUE(area) << before << " steps before the write, " << after << " after";
      EXPECT_TRUE(kept() == bytes_of(20000, 5) || (!written && kept() == bytes_of(9000, 1))) << before << ", " << after;
      if (HasFailure()) return;
    }
  }
}

TEST_F(Grow, APowerCutAfterAStateThatWasWrittenAtTheEndOfAnotherLeavesOneThatCanBeRead) {
  bool over = false;
  for (int steps = 0; !over; ++steps) {
    make();
    area->write_state(bytes_of(50000, 9), [this](std::error_code) { write_state(bytes_of(20000, 5)); });
    start(40 * kGiB);
    for (int i = 0; i < steps && store.waiting() > 0; ++i) store.step();
    over = store.waiting() == 0;
    store.cut_power();
    open();
    ASSERT_TRUE(area) << steps;
    if (HasFailure()) return;
  }
}

TEST_F(Grow, WaitsForAStateThatIsBeingWritten) {
  make();
  bool written = false;
  area->write_state(bytes_of(50000, 9), [&](std::error_code e) { written = !e; });
  start(40 * kGiB);
  store.run();
  EXPECT_TRUE(written);
  EXPECT_EQ(outcome, std::error_code{});
  open();
  EXPECT_EQ(kept(), bytes_of(50000, 9));
}

TEST_F(Grow, ABitThatWasOnItsWayIsDurableInTheLargerMap) {
  make();
  area->clear_dirty({5 * kGiB / kRegion - 1}, [](std::error_code) {});
  start(40 * kGiB);
  mark(5 * kGiB / kRegion - 1);
  store.run();
  EXPECT_TRUE(area->is_durably_dirty({5 * kGiB - 512, 512}));
  mark(5 * kGiB / kRegion);
  store.run();
  store.cut_power();
  open();
  EXPECT_TRUE(area->is_dirty(5 * kGiB / kRegion - 1));
  EXPECT_TRUE(area->is_dirty(5 * kGiB / kRegion));
}

TEST_F(Grow, ManyTimes) {
  make();
  for (const std::uint64_t size : {6 * kGiB, 7 * kGiB, 30 * kGiB, 100 * kGiB, 101 * kGiB, 130 * kGiB}) {
    ASSERT_LE(area->size_to_grow(size), store.info().size);
    ASSERT_FALSE(grow(size));
    open();
    EXPECT_EQ(area->identity().size, size);
    expect_all_as_it_was();
  }
}

TEST_F(Grow, AnAreaThatNeverHadAStateGetsRoomForOne) {
  make();
  MetadataArea::format(store, identity, sample_epoch(), InitialMap::all_dirty, [this](auto r) { take(std::move(r)); });
  store.run();
  ASSERT_FALSE(grow(40 * kGiB));
  open();
  EXPECT_TRUE(area->keeps_state());
  EXPECT_TRUE(area->state().empty());
  EXPECT_EQ(area->dirty_count(), 5 * kGiB / kRegion) << "what was added is clean";
}

TEST_F(Grow, IsRefusedWhereItCannotBe) {
  make();
  EXPECT_FALSE(grow(5 * kGiB)) << "there is room already";
  EXPECT_FALSE(grow(kGiB)) << "there is room already";
  EXPECT_EQ(area->identity().size, 5 * kGiB);
  EXPECT_EQ(grow(5 * kGiB + 100), Errc::refused) << "not whole blocks";
  EXPECT_EQ(grow(65 * 1024 * kGiB), Errc::refused) << "more than 64 TiB";
  EXPECT_EQ(grow(2000 * kGiB), Errc::no_space) << "the store is too small";
  start(40 * kGiB);
  area->grow(41 * kGiB, [](std::error_code e) { EXPECT_EQ(e, Errc::resource_exhausted); });
  store.run();
  EXPECT_EQ(outcome, std::error_code{});
}

TEST_F(Grow, AFailedWriteLeavesTheOldSizeInUseAndIsSettledByOpening) {
  for (int broken = 0;; ++broken) {
    make();
    int writes = 0;
    store.fail = [&](char kind, Extent) { return kind == 'w' && writes++ == broken; };
    const auto failed = grow(40 * kGiB);
    store.fail = [](char, Extent) { return false; };
    if (!failed) break;
    EXPECT_EQ(area->identity().size, 5 * kGiB);
    EXPECT_EQ(grow(40 * kGiB), Errc::io_error) << "not again before it was opened";
    open();
    expect_all_as_it_was();
    ASSERT_FALSE(grow(40 * kGiB));
    open();
    expect_all_as_it_was();
    ASSERT_LT(broken, 20);
  }
}

TEST_F(Grow, EitherCopyOfWhatItWroteIsEnough) {
  const auto spoil = [this](std::uint64_t byte) {
    store.bytes()[byte + 100] ^= std::byte{1};
    store.keep_spoiled();
  };
  for (const std::uint64_t slot : {0, 1}) {
    for (const bool of_state : {false, true}) {
      std::ranges::fill(store.bytes(), std::byte{});
      store.keep_spoiled();
      make();
      ASSERT_FALSE(grow(40 * kGiB));
      const auto state = load_be<std::uint64_t>(store.bytes().data() + 232);
      spoil(of_state ? state + slot * layout::kStateSlot : slot * layout::kBlock);
      open();
      EXPECT_EQ(area->identity().size, 40 * kGiB) << slot;
      expect_all_as_it_was();
    }
  }
}

TEST_F(Grow, ASuperblockOfVersionTwoSaysWhereTheStateStands) {
  make();
  ASSERT_FALSE(grow(40 * kGiB));
  const auto* block = store.bytes().data();
  EXPECT_EQ(load_be<std::uint16_t>(block + 12), 2);
  EXPECT_EQ(load_be<std::uint64_t>(block + 96), 40 * kGiB);
  EXPECT_EQ(load_be<std::uint64_t>(block + 120), 21u) << "map blocks";
  EXPECT_EQ(load_be<std::uint64_t>(block + 232), 16384u + 3 * 4096 + 131072) << "the state";
}

TEST_F(Grow, ASuperblockOfVersionOneStaysOneWhenTheStateNeedNotMove) {
  make();
  ASSERT_FALSE(grow(kSizes[0]));
  EXPECT_EQ(load_be<std::uint16_t>(store.bytes().data() + 12), 1);
  EXPECT_EQ(load_be<std::uint64_t>(store.bytes().data() + 232), 0u);
}

}  // namespace
}  // namespace lockstep::engine
