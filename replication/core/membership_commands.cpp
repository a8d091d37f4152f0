// What an operator or the daemon asks of a volume's membership, and what it is told.
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;
using engine::MemberSet;

/// The other node proposes {itself} when it sees that this one does not want to be a member.
void Membership::leave(Done done) {
  if (command_.waits())
    return done(fail(Errc::refused, "Another command on this volume has not ended yet. Try again later."));
  if (!standing_.epoch().members.contains(standing_.side())) return done({});
  if (!standing_.epoch().members.is_both()) {
    return done(
        fail(Errc::refused, "This replica is the only member: nobody would be left. Resync the partner first."));
  }
  if (!standing_.in_sync() || !outbound_.ready) {
    return done(fail(Errc::not_serving, "Not in sync with the partner: it can't agree to go on alone."));
  }
  leaving_ = true;
  command_.begin(OperatorCommand::Kind::leave, std::move(done), clock_.now() + std::chrono::seconds(10));
  exchange();
}

namespace {
constexpr const char* kLeftBehind =
    "The partner stands in a later epoch of this volume, in which both may have acknowledged what this replica lacks.";
}  // namespace

engine::Result<void> Membership::check_forced(bool accept_inconsistent) const {
  if (standing_.in_sync() || standing_.is_alone()) {
    return fail(Errc::refused, "This replica serves already: there is nothing to force.");
  }
  if (outbound_.ready && exchange_.partner() && exchange_.partner()->serving) {
    return fail(Errc::refused, "The partner is connected and serves this volume: forcing would split it.");
  }
  if (steps_.busy())
    return fail(Errc::refused, "Another change of this volume has not ended yet. Try again in a moment.");
  if (store_.failed || standing_.metadata_failed()) return fail(Errc::io_error, "This replica's store has failed.");
  if (begun_ == Begun::no) {
    return fail(Errc::refused, "This replica's store has not answered since it was attached. Try again in a moment.");
  }
  if (!standing_.epoch().members.contains(standing_.side()) && !accept_inconsistent) {
    return fail(Errc::refused,
                "This replica is no member of its epoch: it may be stale or in the middle of a resync. Force it with "
                "--accept-inconsistent only if the partner's data is lost.");
  }
  if (generations_.set_back() && !accept_inconsistent) {
    return fail(Errc::refused,
                "This replica was set back in time: it lacks what was written since. Force it with "
                "--accept-inconsistent only if the partner's data is lost.");
  }
  if (alone_.is_left_behind() && !accept_inconsistent) {
    return fail(Errc::refused,
                std::string(kLeftBehind) + " Force it with --accept-inconsistent only if the partner's data is lost.");
  }
  return {};
}

void Membership::force_solo(bool accept_inconsistent, Done done) {
  if (command_.waits())
    return done(fail(Errc::refused, "Another change of this volume has not ended yet. Try again in a moment."));
  if (auto good = check_forced(accept_inconsistent); !good) return done(std::move(good));
  mark<"membership.forced">();
  command_.begin(OperatorCommand::Kind::force_solo, std::move(done), clock_.now() + kMarksAllWithin);
  if (standing_.suspended()) return go_on_by_force();
  mark_all_and_go_on(accept_inconsistent);
}

/// Perhaps this replica was set back, and nobody is there who knows: what was written since, and whose bits were
/// cleared since, no map would tell when the partner comes back. A process that was in sync until now knows better.
void Membership::mark_all_and_go_on(bool accept_inconsistent) {
  mark<"membership.marks_all_to_be_forced">();
  store_.meta->set_dirty({0, store_.room()}, [this, accept_inconsistent](std::error_code error) {
    if (error) store_.fail_metadata("The dirty map can't be written.");
    if (!command_.waits_for(OperatorCommand::Kind::force_solo)) return;
    if (auto good = check_forced(accept_inconsistent); !good) return command_.finish(std::move(good));
    applier_.forget_map();
    go_on_by_force();
  });
}

void Membership::go_on_by_force() {
  leaving_ = false;  // whatever it left for, it serves now
  const bool stale =
      !standing_.epoch().members.contains(standing_.side()) || generations_.set_back() || alone_.is_left_behind();
  generations_.accept_as_it_is();
  // Above what the witness holds, which would not be told of this replica else, and deny it after a restart.
  const std::uint64_t above = std::max(witnessing_.attempted(), store_.known.record_number);
  engine::EpochRecord next =
      next_epoch(standing_.epoch(), MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), above);
  // A stale replica starts a line of its own: whatever the partner holds, it does not descend from it unnoticed.
  if (stale) next.ancestors.clear();
  witnessing_.abandon();
  command_.wait_until(clock_.now() + 4 * settings_.lease);
  alone_.want(std::move(next), true);
}

void Membership::on_gone_alone(bool forced) {
  if (forced) forced_ = true, told_of_force_ = false;
  if (command_.waits() && !command_.waits_for(OperatorCommand::Kind::leave)) command_.finish({});
}

void Membership::close(engine::Callback<> done) {
  phases_.apply(event::Detached{});
  steps_.end_unless_recording();
  witnessing_.abandon();
  alone_.forget();
  phases_.lift_gate();
  front_.end_unstarted(Selection::all());
  resync_.stop();
  sequencer_.settle_after_leaving();
  command_.finish(fail(Errc::aborted, "The volume was detached."));
  closed_done_ = std::move(done);
  exchange_.refuse_states();
}

// ---- what is told ------------------------------------------------------------------------------------------------

MirrorState Membership::mirror_state() const {
  if (standing_.metadata_failed()) return MirrorState::failed;  // also in a split: it could not even give up
  if (split_) return MirrorState::split_brain;
  if (standing_.is_alone()) return resync_.active() ? MirrorState::syncing_source : MirrorState::solo;
  const bool nobody_goes_on = store_.failed && verdict_ == Verdict::wait;
  if (standing_.in_sync() && !nobody_goes_on) return MirrorState::in_sync;
  if (store_.failed) return MirrorState::failed;
  if (leaving_) return MirrorState::left;
  if (standing_.is_forwarding()) return MirrorState::syncing_target;
  if (standing_.suspended()) return MirrorState::suspended;
  const bool early = !has_begun() || clock_.now() - alone_.attached() < settings_.lease || alone_.starts_soon();
  return early ? MirrorState::starting : MirrorState::waiting;
}

bool Membership::serving() const {
  if (closed()) return false;
  if (standing_.is_forwarding()) return outbound_.ready && exchange_.partner() && exchange_.partner()->serving;
  return !standing_.serves_nothing();
}

bool Membership::undecided() const {
  if (closed() || split_ || (serving() && !standing_.gated)) return false;
  if (standing_.gated || standing_.suspended()) {
    const bool lost = standing_.serves_nothing() && !standing_.gated && witnessing_.lost();
    const engine::TimePoint since = standing_.suspended() ? standing_.suspended()->since : phases_.gated_since();
    return !lost && clock_.now() - since < GoingAlone::kDecidesWithin * settings_.lease;
  }
  if (standing_.is_forwarding()) return !outbound_.ready || !exchange_.partner() || exchange_.partner()->able;
  return mirror_state() == MirrorState::starting;
}

/// Time alone may end it.
void Membership::tell_when_decided() {
  const bool before = std::exchange(was_undecided_, undecided());
  if (before && !was_undecided_ && !serving()) changed_();
}

bool Membership::failover_limited() const {
  const bool witnessed = standing_.epoch().arbiter.kind == engine::ArbiterKind::witness;
  return standing_.in_sync() && witnessed && !witnessing_.raised();
}

std::string Membership::reason() const {
  if (split_ && !standing_.metadata_failed()) {
    return "Split brain: both replicas went on without the other. Choose the one to keep, and let the other give up.";
  }
  if (!failure_.empty()) return failure_;
  if (exchange_.partner_is_larger() && standing_.serves_nothing()) {
    return "The volume grew to more than this replica has room for (" + std::to_string(store_.room()) +
           " bytes). It goes on when there is space for the rest.";
  }
  if (store_.failed) return store_.reason;
  if (leaving_) return "Left for maintenance: restart lockstepd on this node to bring this replica back.";
  if (standing_.serves_nothing() && !partner_.refusal().empty()) return partner_.refusal();
  if (standing_.serves_nothing() && generations_.set_back()) return Witnessing::why_set_back();
  if (standing_.serves_nothing() || failover_limited()) {
    if (!witnessing_.reason().empty()) return witnessing_.reason();
  }
  if (failover_limited()) return "The witness has not been told of this epoch yet.";
  if (standing_.serves_nothing() && standing_.epoch().arbiter.kind == engine::ArbiterKind::fence &&
      standing_.epoch().members.is_both()) {
    if (std::string why = alone_.why_not_fenced(); !why.empty()) return why;
  }
  if (standing_.serves_nothing() && store_watch_.record_hangs())
    return "The metadata's store did not complete a write in time.";
  if (standing_.serves_nothing() && alone_.is_left_behind()) return kLeftBehind;
  if (standing_.serves_nothing()) return "Waiting for the partner, the witness or an operator.";
  if (standing_.is_alone() && store_.data.refuses_writes()) return store_.why_it_refuses();
  if (space_.lacking()) return store_.lack_of_space();
  if (standing_.is_alone() && damping_.damped()) return damping_.why_partner_waits();
  if (standing_.is_forwarding() && damping_.stood_still()) return damping_.why_this_waits();
  return resync_.why_unreadable();
}

}  // namespace lockstep::replication
