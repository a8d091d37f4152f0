#pragma once
// The operator who gives a pair in use another arbiter, as management does (mgmt/control/witness_jobs.hpp): both nodes
// are told that nobody decides; when both were seen to have all volumes in sync and decided by nobody, both are told
// who decides from now on. Each hears of it by itself, and knows it durably.
#include <array>
#include <cstdint>

#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class ArbiterChanger {
 public:
  /// Who decides, as each node's management tells it. In the order of replication::ArbiterWish, but for the first.
  enum class Told : std::uint8_t { witness, nobody, preferred_a, preferred_b, fence };

  explicit ArbiterChanger(World& world);
  /// Changes by chance, where the scenario has them.
  void start();
  /// To this one, step by step, from now on; satisfied() when it is done.
  void change(Told target);
  void tell(engine::NodeSide side, Told what);
  /// No change is under way.
  [[nodiscard]] bool satisfied() const { return stage_ == Stage::idle; }
  [[nodiscard]] const replication::ArbiterWish& wish(engine::NodeSide side) const {
    return wishes_[static_cast<std::size_t>(side)];
  }

 private:
  enum class Stage : std::uint8_t { idle, stopping, starting };
  static void on_begin(void* self, std::uint64_t);
  static void on_tell(void* self, std::uint64_t side_and_what);
  static void on_look(void* self, std::uint64_t side);
  void tell_both(Told what);
  void look_at(engine::NodeSide side);
  [[nodiscard]] bool carries_out(engine::NodeSide side, Told what);

  World& world_;
  SimRandom random_;
  Stage stage_ = Stage::idle;
  Told now_, target_;
  std::array<Told, 2> told_;
  std::array<replication::ArbiterWish, 2> wishes_{};
};

}  // namespace lockstep::simulation
