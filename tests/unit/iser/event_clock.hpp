#pragma once
// Time that goes from one timer to the next.
#include <functional>
#include <map>
#include <utility>

#include "engine/seams/clock.hpp"

namespace lockstep::test {

class EventClock final : public engine::Clock {
 public:
  [[nodiscard]] engine::TimePoint now() const override { return now_; }
  engine::TimerId call_after(engine::Duration delay, engine::Callback<> action) override {
    const engine::TimerId id{++last_};
    timers_.emplace(std::pair(now_ + delay, id), std::move(action));
    return id;
  }
  void cancel(engine::TimerId timer) override {
    std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
  }
  /// False when there is none left, or none within `limit`.
  bool step(engine::Duration limit = std::chrono::hours(1)) {
    if (timers_.empty() || timers_.begin()->first.first - now_ > limit) return false;
    auto next = timers_.extract(timers_.begin());
    now_ = std::max(now_, next.key().first);
    next.mapped()();
    return true;
  }
  /// True as soon as `condition` holds; false when it does not within `limit`.
  bool run_until(const std::function<bool()>& condition, engine::Duration limit = std::chrono::seconds(60)) {
    const engine::TimePoint end = now_ + limit;
    while (!condition()) {
      if (now_ > end || !step(end - now_)) return condition();
    }
    return true;
  }
  void run_for(engine::Duration time) {
    const engine::TimePoint end = now_ + time;
    while (step(end - now_)) {
    }
    now_ = end;
  }

 private:
  engine::TimePoint now_;
  std::uint64_t last_ = 0;
  std::map<std::pair<engine::TimePoint, engine::TimerId>, engine::Callback<>> timers_;
};

}  // namespace lockstep::test
