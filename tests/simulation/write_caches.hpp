#pragma once
// Writes that may be in a write cache only: which of them a power cut may take. Nothing is lost while a member goes on
// that has them all, in its machine's cache or on its disk; nothing that was flushed, or came with FUA, ever is.
#include <array>
#include <vector>

#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class WriteCaches {
 public:
  explicit WriteCaches(World& world);

  /// From now on some node may keep writes in its cache, or none does any more.
  void switched(unsigned volume, bool on);
  /// A process starts: it caches what it is configured to.
  void booted();
  /// The process ended, perhaps with the machine's power. After its disks have lost what they lose.
  void ended(const Host& host, bool lost_power);
  /// Its process lets go of the volume, and may take it up again.
  void detached(const Host& host, unsigned volume);
  void status_seen(const Host& host, unsigned volume, const replication::VolumeStatus& status);
  /// When it is acknowledged the write need not be on stable storage.
  [[nodiscard]] bool may_hold(unsigned volume, const WriteRecord& write) const;
  /// Some node cached writes of the volume at some time.
  [[nodiscard]] bool used(unsigned volume) const { return volumes_[volume].used; }

 private:
  struct Volume {
    bool used = false;
    bool on = false;
    Moment strict_since = 0;                   ///< what began before may be in a cache
    std::array<bool, 2> complete{true, true};  ///< that node's copy, its cache with it, lacks nothing
    std::array<std::uint64_t, 2> served_in{};  ///< the life of that node's process in which it was a member; 0: none
  };
  void look_for_loss(unsigned volume);
  [[nodiscard]] std::optional<engine::EpochRecord> newest(unsigned volume);
  [[nodiscard]] bool goes_on(engine::NodeSide side, const Volume& volume);

  World& world_;
  std::vector<Volume> volumes_;
};

}  // namespace lockstep::simulation
