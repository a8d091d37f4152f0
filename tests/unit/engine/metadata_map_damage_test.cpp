// Blocks of the dirty map that are damaged, torn, wrong, or can't be read.
#include "engine/base/crc32c.hpp"
#include "tests/unit/engine/dirty_map_fixture.hpp"

namespace lockstep::engine {
namespace {

TEST_F(DirtyMapTest, AMapBlockWithABadChecksumMeansThatAllItsBitsAreSet) {
  set(0), set(kPerBlock);
  store.run();
  block(4 + 1)[2000] ^= std::byte{1};
  store.keep_spoiled();
  crash();
  EXPECT_EQ(area->dirty_count(), 1 + kPerBlock);
  EXPECT_TRUE(area->is_durably_dirty(region(kPerBlock, kPerBlock)));
  EXPECT_FALSE(area->is_dirty(2 * kPerBlock));
}

// As when part of a later write mends it: what is whole then is what was there before, without what was set since.
TEST_F(DirtyMapTest, WhatIsSetForADamagedMapBlockStaysSetWhenTheDamageIsGone) {
  set(kPerBlock);
  store.run();
  const std::vector<std::byte> block_before(block(4 + 1).begin(), block(4 + 1).end());
  block(4 + 1)[2000] ^= std::byte{1};
  store.keep_spoiled();
  crash();
  ASSERT_TRUE(area->is_durably_dirty(region(kPerBlock, kPerBlock)));
  const auto sector = std::span(block_before).subspan(3 * 512, 512);
  std::ranges::copy(sector, block(4 + 1).begin() + 3 * 512);
  store.keep_spoiled();
  crash();
  EXPECT_EQ(area->dirty_count(), kPerBlock);
}

TEST_F(DirtyMapTest, TheLastBlocksDamageSetsNoBitsBeyondTheVolume) {
  block(4 + 2)[2000] ^= std::byte{1};
  open();
  ASSERT_TRUE(area);
  EXPECT_EQ(area->dirty_count(), area->region_count() - 2 * kPerBlock);
}

TEST_F(DirtyMapTest, ATornMapWriteLosesNoBit) {
  set(5), set(31'999);
  store.run();
  for (std::size_t torn = 0; torn <= 8; ++torn) {
    set(100 + torn * 640);
    crash(torn);
    EXPECT_TRUE(area->is_dirty(5) && area->is_dirty(31'999)) << torn;
  }
}

TEST_F(DirtyMapTest, MapBlocksThatAreWholeAndWrongAreRefusedByNumber) {
  struct Case {
    std::size_t at;
    Errc code;
    const char* words;
  };
  for (const auto& [at, code, words] :
       {Case{32, Errc::foreign, "belongs to pair"}, Case{48, Errc::foreign, "belongs to volume"},
        Case{64, Errc::stale, "left over"}, Case{80, Errc::foreign, "belongs to node A"},
        Case{23, Errc::corrupt, "misplaced"}, Case{13, Errc::wrong_version, "version"}}) {
    const auto b = block(4 + 1);
    b[at] ^= std::byte{1};
    store_be<std::uint32_t>(b.data(), crc32c(b.subspan(4)));
    open();
    ASSERT_TRUE(error) << words;
    EXPECT_EQ(error->code, code) << message();
    EXPECT_NE(message().find("dirty map block 1 "), std::string::npos) << message();
    EXPECT_NE(message().find(words), std::string::npos) << message();
    b[at] ^= std::byte{1};
    store_be<std::uint32_t>(b.data(), crc32c(b.subspan(4)));
  }
}

TEST_F(DirtyMapTest, BitsBeyondTheVolumeAreRefused) {
  const auto b = block(4 + 2);
  for (const std::byte bit : {std::byte{1}, std::byte{2}, std::byte{128}}) {
    b[4095] ^= bit;
    store_be<std::uint32_t>(b.data(), crc32c(b.subspan(4)));
    open();
    ASSERT_TRUE(error);
    EXPECT_NE(message().find("beyond the end"), std::string::npos) << message();
    b[4095] ^= bit;
  }
}

// ---- blocks that can't be read ----

struct UnreadableMap : DirtyMapTest {
  static bool touches(Extent e, std::uint64_t map_block) {
    return e.overlaps({layout::kMapAt + map_block * layout::kBlock, layout::kBlock});
  }
};

TEST_F(UnreadableMap, OneBlockOfItMeansThatAllItsBitsAreSetAndNoOthers) {
  for (const std::uint64_t lost : {0, 1, 2}) {
    format();
    set(5), set(kPerBlock + 5), set(2 * kPerBlock + 5);
    store.run();
    store.fail = [&](char kind, Extent e) { return kind == 'r' && touches(e, lost); };
    open();
    ASSERT_TRUE(area) << message();
    for (const std::uint64_t block : {0, 1, 2}) {
      const Extent all = {block * kPerBlock * 65536,
                          std::min(kPerBlock * 65536, identity.size - block * kPerBlock * 65536)};
      EXPECT_EQ(area->is_durably_dirty(all), block == lost) << block << " of " << lost;
      EXPECT_TRUE(area->is_dirty(block * kPerBlock + 5));
    }
    const std::uint64_t regions = lost == 2 ? area->region_count() - 2 * kPerBlock : kPerBlock;
    EXPECT_EQ(area->dirty_count(), regions + 2);
  }
}

TEST_F(UnreadableMap, WhatIsSetForItStaysSetWhenTheDiskComesBackWithWhatItHad) {
  store.fail = [](char kind, Extent e) { return kind == 'r' && touches(e, 1); };
  open();
  ASSERT_TRUE(area) << message();
  store.fail = [](char, Extent) { return false; };
  crash();
  EXPECT_EQ(area->dirty_count(), kPerBlock);
  clear({kPerBlock, kPerBlock + 1});
  store.run();
  open();
  EXPECT_EQ(area->dirty_count(), kPerBlock - 2) << "and it is a block like any other";
}

TEST_F(UnreadableMap, AReadThatFailsOnceCostsNothing) {
  set(5);
  store.run();
  store.counts = {};
  bool failed_once = false;
  store.fail = [&](char kind, Extent e) { return kind == 'r' && touches(e, 1) && !std::exchange(failed_once, true); };
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->dirty_count(), 1u);
  EXPECT_EQ(store.counts.writes, 0);
}

TEST_F(UnreadableMap, ABlockThatCanNeitherBeReadNorRewrittenRefusesTheArea) {
  store.fail = [](char, Extent e) { return touches(e, 1); };
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::io_error);
  EXPECT_NE(message().find("dirty map block 1 "), std::string::npos) << message();
}

TEST_F(UnreadableMap, BesideABlockThatIsWholeAndWrongNothingIsChanged) {
  const auto b = block(4 + 2);
  b[32] ^= std::byte{1};
  store_be<std::uint32_t>(b.data(), crc32c(b.subspan(4)));
  store.counts = {};
  store.fail = [](char kind, Extent e) { return kind == 'r' && touches(e, 1); };
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::foreign);
  EXPECT_EQ(store.counts.writes, 0);
}

TEST_F(UnreadableMap, OfManyBlocksEachIsReadByItself) {
  VolumeIdentity v = sample_identity();
  v.region_size = 4096;
  v.size = 65 * kGiB;  // more blocks than are read at a time
  FaultStore large(MetadataArea::required_size(v.size, v.region_size));
  MetadataArea::format(large, v, sample_epoch(), InitialMap::clean, [&](auto r) { take(std::move(r)); });
  large.run();
  ASSERT_TRUE(area) << message();
  area.reset();
  large.fail = [](char kind, Extent e) { return kind == 'r' && (touches(e, 3) || touches(e, 300)); };
  MetadataArea::open(large, v.volume, v.owner, [&](auto r) { take(std::move(r)); });
  large.run();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->dirty_count(), 2 * kPerBlock);
  EXPECT_TRUE(area->is_durably_dirty({3 * kPerBlock * 4096, kPerBlock * 4096}));
  EXPECT_TRUE(area->is_durably_dirty({300 * kPerBlock * 4096, kPerBlock * 4096}));
  area.reset();
}

}  // namespace
}  // namespace lockstep::engine
