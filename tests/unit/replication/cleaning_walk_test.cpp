#include "replication/core/cleaning_walk.hpp"

#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

struct DirtyRegions {
  std::set<std::uint64_t> all{};
  std::uint64_t equal_from = 0;  ///< what lies before may not be cleaned
  std::size_t seen = 0;
  CleaningWalk walk{};

  std::vector<std::uint64_t> look(std::size_t most) {
    std::vector<std::uint64_t> found;
    seen = 0;
    walk.look(
        most,
        [this](std::uint64_t from) -> std::optional<std::uint64_t> {
          ++seen;
          const auto next = all.lower_bound(from);
          return next == all.end() ? std::nullopt : std::optional(*next);
        },
        [&](std::uint64_t region) {
          if (region >= equal_from) found.push_back(region);
          return region >= equal_from;
        });
    return found;
  }
};

TEST(CleaningWalk, GoesOnWhereItWasAndRoundAndRound) {
  DirtyRegions regions{.all = {1, 3, 5, 7, 9}};
  EXPECT_EQ(regions.look(2), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(regions.look(2), (std::vector<std::uint64_t>{5, 7}));
  EXPECT_EQ(regions.look(3), (std::vector<std::uint64_t>{9, 1, 3}));
}

TEST(CleaningWalk, SeesEachOnceInALook) {
  DirtyRegions regions{.all = {1, 3, 5, 7, 9}};
  EXPECT_EQ(regions.look(3).size(), 3u);
  EXPECT_EQ(regions.look(100), (std::vector<std::uint64_t>{7, 9, 1, 3, 5}));
  EXPECT_TRUE((DirtyRegions{.all = {}}.look(100).empty()));
}

/// A resync of terabytes: what it has made equal lies behind what it has not.
TEST(CleaningWalk, PassesABoundedNumberInOneTurnHoweverManyAreToBeCleaned) {
  constexpr std::uint64_t kRegions = 800'000;
  DirtyRegions regions{.all = {}, .equal_from = kRegions - 10};
  for (std::uint64_t region = 0; region < kRegions; ++region) regions.all.insert(regions.all.end(), region);
  std::vector<std::uint64_t> found;
  for (int turn = 0; turn < 4 && found.empty(); ++turn) {
    found = regions.look(1'000'000);
    EXPECT_LE(regions.seen, 262'144u);
  }
  EXPECT_EQ(found.size(), 10u) << "the next turn goes on there";
}

TEST(CleaningWalk, PassesFewWhereFewAreToBeCleaned) {
  DirtyRegions regions{.all = {}, .equal_from = 1000};
  for (std::uint64_t region = 0; region < 1000; ++region) regions.all.insert(region);
  EXPECT_TRUE(regions.look(10).empty());
  EXPECT_EQ(regions.seen, 40u);
}

}  // namespace
}  // namespace lockstep::replication
