#pragma once
// One node's CLOCK_BOOTTIME: runs a little fast or slow, from an origin of its own, and goes on while the node is
// frozen, but not while its virtual machine is paused.
#include <cstdint>
#include <vector>

#include "engine/seams/clock.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

class SimClock final : public engine::Clock {
 public:
  /// `rate` is the clock's speed in parts of a million: 1'050'000 runs 5 % fast.
  SimClock(Scheduler& scheduler, SimRandom random, Owner owner, std::uint32_t rate)
      : scheduler_(scheduler), random_(random), owner_(owner), rate_(rate) {}
  /// For another thread of that clock's machine: the same time, with timers of its own.
  SimClock(Scheduler& scheduler, SimRandom random, Owner owner, const SimClock& machine)
      : scheduler_(scheduler), random_(random), owner_(owner), rate_(machine.rate_), machine_(&machine) {}

  [[nodiscard]] engine::TimePoint now() const override;
  engine::TimerId call_after(engine::Duration delay, engine::Callback<> action) override;
  void cancel(engine::TimerId timer) override;

  /// A new boot: it begins near zero again.
  void reboot();
  [[nodiscard]] std::uint64_t boot() const { return boot_; }
  /// It shows that time again, of the same boot: the machine's memory was set back.
  void set_back(engine::TimePoint then);
  /// The machine is paused: its clock stands still, and timers fire later by as much. What an operator is played to
  /// have it do meanwhile sees that clock, too.
  void pause() {
    paused_at_ = scheduler_.now();
    is_paused_ = true;
  }
  void resume();
  /// The process died: no timer of its fires. Callbacks are destroyed, not run.
  void clear();

 private:
  struct Timer {
    engine::Callback<> action;
    std::uint32_t generation = 1;
    bool armed = false;
    Nanos due = 0;  ///< by unpaused()
  };
  static void fire(void* self, std::uint64_t id);
  void release(std::uint32_t slot);
  /// How long the machine has not been paused.
  [[nodiscard]] Nanos unpaused() const {
    return machine_ ? machine_->unpaused() : (is_paused_ ? paused_at_ : scheduler_.now()) - paused_;
  }

  Scheduler& scheduler_;
  SimRandom random_;
  Owner owner_;
  std::uint32_t rate_;
  const SimClock* machine_ = nullptr;  ///< none: its time is this one's
  Nanos offset_ = 0;
  Nanos began_ = 0;  ///< by unpaused()
  std::uint64_t boot_ = 1;
  Nanos paused_ = 0;  ///< of all pauses that are over
  Nanos paused_at_ = 0;
  bool is_paused_ = false;
  std::vector<Timer> timers_;
  std::vector<std::uint32_t> free_;
};

}  // namespace lockstep::simulation
