#include "engine/runtime/timer_queue.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;

TEST(TimerQueue, ATimerAddedByATimerWaitsForTheNextCall) {
  TimerQueue queue;
  int runs = 0;
  queue.add({1ns}, [&] {
    ++runs;
    queue.add({1ns}, [&] { ++runs; });
  });
  queue.run_due({5ns});
  EXPECT_EQ(runs, 1);
  queue.run_due({5ns});
  EXPECT_EQ(runs, 2);
}

TEST(TimerQueue, ATimerMayCancelAnotherThatIsDueAtTheSameTime) {
  TimerQueue queue;
  TimerId second{};
  bool ran = false;
  queue.add({1ns}, [&] { queue.cancel(second); });
  second = queue.add({2ns}, [&] { ran = true; });
  queue.run_due({5ns});
  EXPECT_FALSE(ran);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TimerQueue, AnOldIdDoesNotCancelTheTimerThatTookItsPlace) {
  TimerQueue queue;
  bool ran = false;
  const TimerId old = queue.add({1ns}, [] {});
  queue.cancel(old);
  queue.add({1ns}, [&] { ran = true; });
  queue.cancel(old);
  queue.run_due({1ns});
  EXPECT_TRUE(ran);
}

TEST(TimerQueue, AgreesWithAnOrderedMapThroughRandomUse) {
  std::mt19937 random(7);
  TimerQueue queue;
  std::map<std::pair<std::int64_t, int>, TimerId> model;
  std::vector<int> ran, expected;
  for (int step = 0; step < 20'000; ++step) {
    const unsigned choice = random() % 8;
    if (choice < 5) {
      const auto at = static_cast<std::int64_t>(step + random() % 500);
      model[{at, step}] = queue.add({Duration(at)}, [&ran, step] { ran.push_back(step); });
    } else if (choice < 7 && !model.empty()) {
      const auto it = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
      queue.cancel(it->second);
      model.erase(it);
    } else {
      while (!model.empty() && model.begin()->first.first <= step) {
        expected.push_back(model.begin()->first.second);
        model.erase(model.begin());
      }
      queue.run_due({Duration(step)});
      ASSERT_EQ(ran, expected);
    }
    ASSERT_EQ(queue.size(), model.size());
    if (!model.empty()) {
      ASSERT_EQ(queue.earliest()->since_origin.count(), model.begin()->first.first);
    }
  }
}

}  // namespace
}  // namespace lockstep::engine
