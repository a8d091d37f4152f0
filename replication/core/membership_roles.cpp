// Arriving in an epoch, and losing touch: what each role starts and stops.
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

void Membership::close_gate() {
  if (!core_.gated) undecided_since_ = core_.now();
  core_.gated = true;
}

void Membership::open_gate() {
  core_.gated = false;
  core_.front->release_held();
}

/// Nothing that was received and not started is started any more.
void Membership::drop_unstarted() { core_.end_unstarted(Selection::all()); }

void Membership::on_fenced() {
  if (std::exchange(core_.in_limbo, false) && step_kind_ == Step::none) core_.gated = false;
  core_.end_unstarted(Selection::own());
}

/// Nothing of what is dropped is answered before the sessions are closed: an initiator could take the answer for the
/// last word, and sends what was not answered again.
void Membership::fence() {
  core_.in_limbo = false;
  core_.partner.set_fencing(true);
  drop_unstarted();
  core_.fence();
}

void Membership::end_unrecorded_step() {
  if (step_kind_ != Step::driving && step_kind_ != Step::following) return;
  if (!step_recording_) end_step();
}

/// Both members recorded the epoch. `equal`: so are their stores; otherwise the sequencer makes them so before use.
void Membership::enter_sync(bool equal) {
  mark<"membership.in_sync">();
  assert(!core_.in_limbo);
  const bool fresh = !running_;
  core_.role = Role::sync;
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  core_.suspended = core_.leased = core_.partner_alone = owes_old_work_ = false;
  running_ = true;
  partner_stopped_ = false;
  agreed_ = core_.epoch().id;
  entered_ = core_.now();
  core_.local_reads = core_.is_sequencer() || equal;
  core_.applier->open(true);
  core_.witnessing->settled();
  core_.regions->remember(true);
  if (equal) core_.resync->stop();
  core_.resync->cover_volume();
  if (!equal && core_.is_sequencer() && !core_.resync->active()) {
    mark<"membership.both_restarted">();
    core_.resync->start(false);
  }
  core_.partner.heartbeat_now();
  core_.lu->on_sync(fresh);
  if (core_.orders()) core_.forwarder->take_over();
  open_gate();
  core_.forwarder->resend();
  core_.resync->go_on();
  if (core_.is_sequencer()) core_.generations->raise([](bool) {});
  core_.changed();
  exchange();
}

void Membership::resume_sync() {
  mark<"membership.resumed">();
  assert(!core_.in_limbo);
  core_.role = Role::sync;
  core_.suspended = core_.leased = false;
  entered_ = core_.now();
  core_.applier->open(false);
  core_.partner.heartbeat_now();
  core_.sequencer->resend();
  open_gate();
  core_.forwarder->resend();
  core_.resync->go_on();
  core_.changed();
}

void Membership::enter_solo() {
  mark<"membership.solo">();
  if (std::exchange(core_.in_limbo, false)) drop_what_was_retried();
  const bool fresh = !running_;
  core_.role = Role::solo;
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  // Nothing is left that the store did not return (settle_store): alone, each operation tells its own error.
  if (core_.store_failed) core_.reason.clear();
  core_.store_failed = core_.store_may_return = false;
  core_.suspended = core_.leased = core_.local_reads = core_.partner_alone = owes_old_work_ = false;
  running_ = true;
  partner_stopped_ = false;
  core_.applier->open(true);
  core_.resync->stop();
  core_.witnessing->settled();
  core_.sequencer->drop_remote();
  core_.lu->on_solo(fresh);
  core_.sequencer->on_leased();
  core_.forwarder->take_over();
  open_gate();
  core_.changed();
  exchange();
}

/// Until the lease ran out a partner that ordered could acknowledge with this node's help. What a host sent here long
/// before that, and waits here still, it may have given up and sent again there, and that may have been overwritten
/// since. The node that ordered itself had all of it in its own queue.
void Membership::drop_what_was_retried() {
  if (core_.front->holds_something()) mark<"membership.solo_from_limbo_with_work">();
  if (ordered_) return;
  const auto since = undecided_since_.since_origin;
  core_.end_unstarted(Selection::received_before({since - std::min(since, core_.settings.lease)}));
}

void Membership::enter_forward() {
  mark<"membership.forwarding">();
  assert(!core_.in_limbo);
  core_.role = Role::forward;
  entered_ = core_.now();
  core_.info.size = core_.volume_size();
  core_.space->begin_epoch();
  core_.suspended = core_.leased = core_.local_reads = false;
  running_ = false;
  owes_old_work_ = owes_own_work();
  if (owes_old_work_) mark<"membership.old_work_first">();
  core_.resync->stop();
  // What a hung store kept from being drained is not started here, nor answered from here, when the store returns it.
  core_.sequencer->doom(Selection::all());
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
  core_.partner_alone = true;
  core_.sequencer->settle_after_leaving();
}

/// A proposal's fate is open: what was held stays held until contact is lost or the two agree.
void Membership::suspend() {
  core_.role = Role::none;
  core_.suspended = running_;
  core_.leased = false;
  undecided_since_ = core_.now();
  if (core_.resync->mirroring()) core_.resync->stop();
  core_.changed();
}

void Membership::lose_lease() {
  if (core_.role != Role::sync) return;
  mark<"membership.lease_lost">();
  end_unrecorded_step();
  ordered_ = core_.is_sequencer();
  const engine::TimePoint since = core_.leased ? std::min(core_.now(), core_.lease_until) : core_.now();
  core_.role = Role::none;
  core_.suspended = true;
  core_.leased = false;
  close_gate();
  undecided_since_ = since;  // the partner's orders were refused from then on
  core_.in_limbo = true;
  core_.sequencer->take_back_waiting();
  core_.changed();
  (void)store_is_proven();
}

bool Membership::limbo_is_hopeless() const {
  const engine::Duration since = core_.now() - undecided_since_;
  if (since > kDecidesWithin * core_.settings.lease) return true;
  if (pending_solo_ || step_kind_ != Step::none) return false;
  ReplicaState mine = state();
  mine.able |= suspects_store();  // it may be only slow
  if (decide_alone(mine, core_.seams.witness != nullptr) == AloneRule::stay) return true;
  return core_.witnessing->lost() || core_.witnessing->unreachable() || since > core_.settings.lease;
}

void Membership::watch_limbo() {
  if (core_.in_limbo && limbo_is_hopeless()) leave_limbo();
}

/// Not to go on alone: whoever waits here is sent to the other node, which may have served meanwhile, or will.
void Membership::leave_limbo() {
  if (!core_.in_limbo) return;
  mark<"membership.left_limbo">();
  if (step_kind_ == Step::none) core_.gated = false;
  fence();
  core_.changed();
}

/// What waited for it goes on.
void Membership::on_contact_made() {
  core_.forwarder->resend();
  core_.lu->pump();
}

bool Membership::grant(const engine::Uuid& epoch) {
  if (core_.role != Role::sync || core_.gated || closed_ || epoch != core_.epoch().id) return false;
  core_.last_grant = core_.now();
  return true;
}

void Membership::on_lease(const engine::Uuid& epoch, bool granted, engine::TimePoint until) {
  if (!granted || core_.role != Role::sync || epoch != core_.epoch().id) return;
  if (!core_.leased || until > core_.lease_until) core_.lease_until = until;
  core_.lease_from = {core_.lease_until.since_origin - core_.settings.lease};
  core_.leased = true;
  core_.lu->on_leased();
  core_.sequencer->on_leased();
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
  core_.lu->on_disconnected();
  core_.space->forget_partner();
  end_unrecorded_step();
  if (step_kind_ == Step::none && core_.gated && core_.role != Role::none) open_gate();
  if (core_.resync->mirroring()) {
    mark<"resync.target_lost">();
    core_.resync->stop();
    core_.sequencer->drop_remote();
    core_.changed();
  }
}

void Membership::on_inbound_down() {
  if (step_kind_ == Step::following) end_unrecorded_step();
  if (step_kind_ == Step::none && core_.gated && core_.role != Role::none) open_gate();
  core_.applier->drop_old(0);
  core_.end_unstarted(Selection::partners());
}

void Membership::on_contact_lost() {
  core_.end_unstarted(Selection::partners());
  switch (core_.role) {
    case Role::sync:
      return lose_lease();
    case Role::solo:
      if (core_.resync->mirroring()) core_.resync->stop();
      return core_.sequencer->drop_remote();
    case Role::forward:
      core_.role = Role::none;
      break;
    case Role::none:
      if (core_.in_limbo) return;
      break;
  }
  end_unrecorded_step();
  if (step_kind_ == Step::none) core_.gated = false;
  fence();
  core_.changed();
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
  core_.local_reads = true;
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
  if (core_.role == Role::sync && step_kind_ == Step::none) close_gate();
  core_.changed();
  answer_states();
  exchange();
}

void Membership::fail_metadata(const std::string& why) {
  core_.store_may_return = false;
  if (metadata_failed_) return;
  metadata_failed_ = true;
  failure_ = why;
  core_.store_failed = true;
  core_.role = Role::none;
  core_.suspended = core_.gated = false;
  fence();
  core_.changed();
  answer_states();
  exchange();
}

/// This replica takes part in no epoch any more: nothing may wait here for the next one.
void Membership::refuse_held() {
  core_.gated = false;
  core_.front->drop_held(Selection::all());
}

}  // namespace lockstep::replication
