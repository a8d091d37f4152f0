// What an operator or the daemon asks of a volume's membership, and what it is told.
#include "replication/core/applier.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;
using engine::MemberSet;

void Membership::finish_waiter(engine::Result<void> result) {
  if (auto done = std::exchange(waiter_, nullptr)) done(std::move(result));
}

/// The other node proposes {itself} when it sees that this one does not want to be a member.
void Membership::leave(Done done) {
  if (waiter_) return done(fail(Errc::refused, "Another command on this volume has not ended yet. Try again later."));
  if (!core_.epoch().members.contains(core_.side())) return done({});
  if (!core_.epoch().members.is_both()) {
    return done(
        fail(Errc::refused, "This replica is the only member: nobody would be left. Resync the partner first."));
  }
  if (!core_.in_sync() || !core_.partner_ready) {
    return done(fail(Errc::not_serving, "Not in sync with the partner: it can't agree to go on alone."));
  }
  leaving_ = true;
  waiter_ = std::move(done);
  waiter_is_leave_ = true;
  waiter_until_ = core_.now() + std::chrono::seconds(10);
  exchange();
}

void Membership::force_solo(bool accept_inconsistent, Done done) {
  if (core_.in_sync() || core_.is_alone()) {
    return done(fail(Errc::refused, "This replica serves already: there is nothing to force."));
  }
  if (core_.partner_ready && partner_ && partner_->serving) {
    return done(fail(Errc::refused, "The partner is connected and serves this volume: forcing would split it."));
  }
  if (waiter_ || change_) {
    return done(fail(Errc::refused, "Another change of this volume has not ended yet. Try again in a moment."));
  }
  if (core_.store_failed || metadata_failed()) return done(fail(Errc::io_error, "This replica's store has failed."));
  if (begun_ == Begun::no) {
    return done(
        fail(Errc::refused, "This replica's store has not answered since it was attached. Try again in a moment."));
  }
  const engine::EpochRecord& mine = core_.epoch();
  const bool member = mine.members.contains(core_.side());
  if (!member && !accept_inconsistent) {
    return done(fail(Errc::refused,
                     "This replica is no member of its epoch: it may be stale or in the middle of a resync. Force it "
                     "with accept_inconsistent only if the partner's data is lost."));
  }
  mark<"membership.forced">();
  core_.generations->accept_as_it_is();
  engine::EpochRecord next = next_epoch(mine, MemberSet::only(core_.side()), core_.side(), core_.seams.random.uuid(),
                                        core_.witnessing->attempted());
  // A stale replica starts a line of its own: whatever the partner holds, it does not descend from it unnoticed.
  if (!member) next.ancestors.clear();
  core_.witnessing->abandon();
  waiter_ = std::move(done);
  waiter_is_leave_ = false;
  waiter_until_ = core_.now() + 4 * core_.settings.lease;
  want_solo(std::move(next), true);
}

void Membership::close(engine::Callback<> done) {
  apply(event::Detached{});
  // Also one of which the partner has recorded its part: without this node's record it is one that was interrupted.
  if (change_ && !change_->recording_since) give_step_up();
  core_.witnessing->abandon();
  pending_solo_.reset();
  core_.gated = false;
  core_.end_unstarted(Selection::all());
  core_.resync->stop();
  core_.sequencer->settle_after_leaving();
  finish_waiter(fail(Errc::aborted, "The volume was detached."));
  closed_done_ = std::move(done);
  refuse_states();
}

// ---- what is told ------------------------------------------------------------------------------------------------

MirrorState Membership::mirror_state() const {
  if (metadata_failed()) return MirrorState::failed;  // also in a split: it could not even give up
  if (split_) return MirrorState::split_brain;
  if (core_.is_alone()) return core_.resync->active() ? MirrorState::syncing_source : MirrorState::solo;
  const bool nobody_goes_on = core_.store_failed && verdict_ == Verdict::wait;
  if (core_.in_sync() && !nobody_goes_on) return MirrorState::in_sync;
  if (core_.store_failed) return MirrorState::failed;
  if (leaving_) return MirrorState::left;
  if (core_.is_forwarding()) return MirrorState::syncing_target;
  if (core_.suspended()) return MirrorState::suspended;
  const bool early = !has_begun() || core_.now() - attached_ < core_.settings.lease;
  return early ? MirrorState::starting : MirrorState::waiting;
}

bool Membership::serving() const {
  if (closed()) return false;
  if (core_.is_forwarding()) return core_.partner_ready && partner_ && partner_->serving;
  return !core_.serves_nothing();
}

bool Membership::undecided() const {
  if (closed() || split_ || (serving() && !core_.gated)) return false;
  if (core_.gated || core_.suspended()) {
    const bool lost = core_.serves_nothing() && !core_.gated && core_.witnessing->lost();
    const engine::TimePoint since = core_.suspended() ? core_.suspended()->since : gated_since_;
    return !lost && core_.now() - since < kDecidesWithin * core_.settings.lease;
  }
  if (core_.is_forwarding()) return !core_.partner_ready || !partner_ || partner_->able;
  return mirror_state() == MirrorState::starting;
}

/// Time alone may end it.
void Membership::tell_when_decided() {
  const bool before = std::exchange(was_undecided_, undecided());
  if (before && !was_undecided_ && !serving()) core_.changed();
}

bool Membership::failover_limited() const {
  const bool witnessed = core_.epoch().arbiter.kind == engine::ArbiterKind::witness;
  return core_.in_sync() && witnessed && !core_.witnessing->raised();
}

std::string Membership::reason() const {
  if (split_ && !metadata_failed()) {
    return "Split brain: both replicas went on without the other. Choose the one to keep, and let the other give up.";
  }
  if (!failure_.empty()) return failure_;
  if (partner_is_larger_ && core_.serves_nothing()) {
    return "The volume grew to more than this replica has room for (" + std::to_string(core_.room()) +
           " bytes). It goes on when there is space for the rest.";
  }
  if (core_.store_failed) return core_.reason;
  if (leaving_) return "Left for maintenance: attach the volume again to bring this replica back.";
  if (core_.serves_nothing() && !core_.partner.refusal().empty()) return core_.partner.refusal();
  if (core_.serves_nothing() || failover_limited()) {
    if (!core_.witnessing->reason().empty()) return core_.witnessing->reason();
  }
  if (failover_limited()) return "The witness has not been told of this epoch yet.";
  if (core_.serves_nothing() && core_.epoch().arbiter.kind == engine::ArbiterKind::fence) {
    return "The arbiter 'fence' is not carried out by this version: the partner or an operator decides.";
  }
  if (core_.serves_nothing()) return "Waiting for the partner, the witness or an operator.";
  if (core_.space->lacking()) return core_.space->sentence();
  return {};
}

}  // namespace lockstep::replication
