#include "replication/core/epoch_steps.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;

std::uint64_t EpochSteps::begin(Step kind) {
  change_ = Change{.step = kind, .began = clock_.now(), .recording_since = {}, .drains_for = {}};
  return ++step_;
}

void EpochSteps::end() {
  change_.reset();
  store_settled_ = nullptr;
  ++step_;
  sequencer_.cancel_drain();
  user_.on_step_ended();
}

void EpochSteps::end_unrecorded() {
  if (!change_ || is_recorded()) return;
  give_up();
}

void EpochSteps::end_unless_recording() {
  if (change_ && !change_->recording_since) give_up();
}

void EpochSteps::give_up() {
  const bool followed = is(Step::following), was_serving = !standing_.serves_nothing();
  end();
  user_.on_step_given_up();
  if (followed && (was_serving || standing_.suspended())) applier_.open(false);
}

bool EpochSteps::is_overdue(engine::TimePoint now, engine::Duration limit) const {
  return change_ && !is_recorded() && now - change_->began > limit;
}

void EpochSteps::record(const engine::EpochRecord& next, engine::IoCallback done) {
  assert(change_);  // a record is part of a step
  change_->recording_since = clock_.now();
  if (next.members == engine::MemberSet::only(standing_.side())) own_record_unknown_ = true;
  store_.meta->write_epoch(next, store_.known,
                           [this, run = ++record_run_, done = std::move(done)](std::error_code error) mutable {
                             if (!error) own_record_unknown_ = false;
                             if (run == late_record_) return on_late_record(error);
                             if (change_) change_->recording_since.reset();
                             if (standing_.metadata_failed()) return done(Errc::io_error);
                             if (!error) user_.on_recorded();
                             if (error == Errc::refused) {
                               user_.on_record_refused();
                             } else if (error) {
                               store_.fail_metadata("The epoch record can't be written: " + error.message() + ".");
                             }
                             done(error);
                           });
}

/// It was given up, and its step is over. Without an error it is what counts now, like one that was read at a start.
void EpochSteps::on_late_record(std::error_code error) {
  if (error || !standing_.metadata_failed() || !store_.may_return) return;
  late_record_is_there_ = change_.has_value();
  if (late_record_is_there_) return;
  mark<"membership.late_record_returned">();
  user_.on_late_record();
}

/// A record waits for the partner's or the witness's agreement, and so do hosts: on a disk that is known to hang it is
/// not waited for as long again.
void EpochSteps::watch_record() {
  const auto patience = store_.failed ? std::min(settings_.lease, settings_.store_silence) : settings_.store_silence;
  if (!change_ || !change_->recording_since || *change_->recording_since >= store_watch_.ago(patience)) return;
  if (store_watch_.unread()) return;
  mark<"membership.record_hung">();
  const bool only_late = !standing_.metadata_failed() && (!store_.failed || store_.may_return);
  late_record_ = record_run_;
  change_->recording_since.reset();
  store_.fail_metadata("The metadata's store did not complete a write in time.");
  store_.may_return = only_late;
  end();
}

bool EpochSteps::store_settled() {
  if (!store_settled_ || store_watch_.owes()) return false;
  std::exchange(store_settled_, nullptr)();
  return true;
}

void EpochSteps::settle_store(std::uint64_t step, engine::Callback<> done) {
  applier_.quiesce(Applier::Wait::for_all, [this, step, done = std::move(done)]() mutable {
    if (!current(step)) return;
    if (!store_.failed || !store_watch_.owes()) return done();
    mark<"membership.waits_for_its_store">();
    store_settled_ = std::move(done);  // asked with each tick
  });
}

}  // namespace lockstep::replication
