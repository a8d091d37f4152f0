#pragma once
// Time as the cores see it: CLOCK_BOOTTIME in production, simulated time under the simulator.
#include <chrono>
#include <cstdint>

#include "engine/base/result.hpp"

namespace lockstep::engine {

using Duration = std::chrono::nanoseconds;
/// Time since an arbitrary origin of this machine's; never compared between machines.
struct TimePoint {
  Duration since_origin{0};
  auto operator<=>(const TimePoint&) const = default;
  TimePoint operator+(Duration d) const { return {since_origin + d}; }
  Duration operator-(TimePoint o) const { return since_origin - o.since_origin; }
};

enum class TimerId : std::uint64_t { none = 0 };

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  /// Calls `action` once, `delay` from now or later, on the caller's reactor, never from inside this call.
  virtual TimerId call_after(Duration delay, Callback<> action) = 0;
  /// After this returns the action will not run. Cancelling a timer that ran, or TimerId::none, does nothing.
  virtual void cancel(TimerId timer) = 0;
};

}  // namespace lockstep::engine
