// What a link session's window counts, and when it counts it no more.
#include "replication/link/channel/window_bytes.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

constexpr RequestBytes kWrite{.out = 60, .in = 0}, kRead{.out = 0, .in = 60};

TEST(WindowBytes, BoundEachWayForItself) {
  WindowBytes window(100);
  EXPECT_TRUE(window.has_room(kWrite));
  window.sent(kWrite);
  EXPECT_FALSE(window.has_room(kWrite));
  EXPECT_TRUE(window.has_room(kRead));
  window.sent(kRead);
  EXPECT_FALSE(window.has_room(kRead));
  EXPECT_TRUE(window.has_room({.out = 40, .in = 40}));
}

TEST(WindowBytes, CountWhatAWriteTakesUntilItIsAnswered) {
  WindowBytes window(100);
  window.sent(kWrite);
  window.answered(kWrite, {2}, {0});
  EXPECT_TRUE(window.has_room({.out = 100, .in = 100}));
}

TEST(WindowBytes, CountAnAnswerUntilAllBeforeItHaveCome) {
  WindowBytes window(100);
  window.sent(kRead);
  window.sent(kWrite);
  window.answered(kRead, {2}, {0});
  EXPECT_FALSE(window.has_room(kRead)) << "its sender keeps it";
  window.answered(kWrite, {1}, {2});
  EXPECT_TRUE(window.has_room({.out = 100, .in = 100}));
}

TEST(WindowBytes, AreNothingWhenAllIsAnsweredInAnyOrderHoweverOften) {
  WindowBytes window(100);
  for (std::uint64_t first = 1; first < 4 * kNumberedWindow; first += 3) {
    for (int i = 0; i < 3; ++i) window.sent({.out = 10, .in = 20});
    window.answered({.out = 10, .in = 20}, {first + 2}, {first - 1});
    window.answered({.out = 10, .in = 20}, {first}, {first});
    EXPECT_FALSE(window.has_room({.out = 0, .in = 70}));
    window.answered({.out = 10, .in = 20}, {first + 1}, {first + 2});
    ASSERT_TRUE(window.has_room({.out = 100, .in = 100}));
  }
}

}  // namespace
}  // namespace lockstep::replication
