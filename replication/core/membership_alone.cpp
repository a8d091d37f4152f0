// Without the partner: what the arbiter lets this node do, and what its store owes before.
#include "replication/core/applier.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::MemberSet;

namespace {
constexpr engine::Duration kTrustAgainAfter = std::chrono::seconds(10);
/// A witness that said that this node may not start.
constexpr engine::Duration kAskAgainAfter = std::chrono::seconds(1);
/// Alone there is nobody to hand over to: a host that waits is better off than one that is told an error.
constexpr int kPatienceAlone = 4;
/// More than any operation is allowed: whatever the store has is older than this from now.
constexpr engine::Duration kAges = std::chrono::hours(24 * 365);
}  // namespace

engine::TimePoint Membership::ago(engine::Duration time) const {
  const auto now = core_.now().since_origin;
  return {now - std::min(now, time)};
}

/// It holds something for too long, whatever else it completes, or has completed nothing while it held something.
bool Membership::store_hangs() const {
  const bool alone = core_.is_alone();
  const auto deadline = core_.settings.store_deadline * (alone ? kPatienceAlone : 1);
  if (core_.now() < unread_until_) return false;
  if (store_owes_since(ago(deadline))) return true;
  const engine::TimePoint silent = ago(core_.settings.store_silence);
  return !alone && core_.store_returned_at < silent && store_owes_since(silent);
}

namespace {
/// Within which a process that goes on has read what its store completed while it stood still.
constexpr engine::Duration kReadsWithin = std::chrono::milliseconds(200);
}  // namespace

/// A process that stood still finds its store's operations as old as that, and some of them done already.
void Membership::watch_own_ticks(engine::TimePoint now) {
  if (now - std::exchange(last_tick_, now) < core_.settings.store_silence / 2) return;
  mark<"store.unread">();
  unread_until_ = now + kReadsWithin;
}

/// A record waits for the partner's or the witness's agreement, and so do hosts: on a disk that is known to hang it is
/// not waited for as long again.
void Membership::watch_record() {
  const auto patience =
      core_.store_failed ? std::min(core_.settings.lease, core_.settings.store_silence) : core_.settings.store_silence;
  if (!change_ || !change_->recording_since || *change_->recording_since >= ago(patience)) return;
  if (core_.now() < unread_until_) return;
  mark<"membership.record_hung">();
  const bool only_late = !metadata_failed() && (!core_.store_failed || core_.store_may_return);
  late_record_ = record_run_;
  change_->recording_since.reset();
  fail_metadata("The metadata's store did not complete a write in time.");
  core_.store_may_return = only_late;
  end_step();
}

/// An operation that a store has not completed in its deadline is a failure, also of the only member's store.
void Membership::watch_stores(engine::TimePoint now) {
  watch_record();
  if (store_settled_ && !store_owes()) return std::exchange(store_settled_, nullptr)();
  if (core_.store_failed) return trust_store_again();
  if (!store_hangs()) return;
  mark<"store.hung">();
  const std::string why = "The store did not complete an operation within its deadline.";
  if (!core_.is_alone()) {
    core_.fail_store(why);
    core_.store_may_return = true;
    return;
  }
  core_.store_failed = core_.store_may_return = true;
  core_.store_failed_at = now;
  core_.reason = why + " This is the only member: it goes on when the store has returned everything.";
  apply(event::Unfit{});
}

/// Of what this replica carried out itself.
bool Membership::owes_own_work() const { return core_.sequencer->has_older_than({core_.now().since_origin + kAges}); }

bool Membership::store_owes() const { return store_owes_since({core_.now().since_origin + kAges}); }

bool Membership::store_owes_since(engine::TimePoint limit) const {
  return (flushing_ > 0 && flush_began_ < limit) || core_.sequencer->has_older_than(limit) ||
         core_.applier->has_older_than(limit) || core_.resync->has_older_than(limit);
}

/// A store that was too late and then returned everything, without an error, is whole; so is one that was full and has
/// room again. A member that leaves for it goes on leaving; as a target it waits a little, so that a slow store does
/// not come and go all the time.
void Membership::trust_store_again() {
  if (!core_.store_may_return || metadata_failed() || change_) return;
  if (core_.is_forwarding() && core_.now() - core_.store_failed_at < kTrustAgainAfter) return;
  if (store_owes() || core_.space->lacking()) return;
  mark<"store.returned_everything">();
  core_.store_failed = core_.store_may_return = false;
  core_.reason.clear();
  if (core_.in_sync()) open_gate();  // the partner's store stood still, too: neither could leave
  core_.changed();
  exchange();
}

/// A target takes no data before its store has returned what it was given when this replica was a member: that would
/// land on what the partner sends. It serves meanwhile, through the partner.
bool Membership::owes_old_work() const { return !core_.epoch().members.contains(core_.side()) && owes_own_work(); }

void Membership::watch_old_work() {
  if (std::exchange(owed_old_work_, owes_old_work()) && !owed_old_work_) exchange();
}

/// A node whose store stands still would win as often as one that can serve, and then serve nothing. So it asks only
/// after its store has completed a flush that began after the partner was lost.
bool Membership::store_is_proven() {
  if (!core_.suspended() || proven_at_ >= core_.suspended()->since) return true;
  if (proving_) return false;
  proving_ = true;
  if (flushing_++ == 0) flush_began_ = core_.now();
  core_.data.flush([this, began = core_.now()](std::error_code error) {
    --flushing_;
    proving_ = false;
    core_.note_returned();
    if (closed()) return;
    if (error) return core_.fail_flush(error);
    proven_at_ = began;
    decide_without_partner();
  });
  return false;
}

/// It has completed nothing for a lease, and holds something: it may be about to fail. Only of interest while this node
/// serves nothing.
bool Membership::suspects_store() const {
  const engine::TimePoint silent = ago(core_.settings.lease);
  const bool unread = core_.now() < unread_until_;
  return core_.suspended() && !unread && core_.store_returned_at < silent && store_owes_since(silent);
}

/// Nobody to talk to (or nobody that can agree): the record, the witness or the preference decides.
void Membership::decide_without_partner() {
  const bool deaf = !core_.partner.in_contact() || partner_stopped_ || (partner_unknown_ && core_.partner.connected());
  if (!core_.serves_nothing() || !deaf || pending_solo_ || core_.witnessing->asking() || confirming_) return;
  if (verdict_ == Verdict::split_brain && core_.partner.connected()) return;
  const AloneRule rule = decide_alone(state(), core_.seams.witness != nullptr);
  const engine::EpochRecord& mine = core_.epoch();
  switch (rule) {
    case AloneRule::start:
      if (core_.now() < confirm_again_) break;
      confirming_ = true;
      confirm_again_ = core_.now() + kAskAgainAfter;
      core_.witnessing->confirm([this](bool may_start) {
        confirming_ = false;
        if (!may_start || !core_.serves_nothing() || change_ || closed()) return;
        if (core_.epoch().members == MemberSet::only(core_.side())) apply(event::AloneRecorded{});
      });
      break;
    case AloneRule::ask_witness: {
      if (!store_is_proven()) break;
      // A process that has just started lets its partner call first.
      if (!ran(core_.phase) && core_.now() - attached_ < core_.settings.lease) break;
      core_.witnessing->ask([this, before = mine](WitnessRecord won) {
        if (core_.epoch().id != before.id || !core_.serves_nothing() || change_) return;
        engine::EpochRecord next = next_epoch(before, MemberSet::only(core_.side()), core_.side(), won.epoch, 0);
        next.number = won.number;
        want_solo(next, false);
      });
      break;
    }
    case AloneRule::preferred_goes_on:
      if (!store_is_proven()) break;
      want_solo(next_epoch(mine, MemberSet::only(core_.side()), core_.side(), core_.seams.random.uuid(), 0), false);
      break;
    case AloneRule::stay:
      break;
  }
}

void Membership::want_solo(engine::EpochRecord next, bool forced) {
  pending_solo_ = PendingSolo{std::move(next), forced};
  go_solo_when_leases_are_over();
}

/// Leases that this node granted, or a process before it may have, have run out by now, on a clock that runs slow.
void Membership::go_solo_when_leases_are_over() {
  if (!pending_solo_ || change_) return;
  const bool witnessed = core_.epoch().arbiter.kind == engine::ArbiterKind::witness && core_.seams.witness;
  if (!pending_solo_->forced && !witnessed && core_.partner.in_contact() && !partner_stopped_ && !partner_unknown_) {
    return pending_solo_.reset();  // the partner is back: no arbiter was asked, nothing is decided
  }
  // Alone with a store that does not return is nothing: a partner that comes back may take over meanwhile.
  if (core_.store_failed) return;
  const auto wait = core_.settings.lease * (100 + core_.settings.drift_percent) / 100;
  const engine::TimePoint since = std::max(core_.last_grant, attached_);
  if (!partner_stopped_ && core_.now() < since + wait) return;
  mark<"membership.goes_solo">();
  core_.lu->on_partner_lost();
  const engine::EpochRecord next = pending_solo_->next;
  const std::uint64_t step = begin_step(Step::recording);
  pending_solo_.reset();
  close_gate();
  settle_store(step, [this, step, next] {
    record(next, [this, step](std::error_code error) {
      if (!current(step)) return;
      end_step();
      if (error) return;
      apply(event::AloneRecorded{});
      if (waiter_ && !waiter_is_leave_) finish_waiter({});
    });
  });
}

}  // namespace lockstep::replication
