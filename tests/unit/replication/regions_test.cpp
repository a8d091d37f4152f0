#include "replication/core/regions.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

constexpr std::uint32_t kRegion = 65536;
constexpr std::size_t kMost = 1000;
constexpr std::uint64_t kChunkBytes = kRegion * Regions::kChunk;

engine::TimePoint at(int second) { return {std::chrono::seconds(second)}; }

TEST(Regions, AreQuietOnlyAfterTheWriteAndItsEnd) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  regions.begin_write({kRegion, 512}, at(1));
  EXPECT_FALSE(regions.quiet_since(1, at(5)));
  EXPECT_TRUE(regions.quiet_since(0, at(0)));
  EXPECT_TRUE(regions.quiet_since(2, at(0)));
  regions.end_write({kRegion, 512}, at(3));
  EXPECT_FALSE(regions.quiet_since(1, at(3)));
  EXPECT_TRUE(regions.quiet_since(1, at(4)));
}

TEST(Regions, ARangeOfManyIsRememberedInAllOfThemAndApartFromSmallWrites) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  const engine::Extent wide{kChunkBytes / 2, 3 * kChunkBytes}, small{kChunkBytes, 512};
  regions.begin_write(wide, at(1));
  regions.begin_write(small, at(2));
  for (std::uint64_t r = wide.offset / kRegion; r * kRegion < wide.end(); ++r) {
    ASSERT_FALSE(regions.quiet_since(r, at(9))) << r;
  }
  regions.end_write(wide, at(3));
  EXPECT_FALSE(regions.quiet_since(Regions::kChunk, at(9))) << "the small write is under way";
  EXPECT_TRUE(regions.quiet_since(Regions::kChunk + 1, at(4)));
  EXPECT_FALSE(regions.quiet_since(Regions::kChunk + 1, at(3)));
  EXPECT_TRUE(regions.quiet_since(5 * Regions::kChunk, at(0))) << "nobody was there";
  regions.end_write(small, at(5));
  EXPECT_TRUE(regions.quiet_since(Regions::kChunk, at(6)));
}

TEST(Regions, AreForgottenWhenTheyAreCleanButNotWhileWritten) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  const engine::Extent wide{0, 2 * kChunkBytes};
  regions.begin_write(wide, at(1));
  regions.forget(0);
  EXPECT_FALSE(regions.quiet_since(0, at(9)));
  regions.end_write(wide, at(2));
  regions.forget(0);
  EXPECT_TRUE(regions.quiet_since(0, at(0)));
  EXPECT_FALSE(regions.quiet_since(Regions::kChunk, at(2))) << "another chunk";
  regions.remember(false);
  EXPECT_TRUE(regions.quiet_since(Regions::kChunk, at(2)));
}

TEST(Regions, AreAllWrittenByAWriteOfAWholeLargeVolume) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  const engine::Extent all{0, std::uint64_t{1} << 46};
  constexpr std::uint64_t kLast = (std::uint64_t{1} << 46) / kRegion - 1;
  regions.begin_write(all, at(1));
  regions.begin_write(all, at(2));
  regions.end_write(all, at(3));
  EXPECT_FALSE(regions.quiet_since(0, at(9)));
  EXPECT_FALSE(regions.quiet_since(kLast, at(9))) << "the other one is under way";
  regions.forget(0);
  EXPECT_FALSE(regions.quiet_since(0, at(9)));
  regions.end_write(all, at(5));
  EXPECT_FALSE(regions.quiet_since(kLast, at(5)));
  EXPECT_TRUE(regions.quiet_since(kLast, at(6)));
  regions.forget(7);
  EXPECT_TRUE(regions.quiet_since(kLast, at(0)));
  regions.begin_write(all, at(7));
  regions.end_write(all, at(8));
  regions.remember(false);
  EXPECT_TRUE(regions.quiet_since(7, at(0)));
}

void write(Regions& regions, engine::Extent extent, engine::TimePoint when) {
  regions.begin_write(extent, when);
  regions.end_write(extent, when);
}

TEST(Regions, AreRememberedInBoundsAndNoneCountsAsQuietForIt) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  const engine::Extent under_way{kRegion, 512}, wide_under_way{0, 2 * kChunkBytes};
  regions.begin_write(under_way, at(1));
  regions.begin_write(wide_under_way, at(1));
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    write(regions, {(1000 + i) * kRegion, 4096}, at(2));
    write(regions, {i * kChunkBytes, kChunkBytes + 512}, at(2));
    most = std::max(most, regions.remembered());
  }
  EXPECT_LE(most, 2 * (kMost + 2));
  EXPECT_FALSE(regions.quiet_since(1000, at(2))) << "it was written then, though that is forgotten";
  EXPECT_TRUE(regions.quiet_since(1000, at(3)));
  EXPECT_FALSE(regions.quiet_since(1, at(9))) << "it is being written";
  regions.end_write(under_way, at(4));
  regions.end_write(wide_under_way, at(4));
  EXPECT_FALSE(regions.quiet_since(1, at(4)));
  EXPECT_TRUE(regions.quiet_since(1, at(5)));
  regions.remember(false);
  EXPECT_EQ(regions.remembered(), 0u);
  EXPECT_TRUE(regions.quiet_since(1000, at(1)));
}

TEST(Regions, AreAllRememberedWhileTheyAreWritten) {
  Regions regions(kRegion, kMost);
  regions.remember(true);
  for (std::uint64_t i = 0; i < 5 * kMost; ++i) regions.begin_write({i * kRegion, 512}, at(1));
  for (std::uint64_t i = 0; i < 5 * kMost; ++i) ASSERT_FALSE(regions.quiet_since(i, at(9))) << i;
  for (std::uint64_t i = 0; i < 5 * kMost; ++i) regions.end_write({i * kRegion, 512}, at(2));
  for (std::uint64_t i = 0; i < 5 * kMost; ++i) ASSERT_TRUE(regions.quiet_since(i, at(3))) << i;
  write(regions, {5 * kMost * kRegion, 512}, at(3));
  EXPECT_LE(regions.remembered(), 5 * kMost + 1);
}

}  // namespace
}  // namespace lockstep::replication
