// The dirty map in memory: whole blocks of it, and its last word.
#include "engine/metadata/dirty_map.hpp"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

constexpr std::uint32_t kRegion = 65536;

TEST(DirtyMapBlock, ThatIsSetAsAWholeEndsWithTheVolumesLastRegion) {
  DirtyMap map(std::uint64_t{70} * kRegion, kRegion);
  map.set(3);
  map.set_block(0);
  EXPECT_EQ(map.count(), 70u);
  EXPECT_EQ(map.next(64), std::optional<std::uint64_t>(64));
  EXPECT_TRUE(map.test(69));
  EXPECT_EQ(map.words()[1], 0x3Fu);
}

}  // namespace
}  // namespace lockstep::engine
