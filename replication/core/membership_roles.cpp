// Arriving in a phase, and losing touch: what each phase starts and stops.
#include <algorithm>
#include <cassert>

#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

void Membership::perform(Effect effect, const ReplicaPhase& was) {
  switch (effect) {
    case Effect::end_change:
      return end_unrecorded_step();
    case Effect::hold_new:
      return close_gate();
    case Effect::lift_hold:
      standing_.gated = false;
      return;
    case Effect::lift_hold_if_idle:
      if (!change_) standing_.gated = false;
      return;
    case Effect::close_sessions:
      return fence();
    case Effect::drop_own:
      return front_.end_unstarted(Selection::own());
    case Effect::take_back_waiting:
      return sequencer_.take_back_waiting();
    case Effect::drop_possibly_retried:
      return drop_possibly_retried(was);
    case Effect::stop_resync:
      return resync_.stop();
    case Effect::stop_mirroring:
      if (resync_.mirroring()) resync_.stop();
      return;
    case Effect::lose_target:
      if (resync_.mirroring()) resync_.stop();
      return sequencer_.drop_remote();
    case Effect::begin_in_sync:
      return begin_in_sync();
    case Effect::make_equal:
      return make_equal();
    case Effect::serve_in_sync:
      return serve_in_sync(!ran(was));
    case Effect::resume_in_sync:
      return resume_in_sync();
    case Effect::serve_alone:
      return serve_alone(!ran(was));
    case Effect::forward_all:
      return forward_all();
    case Effect::ask_about_leases:
      lu_.on_leased();
      return sequencer_.on_leased();
    case Effect::prove_store:
      static_cast<void>(store_is_proven());
      return;
    case Effect::tell_state:
      changed_();
      return exchange_.answer_states();
  }
}

void Membership::close_gate() {
  if (!standing_.gated) gated_since_ = clock_.now();
  standing_.gated = true;
}

void Membership::open_gate() {
  standing_.gated = false;
  front_.release_held();
}

void Membership::on_fenced() { apply(event::SessionsClosed{}); }

/// Nothing of what is dropped is answered before the sessions are closed: an initiator could take the answer for the
/// last word, and sends what was not answered again.
void Membership::fence() {
  partner_.set_fencing(true);
  front_.end_unstarted(Selection::all());
  close_sessions_();
}

void Membership::end_unrecorded_step() {
  if (!change_ || change_->step == Step::recording || change_->recording_since) return;
  give_step_up();
}

/// A proposal may be on its way: whether the partner took it is not known. Who followed took no order, so that it might
/// drain.
void Membership::give_step_up() {
  const bool followed = is_changing(Step::following), was_serving = !standing_.serves_nothing();
  end_step();
  if (std::holds_alternative<phase::Recording>(standing_.phase)) apply(event::NotAgreed{clock_.now()});
  if (followed && (was_serving || standing_.suspended())) applier_.open(false);
}

/// Both members recorded the epoch.
void Membership::begin_in_sync() {
  mark<"membership.in_sync">();
  left_epoch_.forget_if_recorded();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  partner_stopped_ = false;
  exchange_.note_agreed();
  applier_.open(true);
  witnessing_.settled();
  regions_.remember(true);
  resync_.cover_volume();
}

void Membership::make_equal() {
  if (resync_.active()) return;
  mark<"membership.both_restarted">();
  resync_.start(false);
}

void Membership::serve_in_sync(bool fresh) {
  partner_.heartbeat_now();
  lu_.on_sync(fresh);
  if (standing_.orders()) forwarder_.take_over();
  open_gate();
  forwarder_.resend();
  resync_.go_on();
  if (standing_.is_sequencer()) generations_.raise([](bool) {});
  changed_();
  exchange();
}

void Membership::resume_in_sync() {
  mark<"membership.resumed">();
  applier_.open(false);
  partner_.heartbeat_now();
  sequencer_.resend();
  open_gate();
  forwarder_.resend();
  resync_.go_on();
  changed_();
}

void Membership::serve_alone(bool fresh) {
  mark<"membership.solo">();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  // Nothing is left that the store did not return (settle_store): alone, each operation tells its own error.
  if (store_.failed) store_.reason.clear();
  store_.failed = store_.may_return = false;
  partner_stopped_ = false;
  applier_.open(true);
  resync_.stop();
  witnessing_.settled();
  sequencer_.drop_remote();
  sequencer_.end_failed();
  lu_.on_solo(fresh);
  sequencer_.on_leased();
  forwarder_.take_over();
  open_gate();
  changed_();
  exchange();
}

/// Until the lease ran out a partner that ordered could acknowledge with this node's help. What a host sent here long
/// before that, and waits here still, it may have given up and sent again there, and that may have been overwritten
/// since. The node that ordered itself had all of it in its own queue.
void Membership::drop_possibly_retried(const ReplicaPhase& was) {
  if (completions_.holds_something()) mark<"membership.solo_with_kept_work">();
  const auto& suspended = std::get<phase::Suspended>(was);
  if (suspended.was_primary) return;
  const auto since = suspended.since.since_origin;
  front_.end_unstarted(Selection::received_before({since - std::min(since, settings_.lease)}));
}

void Membership::forward_all() {
  mark<"membership.forwarding">();
  left_epoch_.forget_if_recorded();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  if (store_watch_.owes_old_work()) mark<"membership.old_work_first">();
  resync_.stop();
  // What a hung store kept from being drained is not started here, nor answered from here, when the store returns it.
  sequencer_.drop(Selection::all());
  forwarder_.on_no_member();
  applier_.open(true);
  witnessing_.settled();
  lu_.on_forward();
  open_gate();
  forwarder_.resend();
  changed_();
  exchange();
}

void Membership::start_source() {
  mark<"membership.source">();
  resync_.start(true);
  changed_();
}

/// The target can't take more: writes go on without it. What it holds and does not answer keeps our buffers and locks,
/// so that the way out is broken to get them back.
void Membership::lose_target() {
  mark<"resync.target_failed">();
  resync_.stop();
  sequencer_.drop_remote();
  changed_();
  if (sequencer_.on_link() || !resync_.idle()) partner_.reset();
}

/// What this replica had issued before it left ends now: acknowledged if the partner had it.
void Membership::settle_left() {
  apply(event::PartnerWentOn{});
  sequencer_.settle_after_leaving();
}

bool Membership::goes_on_soon() const {
  const engine::Duration since = clock_.now() - standing_.suspended()->since;
  if (since > kDecidesWithin * settings_.lease) return false;
  if (pending_solo_ || change_) return true;
  ReplicaState mine = state();
  mine.able |= store_watch_.is_suspect();  // it may be only slow
  if (decide_alone(mine, witness_ != nullptr) == AloneRule::stay) return false;
  return !witnessing_.lost() && !witnessing_.unreachable() && since <= settings_.lease;
}

/// Whoever waits here is sent to the other node, which may have served meanwhile, or will.
void Membership::watch_kept_sessions() {
  if (!standing_.keeps_sessions() || goes_on_soon()) return;
  mark<"membership.sessions_given_up">();
  apply(event::NotAlone{});
}

/// What waited for it goes on.
void Membership::on_contact_made() {
  forwarder_.resend();
  lu_.pump();
}

bool Membership::grant(const engine::Uuid& epoch) {
  if (!standing_.in_sync() || standing_.gated || closed() || epoch != standing_.epoch().id) return false;
  last_grant_ = clock_.now();
  return true;
}

void Membership::on_lease(const engine::Uuid& epoch, bool granted, engine::TimePoint until) {
  if (!granted || epoch != standing_.epoch().id) return;
  apply(event::LeaseGranted{{.from = {until.since_origin - settings_.lease}, .until = until}});
}

void Membership::on_connected() {
  exchange_.restart();
  forwarder_.on_connected();
  exchange();
}

void Membership::on_disconnected() {
  exchange_.on_disconnected();
  verdict_ = Verdict::wait;
  lu_.forget_target();
  space_.forget_partner();
  end_unrecorded_step();
  if (!change_ && standing_.gated && !standing_.serves_nothing()) open_gate();
  if (resync_.mirroring()) {
    mark<"resync.target_lost">();
    resync_.stop();
    sequencer_.drop_remote();
    changed_();
  }
}

void Membership::on_inbound_down() {
  if (is_changing(Step::following)) end_unrecorded_step();
  if (!change_ && standing_.gated && !standing_.serves_nothing()) open_gate();
  applier_.drop_old(0);
  front_.end_unstarted(Selection::partners());
}

void Membership::lose_lease() {
  if (standing_.in_sync()) mark<"membership.lease_lost">();
  apply(event::LeaseLost{clock_.now(), standing_.is_sequencer()});
}

void Membership::on_contact_lost() {
  front_.end_unstarted(Selection::partners());
  if (standing_.in_sync()) mark<"membership.lease_lost">();
  apply(event::ContactLost{clock_.now(), standing_.is_sequencer()});
}

void Membership::on_partner_restarted() {
  exchange_.forget_partner();
  generations_.forget_partner();
  outbound_.ready = false;
  applier_.forget_sequences();
  space_.forget_partner();
  front_.end_unstarted(Selection::partners());
  lu_.on_partner_lost();
  forward_entries_.on_partner_restarted();
  forwarder_.on_partner_restarted();
  if (resync_.mirroring()) {
    resync_.stop();
    sequencer_.drop_remote();
  }
}

void Membership::on_equal() {
  mark<"membership.told_equal">();
  apply(event::StoresEqual{});
}

/// A target that refuses is no target; a member that refuses is in another epoch or leaving: its state will tell.
void Membership::on_partner_refused() {
  if (resync_.mirroring()) {
    resync_.stop();
    sequencer_.drop_remote();
  }
  if (clock_.now() - exchange_.asked_at() > std::chrono::milliseconds(20)) exchange();
}

void Membership::on_store_failed() {
  if (standing_.in_sync() && !change_) close_gate();
  changed_();
  exchange_.answer_states();
  exchange();
}

void Membership::fail_metadata(const std::string& why) {
  store_.may_return = false;
  if (metadata_failed()) return;
  failure_ = why;
  store_.failed = true;
  apply(event::MetadataLost{});
  exchange();
}

/// This replica takes part in no epoch any more: nothing may wait here for the next one.
void Membership::refuse_held() {
  standing_.gated = false;
  front_.drop_held(Selection::all());
}

}  // namespace lockstep::replication
