// What strangers can repeat at will is told a few times and then counted.
#include <gtest/gtest.h>

#include "mgmt/data_plane/repeated_events.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using engine::TimePoint;

Event refused(const std::string& message = "No.") {
  Event event;
  event.kind = "session.refused";
  event.message = message;
  return event;
}

class RepeatedEventsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMaxSources = 16;
  RepeatedEvents events_{kMaxSources};
  TimePoint now_ = TimePoint() + 1h;
  // How many were told at once.
  std::uint64_t happen(const std::string& source, std::uint64_t times) {
    std::uint64_t told = 0;
    for (std::uint64_t i = 0; i < times; ++i) told += events_.take(source, refused(), now_) ? 1 : 0;
    return told;
  }
};

TEST_F(RepeatedEventsTest, TheFirstAreToldTheOthersCountedAndSaidOnceWithTheLastOnesWords) {
  EXPECT_EQ(happen("10.0.0.1", 800), RepeatedEvents::kToldAtOnce);
  EXPECT_FALSE(events_.take("10.0.0.1", refused("The last."), now_));
  EXPECT_TRUE(events_.due(now_).empty());
  now_ = now_ + RepeatedEvents::kFirstWhile;
  const auto counted = events_.due(now_);
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_EQ(counted[0].times, 801 - RepeatedEvents::kToldAtOnce);
  EXPECT_EQ(counted[0].message, "The last.");
}

TEST_F(RepeatedEventsTest, WhatStandsForManyIsCountedAsMany) {
  (void)happen("10.0.0.1", RepeatedEvents::kToldAtOnce);
  Event many = refused();
  many.times = 1000;
  EXPECT_FALSE(events_.take("10.0.0.1", many, now_));
  EXPECT_EQ(happen("10.0.0.1", 1), 0u);
  EXPECT_EQ(events_.due(now_ + RepeatedEvents::kFirstWhile).at(0).times, 1001u);
}

TEST_F(RepeatedEventsTest, OneSourceDoesNotHideAnother) {
  (void)happen("10.0.0.1", 800);
  EXPECT_EQ(happen("10.0.0.2", 3), 3u);
}

TEST_F(RepeatedEventsTest, WhoGoesOnForDaysIsSaidLessAndLessOften) {
  (void)happen("10.0.0.1", 100);
  std::size_t told = 0;
  for (const TimePoint end = now_ + 24h; now_ < end; now_ = now_ + 1s) {
    EXPECT_EQ(happen("10.0.0.1", 20), 0u);
    told += events_.due(now_).size();
  }
  EXPECT_LE(told, 24u * 6 + 10) << "once in ten minutes";
  EXPECT_GE(told, 24u * 6 - 10);
}

TEST_F(RepeatedEventsTest, WhoStoppedIsForgotten) {
  (void)happen("10.0.0.1", 100);
  for (; !events_.empty(); now_ = now_ + 1s) (void)events_.due(now_);
  EXPECT_EQ(happen("10.0.0.1", 1), 1u);
}

TEST_F(RepeatedEventsTest, AThousandSourcesAreBounded) {
  std::uint64_t told = 0;
  for (int i = 0; i < 1000; ++i) told += happen("10.0." + std::to_string(i), 10);
  EXPECT_LE(told, (kMaxSources + 1) * RepeatedEvents::kToldAtOnce);
  EXPECT_LE(events_.due(now_ + 1h).size(), kMaxSources + 1);
}

}  // namespace
}  // namespace lockstep::data_plane
