// Making and losing touch, and what else the node tells of: what follows for this replica.
#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

void Membership::on_fenced() { phases_.apply(event::SessionsClosed{}); }

/// What waited for it goes on.
void Membership::on_contact_made() {
  forwarder_.resend();
  lu_.pump();
}

void Membership::on_lease(const engine::Uuid& epoch, bool granted, const Lease& lease) {
  if (!granted || epoch != standing_.epoch().id) return;
  phases_.apply(event::LeaseGranted{lease});
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
  steps_.end_unrecorded();
  if (!steps_.busy() && standing_.gated && !standing_.serves_nothing()) phases_.open_gate();
  if (resync_.mirroring()) {
    mark<"resync.target_lost">();
    resync_.stop();
    sequencer_.drop_remote();
    changed_();
  }
}

void Membership::on_inbound_down() {
  if (steps_.is(Step::following)) steps_.end_unrecorded();
  if (!steps_.busy() && standing_.gated && !standing_.serves_nothing()) phases_.open_gate();
  applier_.drop_old(0);
  front_.end_unstarted(Selection::partners());
}

/// A partner that serves is let go on without this replica, also where its disk hangs.
void Membership::watch_before_start() {
  const engine::TimePoint now = clock_.now();
  store_watch_.watch_own_ticks(now);
  watch_stores(now);
}

void Membership::lose_lease() {
  if (standing_.in_sync()) mark<"membership.lease_lost">();
  phases_.apply(event::LeaseLost{clock_.now(), standing_.is_sequencer()});
}

void Membership::on_contact_lost() {
  const bool both_served = ran(standing_.phase) && standing_.epoch().members.is_both();
  damping_.lost(clock_.now(), both_served || resync_.active(), partner_.is_catching_up());
  front_.end_unstarted(Selection::partners());
  if (standing_.in_sync()) mark<"membership.lease_lost">();
  phases_.apply(event::ContactLost{clock_.now(), standing_.is_sequencer()});
}

void Membership::on_partner_restarted() {
  exchange_.forget_partner();
  damping_.forget();
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

/// As one whose metadata failed, while its process lives: it takes part in nothing, and closed its sessions.
bool Membership::partner_serves_nobody() const {
  const auto& theirs = exchange_.partner();
  return theirs && !theirs->able && !theirs->serving && !theirs->forwarding && !theirs->changing;
}

/// A partner that is no member has sessions, too. They are closed when it loses contact, a lease after the last
/// heartbeat of its that was answered, and when it can serve nobody any more. A machine whose clock stood still
/// meanwhile sees by the next answer that it did (Partner::watch_clock) if that clock is behind by a lease more than it
/// may have counted: so this waits for longer.
void Membership::end_what_partner_held(engine::TimePoint now) {
  const engine::TimePoint since = std::max(partner_.answered_at(), alone_.attached());
  if (!standing_.is_alone() || !partner_serves_nobody()) partner_served_ = now;
  const bool is_cut_off = !partner_.in_contact() && now >= since + gone_after();
  const bool is_useless = now >= std::max(partner_served_, alone_.attached()) + gone_after();
  const bool gone = standing_.is_alone() && (is_cut_off || is_useless);
  if (std::exchange(partner_is_gone_, gone) || !gone) return;
  mark<"membership.partner_is_gone">();
  front_.end_unstarted(Selection::partners());
  lu_.on_partner_lost();
}

/// What was begun ends with the decision, and that may take as long as the partner and the witness are away. Meanwhile
/// the sessions that were closed would not end, nor their initiators log in again: to no volume of this node.
void Membership::let_sessions_end(engine::TimePoint now) {
  const phase::Suspended* p = standing_.suspended();
  if (!p || p->sessions != phase::Suspended::Sessions::closed || steps_.busy()) return;
  if (now >= p->since + gone_after()) sequencer_.end_requests_given_up();
}

void Membership::on_equal() {
  mark<"membership.told_equal">();
  phases_.apply(event::StoresEqual{});
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
  if (standing_.in_sync() && !steps_.busy()) phases_.close_gate();
  changed_();
  exchange_.answer_states();
  exchange();
}

void Membership::fail_metadata(const std::string& why) {
  store_.may_return = false;
  if (standing_.metadata_failed()) return;
  failure_ = why;
  store_.failed = true;
  phases_.apply(event::MetadataLost{});
  exchange();
}

}  // namespace lockstep::replication
