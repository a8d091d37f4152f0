#pragma once
// A data reactor and what belongs to it alone.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/iser/figures.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"
#include "engine/stores/io_uring.hpp"
#include "iscsi_target/scsi/target_device.hpp"
#include "mgmt/data_plane/configuration.hpp"
#include "mgmt/data_plane/worker_stalls.hpp"

namespace lockstep::data_plane {

struct Worker {
  Worker(const engine::ReactorOptions& options, std::uint64_t buffer_bytes)
      : reactor(options), pool(buffer_bytes, engine::BufferPool::Layout::by_size), device(pool, reactor) {}

  engine::Reactor reactor;
  engine::BufferPool pool;
  std::unique_ptr<engine::IoUring> ring;
  iscsi_target::TargetDevice device;
  WorkerStalls stalls{reactor};
  // Null: there is no RDMA.
  rdma::Completions* completions = nullptr;
  engine::BufferPool* messages = nullptr;
  iser::Figures rdma_hosts;  ///< on the reactor's thread
};

using Workers = std::vector<std::unique_ptr<Worker>>;

/// Not started yet. Errors say what the system refused and what to do.
[[nodiscard]] engine::Result<Workers> make_workers(const Configuration& configuration);

/// Runs `work(worker)` on each worker's reactor and then `done` on the first's.
void on_every_worker(const Workers& workers, std::function<void(Worker&, engine::Callback<>)> work,
                     engine::Callback<> done);

}  // namespace lockstep::data_plane
