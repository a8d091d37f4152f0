// A loop's turns, as its owners use them.
#include "mgmt/control/turn_loop.hpp"

#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;

struct CountedTurns {
  std::mutex mutex;
  std::condition_variable changed;
  int taken = 0;

  void take() {
    const std::lock_guard lock(mutex);
    ++taken;
    changed.notify_all();
  }
  bool reach(int count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return taken >= count; });
  }
};

TEST(TurnLoop, TakesATurnWhenItStartsAndOneForEachPoke) {
  CountedTurns turns;
  TurnLoop loop("test", 1h, [&] { turns.take(); });
  loop.start();
  ASSERT_TRUE(turns.reach(1));
  for (int i = 2; i < 5; ++i) {
    loop.poke();
    ASSERT_TRUE(turns.reach(i));
  }
}

TEST(TurnLoop, TakesTurnsByItself) {
  CountedTurns turns;
  TurnLoop loop("test", 1ms, [&] { turns.take(); });
  loop.start();
  EXPECT_TRUE(turns.reach(10));
}

TEST(TurnLoop, APokeInTheMiddleOfATurnBringsAnother) {
  CountedTurns turns;
  std::promise<void> inside, poked;
  TurnLoop loop("test", 1h, [&] {
    if (turns.taken == 0) {
      inside.set_value();
      poked.get_future().wait();
    }
    turns.take();
  });
  loop.start();
  inside.get_future().wait();
  loop.poke();
  poked.set_value();
  EXPECT_TRUE(turns.reach(2));
}

TEST(TurnLoop, GoesOnAfterATurnThatThrows) {
  CountedTurns turns;
  TurnLoop loop("test", 1ms, [&] {
    turns.take();
    throw std::runtime_error("on purpose");
  });
  loop.start();
  EXPECT_TRUE(turns.reach(3));
}

TEST(TurnLoop, StopsAfterTheTurnUnderWayAndTellsItSo) {
  std::promise<void> inside;
  bool ended = false;
  TurnLoop loop("test", 1h, [&] {
    inside.set_value();
    while (!loop.stopping()) std::this_thread::yield();
    ended = true;
  });
  loop.start();
  inside.get_future().wait();
  loop.stop();
  EXPECT_TRUE(ended);
  loop.stop();
}

}  // namespace
}  // namespace lockstep::mgmt
