#include "replication/core/cleaning_pace.hpp"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kBound = 65536;  ///< 4 GiB of regions of 64 KiB
constexpr std::uint64_t kMostAtOnce = 262144;
constexpr milliseconds kTick{25};

/// Writes dirty regions, and a cleaner goes by the pace; millisecond by millisecond.
struct Volume {
  /// A second; of `of_all` regions that are written at random, or of new ones each time.
  double written;
  double of_all = 0;
  milliseconds flush{10};  ///< a batch takes that long

  CleaningPace pace{kBound};
  milliseconds now{1};
  double dirty = 0, most = 0;
  std::uint64_t batches = 0;
  std::uint64_t batch = 0;
  milliseconds began{0};

  [[nodiscard]] engine::TimePoint time() const { return {now}; }
  void write() {
    const double fresh = of_all > 0 ? 1 - dirty / of_all : 1;
    dirty += written / 1000 * fresh;
    most = std::max(most, dirty);
  }
  void clean() {
    if (batch > 0 && now - began >= flush) {
      dirty -= static_cast<double>(batch);
      pace.end({began}, time(), std::exchange(batch, 0));
    }
    if (now.count() % kTick.count() != 0) return;
    pace.look(time(), static_cast<std::uint64_t>(dirty));
    if (!pace.is_due(time()) || batch > 0) return;
    pace.begin(time());
    batch = std::min(std::min(pace.too_many(), static_cast<std::uint64_t>(dirty)), kMostAtOnce);
    if (batch == 0) return;
    ++batches;
    began = now;
  }
  void run(milliseconds time) {
    for (const auto end = now + time; now < end; now += milliseconds(1)) {
      write();
      clean();
    }
  }
};

constexpr double regions_in(double gigabytes) { return gigabytes * 1e9 / 65536; }

TEST(CleaningPace, KeepsToTheBoundAtAnyRateThatADiskReaches) {
  for (const double gigabytes : {0.01, 0.2, 0.7, 1.0, 2.0, 5.0, 8.0, 9.9, 10.0, 12.0, 20.0}) {
    for (const int flush : {1, 10, 50}) {
      Volume volume{.written = regions_in(gigabytes), .flush = milliseconds(flush)};
      volume.run(std::chrono::seconds(60));
      EXPECT_LE(volume.most, kBound) << gigabytes << " GB/s, flushes take " << flush << " ms";
    }
  }
}

TEST(CleaningPace, IsPassedByNoMoreThanWhatIsWrittenDuringTwoSlowFlushes) {
  Volume volume{.written = regions_in(3), .flush = std::chrono::seconds(2)};
  volume.run(std::chrono::seconds(60));
  EXPECT_LE(volume.most, kBound + 2 * 2 * volume.written);
}

/// A disk that writes slowly flushes slowly, too: it is not asked more often than that.
TEST(CleaningPace, AsksASlowDiskForNoMoreFlushesThanFiveASecond) {
  Volume volume{.written = regions_in(0.2), .flush = milliseconds(30)};
  volume.run(std::chrono::seconds(120));
  EXPECT_GT(volume.dirty, kBound * 0.9);
  EXPECT_LE(volume.batches, 120u * 5);
}

/// What is written again and again is marked once, where all of it is within the bound.
TEST(CleaningPace, LeavesAloneWhatIsWithinTheBound) {
  Volume volume{.written = 100'000, .of_all = kBound * 0.9};
  volume.run(std::chrono::seconds(60));
  EXPECT_GT(volume.dirty, kBound * 0.85);
  EXPECT_LT(volume.batches, 10u);
}

TEST(CleaningPace, KeepsToTheBoundWhereMoreThanThatIsWrittenAtRandom) {
  for (const double in_all : {1.2, 2.0, 30.0}) {
    for (const double written : {10'000.0, 100'000.0, 300'000.0}) {
      Volume volume{.written = written, .of_all = kBound * in_all};
      volume.run(std::chrono::seconds(60));
      EXPECT_LE(volume.most, kBound) << written << " writes a second over " << in_all << " times the bound";
      EXPECT_GT(volume.most, kBound / 4);
    }
  }
}

TEST(CleaningPace, HasNothingToDoWhereNothingIsWritten) {
  CleaningPace pace(kBound);
  pace.look({milliseconds(25)}, 100);
  pace.look({milliseconds(25)}, 50);
  pace.look({milliseconds(50)}, 0);
  pace.end({milliseconds(25)}, {milliseconds(50)}, 200);
  EXPECT_EQ(pace.too_many(), 0u);
  EXPECT_FALSE(pace.is_due({milliseconds(50)}));
  EXPECT_TRUE(pace.is_due({milliseconds(250)}));
}

}  // namespace
}  // namespace lockstep::replication
