#pragma once
// One node's view of a witness that takes seconds: requests arrive long after their sender gave them up, and are
// carried out none the less. Or of one whose requests and answers a test lets go one by one.
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/simulation/sim_witness.hpp"

namespace lockstep::simulation {

class SlowWitness final : public replication::Witness {
 public:
  SlowWitness(Scheduler& scheduler, SimRandom random, Owner owner, WitnessClient& witness)
      : scheduler_(scheduler), random_(random), owner_(owner), witness_(witness) {}

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            engine::Callback<engine::IoResult<replication::SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override {
    witness_.remove(volume, std::move(done));
  }

  /// From now on each request is up to this late; 0: as fast as ever.
  void set_slowness(Nanos most) { most_ = most; }
  [[nodiscard]] bool slow() const { return most_ != 0; }
  /// From now on each request waits until it is let go, and so does each answer.
  void hold() { holds_ = true; }
  /// How many requests and answers wait, and one of them, by the order in which they came.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  void let_go(std::size_t which);
  /// The process died: what is under way may still be carried out, nobody is told.
  void clear();

 private:
  struct Call {
    bool swaps = false;
    engine::Uuid volume;
    replication::WitnessView seen;
    replication::WitnessRecord record;
    engine::Callback<engine::IoResult<replication::WitnessView>> read_done;
    engine::Callback<engine::IoResult<replication::SwapOutcome>> swap_done;
  };
  void launch(std::unique_ptr<Call> call);
  template <class Result>
  engine::Callback<Result> held_back(engine::Callback<Result> done);
  static void on_arrive(void* self, std::uint64_t call);
  static void on_timeout(void* self, std::uint64_t call);

  Scheduler& scheduler_;
  SimRandom random_;
  Owner owner_;
  WitnessClient& witness_;
  Nanos most_ = 0;
  bool holds_ = false;
  std::deque<engine::Callback<>> held_;
  std::vector<std::unique_ptr<Call>> calls_;  ///< that were late, for the whole run
};

}  // namespace lockstep::simulation
