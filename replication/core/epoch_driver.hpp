#pragma once
// Steps from one epoch to the next that this node drives: agreed with the partner, taken from its record, or its own
// while it is alone.
//
// Requires: no other step is under way. Guarantees: the partner has recorded what this node serves by, or is known not
// to have; what could not be agreed leaves the epoch as it was. Callers: membership, with what verdict.hpp says.
#include "replication/core/step_parts.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

/// What is asked of membership, and told.
class DriverUser {
 public:
  virtual ~DriverUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;  ///< this replica's
  virtual void resume() = 0;                             ///< both go on in the epoch that they are in
  virtual void lose_lease() = 0;                         ///< nobody serves now
  virtual void on_partner_unfit(const std::string& why) = 0;
};

class EpochDriver {
 public:
  EpochDriver(const StepParts& parts, DriverUser& user);

  void drive_resume();
  /// {A,B} with a number above `above`.
  void drive_both(const ReplicaState& theirs, std::uint64_t above);
  void drive_solo(const ReplicaState& theirs);
  void adopt(const engine::EpochRecord& record, bool serve);
  /// The partner went on from an epoch in which this process wrote alone: an operator decides whose copy is kept.
  void part_ways();
  /// The target is equal: {A,B}.
  void join();
  /// All is well, and yet another size or arbiter is wanted.
  [[nodiscard]] bool may_change_in_sync() const;
  /// With each tick.
  void grow_alone();
  /// The only member takes a number above that. False: not now.
  bool go_above(std::uint64_t number);

 private:
  [[nodiscard]] bool may_renew_alone() const;
  [[nodiscard]] std::uint64_t above_witness() const;
  void renew_alone(const engine::EpochRecord& next);
  void record_both(std::uint64_t step, const ReplicaState& theirs, std::uint64_t above, bool equal);
  void propose(std::uint64_t step, const engine::EpochRecord& next, const engine::Uuid& base, bool equal,
               engine::Callback<engine::Errc> done);

  const engine::Clock& clock_;
  engine::Random& random_;
  const Partner& partner_;
  const Standing& standing_;
  const LocalStore& store_;
  Outbound& outbound_;
  const Resync& resync_;
  Sequencer& sequencer_;
  Applier& applier_;
  Witnessing& witnessing_;
  const LuStateKeeper& lu_;
  const Growth& growth_;
  StateExchange& exchange_;
  EpochSteps& steps_;
  PhaseRunner& phases_;
  GoingAlone& alone_;
  DriverUser& user_;
};

}  // namespace lockstep::replication
