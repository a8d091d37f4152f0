#include "replication/core/resync_governor.hpp"

#include <algorithm>
#include <cassert>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

namespace {
constexpr std::int64_t kMicrosecondsASecond = 1'000'000;
/// Longer ago nothing is earned: the product of a rate and a time has to fit.
constexpr Duration kLongest = std::chrono::seconds(1);

std::int64_t bytes_in(std::uint64_t rate, Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<std::int64_t>(std::min(rate, ResyncGovernor::kFastest)) * us / kMicrosecondsASecond;
}

std::uint64_t rate_of(std::uint64_t bytes, Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return std::min(bytes, ResyncGovernor::kFastest) * kMicrosecondsASecond /
         static_cast<std::uint64_t>(std::max(us, decltype(us){1}));
}
}  // namespace

void ResyncGovernor::begin(TimePoint now) { *this = {}, looked_ = now; }

void ResyncGovernor::note(Kind kind, Duration took) {
  Latency& latency = latencies_[static_cast<std::size_t>(kind)];
  latency.sum += took;
  ++latency.count;
}

/// What is usual falls at once, and rises only where the resync could not be narrower: else it would get used to what
/// it does itself.
bool ResyncGovernor::Latency::look(bool at_floor) {
  const unsigned seen = std::exchange(count, 0);
  const Duration all = std::exchange(sum, Duration{0});
  if (seen < kFewest) return false;
  const Duration mean = all / seen;
  if (usual.count() == 0 || mean < usual) {
    usual = mean;
  } else if (at_floor) {
    usual += (mean - usual) / 16;
  }
  return mean > std::max(usual * 3 / 2, usual + kSlack);
}

void ResyncGovernor::look(TimePoint now, const ResyncLimits& limits) {
  const Duration interval = std::min(now - looked_, kLongest);
  looked_ = now;
  const std::uint64_t least = std::max(limits.floor, kSlowest);
  const bool at_floor = rate_ <= least;
  bool slow = false, idle = true;
  for (Latency& latency : latencies_) {
    idle &= latency.count < kFewest;
    slow |= latency.look(at_floor);
  }
  const auto allowed = static_cast<std::uint64_t>(bytes_in(rate_, interval));
  const std::uint64_t spent = std::exchange(spent_, 0);
  if (slow) {
    mark<"resync.narrowed">();
    // What was not used says nothing.
    rate_ = std::min(rate_, std::max(rate_of(spent, interval), least)) / 2;
  } else if (spent >= allowed / 2) {
    rate_ += idle ? rate_ : std::max(rate_ / 4, least / 4);
  }
}

std::uint64_t ResyncGovernor::rate(TimePoint now, const ResyncLimits& limits) {
  if (now - looked_ >= kInterval) look(now, limits);
  const std::uint64_t most = limits.ceiling == 0 ? kFastest : limits.ceiling;
  rate_ = std::clamp(rate_, std::min(std::max(limits.floor, kSlowest), most), most);
  return rate_;
}

void RateLimit::take(std::uint64_t bytes) {
  const auto taken = static_cast<std::int64_t>(std::min(bytes, ResyncGovernor::kFastest));
  largest_ = std::max(largest_, taken);
  owed_ += taken;
}

bool RateLimit::may_begin(TimePoint now, std::uint64_t rate) {
  owed_ = std::min(owed_, std::max(largest_, bytes_in(rate, kLongest)));
  const Duration passed = std::min(now - since_, kLongest);
  const std::int64_t earned = bytes_in(rate, passed);
  if (earned > 0) {
    since_ = now;
    owed_ = std::max(owed_ - earned, -bytes_in(rate, kBurst));
  }
  return owed_ <= 0;
}

Duration RateLimit::wait(std::uint64_t rate) const {
  if (owed_ <= 0) return Duration{0};
  const auto us = static_cast<std::uint64_t>(owed_) * kMicrosecondsASecond / std::max<std::uint64_t>(rate, 1);
  return std::min<Duration>(std::chrono::microseconds(us + 1), kLongest);
}

ResyncLimits ResyncPace::share(std::uint64_t floor, std::uint64_t ceiling) const {
  assert(active_ > 0);
  return {(ceiling == 0 ? floor : std::min(floor, ceiling)) / active_, ceiling};
}

}  // namespace lockstep::replication
