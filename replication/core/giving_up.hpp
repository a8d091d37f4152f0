#pragma once
// After a split brain, on the replica that the operator does not keep.
//
// It records first, as one that leaves does: an epoch of the partner alone that follows both lines. From then on it
// serves nothing, whatever becomes of the partner, which takes that record over when it hears of it, and brings this
// replica up to date. Before it records, the partner's answer to a question of this moment shows that it is there, and
// does not give up itself: each is `changing` from before it asks until it has recorded.
//
// What differs is in the union of both maps, as after any time alone: a bit is durable before its region is written,
// and is cleared only in an epoch that orders both replicas, when both are equal and flushed there. Neither line has
// such an epoch, so that each map has everything that its own side wrote since the two were last equal, and what was
// under way at that moment. The resync copies the union from the survivor: where only the other wrote, what the
// survivor has had there all along.
#include <string>

#include "replication/core/operator_command.hpp"
#include "replication/core/step_parts.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

/// What is asked of membership.
class GivingUpUser {
 public:
  virtual ~GivingUpUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;  ///< this replica's
};

class GivingUp {
 public:
  GivingUp(const StepParts& parts, OperatorCommand& command, const GivingUpUser& user);

  void begin(OperatorCommand::Done done);
  /// A question for the partner's state was answered, or the way was lost.
  void on_partner_asked(bool answered);
  void on_step_ended() {
    if (stage_ != Stage::no) end({});
  }

 private:
  enum class Stage : std::uint8_t { no, asking, doing };
  [[nodiscard]] std::string why_not() const;
  void stop_for_good(std::uint64_t step, engine::EpochRecord next);
  void record(std::uint64_t step, engine::EpochRecord next);
  void end(const std::string& why);

  const NodeSettings& settings_;
  const engine::Clock& clock_;
  engine::Random& random_;
  const Partner& partner_;
  const Standing& standing_;
  const Outbound& outbound_;
  Sequencer& sequencer_;
  Applier& applier_;
  Witnessing& witnessing_;
  const Growth& growth_;
  StateExchange& exchange_;
  EpochSteps& steps_;
  PhaseRunner& phases_;
  GoingAlone& alone_;
  OperatorCommand& command_;
  const GivingUpUser& user_;
  Stage stage_ = Stage::no;
};

}  // namespace lockstep::replication
