#pragma once
// The operator who makes the first volume larger in use, as management does: room on both nodes, then the size that is
// wanted, which each node hears of by itself.
#include <array>
#include <cstdint>

#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class Grower {
 public:
  static constexpr unsigned kVolume = 0;

  explicit Grower(World& world);
  void start();
  /// The world's volume has the size that was decided on, or none was.
  [[nodiscard]] bool satisfied() const;
  /// Bytes that initiators may address in a volume: the most that any node ever told them.
  [[nodiscard]] std::uint64_t told(unsigned volume) const { return told_[volume]; }
  void status_seen(unsigned volume, const replication::VolumeStatus& status);

 private:
  static void on_try(void* self, std::uint64_t);
  static void on_apply(void* self, std::uint64_t side);
  void ask_for_room();
  void room_made(std::uint64_t attempt, engine::NodeSide side, bool made);
  void decide();

  World& world_;
  SimRandom random_;
  std::uint64_t attempt_ = 0;
  std::array<bool, 2> made_{};
  std::vector<std::uint64_t> told_;
};

}  // namespace lockstep::simulation
