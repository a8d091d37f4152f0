// The state of the logical unit in a metadata area: what survives which crash, and areas made before there was any.
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

std::vector<std::byte> bytes_of(std::size_t count, int seed) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return out;
}

struct State : RoomyMetadataTest {
  static constexpr std::size_t kSlotBlocks = layout::kStateSlot / layout::kBlock;
  std::size_t first_block = MetadataArea::required_size(5 * kGiB, 65536) / layout::kBlock;

  std::error_code write(std::span<const std::byte> state) {
    std::error_code outcome = Errc::timed_out;
    area->write_state(state, [&](std::error_code e) { outcome = e; });
    roomy.run();
    return outcome;
  }
  std::vector<std::byte> kept() { return {area->state().begin(), area->state().end()}; }
  layout::Block roomy_block(std::size_t n) {
    return layout::Block(roomy.bytes().data() + n * layout::kBlock, layout::kBlock);
  }
};

TEST_F(State, OfANewAreaIsEmpty) {
  format_roomy();
  EXPECT_TRUE(area->keeps_state());
  EXPECT_TRUE(area->state().empty());
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_TRUE(area->state().empty());
}

TEST_F(State, OnceWrittenSurvivesAPowerCut) {
  for (const std::size_t size : {0u, 1u, 4096u, 4097u, unsigned(MetadataArea::kMaxState)}) {
    format_roomy();
    ASSERT_FALSE(write(bytes_of(9000, 1)));
    ASSERT_FALSE(write(bytes_of(size, 2)));
    roomy.cut_power();
    open_roomy();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(kept(), bytes_of(size, 2)) << size;
  }
}

TEST_F(State, LargerThanItsRoomIsRefused) {
  format_roomy();
  EXPECT_EQ(write(bytes_of(MetadataArea::kMaxState + 1, 1)), make_error_code(Errc::refused));
  EXPECT_FALSE(write(bytes_of(10, 1)));
}

TEST_F(State, ACrashAtAnyPointOfAWriteLeavesTheOldOrTheNewOne) {
  const auto old = bytes_of(5000, 1), fresh = bytes_of(7000, 2);
  for (int steps = 0; steps <= 2; ++steps) {
    for (std::size_t torn : {0, 1, 8, 12, 24}) {
      format_roomy();
      ASSERT_FALSE(write(old));
      area->write_state(fresh, [](std::error_code) {});
      for (int i = 0; i < steps && roomy.waiting() > 0; ++i) roomy.step();
      roomy.cut_power(torn);
      open_roomy();
      ASSERT_TRUE(area) << message();
      EXPECT_EQ(kept(), steps > 0 ? fresh : kept() == fresh ? fresh : old) << steps << " torn " << torn;
      // Both slots agree again: losing either changes nothing.
      const auto found = kept();
      for (std::size_t slot = 0; slot < 2; ++slot) {
        roomy_block(first_block + slot * kSlotBlocks)[200] ^= std::byte{1};
        roomy.keep_spoiled();
        open_roomy();
        ASSERT_TRUE(area) << message();
        EXPECT_EQ(kept(), found);
      }
    }
  }
}

TEST_F(State, ADamagedByteOfTheStateItselfIsSeen) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(9000, 1)));
  roomy_block(first_block + 2)[17] ^= std::byte{4};
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(kept(), bytes_of(9000, 1));
}

TEST_F(State, WithBothSlotsDamagedTheAreaIsRefusedByName) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(9000, 1)));
  for (std::size_t slot = 0; slot < 2; ++slot) roomy_block(first_block + slot * kSlotBlocks + 1)[17] ^= std::byte{4};
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::corrupt);
  EXPECT_NE(message().find("no state record is left"), std::string::npos) << message();
}

/// A sector of a slot, wherever it is.
struct UnreadableState : State {
  [[nodiscard]] Extent sector(std::size_t slot, std::size_t block_of_slot) const {
    return {(first_block + slot * kSlotBlocks + block_of_slot) * layout::kBlock + 512, 512};
  }
  void lose(Extent extent) {
    roomy.fail = [extent](char kind, Extent e) { return kind == 'r' && e.overlaps(extent); };
  }
  void mend() {
    roomy.fail = [](char, Extent) { return false; };
  }
};

TEST_F(UnreadableState, OneSlotGivesWayToTheOtherAndIsRewritten) {
  for (const std::size_t slot : {0u, 1u}) {
    for (const std::size_t block : {0u, 1u, 15u}) {
      mend();
      format_roomy();
      ASSERT_FALSE(write(bytes_of(5000, 1)));
      roomy.keep_spoiled();
      lose(sector(slot, block));
      open_roomy();
      ASSERT_TRUE(area) << message();
      EXPECT_EQ(kept(), bytes_of(5000, 1));
      // The disk reads again what was written anew: losing the other slot changes nothing.
      lose(sector(1 - slot, 0));
      open_roomy();
      ASSERT_TRUE(area) << message();
      EXPECT_EQ(kept(), bytes_of(5000, 1));
    }
  }
}

TEST_F(UnreadableState, TheSectorItselfIsWrittenAnewWhereverItIs) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(10, 1)));
  const Extent bad = sector(1, 15);
  bool is_bad = true;
  roomy.fail = [&](char kind, Extent e) {
    if (!e.overlaps(bad)) return false;
    if (kind == 'w') is_bad = false;
    return is_bad;
  };
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_FALSE(is_bad);
  EXPECT_EQ(kept(), bytes_of(10, 1));
}

TEST_F(UnreadableState, WhatStandsInTheOtherSlotCountsAsBesideADamagedOne) {
  for (const bool unreadable : {false, true}) {
    mend();
    format_roomy();
    ASSERT_FALSE(write(bytes_of(100, 1)));
    area->write_state(bytes_of(100, 2), [](std::error_code) {});
    roomy.step();  // slot 0 has the new one, which nobody was told of yet
    roomy.cut_power();
    if (unreadable) {
      lose(sector(0, 0));
    } else {
      roomy_block(first_block)[200] ^= std::byte{1};
    }
    open_roomy();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(kept(), bytes_of(100, 1));
    mend();
    open_roomy();
    EXPECT_EQ(kept(), bytes_of(100, 1)) << "it was decided";
  }
}

TEST_F(UnreadableState, BothSlotsRefuseTheArea) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(100, 1)));
  roomy.fail = [this](char kind, Extent e) { return kind == 'r' && e.offset >= first_block * layout::kBlock; };
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_NE(message().find("no state record is left: slot 0 cannot be read"), std::string::npos) << message();
}

TEST_F(UnreadableState, BesideADamagedOneRefusesTheArea) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(100, 1)));
  roomy_block(first_block + kSlotBlocks)[200] ^= std::byte{1};
  lose(sector(0, 0));
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_NE(message().find("no state record is left"), std::string::npos) << message();
}

TEST_F(UnreadableState, ASlotThatCanNotBeRewrittenEitherRefusesTheArea) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(100, 1)));
  roomy.fail = [bad = sector(1, 0)](char, Extent e) { return e.overlaps(bad); };
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::io_error);
}

TEST_F(UnreadableState, OfWhichNoneWasEverWrittenIsEmpty) {
  format_roomy();
  lose(sector(1, 0));
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_TRUE(area->state().empty());
  mend();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_TRUE(area->state().empty());
}

TEST_F(State, AnotherReplicasSlotIsForeign) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(100, 1)));
  layout::Key other{identity.pair, numbered(9), sample_epoch().id, identity.owner};
  layout::seal(roomy_block(first_block), layout::Kind::state, other, 0, 7);
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::foreign);
  EXPECT_NE(message().find("state record slot 0 belongs to volume"), std::string::npos) << message();
}

TEST_F(State, AfterAFailedWriteNoMoreIsTakenUntilItIsOpenedAgain) {
  format_roomy();
  ASSERT_FALSE(write(bytes_of(100, 1)));
  roomy.fail = [](char kind, Extent) { return kind == 'w'; };
  EXPECT_EQ(write(bytes_of(100, 2)), make_error_code(Errc::io_error));
  EXPECT_EQ(kept(), bytes_of(100, 1)) << "what could not be written does not count";
  roomy.fail = [](char, Extent) { return false; };
  EXPECT_EQ(write(bytes_of(100, 3)), make_error_code(Errc::io_error));
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(kept(), bytes_of(100, 1));
  EXPECT_FALSE(write(bytes_of(100, 3)));
}

TEST_F(State, AWriteWhileAnotherIsUnderWayIsRefused) {
  format_roomy();
  area->write_state(bytes_of(100, 1), [](std::error_code e) { EXPECT_FALSE(e); });
  std::error_code second;
  area->write_state(bytes_of(100, 2), [&](std::error_code e) { second = e; });
  EXPECT_EQ(second, make_error_code(Errc::resource_exhausted));
  roomy.run();
  EXPECT_EQ(kept(), bytes_of(100, 1));
}

TEST_F(State, AnAreaMadeWithoutRoomForItOpensAndKeepsNone) {
  format();
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_FALSE(area->keeps_state());
  std::error_code outcome;
  area->write_state(bytes_of(10, 1), [&](std::error_code e) { outcome = e; });
  EXPECT_EQ(outcome, make_error_code(Errc::no_space));
}

TEST_F(State, AnAreaMadeWithoutItKeepsOneOnceItsStoreHasGrown) {
  format();
  std::ranges::copy(store.bytes(), roomy.bytes().begin());
  roomy.keep_spoiled();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->epoch(), sample_epoch());
  ASSERT_TRUE(area->keeps_state());
  EXPECT_TRUE(area->state().empty());
  ASSERT_FALSE(write(bytes_of(10, 1)));
  roomy.cut_power();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(kept(), bytes_of(10, 1));
}

}  // namespace
}  // namespace lockstep::engine
