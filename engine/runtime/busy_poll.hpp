#pragma once
// Whether a thread that has nothing to do goes on looking for a while, or sleeps: it looks where the next work has been
// near, and sleeps where it has not, so that an idle or slowly used node burns nothing.
#include <algorithm>

#include "engine/seams/clock.hpp"

namespace lockstep::engine {

class BusyPoll {
 public:
  explicit BusyPoll(Duration limit) : limit_(limit) {}

  [[nodiscard]] bool on() const { return limit_ > Duration::zero(); }
  void worked(TimePoint now) {
    const Duration waited = std::min(now - last_work_, kLongest * limit_);
    typical_ += (waited - typical_) / kWeight;
    last_work_ = now;
  }
  /// Work is likely to come before `limit` is over, counted from the last.
  [[nodiscard]] bool looks(TimePoint now) const { return typical_ < limit_ && now - last_work_ < limit_; }

 private:
  static constexpr int kWeight = 8;   ///< one in so many of a new wait goes into what is typical
  static constexpr int kLongest = 4;  ///< limits: a single long wait is no habit

  Duration limit_;
  Duration typical_{0};
  TimePoint last_work_;
};

}  // namespace lockstep::engine
