// Without the partner: what the arbiter lets this node do, and what its store owes before.
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

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
  const auto now = clock_.now().since_origin;
  return {now - std::min(now, time)};
}

/// It holds something for too long, whatever else it completes, or has completed nothing while it held something.
bool Membership::store_hangs() const {
  const bool alone = standing_.is_alone();
  const auto deadline = settings_.store_deadline * (alone ? kPatienceAlone : 1);
  if (clock_.now() < unread_until_) return false;
  if (store_owes_since(ago(deadline))) return true;
  const engine::TimePoint silent = ago(settings_.store_silence);
  return !alone && store_.returned_at < silent && store_owes_since(silent);
}

namespace {
/// Within which a process that goes on has read what its store completed while it stood still.
constexpr engine::Duration kReadsWithin = std::chrono::milliseconds(200);
}  // namespace

/// A process that stood still finds its store's operations as old as that, and some of them done already.
void Membership::watch_own_ticks(engine::TimePoint now) {
  if (now - std::exchange(last_tick_, now) < settings_.store_silence / 2) return;
  mark<"store.unread">();
  unread_until_ = now + kReadsWithin;
}

/// A record waits for the partner's or the witness's agreement, and so do hosts: on a disk that is known to hang it is
/// not waited for as long again.
void Membership::watch_record() {
  const auto patience = store_.failed ? std::min(settings_.lease, settings_.store_silence) : settings_.store_silence;
  if (!change_ || !change_->recording_since || *change_->recording_since >= ago(patience)) return;
  if (clock_.now() < unread_until_) return;
  mark<"membership.record_hung">();
  const bool only_late = !metadata_failed() && (!store_.failed || store_.may_return);
  late_record_ = record_run_;
  change_->recording_since.reset();
  fail_metadata("The metadata's store did not complete a write in time.");
  store_.may_return = only_late;
  end_step();
}

/// An operation that a store has not completed in its deadline is a failure, also of the only member's store.
void Membership::watch_stores(engine::TimePoint now) {
  watch_record();
  if (store_settled_ && !store_owes()) return std::exchange(store_settled_, nullptr)();
  if (store_.failed) return trust_store_again();
  if (!store_hangs()) return;
  mark<"store.hung">();
  const std::string why = "The store did not complete an operation within its deadline.";
  if (!standing_.is_alone()) {
    store_.fail(why);
    store_.may_return = true;
    return;
  }
  store_.failed = store_.may_return = true;
  store_.failed_at = now;
  store_.reason = why + " This is the only member: it goes on when the store has returned everything.";
  apply(event::Unfit{});
}

/// Of what this replica carried out itself.
bool Membership::owes_own_work() const { return sequencer_.has_older_than({clock_.now().since_origin + kAges}); }

bool Membership::store_owes() const { return store_owes_since({clock_.now().since_origin + kAges}); }

bool Membership::store_owes_since(engine::TimePoint limit) const {
  return (flushing_ > 0 && flush_began_ < limit) || sequencer_.has_older_than(limit) ||
         applier_.has_older_than(limit) || resync_.has_older_than(limit);
}

/// A store that was too late and then returned everything, without an error, is whole; so is one that was full and has
/// room again. A member that leaves for it goes on leaving; as a target it waits a little, so that a slow store does
/// not come and go all the time.
void Membership::trust_store_again() {
  if (!store_.may_return || metadata_failed() || change_) return;
  if (standing_.is_forwarding() && clock_.now() - store_.failed_at < kTrustAgainAfter) return;
  if (store_owes() || space_.lacking()) return;
  mark<"store.returned_everything">();
  store_.failed = store_.may_return = false;
  store_.reason.clear();
  if (standing_.in_sync()) open_gate();  // the partner's store stood still, too: neither could leave
  changed_();
  exchange();
}

/// A target takes no data before its store has returned what it was given when this replica was a member: that would
/// land on what the partner sends. It serves meanwhile, through the partner.
bool Membership::owes_old_work() const {
  return !standing_.epoch().members.contains(standing_.side()) && owes_own_work();
}

void Membership::watch_old_work() {
  if (std::exchange(owed_old_work_, owes_old_work()) && !owed_old_work_) exchange();
}

/// A node whose store stands still would win as often as one that can serve, and then serve nothing. So it asks only
/// after its store has completed a flush that began after the partner was lost.
bool Membership::store_is_proven() {
  if (!standing_.suspended() || proven_at_ >= standing_.suspended()->since) return true;
  if (proving_) return false;
  proving_ = true;
  if (flushing_++ == 0) flush_began_ = clock_.now();
  store_.data.flush([this, began = clock_.now()](std::error_code error) {
    --flushing_;
    proving_ = false;
    store_.note_returned();
    if (closed()) return;
    if (error) return store_.fail_flush(error);
    proven_at_ = began;
    decide_without_partner();
  });
  return false;
}

/// It has completed nothing for a lease, and holds something: it may be about to fail. Only of interest while this node
/// serves nothing.
bool Membership::suspects_store() const {
  const engine::TimePoint silent = ago(settings_.lease);
  const bool unread = clock_.now() < unread_until_;
  return standing_.suspended() && !unread && store_.returned_at < silent && store_owes_since(silent);
}

/// Nobody to talk to (or nobody that can agree): the record, the witness or the preference decides.
void Membership::decide_without_partner() {
  const bool deaf = !partner_.in_contact() || partner_stopped_ || (partner_unknown_ && partner_.connected());
  if (!standing_.serves_nothing() || !deaf || pending_solo_ || witnessing_.asking() || confirming_) return;
  if (verdict_ == Verdict::split_brain && partner_.connected()) return;
  const AloneRule rule = decide_alone(state(), witness_ != nullptr);
  const engine::EpochRecord& mine = standing_.epoch();
  switch (rule) {
    case AloneRule::start:
      if (clock_.now() < confirm_again_) break;
      confirming_ = true;
      confirm_again_ = clock_.now() + kAskAgainAfter;
      witnessing_.confirm([this](bool may_start) {
        confirming_ = false;
        if (!may_start || !standing_.serves_nothing() || change_ || closed()) return;
        if (standing_.epoch().members == MemberSet::only(standing_.side())) apply(event::AloneRecorded{});
      });
      break;
    case AloneRule::ask_witness: {
      if (!store_is_proven()) break;
      // A process that has just started lets its partner call first.
      if (!ran(standing_.phase) && clock_.now() - attached_ < settings_.lease) break;
      witnessing_.ask([this, before = mine](WitnessRecord won) {
        if (standing_.epoch().id != before.id || !standing_.serves_nothing() || change_) return;
        engine::EpochRecord next =
            next_epoch(before, MemberSet::only(standing_.side()), standing_.side(), won.epoch, 0);
        next.number = won.number;
        want_solo(next, false);
      });
      break;
    }
    case AloneRule::preferred_goes_on:
      if (!store_is_proven()) break;
      want_solo(next_epoch(mine, MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), 0), false);
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
  const bool witnessed = standing_.epoch().arbiter.kind == engine::ArbiterKind::witness && witness_;
  if (!pending_solo_->forced && !witnessed && partner_.in_contact() && !partner_stopped_ && !partner_unknown_) {
    return pending_solo_.reset();  // the partner is back: no arbiter was asked, nothing is decided
  }
  // Alone with a store that does not return is nothing: a partner that comes back may take over meanwhile.
  if (store_.failed) return;
  const auto wait = settings_.lease * (100 + settings_.drift_percent) / 100;
  const engine::TimePoint since = std::max(last_grant_, attached_);
  if (!partner_stopped_ && clock_.now() < since + wait) return;
  mark<"membership.goes_solo">();
  lu_.on_partner_lost();
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
