#include "engine/runtime/reactor.hpp"

#include <array>
#include <functional>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;

struct Hook final : TurnHook {
  std::function<void()> action;
  void end_of_turn() override { action(); }
};

TEST(Reactor, RunsWhatOneThreadPostedInTheOrderOfPosting) {
  Reactor reactor;
  reactor.start();
  constexpr std::size_t kMany = 20'000;
  std::vector<std::size_t> seen;
  std::latch done(1);
  struct Item {
    ReactorTask task;
    std::vector<std::size_t>* seen;
    std::latch* done;
    std::size_t number;
  };
  std::vector<Item> items(kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    items[i].seen = &seen;
    items[i].done = &done;
    items[i].number = i;
    items[i].task.owner = &items[i];
    items[i].task.run = [](ReactorTask& task) {
      Item& item = *static_cast<Item*>(task.owner);
      item.seen->push_back(item.number);
      if (item.number == kMany - 1) item.done->count_down();
    };
    reactor.post(items[i].task);
  }
  done.wait();
  ASSERT_EQ(seen.size(), kMany);
  for (std::size_t i = 0; i < kMany; ++i) ASSERT_EQ(seen[i], i);
}

TEST(Reactor, LosesNoTaskOfManyThreadsWhileItFallsAsleepAndWakesUp) {
  Reactor reactor;
  reactor.start();
  constexpr int kThreads = 4, kEach = 5000;
  int count = 0;  // touched by the reactor's thread only: a race would be TSan's to find
  std::latch done(kThreads * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        reactor.post([&] { ++count, done.count_down(); });
        if (i % 64 == 0) std::this_thread::yield();
      }
    });
  }
  done.wait();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kEach);
}

/// A task that goes back and forth between two reactors, asleep between the hops.
struct PingPong {
  ReactorTask task;
  std::array<Reactor*, 2> reactors;
  int hops = 0;
  std::latch done{1};
  static void hop(ReactorTask& task) {
    PingPong& self = *static_cast<PingPong*>(task.owner);
    EXPECT_TRUE(self.reactors[static_cast<std::size_t>(self.hops % 2)]->on_this_thread());
    if (++self.hops == 2000) return self.done.count_down();
    self.reactors[static_cast<std::size_t>(self.hops % 2)]->post(task);
  }
};

TEST(Reactor, ATaskHopsBetweenTwoReactorsThatSleepInBetween) {
  Reactor a({.name = "a"}), b({.name = "b"});
  PingPong game;
  game.reactors = {&a, &b};
  game.task.run = &PingPong::hop;
  game.task.owner = &game;
  a.start();
  b.start();
  a.post(game.task);
  game.done.wait();
  // Whoever posts to a reactor has ended before it goes away.
  for (Reactor* reactor : game.reactors) reactor->stop();
  for (Reactor* reactor : game.reactors) reactor->join();
  EXPECT_EQ(game.hops, 2000);
}

TEST(Reactor, ATaskPostedByATaskRunsInALaterTurn) {
  Reactor reactor;
  std::vector<int> order;
  reactor.post([&] {
    reactor.post([&] { order.push_back(2), reactor.stop(); });
    order.push_back(1);
  });
  reactor.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Reactor, CollectsManyRequestsOfATurnIntoOneCallAtItsEnd) {
  Reactor reactor;
  int wanted = 0, calls = 0;
  Hook hook;
  hook.action = [&] {
    ++calls;
    EXPECT_EQ(wanted, 100);
    reactor.stop();
  };
  for (int i = 0; i < 100; ++i) {
    reactor.post([&] { ++wanted, reactor.at_end_of_turn(hook); });
  }
  reactor.run();
  EXPECT_EQ(calls, 1);
}

TEST(Reactor, AHookRequestedByAHookRunsInTheSameTurn) {
  Reactor reactor;
  Hook submit, send;
  std::uint64_t turn_of_submit = 0, turn_of_send = 0;
  submit.action = [&] { turn_of_submit = reactor.stats().turns, reactor.at_end_of_turn(send); };
  send.action = [&] { turn_of_send = reactor.stats().turns, reactor.stop(); };
  reactor.at_end_of_turn(submit);
  reactor.run();
  EXPECT_EQ(turn_of_submit, turn_of_send);
}

TEST(Reactor, WhatATurnIsAskedForMeanwhileNeedsNoOther) {
  Reactor reactor;
  Hook submit, send;
  submit.action = [&] { reactor.at_end_of_turn(send); };
  send.action = [&] { reactor.call_after(5ms, [&] { reactor.stop(); }); };
  reactor.at_end_of_turn(submit);
  reactor.run();
  EXPECT_EQ(reactor.stats().turns, 2u) << "the hooks' and the timer's";
}

TEST(Reactor, AHookThatRequestsItselfForEverStarvesNobody) {
  Reactor reactor;
  Hook greedy;
  greedy.action = [&] { reactor.at_end_of_turn(greedy); };
  reactor.at_end_of_turn(greedy);
  reactor.call_after(1ms, [&] { reactor.stop(); });
  reactor.run();
}

TEST(Reactor, AHookThatIsGoneIsNotCalled) {
  Reactor reactor;
  bool called = false;
  {
    Hook hook;
    hook.action = [&] { called = true; };
    reactor.at_end_of_turn(hook);
  }
  reactor.post([&] { reactor.stop(); });
  reactor.run();
  EXPECT_FALSE(called);
}

TEST(Reactor, SocketsOnItsContextBelongToItsTurns) {
  Reactor reactor;
  using boost::asio::local::stream_protocol;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  stream_protocol::socket socket(io_context(reactor), stream_protocol(), ends[0]);
  std::vector<std::string> events;
  Hook hook;
  hook.action = [&] { events.push_back("end of turn"), reactor.stop(); };
  char byte = 0;
  socket.async_read_some(boost::asio::buffer(&byte, 1), [&](auto error, std::size_t) {
    EXPECT_FALSE(error);
    EXPECT_TRUE(reactor.on_this_thread());
    events.push_back("read");
    reactor.at_end_of_turn(hook);
  });
  reactor.start();
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  reactor.join();
  EXPECT_EQ(events, (std::vector<std::string>{"read", "end of turn"}));
  close(ends[1]);
}

/// Who looks for more events before the turn finds what was posted.
TEST(Reactor, WhereEventsComeOneByOneTheirTurnsFollowAtOnce) {
  Reactor reactor;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  boost::asio::posix::stream_descriptor socket(io_context(reactor), ends[0]);
  std::string order;
  std::binary_semaphore ended(0);
  const auto note = [&](const char* what) {
    order += what;
    if (order.size() % 2 == 0) ended.release();
  };
  Hook hook;
  hook.action = [&] { note("t"); };
  std::function<void()> wait = [&] {
    socket.async_wait(boost::asio::posix::stream_descriptor::wait_read, [&](auto error) {
      if (error) return;
      const ReactorEvent event(reactor);
      char byte = 0;
      EXPECT_EQ(read(ends[0], &byte, 1), 1);
      boost::asio::post(io_context(reactor), [&] { note("p"); });
      reactor.at_end_of_turn(hook);
      wait();
    });
  };
  wait();
  reactor.start();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    ended.acquire();
  }
  reactor.stop();
  reactor.join();
  EXPECT_EQ(order, "pttptp");
  close(ends[1]);
}

TEST(Reactor, SleepsWhenThereIsNothingToDo) {
  Reactor reactor;
  reactor.call_after(50ms, [&] { reactor.stop(); });
  reactor.run();
  EXPECT_LT(reactor.stats().turns, 20u);
  EXPECT_GE(reactor.stats().sleeps, 1u);
}

struct CountingPoller final : TurnPoller {
  int polls = 0, woken = 0, asked = 0;
  bool ready = false;
  bool poll() override { return ++polls, ready = false; }
  bool prepare_to_sleep() override { return ++asked, !ready; }
  void woke_up() override { ++woken; }
};

TEST(Reactor, LooksOnForWorkAfterItsLastAsLongAsItWasTold) {
  struct Hundredth final : TurnPoller {
    explicit Hundredth(Reactor& r) : reactor(r) {}
    bool poll() override {
      if (++polls == 100) reactor.stop();
      return false;
    }
    bool prepare_to_sleep() override { return true; }
    void woke_up() override {}
    Reactor& reactor;
    int polls = 0;
  };
  Reactor reactor({.busy_poll = 1h});
  Hundredth poller(reactor);
  reactor.add_poller(poller);
  reactor.post([&] { reactor.call_after(20s, [&] { reactor.stop(); }); });
  reactor.run();
  EXPECT_EQ(poller.polls, 100);
  EXPECT_EQ(reactor.stats().sleeps, 0u);
  reactor.remove_poller(poller);
}

TEST(Reactor, DoesNotSleepWhileAPollerHasWork) {
  Reactor reactor;
  CountingPoller poller;
  poller.ready = true;
  reactor.add_poller(poller);
  reactor.call_after(1ms, [&] { reactor.stop(); });
  reactor.run();
  EXPECT_GE(poller.polls, 1);
  EXPECT_GE(poller.asked, 1);
  EXPECT_GE(poller.woken, 1);
  reactor.remove_poller(poller);
}

TEST(Reactor, IsWokenThroughItsWakeDescriptor) {
  Reactor reactor;
  CountingPoller poller;
  reactor.add_poller(poller);
  reactor.post([&] {
    reactor.post([&] {
      const int before = poller.polls;
      std::uint64_t one = 1;
      ASSERT_EQ(write(reactor.wake_descriptor(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
      reactor.call_after(1ms, [&, before] {
        EXPECT_GT(poller.polls, before);
        reactor.stop();
      });
    });
  });
  reactor.run();
  reactor.remove_poller(poller);
}

TEST(Reactor, TimersRunInOrderOfTheirDeadlinesAndNotBefore) {
  Reactor reactor;
  std::vector<int> order;
  const TimePoint start = reactor.now();
  reactor.call_after(20ms, [&] {
    order.push_back(3);
    EXPECT_GE(reactor.now() - start, 20ms);
    reactor.stop();
  });
  reactor.call_after(5ms, [&] {
    order.push_back(1);
    EXPECT_GE(reactor.now() - start, 5ms);
  });
  reactor.call_after(5ms, [&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  reactor.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Reactor, ATimerSetLaterForAnEarlierTimeIsNotHeldUp) {
  Reactor reactor;
  bool late_ran = false;
  const TimerId late = reactor.call_after(1h, [&] { late_ran = true; });
  reactor.call_after(1ms, [&] { reactor.call_after(1ms, [&] { reactor.stop(); }); });
  reactor.run();
  EXPECT_FALSE(late_ran);
  reactor.cancel(late);
}

TEST(Reactor, ATimerWithoutDelayRunsInALaterTurnBeforeTheThreadSleeps) {
  Reactor reactor;
  int ran = 0;
  std::function<void()> next = [&] {
    if (++ran == 100) return reactor.stop();
    const int before = ran;
    reactor.call_after(0s, [&] { next(); });
    EXPECT_EQ(ran, before);
  };
  reactor.call_after(0s, [&] { next(); });
  const auto sleeps = reactor.stats().sleeps;
  reactor.run();
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(reactor.stats().sleeps, sleeps) << "each would be an alarm, a wake-up and three system calls";
}

TEST(Reactor, ACancelledTimerDoesNotRun) {
  Reactor reactor;
  bool ran = false;
  const TimerId timer = reactor.call_after(1ms, [&] { ran = true; });
  reactor.cancel(timer);
  reactor.cancel(timer);
  reactor.cancel(TimerId::none);
  reactor.call_after(3ms, [&] { reactor.stop(); });
  reactor.run();
  EXPECT_FALSE(ran);
}

TEST(Reactor, ItsClockGoesOnWhileTheMachineSleeps) {
  Reactor reactor;
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const auto expected = std::chrono::seconds(boot.tv_sec) + std::chrono::nanoseconds(boot.tv_nsec);
  EXPECT_LT(std::chrono::abs(reactor.now().since_origin - expected), 1s);
}

TEST(Reactor, ATimerThatNeverRanMayHoldASocketOfTheReactors) {
  auto reactor = std::make_unique<Reactor>(ReactorOptions{});
  auto held = std::make_shared<boost::asio::local::stream_protocol::socket>(io_context(*reactor));
  held->open();
  const int descriptor = held->native_handle();
  reactor->call_after(std::chrono::hours(1), [held = std::move(held)] {});
  reactor.reset();
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1) << "the socket is still open";
}

TEST(Reactor, MayBeRunAgainAfterItWasStopped) {
  Reactor reactor;
  int runs = 0;
  for (int i = 0; i < 3; ++i) {
    reactor.post([&] { ++runs, reactor.stop(); });
    reactor.run();
  }
  EXPECT_EQ(runs, 3);
}

TEST(Reactor, DropsWhatWasPostedAfterItStopped) {
  auto token = std::make_shared<int>(0);
  {
    Reactor reactor;
    reactor.post([token] { FAIL() << "nobody runs this reactor"; });
    reactor.call_after(1ms, [token] { FAIL(); });
  }
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace lockstep::engine
