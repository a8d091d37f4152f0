#pragma once
// Notices that a thread stood still: it is to look at its clock all the time, and there was a gap. What it gets to see
// for a moment afterwards waited in its machine meanwhile, and is as old as the gap.
#include <algorithm>
#include <utility>

#include "engine/seams/clock.hpp"
#include "replication/core/receipt.hpp"

namespace lockstep::replication {

class StallWatch {
 public:
  /// Within which a program that goes on has read all that came to its machine meanwhile.
  static constexpr engine::Duration kCatchesUpWithin = std::chrono::milliseconds(200);

  /// It is `at` now. True when there was a gap longer than `unnoticed`.
  bool look(engine::TimePoint at, engine::Duration unnoticed) {
    const engine::TimePoint then = std::exchange(awake_at_, at);
    if (then.since_origin.count() == 0 || awake_at_ - then < unnoticed) return false;
    old_since_ = is_catching_up() ? std::min(old_since_, then) : then;
    old_until_ = awake_at_ + kCatchesUpWithin;
    return true;
  }
  /// What is seen from now on, for a moment, came no earlier than that, whatever the clock showed meanwhile.
  void take_for_old(engine::TimePoint since) {
    old_since_ = since;
    old_until_ = awake_at_ + kCatchesUpWithin;
  }
  /// By the last look.
  [[nodiscard]] bool is_catching_up() const { return awake_at_ < old_until_; }
  /// Of a command that is seen at the last look.
  [[nodiscard]] Receipt receipt() const { return {is_catching_up() ? old_since_ : awake_at_, awake_at_}; }

 private:
  engine::TimePoint awake_at_;   ///< the last look
  engine::TimePoint old_since_;  ///< what is seen until then may be as old as that
  engine::TimePoint old_until_;
};

}  // namespace lockstep::replication
