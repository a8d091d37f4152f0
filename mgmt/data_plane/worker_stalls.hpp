#pragma once
// Whether a worker's thread stands still now and then: what its sessions bring to volumes on other reactors is as old
// as that. On the worker's reactor.
#include "engine/seams/clock.hpp"
#include "replication/core/stall_watch.hpp"

namespace lockstep::data_plane {

class WorkerStalls {
 public:
  explicit WorkerStalls(engine::Clock& clock) : clock_(clock) {}
  ~WorkerStalls() { clock_.cancel(timer_); }
  WorkerStalls(const WorkerStalls&) = delete;
  WorkerStalls& operator=(const WorkerStalls&) = delete;

  /// From now on, by that lease.
  void watch(engine::Duration lease);
  /// For DiskRequest::came_since: nothing when the thread has not stood still.
  [[nodiscard]] engine::TimePoint came_since();

 private:
  engine::Clock& clock_;
  engine::Duration lease_{0};  ///< 0: nobody watches
  replication::StallWatch stalls_;
  engine::TimerId timer_ = engine::TimerId::none;
};

}  // namespace lockstep::data_plane
