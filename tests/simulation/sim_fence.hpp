#pragma once
// One node's command that powers the other machine off. From the moment that it has begun, the machine may lose its
// power at any time until the answer, and where the command was stopped, or its node died, soon after that. It may fail
// before the power goes, or after; a success is never a lie.
#include <memory>
#include <string>
#include <vector>

#include "engine/metadata/identity.hpp"
#include "replication/core/fencing.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

class World;

class SimFence final : public replication::Fence {
 public:
  SimFence(World& world, engine::NodeSide side, Owner owner, const engine::Clock& clock);

  [[nodiscard]] bool configured() const override { return configured_; }
  void power_off(engine::TimePoint since, engine::Callback<const replication::FenceEnd&> done) override;
  void stop() override;
  /// The process died; what it had sent may arrive none the less.
  void clear();

  /// None is set up on this node any more.
  void take_away() { configured_ = false; }
  /// Whether the pair's arbiter is this one, as its management says.
  void use(bool yes) { configured_ = yes; }
  /// From now on each command waits for the test: to cut the power, and to be answered. Empty: it succeeded.
  void hold() { holds_ = true; }
  [[nodiscard]] bool waits() const { return !calls_.empty() && calls_.back()->done != nullptr; }
  void answer(const std::string& problem);
  [[nodiscard]] unsigned begun() const { return static_cast<unsigned>(calls_.size()); }
  [[nodiscard]] unsigned stopped() const { return stopped_; }

 private:
  struct Call {
    engine::TimePoint began;
    engine::Callback<const replication::FenceEnd&> done;
    bool cuts = true;
    bool fails = false;
  };
  static void on_cut(void* self, std::uint64_t call);
  static void on_answer(void* self, std::uint64_t call);
  void give_up();

  World& world_;
  engine::NodeSide side_;
  Owner owner_;
  const engine::Clock& clock_;
  SimRandom random_;
  bool configured_ = true;
  bool holds_ = false;
  unsigned stopped_ = 0;
  std::vector<std::unique_ptr<Call>> calls_;  ///< for the whole run
};

}  // namespace lockstep::simulation
