#pragma once
// One thread that owns everything it touches: sockets (Asio), io_uring, timers, and work posted by other threads.
//
// It runs in turns. A turn: what other threads posted, one batch of ready sockets and timers, the pollers, then the
// hooks that asked for the end of this turn. Drivers collect during a turn and submit or send once at its end: many
// commands, one system call. With nothing to do the thread sleeps.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/result.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/executor.hpp"

namespace lockstep::engine {

/// Work posted without allocation: embedded in whatever is sent from one reactor to another, and bounded by its number.
struct ReactorTask {
  void (*run)(ReactorTask&) = nullptr;
  void* owner = nullptr;        ///< for the poster
  ReactorTask* next = nullptr;  ///< the reactor's while posted
};

/// Called at the end of each turn for which it was requested (Reactor::at_end_of_turn).
class TurnHook {
 public:
  TurnHook() = default;
  TurnHook(const TurnHook&) = delete;
  TurnHook& operator=(const TurnHook&) = delete;
  /// May request itself or others again: they still run in this turn, up to a bound, then in the next.
  virtual void end_of_turn() = 0;
  virtual ~TurnHook();  ///< takes itself off the list

 private:
  friend class TurnHooks;
  TurnHook* prev_ = nullptr;
  TurnHook* next_ = nullptr;
};

/// A source of completions that is looked at once a turn while it has something outstanding.
class TurnPoller {
 public:
  TurnPoller() = default;
  virtual ~TurnPoller() = default;
  TurnPoller(const TurnPoller&) = delete;
  TurnPoller& operator=(const TurnPoller&) = delete;
  /// True when it found something to do.
  virtual bool poll() = 0;
  /// The thread is about to sleep: arm whatever wakes it. False when there is work already.
  virtual bool prepare_to_sleep() = 0;
  /// The thread is awake and will call poll() before it sleeps again.
  virtual void woke_up() {}
};

struct ReactorOptions {
  std::string name = "reactor";  ///< of the thread, at most 15 characters are shown
  int cpu = -1;                  ///< pins the thread of start() where that is allowed, -1: not
  /// How long to go on looking for work before sleeping, where work has been coming that soon (busy_poll.hpp).
  Duration busy_poll{0};
};

struct ReactorStats {
  std::uint64_t turns = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t tasks = 0;
};

/// Unless said otherwise a member is called on the reactor's own thread, or while no thread runs it.
class Reactor final : public Clock, public Executor {
 public:
  explicit Reactor(ReactorOptions options = {});
  /// Stops and joins. Work posted and not run is dropped; timers not fired are destroyed.
  ~Reactor() override;

  /// Runs it on a thread of its own. Once.
  void start();
  /// Runs it on the calling thread until stop(); may be run again after that.
  void run();
  /// Any thread. The current turn is finished, then the thread ends.
  void stop();
  /// Waits until the thread of start() has ended. Any other thread.
  void join();
  /// Any thread.
  [[nodiscard]] bool on_this_thread() const;

  /// Any thread: runs `task` once in a later turn, in the order in which one thread posted. No allocation; the wake-up
  /// costs a system call only when the reactor sleeps. The task is free for reuse when run() is called.
  void post(ReactorTask& task);
  /// Any thread: the same for rare work; allocates.
  void post(Callback<> work) override;

  void at_end_of_turn(TurnHook& hook);
  void add_poller(TurnPoller& poller);
  void remove_poller(TurnPoller& poller);
  /// An eventfd that ends the sleep when it is written: for the kernel's completions (io_uring).
  [[nodiscard]] int wake_descriptor() const;

  /// CLOCK_BOOTTIME: goes on while the machine sleeps. Any thread.
  [[nodiscard]] TimePoint now() const override;
  TimerId call_after(Duration delay, Callback<> action) override;
  void cancel(TimerId timer) override;

  [[nodiscard]] ReactorStats stats() const;

 private:
  friend struct ReactorAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
