// What is known of regions: exactly what was set and not cleared since.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "replication/core/space.hpp"

namespace lockstep::replication {
namespace {

TEST(RegionBits, KnowNothingAtFirstAndAnEmptyRangeAlways) {
  const RegionBits bits;
  EXPECT_FALSE(bits.all(0, 1));
  EXPECT_TRUE(bits.all(0, 0));
  EXPECT_EQ(bits.first_clear(5), 5u);
}

TEST(RegionBits, AgreeWithAPlainArrayThroughRandomUse) {
  constexpr std::uint64_t kCount = 400;
  std::mt19937_64 random(7);
  RegionBits bits;
  std::vector<bool> plain(kCount);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t from = random() % kCount, to = from + random() % (kCount - from + 1);
    switch (random() % 4) {
      case 0:
        bits.set(from, to);
        std::fill(plain.begin() + from, plain.begin() + to, true);
        break;
      case 1:
        bits.clear(from, to);
        std::fill(plain.begin() + from, plain.begin() + to, false);
        break;
      default: {
        const bool all = std::all_of(plain.begin() + from, plain.begin() + to, [](bool b) { return b; });
        ASSERT_EQ(bits.all(from, to), all) << from << " " << to;
        const auto open = std::find(plain.begin() + from, plain.end(), false) - plain.begin();
        ASSERT_EQ(std::min(bits.first_clear(from), kCount), static_cast<std::uint64_t>(open)) << from;
      }
    }
  }
}

TEST(RegionBits, ForgetAllAtOnce) {
  RegionBits bits;
  bits.set(3, 200);
  bits.clear();
  EXPECT_FALSE(bits.all(3, 4));
}

}  // namespace
}  // namespace lockstep::replication
