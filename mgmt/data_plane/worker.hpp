#pragma once
// A data reactor and what belongs to it alone.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"
#include "engine/stores/io_uring.hpp"
#include "iscsi_target/scsi/target_device.hpp"
#include "mgmt/data_plane/configuration.hpp"
#include "replication/core/stall_watch.hpp"

namespace lockstep::data_plane {

/// Whether the worker's thread stands still now and then: what its sessions bring to volumes on other reactors is as
/// old as that. On the worker's reactor.
class WorkerStalls {
 public:
  explicit WorkerStalls(engine::Reactor& reactor) : reactor_(reactor) {}
  ~WorkerStalls() { reactor_.cancel(timer_); }
  WorkerStalls(const WorkerStalls&) = delete;
  WorkerStalls& operator=(const WorkerStalls&) = delete;

  /// From now on, by that lease.
  void watch(engine::Duration lease);
  /// For DiskRequest::came_since: nothing when the thread has not stood still.
  [[nodiscard]] engine::TimePoint came_since();

 private:
  engine::Reactor& reactor_;
  engine::Duration lease_{0};  ///< 0: nobody watches
  replication::StallWatch stalls_;
  engine::TimerId timer_ = engine::TimerId::none;
};

struct Worker {
  Worker(const engine::ReactorOptions& options, std::uint64_t buffer_bytes)
      : reactor(options), pool(buffer_bytes, engine::BufferPool::Layout::by_size), device(pool) {}

  engine::Reactor reactor;
  engine::BufferPool pool;
  std::unique_ptr<engine::IoUring> ring;
  iscsi_target::TargetDevice device;
  WorkerStalls stalls{reactor};
  // Null: there is no RDMA.
  rdma::Completions* completions = nullptr;
  engine::BufferPool* messages = nullptr;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

/// Not started yet. Errors say what the system refused and what to do.
[[nodiscard]] engine::Result<Workers> make_workers(const Configuration& configuration);

/// Runs `work(worker)` on each worker's reactor and then `done` on the first's.
void on_every_worker(const Workers& workers, std::function<void(Worker&, engine::Callback<>)> work,
                     engine::Callback<> done);

}  // namespace lockstep::data_plane
