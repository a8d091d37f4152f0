#pragma once
// What a simulated machine keeps of replicas that left: on its own disk, beside the volumes' stores.
#include <map>

#include "engine/seams/clock.hpp"
#include "replication/core/left_records.hpp"

namespace lockstep::simulation {

struct LeftOnDisk {
  std::map<engine::Uuid, engine::EpochRecord> records;
  bool broken = false;  ///< no more can be kept
};

/// A process's way to it.
class SimLeftRecords final : public replication::LeftRecords {
 public:
  SimLeftRecords(engine::Clock& clock, LeftOnDisk& disk) : clock_(clock), disk_(disk) {}

  void keep(const engine::Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) override {
    const bool kept = !disk_.broken;
    if (kept) disk_.records[volume] = record;
    clock_.call_after(kTakes, [kept, done = std::move(done)]() mutable {
      done(kept ? std::error_code{} : make_error_code(engine::Errc::io_error));
    });
  }
  [[nodiscard]] engine::IoResult<std::optional<engine::EpochRecord>> kept(const engine::Uuid& volume) const override {
    const auto found = disk_.records.find(volume);
    if (found == disk_.records.end()) return std::nullopt;
    return found->second;
  }
  void forget(const engine::Uuid& volume) override { disk_.records.erase(volume); }

 private:
  static constexpr engine::Duration kTakes = std::chrono::milliseconds(3);
  engine::Clock& clock_;
  LeftOnDisk& disk_;
};

}  // namespace lockstep::simulation
