// What follows from the states of both replicas: who drives the next step, and who waits for the partner's.
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

void Membership::on_partner_state(const ReplicaState& theirs, bool first) {
  act(theirs);
  if (!first || !outbound_.ready) return;
  // Who is about to go on alone needs no order answered. One that does not pass would hold up its proposal.
  if (!leaves_partner_out()) sequencer_.resend();
  forwarder_.resend();
  resync_.go_on();
}

/// Nothing differs from a copy that the partner has not got any more.
void Membership::on_asked(bool learnt) {
  giving_up_.on_partner_asked(learnt);
  if (!exchange_.partner_unknown() || !std::exchange(split_, false)) return;
  mark<"membership.split_ended_by_its_absence">();
  verdict_ = Verdict::wait;
  changed_();
}

/// All is well, and yet the next epoch of both is due.
void Membership::change_in_sync(const ReplicaState& theirs) {
  if (standing_.is_sequencer() && witnessing_.above() >= standing_.epoch().number) {
    return driver_.drive_both(theirs, witnessing_.above());
  }
  if (!driver_.may_change_in_sync()) return;
  if (growth_.is_due()) {
    mark<"membership.grows">();
    driver_.drive_both(theirs, 0);
  } else if (next_arbiter(state(), theirs)) {
    mark<"membership.changes_arbiter">();
    driver_.drive_both(theirs, 0);
  }
}

void Membership::want_arbiter(ArbiterWish wish) {
  if (std::exchange(wish_, wish) != wish) exchange();
}

void Membership::act(const ReplicaState& theirs) {
  if (steps_.drains_for_another(theirs.record.id)) {
    mark<"membership.partner_went_on_meanwhile">();
    steps_.end_unrecorded();
  }
  if (steps_.busy() || !has_begun()) return;
  if (theirs.changing) return let_partner_change();
  if (generations_.set_back()) stop_if_set_back();
  const ReplicaState mine = state();
  const Verdict before = verdict_;
  verdict_ = decide(mine, theirs);
  split_ = verdict_ == Verdict::split_brain;
  const bool undecided = standing_.serves_nothing();
  if (went_on_without(standing_.epoch(), theirs)) {
    alone_.note_left_behind();
    if (phases_.wrote_alone()) return driver_.part_ways();
  }
  switch (verdict_) {
    case Verdict::settled:
      send_refused_again(settings_.heartbeat_interval);
      change_in_sync(theirs);
      break;
    case Verdict::drive_resume:
    case Verdict::drive_both:
      agree_again(theirs, before == Verdict::settled);
      break;
    case Verdict::drive_solo:
      driver_.drive_solo(theirs);
      break;
    case Verdict::start_solo:
      start_in_touch();
      break;
    case Verdict::source:
      if (theirs.record.id == standing_.epoch().id) lu_.on_target();
      if (!theirs.able && resync_.active()) phases_.lose_target();
      if (theirs.set_back) break;  // it has not marked yet what is to be compared
      if (theirs.able && theirs.record.id == standing_.epoch().id && !resync_.active() && !damping_.damped()) {
        phases_.start_source();
      }
      send_refused_again(settings_.heartbeat_interval);
      break;
    case Verdict::adopt:
      driver_.adopt(theirs.record, false);
      break;
    case Verdict::take_over:
      driver_.adopt(theirs.record, true);
      break;
    case Verdict::target:
      if (standing_.metadata_failed()) break;  // it can't keep the unit's state, and nothing passes without
      if (!standing_.is_forwarding()) phases_.apply(event::PartnerRecorded{clock_.now()});
      if (theirs.serving) phases_.settle_left();
      if (theirs.serving && command_.waits_for(OperatorCommand::Kind::leave)) command_.finish({});
      break;
    case Verdict::split_brain:
      if (is_left_to_this(theirs)) start_in_touch();
      break;
    case Verdict::wait:
      stop_if_left_behind(theirs);
      break;
    case Verdict::follow:
      break;
  }
  if (verdict_ != before || undecided != (standing_.serves_nothing())) changed_();
}

/// Not where contact comes and goes: each time hosts would wait for what breaks again.
void Membership::agree_again(const ReplicaState& theirs, bool was_settled) {
  const bool served = ran(standing_.phase) && theirs.running;
  if (served && was_settled && standing_.in_sync()) damping_.lost(clock_.now(), true, false);  // the partner noticed
  if (served && damping_.damped()) {
    if (leaves_it_to_partner()) return exchange();
    mark<"membership.goes_on_without_a_flapping_partner">();
    return driver_.drive_solo(theirs);
  }
  const bool resumes = verdict_ == Verdict::drive_resume && !sequencer_.has_outlived();
  resumes ? driver_.drive_resume() : driver_.drive_both(theirs, 0);
}

/// This node stands still again and again. So the partner goes on alone, if it can, and brings this one up to date when
/// that is over.
bool Membership::leaves_it_to_partner() const {
  if (!damping_.stood_still()) return false;
  if (standing_.is_forwarding()) return true;
  const auto& theirs = exchange_.partner();
  const bool can_go_on = outbound_.ready && theirs && theirs->able && theirs->record.id == standing_.epoch().id;
  return can_go_on && standing_.is_sequencer() && standing_.epoch().members.is_both() && ran(standing_.phase);
}

/// Of a later state of this very replica, which was set back then, its target need not know.
void Membership::start_in_touch() {
  if (!ran(standing_.phase) && !witnessing_.has_told_of_this_replica([this] { exchange(); })) return;
  phases_.apply(event::AloneRecorded{});
}

/// The two parted ways, and the partner is no member by its own record: nobody else will serve.
bool Membership::is_left_to_this(const ReplicaState& theirs) const {
  const bool only_this = standing_.epoch().members == engine::MemberSet::only(standing_.side());
  // Who parted ways took the number that follows; a new copy of a later epoch of this very node has a higher one.
  const bool parted = !theirs.record.members.contains(theirs.side) && theirs.record.number <= standing_.epoch().number;
  return standing_.serves_nothing() && only_this && state().able && parted;
}

/// Nobody knows which of the two was set back: this one has acknowledged nothing yet, and does not begin to.
void Membership::stop_if_left_behind(const ReplicaState& theirs) {
  if (!standing_.is_alone() || !went_on_without(standing_.epoch(), theirs)) return;
  mark<"membership.left_behind_while_alone">();
  phases_.apply(event::Unfit{});
}

/// Its step may wait for orders that this node takes only once it keeps no sessions any more. Whatever the step comes
/// to, they are closed at its end.
void Membership::let_partner_change() {
  if (!standing_.keeps_sessions()) return;
  mark<"membership.lets_partner_change">();
  phases_.apply(event::NotAlone{});
}

/// Orders that a step refused which was given up then, or that found the link's queue full, or a partner that still
/// kept its sessions.
void Membership::send_refused_again(engine::Duration every) {
  if (!outbound_.ready || clock_.now() - sent_again_ < every) return;
  sent_again_ = clock_.now();
  sequencer_.resend();
}

}  // namespace lockstep::replication
