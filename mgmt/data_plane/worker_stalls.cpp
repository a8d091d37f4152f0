#include "mgmt/data_plane/worker_stalls.hpp"

namespace lockstep::data_plane {

void WorkerStalls::watch(engine::Duration lease) {
  lease_ = lease;
  clock_.cancel(timer_);
  (void)stalls_.look(clock_.now(), lease_ / 10);
  timer_ = clock_.call_after(lease_ / 60, [this] { watch(lease_); });
}

engine::TimePoint WorkerStalls::came_since() {
  if (lease_.count() == 0) return {};
  (void)stalls_.look(clock_.now(), lease_ / 10);
  return stalls_.is_catching_up() ? stalls_.receipt().since : engine::TimePoint{};
}

}  // namespace lockstep::data_plane
