#pragma once
// The step that this replica is in, from one epoch to the next: one at a time, each a chain of callbacks under one
// token, void as soon as another step begins or this one is ended. And the writing of the record of the next epoch,
// which outlives its step on a disk that hangs.
//
// Requires: record() and settle_store() within a step. Guarantees: a record is durable in both slots before `done` says
// so; after any other error nobody knows what is there, and the metadata counts as failed. Callers: what makes steps
// (membership), and the phases, which end one that nothing was recorded of.
#include <optional>

#include "replication/core/applier.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/store_watch.hpp"

namespace lockstep::replication {

/// What steps tell upwards.
class StepsUser {
 public:
  virtual ~StepsUser() = default;
  virtual void on_step_ended() = 0;
  virtual void on_step_given_up() = 0;   ///< whether the partner took part is not known
  virtual void on_recorded() = 0;        ///< a record is durable, and its step goes on
  virtual void on_record_refused() = 0;  ///< it does not follow the one that is there: nothing was written
  virtual void on_late_record() = 0;     ///< one that was given up is durable after all
};

/// By whom a step is made; or both did what can't be taken back.
enum class Step : std::uint8_t { driving, following, recording };

class EpochSteps {
 public:
  EpochSteps(const NodeSettings& settings, const engine::Clock& clock, const Standing& standing, LocalStore& store,
             StoreWatch& store_watch, Sequencer& sequencer, Applier& applier, StepsUser& user)
      : settings_(settings),
        clock_(clock),
        standing_(standing),
        store_(store),
        store_watch_(store_watch),
        sequencer_(sequencer),
        applier_(applier),
        user_(user) {}

  [[nodiscard]] bool busy() const { return change_.has_value(); }
  [[nodiscard]] bool is(Step step) const { return change_ && change_->step == step; }
  /// Its token.
  std::uint64_t begin(Step kind);
  [[nodiscard]] bool current(std::uint64_t step) const { return step == step_; }
  [[nodiscard]] std::uint64_t token() const { return step_; }
  void end();
  /// Ends one of which nothing was recorded yet, here or at the partner.
  void end_unrecorded();
  /// The same, also where the partner recorded its part: without this node's record it is one that was interrupted.
  void end_unless_recording();
  /// A proposal may be on its way: whether the partner took it is not known. Who followed took no order, so that it
  /// might drain.
  void give_up();
  /// It has waited for work to drain since before `limit`, and may be given up.
  [[nodiscard]] bool is_overdue(engine::TimePoint now, engine::Duration limit) const;

  /// What was ordered ends, to agree from this record of the partner's.
  void drain_for(const engine::Uuid& record) { change_->drains_for = record; }
  void drained() { change_->drains_for.reset(); }
  /// It drains for another record of the partner's than that.
  [[nodiscard]] bool drains_for_another(const engine::Uuid& record) const {
    return change_ && change_->drains_for.value_or(record) != record;
  }
  /// Nothing that is lost now takes back what the partner did.
  void partner_recorded() { change_->step = Step::recording; }
  /// A record is on its way to a place of its own (left_epoch.hpp), and watched by it.
  void recording_begins() { change_->recording_since = clock_.now(); }
  void recording_ends() { change_->recording_since.reset(); }

  /// Both slots, each flushed.
  void record(const engine::EpochRecord& next, engine::IoCallback done);
  /// A record of this node alone did not go well, or not yet: it may be there.
  [[nodiscard]] bool own_record_unknown() const { return own_record_unknown_; }
  /// Before this node goes on alone: everything that its store was given is over. What it still held could land on what
  /// is written from now on.
  void settle_store(std::uint64_t step, engine::Callback<> done);

  // With each tick:
  void watch_record();
  /// True: what waited for the store goes on.
  [[nodiscard]] bool store_settled();
  void watch_late_record() {
    if (late_record_is_there_ && !change_) on_late_record({});
  }

 private:
  /// From one epoch to the next, or an agreement to stay.
  struct Change {
    Step step;
    engine::TimePoint began;
    std::optional<engine::TimePoint> recording_since;  ///< a record is being written
    std::optional<engine::Uuid> drains_for;  ///< what was ordered ends, to agree from this record of the partner's
  };
  [[nodiscard]] bool is_recorded() const { return change_->step == Step::recording || change_->recording_since; }
  void on_late_record(std::error_code error);

  const NodeSettings& settings_;
  const engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  StoreWatch& store_watch_;
  Sequencer& sequencer_;
  Applier& applier_;
  StepsUser& user_;
  std::optional<Change> change_;
  std::uint64_t step_ = 0;
  std::uint64_t record_run_ = 0, late_record_ = 0;  ///< the last one; the one that was given up and is not returned
  bool late_record_is_there_ = false;               ///< it returned while a change was under way
  bool own_record_unknown_ = false;
  engine::Callback<> store_settled_;  ///< goes on when the store owes nothing
};

}  // namespace lockstep::replication
