#include "replication/core/doubts.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

TEST(Doubts, EndWhereWhatIsThereWasSettled) {
  Doubts doubts;
  EXPECT_TRUE(doubts.none());
  doubts.add({4096, 8192});
  EXPECT_FALSE(doubts.about({0, 4096}));
  EXPECT_TRUE(doubts.about({0, 4097}));
  doubts.settle({6144, 2048});
  EXPECT_TRUE(doubts.about({4096, 2048}));
  EXPECT_FALSE(doubts.about({6144, 2048}));
  EXPECT_TRUE(doubts.about({8192, 4096}));
  doubts.settle({0, 65536});
  EXPECT_TRUE(doubts.none());
}

TEST(Doubts, OverlappingOnesAreEachSettled) {
  Doubts doubts;
  doubts.add({0, 1024});
  doubts.add({512, 1024});
  doubts.settle({0, 1024});
  EXPECT_FALSE(doubts.about({0, 1024}));
  EXPECT_TRUE(doubts.about({1024, 512}));
}

TEST(Doubts, BeyondTheBoundMoreIsDoubtedNeverLess) {
  Doubts doubts;
  for (std::uint64_t i = 0; i < 2 * Doubts::kMost; ++i) doubts.add({i * 8192, 512});
  for (std::uint64_t i = 0; i < 2 * Doubts::kMost; ++i) EXPECT_TRUE(doubts.about({i * 8192, 512})) << i;
}

}  // namespace
}  // namespace lockstep::replication
