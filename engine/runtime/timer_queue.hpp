#pragma once
// Timers by deadline: a binary heap over slots that are used again. No clock: the reactor tells it the time.
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/seams/clock.hpp"

namespace lockstep::engine {

class TimerQueue {
 public:
  TimerId add(TimePoint deadline, Callback<> action);
  void cancel(TimerId timer);
  [[nodiscard]] std::optional<TimePoint> earliest() const;
  /// Runs what is due at `now`, in order of deadline, then of addition. Timers added meanwhile wait for the next call.
  void run_due(TimePoint now);
  /// None of them runs any more; what they hold is destroyed.
  void drop_all();
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  static constexpr std::uint32_t kNotInHeap = ~0u;
  struct Slot {
    TimePoint deadline;
    std::uint64_t order = 0;
    Callback<> action;
    std::uint32_t generation = 1;
    std::uint32_t position = kNotInHeap;
  };
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const;
  void place(std::uint32_t slot, std::size_t position);
  void sift_up(std::size_t position);
  void sift_down(std::size_t position);
  Callback<> take(std::uint32_t slot);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> heap_;  // slot numbers
  std::uint64_t next_order_ = 0;
};

}  // namespace lockstep::engine
