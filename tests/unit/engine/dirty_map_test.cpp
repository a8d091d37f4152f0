// The dirty map in memory: whole blocks of it, and its last word.
#include "engine/metadata/dirty_map.hpp"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

constexpr std::uint32_t kRegion = 65536;

TEST(DirtyMapBlock, ThatIsSetAsAWholeEndsWithTheVolumesLastRegion) {
  DirtyMap map(std::uint64_t{70} * kRegion, kRegion);
  map.set(3, 3);
  map.set_block(0);
  EXPECT_EQ(map.count(), 70u);
  EXPECT_EQ(map.next(64), std::optional<std::uint64_t>(64));
  EXPECT_TRUE(map.test(69));
  EXPECT_EQ(map.words()[1], 0x3Fu);
}

TEST(DirtyMapRange, SetsItsRegionsAndNoOther) {
  for (const std::uint64_t first : {0u, 1u, 63u, 64u, 100u}) {
    for (const std::uint64_t last : {first, first + 1, 63 + first, 64 + first, 128 + first, std::uint64_t{399}}) {
      DirtyMap map(std::uint64_t{400} * kRegion, kRegion);
      map.set(first, last);
      EXPECT_EQ(map.count(), last - first + 1);
      for (std::uint64_t region = 0; region < 400; ++region) {
        ASSERT_EQ(map.test(region), first <= region && region <= last) << first << ".." << last << ": " << region;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::engine
