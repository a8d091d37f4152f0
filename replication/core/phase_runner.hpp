#pragma once
// The one place where the phase changes (phase.hpp), and what each phase starts and stops in the other parts on
// arriving there; the gate, too, which new operations wait at.
//
// Requires: an event that can be in the present phase, and a durable record that the next phase does not contradict:
// else the process ends before it serves what it may not. Callers: membership.
#include "replication/core/epoch_steps.hpp"
#include "replication/core/left_epoch.hpp"
#include "replication/core/mirror_parts.hpp"
#include "replication/core/state_exchange.hpp"
#include "replication/core/store_watch.hpp"

namespace lockstep::replication {

/// What a phase asks of membership.
class PhasesUser {
 public:
  virtual ~PhasesUser() = default;
  virtual void prove_store() = 0;  ///< before this node asks to go on alone
};

class PhaseRunner {
 public:
  PhaseRunner(const MirrorParts& parts, StoreWatch& store_watch, LeftEpoch& left_epoch, StateExchange& exchange,
              EpochSteps& steps, PhasesUser& user);

  void apply(const PhaseEvent& event);

  void close_gate();
  void open_gate();
  /// What waits at it stays there: it is dropped by what follows.
  void lift_gate() { standing_.gated = false; }
  /// When it was closed last.
  [[nodiscard]] engine::TimePoint gated_since() const { return gated_since_; }
  /// The initiators' sessions are closed, and nothing that came over them is started.
  void fence();
  /// This replica takes part in no epoch any more: nothing may wait here for the next one.
  void refuse_held();
  /// What this replica had issued before it left ends now: acknowledged if the partner had it.
  void settle_left();
  /// The only member begins to bring the partner up to date.
  void start_source();
  /// The target can't take more: writes go on without it.
  void lose_target();

  /// Something was written in the present epoch, which this process served alone.
  [[nodiscard]] bool wrote_alone() const {
    return alone_epoch_ == standing_.epoch().id && regions_.begun() != written_before_;
  }

  bool partner_stopped = false;  ///< it serves nothing any more, and could not record that; until an epoch is entered

 private:
  void perform(Effect effect, const ReplicaPhase& was);
  void begin_in_sync();
  void make_equal();
  void serve_in_sync(bool fresh);
  void resume_in_sync();
  void serve_alone(const ReplicaPhase& was);
  void drop_possibly_retried(const ReplicaPhase& was);
  void forward_all();

  const NodeSettings& settings_;
  engine::Clock& clock_;
  Partner& partner_;
  Standing& standing_;
  LocalStore& store_;
  Completions& completions_;
  Regions& regions_;
  Space& space_;
  Forwarder& forwarder_;
  Resync& resync_;
  Sequencer& sequencer_;
  Applier& applier_;
  Generations& generations_;
  Witnessing& witnessing_;
  LuStateKeeper& lu_;
  Front& front_;
  const std::function<void()>& changed_;
  const std::function<void()>& close_sessions_;
  StoreWatch& store_watch_;
  LeftEpoch& left_epoch_;
  StateExchange& exchange_;
  EpochSteps& steps_;
  PhasesUser& user_;
  engine::TimePoint gated_since_;
  engine::Uuid begun_epoch_;          ///< the last one of both that was in force in this process
  engine::Uuid alone_epoch_;          ///< the last one of this node alone
  std::uint64_t written_before_ = 0;  ///< when that began
};

}  // namespace lockstep::replication
