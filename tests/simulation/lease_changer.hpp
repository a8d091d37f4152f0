#pragma once
// The operator who gives a pair in use another lease, as management does (mgmt/control/lease_jobs.hpp): both nodes are
// told that either of the two may be held; when both were seen to go by that, both are told to hold the new one, with
// the old one beside it; when both were seen to hold it, and nothing held or sent by the old one is of importance any
// more, the new one alone. Each node hears of it by itself, and knows it durably. At any step he may change his mind.
#include <array>
#include <cstdint>

#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class LeaseChanger {
 public:
  explicit LeaseChanger(World& world);
  /// Changes by chance, where the scenario has them.
  void start();
  /// To this one, step by step, from now on; satisfied() when it is done.
  void change(Nanos lease);
  void tell(engine::NodeSide side, LeaseTold what);
  [[nodiscard]] bool satisfied() const { return stage_ == Stage::idle; }
  [[nodiscard]] const LeaseTold& told(engine::NodeSide side) const { return told_[static_cast<std::size_t>(side)]; }

 private:
  /// What both nodes are being told, in this order.
  enum class Stage : std::uint8_t { idle, either, held, alone };
  static void on_begin(void* self, std::uint64_t);
  static void on_tell(void* self, std::uint64_t side);
  static void on_look(void* self, std::uint64_t side);
  void tell_both(Stage stage);
  void look_at(engine::NodeSide side);
  void next();
  [[nodiscard]] LeaseTold wanted() const;
  [[nodiscard]] bool carries_out(engine::NodeSide side);

  World& world_;
  SimRandom random_;
  Stage stage_ = Stage::idle;
  Nanos now_, target_;
  std::array<LeaseTold, 2> told_{};
};

}  // namespace lockstep::simulation
