#pragma once
// Steps from one epoch to the next that the partner drives.
//
// Guarantees: what does not follow from this node's own durable record is refused, so that a decision from an old state
// does no harm; an answer of ok is given when the record is durable and nothing of the old epoch is served. Callers:
// membership, with the partner's requests.
#include "replication/core/step_parts.hpp"

namespace lockstep::replication {

/// What is asked of membership, and told.
class FollowerUser {
 public:
  virtual ~FollowerUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;  ///< this replica's
  [[nodiscard]] virtual bool has_begun() const = 0;      ///< what an earlier process left is settled
  virtual void resume() = 0;                             ///< both go on in the epoch that they are in
};

class EpochFollower {
 public:
  EpochFollower(const StepParts& parts, FollowerUser& user);

  void take_propose(InboundRequest& request, const Message& message);
  void take_resume(InboundRequest& request, const Message& message);
  /// What is being followed is answered so, if anything is.
  void answer_proposal(engine::Errc status);
  [[nodiscard]] bool idle() const { return proposal_ == nullptr; }

 private:
  void follow_leave(std::uint64_t step, engine::EpochRecord next);
  void leave_without_metadata(std::uint64_t step, const engine::EpochRecord& next);
  void follow_join(std::uint64_t step, engine::EpochRecord next, bool equal);

  const engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  Sequencer& sequencer_;
  Applier& applier_;
  Witnessing& witnessing_;
  const LuStateKeeper& lu_;
  StoreWatch& store_watch_;
  LeftEpoch& left_epoch_;
  const StateExchange& exchange_;
  EpochSteps& steps_;
  PhaseRunner& phases_;
  GoingAlone& alone_;
  FollowerUser& user_;
  InboundRequest* proposal_ = nullptr;  ///< being followed, not yet answered
  Message proposal_message_;
};

}  // namespace lockstep::replication
