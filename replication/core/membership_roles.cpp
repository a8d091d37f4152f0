// Arriving in a phase, and losing touch: what each phase starts and stops.
#include <algorithm>
#include <cassert>

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/forward_server.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

void Membership::perform(Effect effect, const ReplicaPhase& was) {
  switch (effect) {
    case Effect::end_change:
      return end_unrecorded_step();
    case Effect::hold_new:
      return close_gate();
    case Effect::lift_hold:
      core_.gated = false;
      return;
    case Effect::lift_hold_if_idle:
      if (!change_) core_.gated = false;
      return;
    case Effect::close_sessions:
      return fence();
    case Effect::drop_own:
      return core_.end_unstarted(Selection::own());
    case Effect::take_back_waiting:
      return core_.sequencer->take_back_waiting();
    case Effect::drop_possibly_retried:
      return drop_possibly_retried(was);
    case Effect::stop_resync:
      return core_.resync->stop();
    case Effect::stop_mirroring:
      if (core_.resync->mirroring()) core_.resync->stop();
      return;
    case Effect::lose_target:
      if (core_.resync->mirroring()) core_.resync->stop();
      return core_.sequencer->drop_remote();
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
      core_.lu->on_leased();
      return core_.sequencer->on_leased();
    case Effect::prove_store:
      static_cast<void>(store_is_proven());
      return;
    case Effect::tell_state:
      core_.changed();
      return answer_states();
  }
}

void Membership::close_gate() {
  if (!core_.gated) gated_since_ = core_.now();
  core_.gated = true;
}

void Membership::open_gate() {
  core_.gated = false;
  core_.front->release_held();
}

void Membership::on_fenced() { apply(event::SessionsClosed{}); }

/// Nothing of what is dropped is answered before the sessions are closed: an initiator could take the answer for the
/// last word, and sends what was not answered again.
void Membership::fence() {
  core_.partner.set_fencing(true);
  core_.end_unstarted(Selection::all());
  core_.fence();
}

void Membership::end_unrecorded_step() {
  if (!change_ || change_->step == Step::recording || change_->recording_since) return;
  give_step_up();
}

/// A proposal may be on its way: whether the partner took it is not known. Who followed took no order, so that it might
/// drain.
void Membership::give_step_up() {
  const bool followed = is_changing(Step::following), was_serving = !core_.serves_nothing();
  end_step();
  if (std::holds_alternative<phase::Recording>(core_.phase)) apply(event::NotAgreed{core_.now()});
  if (followed && (was_serving || core_.suspended())) core_.applier->open(false);
}

/// Both members recorded the epoch.
void Membership::begin_in_sync() {
  mark<"membership.in_sync">();
  forget_what_is_recorded();
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  partner_stopped_ = false;
  agreed_ = begun_epoch_ = core_.epoch().id;
  core_.applier->open(true);
  core_.witnessing->settled();
  core_.regions->remember(true);
  core_.resync->cover_volume();
}

void Membership::make_equal() {
  if (core_.resync->active()) return;
  mark<"membership.both_restarted">();
  core_.resync->start(false);
}

void Membership::serve_in_sync(bool fresh) {
  core_.partner.heartbeat_now();
  core_.lu->on_sync(fresh);
  if (core_.orders()) core_.forwarder->take_over(Forwarder::Taking::what_is_young);
  open_gate();
  core_.forwarder->resend();
  core_.resync->go_on();
  if (core_.is_sequencer()) core_.generations->raise([](bool) {});
  core_.changed();
  exchange();
}

/// An epoch that was recorded and not begun is begun now: the answer to its proposal was lost, or its record was late.
void Membership::resume_in_sync() {
  mark<"membership.resumed">();
  if (begun_epoch_ != core_.epoch().id) {
    mark<"membership.resumed_what_was_not_begun">();
    begin_in_sync();
    return serve_in_sync(false);
  }
  core_.applier->open(false);
  core_.partner.heartbeat_now();
  core_.sequencer->resend();
  open_gate();
  core_.forwarder->resend();
  core_.resync->go_on();
  core_.changed();
}

/// From a suspension nobody else has served since it began; what is too old for that was dropped.
void Membership::serve_alone(const ReplicaPhase& was) {
  mark<"membership.solo">();
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  // Nothing is left that the store did not return (settle_store): alone, each operation tells its own error.
  if (core_.store_failed) core_.reason.clear();
  core_.store_failed = core_.store_may_return = false;
  partner_stopped_ = false;
  core_.applier->open(true);
  core_.resync->stop();
  core_.witnessing->settled();
  core_.sequencer->drop_remote();
  core_.sequencer->end_failed();
  core_.lu->on_solo(!ran(was));
  core_.sequencer->on_leased();
  const bool suspended = std::holds_alternative<phase::Suspended>(was);
  core_.forwarder->take_over(suspended ? Forwarder::Taking::all : Forwarder::Taking::what_is_young);
  open_gate();
  core_.changed();
  exchange();
}

/// Until the lease ran out a partner that ordered could acknowledge with this node's help. What a host sent here long
/// before that, and waits here still, it may have given up and sent again there, and that may have been overwritten
/// since. The node that ordered itself had all of it in its own queue.
void Membership::drop_possibly_retried(const ReplicaPhase& was) {
  if (core_.front->holds_something()) mark<"membership.solo_with_kept_work">();
  const auto& suspended = std::get<phase::Suspended>(was);
  if (suspended.was_primary) return;
  const auto since = suspended.since.since_origin;
  core_.end_unstarted(Selection::received_before({since - std::min(since, core_.settings.lease)}));
}

void Membership::forward_all() {
  mark<"membership.forwarding">();
  forget_what_is_recorded();
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  if (owes_old_work()) mark<"membership.old_work_first">();
  core_.resync->stop();
  // What a hung store kept from being drained is not started here, nor answered from here, when the store returns it.
  core_.sequencer->drop(Selection::all());
  core_.forwarder->on_no_member();
  core_.applier->open(true);
  core_.witnessing->settled();
  core_.lu->on_forward();
  open_gate();
  core_.forwarder->resend();
  core_.changed();
  exchange();
}

void Membership::start_source() {
  mark<"membership.source">();
  core_.resync->start(true);
  core_.changed();
}

/// The target can't take more: writes go on without it. What it holds and does not answer keeps our buffers and locks,
/// so that the way out is broken to get them back.
void Membership::lose_target() {
  mark<"resync.target_failed">();
  core_.resync->stop();
  core_.sequencer->drop_remote();
  core_.changed();
  if (core_.sequencer->on_link() || !core_.resync->idle()) core_.partner.reset();
}

/// What this replica had issued before it left ends now: acknowledged if the partner had it.
void Membership::settle_left() {
  apply(event::PartnerWentOn{});
  core_.sequencer->settle_after_leaving();
}

bool Membership::goes_on_soon() const {
  const engine::Duration since = core_.now() - core_.suspended()->since;
  if (since > kDecidesWithin * core_.settings.lease) return false;
  if (pending_solo_ || change_) return true;
  ReplicaState mine = state();
  mine.able |= suspects_store();  // it may be only slow
  if (decide_alone(mine, core_.seams.witness != nullptr) == AloneRule::stay) return false;
  return !core_.witnessing->lost() && !core_.witnessing->unreachable() && since <= core_.settings.lease;
}

/// Whoever waits here is sent to the other node, which may have served meanwhile, or will.
void Membership::watch_kept_sessions() {
  if (!core_.keeps_sessions() || goes_on_soon()) return;
  mark<"membership.sessions_given_up">();
  apply(event::NotAlone{});
}

/// What waited for it goes on.
void Membership::on_contact_made() {
  core_.forwarder->resend();
  core_.lu->pump();
}

bool Membership::grant(const engine::Uuid& epoch) {
  if (!core_.in_sync() || core_.gated || closed() || epoch != core_.epoch().id) return false;
  core_.last_grant = core_.now();
  return true;
}

void Membership::on_lease(const engine::Uuid& epoch, bool granted, engine::TimePoint until) {
  if (!granted || epoch != core_.epoch().id) return;
  apply(event::LeaseGranted{{.from = {until.since_origin - core_.settings.lease}, .until = until}});
}

void Membership::on_connected() {
  ++exchange_run_;
  exchanging_ = false;
  core_.forwarder->on_connected();
  exchange();
}

void Membership::on_disconnected() {
  ++exchange_run_;
  exchanging_ = core_.partner_ready = partner_unknown_ = false;
  verdict_ = Verdict::wait;
  core_.lu->forget_target();
  core_.space->forget_partner();
  end_unrecorded_step();
  if (!change_ && core_.gated && !core_.serves_nothing()) open_gate();
  if (core_.resync->mirroring()) {
    mark<"resync.target_lost">();
    core_.resync->stop();
    core_.sequencer->drop_remote();
    core_.changed();
  }
}

void Membership::on_inbound_down() {
  if (is_changing(Step::following)) end_unrecorded_step();
  if (!change_ && core_.gated && !core_.serves_nothing()) open_gate();
  core_.applier->drop_old(0);
  core_.end_unstarted(Selection::partners());
}

void Membership::lose_lease() {
  if (core_.in_sync()) mark<"membership.lease_lost">();
  apply(event::LeaseLost{core_.now(), core_.is_sequencer()});
}

void Membership::on_contact_lost() {
  core_.end_unstarted(Selection::partners());
  if (core_.in_sync()) mark<"membership.lease_lost">();
  apply(event::ContactLost{core_.now(), core_.is_sequencer()});
}

void Membership::on_partner_restarted() {
  partner_.reset();
  core_.generations->forget_partner();
  core_.partner_ready = false;
  core_.applier->forget_sequences();
  core_.space->forget_partner();
  core_.end_unstarted(Selection::partners());
  core_.lu->on_partner_lost();
  core_.forwards->on_partner_restarted();
  core_.forwarder->on_partner_restarted();
  if (core_.resync->mirroring()) {
    core_.resync->stop();
    core_.sequencer->drop_remote();
  }
}

void Membership::on_equal() {
  mark<"membership.told_equal">();
  apply(event::StoresEqual{});
}

/// A target that refuses is no target; a member that refuses is in another epoch or leaving: its state will tell.
void Membership::on_partner_refused() {
  if (core_.resync->mirroring()) {
    core_.resync->stop();
    core_.sequencer->drop_remote();
  }
  if (core_.now() - last_exchange_ > std::chrono::milliseconds(20)) exchange();
}

void Membership::on_store_failed() {
  if (core_.in_sync() && !change_) close_gate();
  core_.changed();
  answer_states();
  exchange();
}

void Membership::fail_metadata(const std::string& why) {
  core_.store_may_return = false;
  if (metadata_failed()) return;
  failure_ = why;
  core_.store_failed = true;
  apply(event::MetadataLost{});
  exchange();
}

/// This replica takes part in no epoch any more: nothing may wait here for the next one.
void Membership::refuse_held() {
  core_.gated = false;
  core_.front->drop_held(Selection::all());
}

}  // namespace lockstep::replication
