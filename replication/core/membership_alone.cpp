// Without the partner: what the arbiter lets this node do, and what its store owes before.
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

using engine::MemberSet;

namespace {
constexpr engine::Duration kTrustAgainAfter = std::chrono::seconds(10);
/// A witness that said that this node may not start.
constexpr engine::Duration kAskAgainAfter = std::chrono::seconds(1);
}  // namespace

/// An operation that a store has not completed in its deadline is a failure, also of the only member's store.
void Membership::watch_stores(engine::TimePoint now) {
  steps_.watch_record();
  if (steps_.store_settled()) return;
  if (store_.failed) return trust_store_again();
  if (!store_watch_.hangs()) return;
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
  phases_.apply(event::Unfit{});
}

/// A store that was too late and then returned everything, without an error, is whole; so is one that was full and has
/// room again. A member that leaves for it goes on leaving; as a target it waits a little, so that a slow store does
/// not come and go all the time.
void Membership::trust_store_again() {
  if (!store_.may_return || standing_.metadata_failed() || steps_.busy()) return;
  if (standing_.is_forwarding() && clock_.now() - store_.failed_at < kTrustAgainAfter) return;
  if (store_watch_.owes() || space_.lacking()) return;
  mark<"store.returned_everything">();
  store_.failed = store_.may_return = false;
  store_.reason.clear();
  if (standing_.in_sync()) phases_.open_gate();  // the partner's store stood still, too: neither could leave
  changed_();
  exchange();
}

/// A node whose store stands still would win as often as one that can serve, and then serve nothing. So it asks only
/// after its store has completed a flush that began after the partner was lost.
bool Membership::store_is_proven() {
  if (store_watch_.is_proven()) return true;
  store_watch_.prove([this] { decide_without_partner(); });
  return false;
}

/// Nobody to talk to (or nobody that can agree): the record, the witness or the preference decides.
void Membership::decide_without_partner() {
  const bool deaf =
      !partner_.in_contact() || phases_.partner_stopped || (exchange_.partner_unknown() && partner_.connected());
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
        if (!may_start || !standing_.serves_nothing() || steps_.busy() || closed()) return;
        if (standing_.epoch().members == MemberSet::only(standing_.side())) phases_.apply(event::AloneRecorded{});
      });
      break;
    case AloneRule::ask_witness: {
      if (!store_is_proven()) break;
      // A process that has just started lets its partner call first.
      if (!ran(standing_.phase) && clock_.now() - attached_ < settings_.lease) break;
      witnessing_.ask([this, before = mine](WitnessRecord won) {
        if (standing_.epoch().id != before.id || !standing_.serves_nothing() || steps_.busy()) return;
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
  if (!pending_solo_ || steps_.busy()) return;
  const bool witnessed = standing_.epoch().arbiter.kind == engine::ArbiterKind::witness && witness_;
  if (!pending_solo_->forced && !witnessed && partner_.in_contact() && !phases_.partner_stopped &&
      !exchange_.partner_unknown()) {
    return pending_solo_.reset();  // the partner is back: no arbiter was asked, nothing is decided
  }
  // Alone with a store that does not return is nothing: a partner that comes back may take over meanwhile.
  if (store_.failed) return;
  const auto wait = settings_.lease * (100 + settings_.drift_percent) / 100;
  const engine::TimePoint since = std::max(last_grant_, attached_);
  if (!phases_.partner_stopped && clock_.now() < since + wait) return;
  mark<"membership.goes_solo">();
  lu_.on_partner_lost();
  const engine::EpochRecord next = pending_solo_->next;
  const std::uint64_t step = steps_.begin(Step::recording);
  pending_solo_.reset();
  phases_.close_gate();
  steps_.settle_store(step, [this, step, next] {
    steps_.record(next, [this, step](std::error_code error) {
      if (!steps_.current(step)) return;
      steps_.end();
      if (error) return;
      phases_.apply(event::AloneRecorded{});
      if (waiter_ && !waiter_is_leave_) finish_waiter({});
    });
  });
}

}  // namespace lockstep::replication
