#pragma once
// A volume's disk as sessions on any reactor see it: brings each request to the reactor that the volume lives on and
// its completion back, without a lock and, once warm, without an allocation. Counts what passes.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/disk.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::data_plane {

struct DiskCounters {
  std::uint64_t reads = 0, writes = 0, read_bytes = 0, write_bytes = 0;
};

class WorkerStalls;

class HopDisk final : public engine::Disk {
 public:
  /// A reactor that may submit, and what is known of its thread.
  struct From {
    engine::Reactor* reactor = nullptr;
    WorkerStalls* stalls = nullptr;  ///< null: nothing is
  };
  /// `home` is the index of the volume's own. They outlive the disk, which is made there.
  HopDisk(engine::Disk& inner, const std::vector<From>& from, std::size_t home);
  /// Nothing in flight.
  ~HopDisk() override;

  [[nodiscard]] const engine::DiskInfo& info() const override { return info_; }
  [[nodiscard]] engine::AccessState access_state() const override { return access_.load(std::memory_order_relaxed); }
  void submit(engine::DiskRequest& request) override;
  /// From another reactor than the disk's own `done` never runs inside, and not before the cancel is back from there.
  void cancel(engine::DiskRequest& request) override;
  /// Any thread, as long as the home reactor runs what is posted before it takes the disk down.
  void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) override;

  /// Looks at the inner disk's access state; on the home reactor.
  void refresh_access() { access_.store(inner_.access_state(), std::memory_order_relaxed); }
  [[nodiscard]] DiskCounters counters() const;  ///< any thread

 private:
  struct Hop;
  /// What one reactor has: only its own thread touches it, but for the counters.
  struct alignas(64) Lane {
    engine::Reactor* reactor = nullptr;
    WorkerStalls* stalls = nullptr;
    Hop* free = nullptr;
    std::vector<std::unique_ptr<Hop>> hops;
    std::atomic<std::uint64_t> reads{0}, writes{0}, read_bytes{0}, write_bytes{0};
  };
  [[nodiscard]] Lane& lane_of_this_thread();
  static void count(Lane& lane, const engine::DiskRequest& request);

  engine::Disk& inner_;
  const engine::DiskInfo info_;
  std::size_t home_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<engine::AccessState> access_;
};

}  // namespace lockstep::data_plane
