#include "replication/core/phase_runner.hpp"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

namespace {
[[noreturn]] void stop_the_process(const ReplicaPhase& phase, const PhaseEvent& event, const std::string& why) {
  std::fprintf(stderr, "mirror: %s, then %s: %s\n", name_of(phase), name_of(event), why.c_str());
  std::abort();
}
}  // namespace

PhaseRunner::PhaseRunner(const MirrorParts& parts, StoreWatch& store_watch, LeftEpoch& left_epoch,
                         StateExchange& exchange, EpochSteps& steps, PhasesUser& user)
    : settings_(parts.settings),
      clock_(parts.clock),
      partner_(parts.partner),
      standing_(parts.standing),
      store_(parts.store),
      completions_(parts.completions),
      regions_(parts.regions),
      space_(parts.space),
      forwarder_(parts.forwarder),
      resync_(parts.resync),
      sequencer_(parts.sequencer),
      applier_(parts.applier),
      generations_(parts.generations),
      witnessing_(parts.witnessing),
      lu_(parts.lu),
      front_(parts.front),
      changed_(parts.changed),
      close_sessions_(parts.close_sessions),
      store_watch_(store_watch),
      left_epoch_(left_epoch),
      exchange_(exchange),
      steps_(steps),
      user_(user) {}

void PhaseRunner::apply(const PhaseEvent& event) {
  const ReplicaPhase was = standing_.phase;
  auto transition = step(was, event);
  if (!transition) stop_the_process(was, event, "that can't be");
  if (const std::string why = contradiction(transition->next, standing_.epoch(), standing_.side()); !why.empty()) {
    stop_the_process(was, event, why);
  }
  standing_.phase = std::move(transition->next);
  for (const Effect effect : transition->effects) perform(effect, was);
  assert(!standing_.keeps_sessions() || standing_.gated);
}

void PhaseRunner::perform(Effect effect, const ReplicaPhase& was) {
  switch (effect) {
    case Effect::end_change:
      return steps_.end_unrecorded();
    case Effect::hold_new:
      return close_gate();
    case Effect::lift_hold:
      standing_.gated = false;
      return;
    case Effect::lift_hold_if_idle:
      if (!steps_.busy()) standing_.gated = false;
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
      return serve_alone(was);
    case Effect::forward_all:
      return forward_all();
    case Effect::ask_about_leases:
      lu_.on_leased();
      return sequencer_.on_leased();
    case Effect::prove_store:
      return user_.prove_store();
    case Effect::tell_state:
      changed_();
      return exchange_.answer_states();
  }
}

void PhaseRunner::close_gate() {
  if (!standing_.gated) gated_since_ = clock_.now();
  standing_.gated = true;
}

void PhaseRunner::open_gate() {
  standing_.gated = false;
  front_.release_held();
}

/// Nothing of what is dropped is answered before the sessions are closed: an initiator could take the answer for the
/// last word, and sends what was not answered again.
void PhaseRunner::fence() {
  partner_.set_fencing(true);
  front_.end_unstarted(Selection::all());
  close_sessions_();
}

/// Both members recorded the epoch.
void PhaseRunner::begin_in_sync() {
  mark<"membership.in_sync">();
  left_epoch_.forget_if_recorded();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  partner_stopped = false;
  exchange_.note_agreed();
  begun_epoch_ = standing_.epoch().id;
  applier_.open(true);
  witnessing_.settled();
  regions_.remember(true);
  resync_.cover_volume();
}

void PhaseRunner::make_equal() {
  if (resync_.active()) return;
  mark<"membership.both_restarted">();
  resync_.start(false);
}

void PhaseRunner::serve_in_sync(bool fresh) {
  partner_.heartbeat_now();
  lu_.on_sync(fresh, exchange_.partner() && exchange_.partner()->running);
  if (standing_.orders()) forwarder_.take_over(Forwarder::Taking::what_is_young);
  open_gate();
  // The partner has all that is acknowledged, and takes over.
  if (store_.data.refuses_writes()) store_.fail(store_.why_it_refuses());
  forwarder_.resend();
  resync_.go_on();
  if (standing_.is_sequencer()) generations_.raise([](bool) {});
  changed_();
  exchange_.ask();
}

/// An epoch that was recorded and not begun is begun now: the answer to its proposal was lost, or its record was late.
void PhaseRunner::resume_in_sync() {
  mark<"membership.resumed">();
  if (begun_epoch_ != standing_.epoch().id) {
    mark<"membership.resumed_what_was_not_begun">();
    begin_in_sync();
    return serve_in_sync(false);
  }
  partner_stopped = false;  // it serves in this epoch again, and its leases count
  witnessing_.abandon();    // it may have begun to ask since the resume was begun
  applier_.open(false);
  partner_.heartbeat_now();
  sequencer_.resend();
  open_gate();
  forwarder_.resend();
  resync_.go_on();
  changed_();
}

/// From a suspension nobody else has served since it began; what is too old for that was dropped.
void PhaseRunner::serve_alone(const ReplicaPhase& was) {
  mark<"membership.solo">();
  if (std::exchange(alone_epoch_, standing_.epoch().id) != standing_.epoch().id) written_before_ = regions_.begun();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  // Nothing is left that the store did not return (settle_store): alone, each operation tells its own error.
  if (store_.failed) store_.reason.clear();
  store_.failed = store_.may_return = false;
  store_.go_on_alone();
  partner_stopped = false;
  applier_.open(true);
  resync_.stop();
  witnessing_.settled();
  sequencer_.drop_remote();
  sequencer_.end_failed();
  lu_.on_solo(!ran(was));
  sequencer_.on_leased();
  const bool suspended = std::holds_alternative<phase::Suspended>(was);
  forwarder_.take_over(suspended ? Forwarder::Taking::all : Forwarder::Taking::what_is_young);
  open_gate();
  changed_();
  exchange_.ask();
}

/// Until the lease ran out a partner that ordered could acknowledge with this node's help. What a host sent here long
/// before that, and waits here still, it may have given up and sent again there, and that may have been overwritten
/// since. The node that ordered itself had all of it in its own queue.
void PhaseRunner::drop_possibly_retried(const ReplicaPhase& was) {
  if (completions_.holds_something()) mark<"membership.solo_with_kept_work">();
  const auto& suspended = std::get<phase::Suspended>(was);
  if (suspended.was_primary) return;
  const auto since = suspended.since.since_origin;
  front_.end_unstarted(Selection::received_before({since - std::min(since, settings_.lease)}));
}

void PhaseRunner::forward_all() {
  mark<"membership.forwarding">();
  left_epoch_.forget_if_recorded();
  store_.info.size = store_.volume_size();
  space_.begin_epoch();
  store_.noise_from.reset();  // all of it is marked, and made equal
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
  exchange_.ask();
}

void PhaseRunner::start_source() {
  mark<"membership.source">();
  resync_.start(true);
  changed_();
}

/// What the target holds and does not answer keeps our buffers and locks, so that the way out is broken to get them
/// back.
void PhaseRunner::lose_target() {
  mark<"resync.target_failed">();
  resync_.stop();
  sequencer_.drop_remote();
  changed_();
  if (sequencer_.on_link() || !resync_.idle()) partner_.reset();
}

void PhaseRunner::settle_left() {
  apply(event::PartnerWentOn{});
  sequencer_.settle_after_leaving();
}

void PhaseRunner::refuse_held() {
  standing_.gated = false;
  front_.drop_held(Selection::all());
}

}  // namespace lockstep::replication
