#include "mgmt/data_plane/worker.hpp"

#include <atomic>
#include <thread>

namespace lockstep::data_plane {

namespace {
/// On a single processor whoever looks takes the time of what it looks for.
bool has_processor_to_spare() { return std::thread::hardware_concurrency() > 1; }
}  // namespace

engine::Result<Workers> make_workers(const Configuration& configuration) {
  Workers workers;
  for (unsigned i = 0; i < configuration.reactors; ++i) {
    engine::ReactorOptions options;
    options.name = "data" + std::to_string(i);
    if (has_processor_to_spare()) options.busy_poll = std::chrono::microseconds(configuration.busy_poll_us);
    workers.push_back(std::make_unique<Worker>(options, configuration.buffer_mib << 20));
    Worker& worker = *workers.back();
    engine::IoUringOptions ring;
    ring.pool = &worker.pool;
    auto made = engine::IoUring::create(worker.reactor, ring);
    if (!made) return std::unexpected(made.error());
    worker.ring = std::move(*made);
  }
  return workers;
}

void on_every_worker(const Workers& workers, std::function<void(Worker&, engine::Callback<>)> work,
                     engine::Callback<> done) {
  struct Round {
    std::function<void(Worker&, engine::Callback<>)> work;
    engine::Callback<> done;
    std::atomic<std::size_t> left;
    engine::Reactor& home;
    void one_less(const std::shared_ptr<Round>& self) {
      if (left.fetch_sub(1) == 1) home.post([self] { self->done(); });
    }
  };
  auto round = std::make_shared<Round>(std::move(work), std::move(done), workers.size(), workers.front()->reactor);
  for (const auto& worker : workers) {
    worker->reactor.post([round, &worker = *worker] { round->work(worker, [round] { round->one_less(round); }); });
  }
}

}  // namespace lockstep::data_plane
