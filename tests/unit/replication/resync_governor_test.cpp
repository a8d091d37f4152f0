// How fast resyncs go beside what initiators ask for: latencies in, rates out.
#include "replication/core/resync_governor.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using engine::Duration;
using engine::TimePoint;
using Kind = ResyncGovernor::Kind;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// A disk whose operations take longer the more a resync takes of it.
struct Volume {
  ResyncGovernor governor;
  ResyncLimits limits{8 * kMiB, 0};
  TimePoint now{1h};
  std::uint64_t capacity = 400 * kMiB;  ///< bytes a second that a resync can have of it
  std::uint64_t copied = 0;

  Volume() { governor.begin(now); }
  std::uint64_t rate() { return governor.rate(now, limits); }
  /// An interval in which so many operations end, each after `took`, and the resync takes what it may.
  void pass(unsigned operations, Duration took, Kind kind = Kind::write) {
    const std::uint64_t bytes = std::min(rate(), capacity) / 10;
    governor.spend(bytes);
    copied += bytes;
    for (unsigned i = 0; i < operations; ++i) governor.note(kind, took);
    now = now + ResyncGovernor::kInterval;
  }
  /// As a disk that does both: at `knee` bytes a second of resync, latencies double.
  void pass_loaded(unsigned operations, Duration alone, std::uint64_t knee) {
    const auto share = static_cast<double>(std::min(rate(), capacity)) / static_cast<double>(knee);
    pass(operations, std::chrono::duration_cast<Duration>(alone * (1 + share)));
  }
};

TEST(ResyncGovernor, TakesAllThatTheDiskGivesWhereNobodyElseWantsIt) {
  Volume v;
  for (int i = 0; i < 15; ++i) v.pass(0, 0ms);
  EXPECT_GE(v.rate(), v.capacity);
}

TEST(ResyncGovernor, WidensWhileLatenciesStayWhatTheyWere) {
  Volume v;
  for (int i = 0; i < 100; ++i) v.pass(50, 1ms);
  EXPECT_GE(v.rate(), v.capacity);
}

TEST(ResyncGovernor, NarrowsToTheFloorWithinASecondWhenOperationsTakeLonger) {
  Volume v;
  for (int i = 0; i < 100; ++i) v.pass(50, 1ms);
  ASSERT_GE(v.rate(), v.capacity);
  for (int i = 0; i < 10; ++i) v.pass(50, 4ms);
  EXPECT_EQ(v.rate(), v.limits.floor);
}

TEST(ResyncGovernor, LeavesALoadedDiskNearItsLatencyAndStillEnds) {
  Volume v;
  std::uint64_t most = 0;
  for (int i = 0; i < 600; ++i) {
    v.pass_loaded(50, 2ms, 60 * kMiB);
    if (i > 100) most = std::max(most, v.rate());
    ASSERT_GE(v.rate(), v.limits.floor);
  }
  EXPECT_LE(most, 120 * kMiB) << "far below what the disk would give: operations would take several times as long";
  EXPECT_GE(v.copied, 60 * v.limits.floor) << "a minute at the floor at the least";
}

/// However slow everything is, and for however long.
TEST(ResyncGovernor, NeverGoesBelowTheFloor) {
  Volume v;
  for (int i = 0; i < 2000; ++i) {
    v.pass(50, i % 2 ? 1ms : 50ms);
    ASSERT_GE(v.rate(), v.limits.floor);
  }
}

TEST(ResyncGovernor, NeverGoesAboveTheCeilingAlsoWhereItIsBelowEverythingElse) {
  for (const std::uint64_t ceiling : {10 * kMiB, std::uint64_t{64} << 10}) {
    Volume v;
    v.limits = {std::min(8 * kMiB, ceiling), ceiling};
    for (int i = 0; i < 100; ++i) {
      ASSERT_LE(v.rate(), ceiling);
      v.pass(0, 0ms);
    }
    EXPECT_EQ(v.rate(), ceiling);
  }
}

TEST(ResyncGovernor, TakesOtherLimitsAtOnce) {
  Volume v;
  for (int i = 0; i < 20; ++i) v.pass(0, 0ms);
  v.limits = {kMiB, 2 * kMiB};
  EXPECT_EQ(v.rate(), 2 * kMiB);
  v.limits = {50 * kMiB, 100 * kMiB};
  EXPECT_EQ(v.rate(), 50 * kMiB);
}

TEST(ResyncGovernor, WithoutAFloorGoesOnSlowly) {
  Volume v;
  v.limits = {};
  for (int i = 0; i < 50; ++i) v.pass(50, 1ms);
  for (int i = 0; i < 20; ++i) v.pass(50, 60ms);
  EXPECT_EQ(v.rate(), ResyncGovernor::kSlowest);
}

/// Hosts that ask for larger things than before are not held against the resync for ever.
TEST(ResyncGovernor, LearnsAnotherLatencyOnlyWhileItIsAtTheFloor) {
  Volume v;
  for (int i = 0; i < 50; ++i) v.pass(50, 1ms);
  for (int i = 0; i < 10; ++i) v.pass(50, 3ms);
  ASSERT_EQ(v.rate(), v.limits.floor);
  for (int i = 0; i < 100; ++i) v.pass(50, 3ms);
  EXPECT_GT(v.rate(), 4 * v.limits.floor);
}

TEST(ResyncGovernor, ReadsAndWritesHaveLatenciesOfTheirOwn) {
  Volume v;
  for (int i = 0; i < 30; ++i) v.pass(50, i % 2 ? 1ms : 10ms, i % 2 ? Kind::read : Kind::write);
  EXPECT_GT(v.rate(), 4 * v.limits.floor) << "that there are more writes in an interval is no reason";
}

TEST(ResyncGovernor, AFewSlowOperationsSayNothing) {
  Volume v;
  for (int i = 0; i < 30; ++i) v.pass(50, 1ms);
  const std::uint64_t before = v.rate();
  v.pass(ResyncGovernor::kFewest - 1, 1s);
  EXPECT_GE(v.rate(), before);
}

/// Of 100 Gbit/s for a whole interval.
TEST(ResyncGovernor, NarrowsToHalfOfWhatItUsedHoweverFastThatWas) {
  Volume v;
  v.capacity = std::uint64_t{12'500'000'000};
  for (int i = 0; i < 60; ++i) v.pass(50, 1ms);
  ASSERT_GT(v.rate(), v.capacity);
  v.pass(50, 4ms);
  EXPECT_NEAR(static_cast<double>(v.rate()), 6.25e9, 1e8);
}

/// It began in a bad moment.
TEST(ResyncGovernor, TakesTheBestThatItSawForWhatIsUsual) {
  Volume v;
  v.pass(50, 10ms);
  for (int i = 0; i < 60; ++i) v.pass(50, 1ms);
  for (int i = 0; i < 10; ++i) v.pass(50, 6ms);
  EXPECT_EQ(v.rate(), v.limits.floor);
}

/// What limits it is the partner, or the link.
TEST(ResyncGovernor, DoesNotWidenFarBeyondWhatIsUsed) {
  Volume v;
  for (int i = 0; i < 100; ++i) v.pass(0, 0ms);
  EXPECT_LE(v.rate(), 4 * v.capacity);
}

TEST(RateLimit, LetsThroughWhatTheRateSaysOverAnyTime) {
  RateLimit limit;
  TimePoint now{1h};
  std::uint64_t bytes = 0;
  for (int i = 0; i < 10'000; ++i, now = now + 1ms) {
    while (limit.may_begin(now, 10 * kMiB)) limit.take(64 << 10), bytes += 64 << 10;
  }
  EXPECT_NEAR(static_cast<double>(bytes), 100.0 * static_cast<double>(kMiB), static_cast<double>(kMiB));
}

/// Operations that wait for what is not copied yet take it without asking.
TEST(RateLimit, WhatWasTakenWithoutAskingKeepsNobodyWaitingForMinutes) {
  RateLimit limit;
  TimePoint now{1h};
  ASSERT_TRUE(limit.may_begin(now, 8 * kMiB));
  for (int i = 0; i < 10'000; ++i) limit.take(1 << 20);
  EXPECT_FALSE(limit.may_begin(now, 8 * kMiB));
  EXPECT_FALSE(limit.may_begin(now + 900ms, 8 * kMiB)) << "it counts";
  EXPECT_TRUE(limit.may_begin(now + 1001ms, 8 * kMiB));
}

/// However large one copy is.
TEST(RateLimit, KeepsARateBelowOneCopyASecond) {
  RateLimit limit;
  TimePoint now{1h};
  int copies = 0;
  for (int i = 0; i < 16'000; ++i, now = now + 10ms)
    if (limit.may_begin(now, 64 << 10)) limit.take(kMiB), ++copies;
  EXPECT_NEAR(copies, 10, 1) << "160 seconds";
}

TEST(RateLimit, TellsHowLongToWait) {
  RateLimit limit;
  TimePoint now{1h};
  while (limit.may_begin(now, kMiB)) limit.take(64 << 10);
  const Duration wait = limit.wait(kMiB);
  EXPECT_FALSE(limit.may_begin(now + wait / 2, kMiB));
  EXPECT_TRUE(limit.may_begin(now + wait + 10us, kMiB));
}

TEST(RateLimit, SavesUpNoMoreThanABurst) {
  RateLimit limit;
  TimePoint now{1h};
  std::uint64_t bytes = 0;
  while (limit.may_begin(now, 10 * kMiB)) limit.take(4096), bytes += 4096;
  EXPECT_LE(bytes, 10 * kMiB / 50 + 2 * 4096) << "after an hour";
}

TEST(RateLimit, IsPaidBackAtTheNewRateWhenThatChanges) {
  RateLimit limit;
  TimePoint now{1h};
  while (limit.may_begin(now, 1024)) limit.take(64 << 10);
  EXPECT_GT(limit.wait(1024), 500ms);
  EXPECT_TRUE(limit.may_begin(now + 1ms, 100 * kMiB));
}

TEST(ResyncPace, SharesTheFloorAmongThoseThatAreUnderWay) {
  ResyncPace pace;
  for (unsigned n = 1; n <= 4; ++n) {
    pace.begin();
    EXPECT_EQ(pace.share(8 * kMiB, 0).floor, 8 * kMiB / n);
  }
  EXPECT_EQ(pace.share(8 * kMiB, 2 * kMiB).floor, kMiB / 2) << "a floor above the ceiling is the ceiling";
  EXPECT_EQ(pace.share(8 * kMiB, 2 * kMiB).ceiling, 2 * kMiB);
}

}  // namespace
}  // namespace lockstep::replication
