#include "replication/core/indeterminate_extents.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

TEST(IndeterminateExtents, EndWhereWhatIsThereWasSettled) {
  IndeterminateExtents indeterminate;
  EXPECT_TRUE(indeterminate.none());
  indeterminate.add({4096, 8192});
  EXPECT_FALSE(indeterminate.overlap({0, 4096}));
  EXPECT_TRUE(indeterminate.overlap({0, 4097}));
  indeterminate.settle({6144, 2048});
  EXPECT_TRUE(indeterminate.overlap({4096, 2048}));
  EXPECT_FALSE(indeterminate.overlap({6144, 2048}));
  EXPECT_TRUE(indeterminate.overlap({8192, 4096}));
  indeterminate.settle({0, 65536});
  EXPECT_TRUE(indeterminate.none());
}

TEST(IndeterminateExtents, OverlappingOnesAreEachSettled) {
  IndeterminateExtents indeterminate;
  indeterminate.add({0, 1024});
  indeterminate.add({512, 1024});
  indeterminate.settle({0, 1024});
  EXPECT_FALSE(indeterminate.overlap({0, 1024}));
  EXPECT_TRUE(indeterminate.overlap({1024, 512}));
}

TEST(IndeterminateExtents, BeyondTheBoundMoreIsDoubtedNeverLess) {
  IndeterminateExtents indeterminate;
  for (std::uint64_t i = 0; i < 2 * IndeterminateExtents::kMost; ++i) indeterminate.add({i * 8192, 512});
  for (std::uint64_t i = 0; i < 2 * IndeterminateExtents::kMost; ++i)
    EXPECT_TRUE(indeterminate.overlap({i * 8192, 512})) << i;
}

TEST(IndeterminateExtents, ThatAreSettledInManyPiecesStayFew) {
  IndeterminateExtents indeterminate;
  const std::uint64_t pieces = 3 * IndeterminateExtents::kMost;
  indeterminate.add({0, (2 * pieces + 1) * 4096});
  std::uint64_t splits = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const engine::Extent piece{(2 * i + 1) * 4096, 4096};
    indeterminate.settle(piece);
    splits += !indeterminate.overlap(piece);
    EXPECT_TRUE(indeterminate.overlap({2 * i * 4096, 4096})) << "nobody settled that";
  }
  EXPECT_EQ(splits, IndeterminateExtents::kMost - 1);
  indeterminate.settle({0, (2 * pieces + 1) * 4096});
  EXPECT_TRUE(indeterminate.none());
}

}  // namespace
}  // namespace lockstep::replication
