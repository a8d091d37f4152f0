#pragma once
// One thread of a node with several: what others post to it. Each of its turns begins with all that was posted until
// then, in order, and goes on for a moment in which sockets and timers come first, as a reactor's does. One that stood
// still may have done so at any place in its turn: all that its sockets have may come before what was posted.
#include <utility>
#include <vector>

#include "engine/seams/executor.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

class SimThread final : public engine::Executor, private Inbox {
 public:
  SimThread(Scheduler& scheduler, SimRandom random, Owner owner, Nanos latest_wake)
      : scheduler_(scheduler), random_(random), owner_(owner), latest_wake_(latest_wake) {
    scheduler_.set_inbox(owner_, this);
  }
  ~SimThread() override { close(); }
  SimThread(const SimThread&) = delete;
  SimThread& operator=(const SimThread&) = delete;

  void post(engine::Callback<> work) override {
    if (closed_) return;
    posted_.push_back(std::move(work));
    if (!std::exchange(awake_, true)) wake(random_.skewed(200, latest_wake_));
  }
  /// The process ends: nothing that is posted runs any more.
  void close() {
    if (std::exchange(closed_, true)) return;
    scheduler_.set_inbox(owner_, nullptr);
    const auto dropped = std::exchange(posted_, {});
  }

 private:
  static constexpr Nanos kLongestTurn = 100 * kMicrosecond;

  void wake(Nanos delay) { scheduler_.after(delay, owner_, &SimThread::on_wake, this); }
  static void on_wake(void* self, std::uint64_t) {
    auto& thread = *static_cast<SimThread*>(self);
    if (thread.posted_.empty()) {
      thread.awake_ = false;
    } else {
      thread.wake(thread.turn_until_ - thread.scheduler_.now());
    }
  }
  void before_event() override {
    const Nanos now = scheduler_.now();
    if (now < turn_until_) return;
    turn_until_ = now + random_.skewed(1, kLongestTurn);
    auto turn = std::exchange(posted_, {});
    for (auto& work : turn) work();
  }

  void thawed(Nanos within) override {
    if (random_.chance(500'000)) turn_until_ = scheduler_.now() + within;
  }

  Scheduler& scheduler_;
  SimRandom random_;
  Owner owner_;
  Nanos latest_wake_;
  Nanos turn_until_ = 0;
  std::vector<engine::Callback<>> posted_;
  bool awake_ = false;
  bool closed_ = false;
};

}  // namespace lockstep::simulation
