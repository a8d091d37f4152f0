#include "replication/core/look_times.hpp"

#include <functional>

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

TimePoint LookTimes::after(TimePoint now, Duration period) const {
  const auto drawn = std::hash<engine::Uuid>{}(pair_) % static_cast<std::uint64_t>(period.count());
  const Duration partners = side_ == engine::NodeSide::b ? period / 2 : Duration{0};
  const Duration first = (Duration(static_cast<Duration::rep>(drawn)) + partners) % period;
  if (now.since_origin < first) return {first};
  return {now.since_origin + period - (now.since_origin - first) % period};
}

}  // namespace lockstep::replication
