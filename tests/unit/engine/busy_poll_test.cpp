#include "engine/runtime/busy_poll.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLimit = 100us;

struct BusyPollTest : testing::Test {
  BusyPoll poll{kLimit};
  TimePoint now{1h};
  void work_comes_every(Duration time, int times) {
    for (int i = 0; i < times; ++i) poll.worked(now = now + time);
  }
};

TEST_F(BusyPollTest, LooksOnWhereWorkHasBeenNearAndForNoLongerThanTheLimit) {
  work_comes_every(30us, 20);
  EXPECT_TRUE(poll.looks(now));
  EXPECT_TRUE(poll.looks(now + 99us));
  EXPECT_FALSE(poll.looks(now + 100us));
}

TEST_F(BusyPollTest, SleepsAtOnceWhereWorkIsRare) {
  work_comes_every(10ms, 20);
  EXPECT_FALSE(poll.looks(now));
}

TEST_F(BusyPollTest, OneLongPauseIsNoHabitAndManyAre) {
  work_comes_every(30us, 20);
  work_comes_every(1h, 1);
  EXPECT_TRUE(poll.looks(now));
  work_comes_every(1h, 2);
  EXPECT_FALSE(poll.looks(now));
}

TEST_F(BusyPollTest, IsBackSoonAfterWorkHasBecomeFrequentAgain) {
  work_comes_every(1s, 100);
  work_comes_every(30us, 15);
  EXPECT_TRUE(poll.looks(now));
}

TEST_F(BusyPollTest, WithoutALimitNobodyLooks) {
  BusyPoll off{Duration{0}};
  EXPECT_FALSE(off.on());
  off.worked(now);
  EXPECT_FALSE(off.looks(now));
}

}  // namespace
}  // namespace lockstep::engine
