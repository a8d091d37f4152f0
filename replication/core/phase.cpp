#include "replication/core/phase.hpp"

#include <algorithm>
#include <array>

namespace lockstep::replication {
namespace {

using namespace phase;
using engine::MemberSet;
using Sessions = Suspended::Sessions;
using Next = std::optional<Transition>;

Next to(ReplicaPhase next, std::vector<Effect> effects = {}) { return Transition{std::move(next), std::move(effects)}; }
template <class Phase>
Next stay(const Phase& phase, std::vector<Effect> effects = {}) {
  return to(phase, std::move(effects));
}
constexpr std::nullopt_t kImpossible = std::nullopt;

// ---- records: each phase names those that may follow --------------------------------------------------------------

template <class Phase>
Next on(const Phase& was, const event::RecordBegins&) {
  return to(Recording{.ran = ran(was)});
}
Next on(const Suspended& was, const event::RecordBegins&) {
  if (was.sessions == Sessions::kept) return kImpossible;  // what waits for this node alone is given up first
  return to(Recording{.ran = true});
}

Next on(const Recording&, const event::BothRecorded& e) {
  std::vector<Effect> effects{Effect::begin_in_sync};
  if (e.equal) effects.push_back(Effect::stop_resync);
  if (!e.equal && e.primary) effects.push_back(Effect::make_equal);
  effects.push_back(Effect::serve_in_sync);
  return to(InSync{.entered = e.now, .reads_here = e.primary || e.equal, .lease = {}}, std::move(effects));
}
template <class Phase>
Next on(const Phase&, const event::BothRecorded&) {
  return kImpossible;
}

template <class Phase>
Next on(const Phase&, const event::AloneRecorded&) {
  return to(Solo{}, {Effect::serve_alone});
}
Next on(const Suspended& was, const event::AloneRecorded&) {
  if (was.sessions != Sessions::kept) return to(Solo{}, {Effect::serve_alone});
  return to(Solo{}, {Effect::drop_possibly_retried, Effect::serve_alone});
}

template <class Phase>
Next on(const Phase&, const event::PartnerRecorded& e) {
  return to(Forwarding{.entered = e.now, .partner_went_on = false}, {Effect::forward_all});
}
Next on(const InSync&, const event::PartnerRecorded&) { return kImpossible; }
Next on(const Solo&, const event::PartnerRecorded&) { return kImpossible; }
Next on(const Suspended&, const event::PartnerRecorded&) { return kImpossible; }

Next on(const Recording& was, const event::NotAgreed& e) {
  if (!was.ran) return to(Starting{}, {Effect::stop_mirroring, Effect::tell_state});
  return to(Suspended{.since = e.now, .sessions = Sessions::held, .was_primary = true, .reads_here = true},
            {Effect::stop_mirroring, Effect::tell_state});
}
template <class Phase>
Next on(const Phase&, const event::NotAgreed&) {
  return kImpossible;
}

// ---- in the epoch -------------------------------------------------------------------------------------------------

Next on(const InSync& was, const event::Resumed& e) {
  return to(InSync{.entered = e.now, .reads_here = was.reads_here || e.primary, .lease = {}}, {Effect::resume_in_sync});
}
Next on(const Suspended& was, const event::Resumed& e) {
  if (was.sessions == Sessions::kept) return kImpossible;  // what waits for this node alone is not for both
  return to(InSync{.entered = e.now, .reads_here = was.reads_here || e.primary, .lease = {}}, {Effect::resume_in_sync});
}
Next on(const Stopped&, const event::Resumed& e) {
  return to(InSync{.entered = e.now, .reads_here = e.primary, .lease = {}}, {Effect::resume_in_sync});
}
template <class Phase>
Next on(const Phase&, const event::Resumed&) {
  return kImpossible;
}

Next on(const InSync& was, const event::LeaseGranted& e) {
  InSync next = was;
  if (!was.lease || was.lease->until < e.lease.until) next.lease = e.lease;
  return to(next, {Effect::ask_about_leases});
}
template <class Phase>
Next on(const Phase& was, const event::LeaseGranted&) {
  return stay(was);
}

Next on(InSync was, const event::StoresEqual&) {
  was.reads_here = true;
  return to(was);
}
Next on(Suspended was, const event::StoresEqual&) {
  was.reads_here = true;
  return to(was);
}
template <class Phase>
Next on(const Phase& was, const event::StoresEqual&) {
  return stay(was);
}

Next on(Forwarding was, const event::PartnerWentOn&) {
  was.partner_went_on = true;
  return to(was);
}
template <class Phase>
Next on(const Phase& was, const event::PartnerWentOn&) {
  return stay(was);
}

// ---- losing touch -------------------------------------------------------------------------------------------------

Next suspend(const InSync& was, engine::TimePoint now, bool primary) {
  const engine::TimePoint since = was.lease ? std::min(now, was.lease->until) : now;
  return to(Suspended{.since = since, .sessions = Sessions::kept, .was_primary = primary, .reads_here = was.reads_here},
            {Effect::end_change, Effect::hold_new, Effect::take_back_waiting, Effect::tell_state, Effect::prove_store});
}

Next on(const InSync& was, const event::LeaseLost& e) { return suspend(was, e.now, e.primary); }
template <class Phase>
Next on(const Phase& was, const event::LeaseLost&) {
  return stay(was);
}

std::vector<Effect> out_of_touch() {
  return {Effect::end_change, Effect::lift_hold_if_idle, Effect::close_sessions, Effect::tell_state};
}

Next on(const InSync& was, const event::ContactLost& e) { return suspend(was, e.now, e.primary); }
Next on(const Solo& was, const event::ContactLost&) { return stay(was, {Effect::lose_target}); }
Next on(const Forwarding&, const event::ContactLost&) { return to(Starting{}, out_of_touch()); }
Next on(Suspended was, const event::ContactLost&) {
  if (was.sessions == Sessions::kept) return stay(was);
  was.sessions = Sessions::closed;
  return to(was, out_of_touch());
}
template <class Phase>
Next on(const Phase& was, const event::ContactLost&) {
  return stay(was, out_of_touch());
}

Next on(Suspended was, const event::NotAlone&) {
  if (was.sessions != Sessions::kept) return stay(was);
  was.sessions = Sessions::closed;
  return to(was, {Effect::lift_hold_if_idle, Effect::close_sessions, Effect::tell_state});
}
template <class Phase>
Next on(const Phase& was, const event::NotAlone&) {
  return stay(was);
}

Next on(Suspended was, const event::SessionsClosed&) {
  if (was.sessions != Sessions::kept) return stay(was, {Effect::drop_own});
  was.sessions = Sessions::closed;
  return to(was, {Effect::lift_hold_if_idle, Effect::drop_own});
}
template <class Phase>
Next on(const Phase& was, const event::SessionsClosed&) {
  return stay(was, {Effect::drop_own});
}

// ---- what a replica finds in itself -------------------------------------------------------------------------------

template <class Phase>
Next on(const Phase& was, const event::Unfit&) {
  return to(Stopped{.ran = ran(was)},
            {Effect::stop_resync, Effect::lift_hold, Effect::close_sessions, Effect::tell_state});
}

template <class Phase>
Next on(const Phase& was, const event::MetadataLost&) {
  return to(Failed{.ran = ran(was)}, {Effect::lift_hold, Effect::close_sessions, Effect::tell_state});
}

Next on(const Failed& was, const event::LateRecordReturned& e) {
  if (was.ran && e.member) return to(Stopped{.ran = true}, {Effect::tell_state});
  return to(Starting{}, {Effect::tell_state});
}
template <class Phase>
Next on(const Phase&, const event::LateRecordReturned&) {
  return kImpossible;
}

template <class Phase>
Next on(const Phase&, const event::Detached&) {
  return to(Closed{});
}

}  // namespace

namespace {
/// Whatever is agreed without knowing of it, a replica without metadata takes part in nothing.
bool is_of_no_use_to_failed(const PhaseEvent& event) {
  return !std::holds_alternative<event::ContactLost>(event) && !std::holds_alternative<event::SessionsClosed>(event) &&
         !std::holds_alternative<event::LateRecordReturned>(event) && !std::holds_alternative<event::Detached>(event);
}
}  // namespace

Next step(const ReplicaPhase& now, const PhaseEvent& event) {
  if (std::holds_alternative<Closed>(now)) return to(Closed{});
  if (std::holds_alternative<Failed>(now) && is_of_no_use_to_failed(event)) return to(now);
  return std::visit([](const auto& was, const auto& e) { return on(was, e); }, now, event);
}

bool ran(const ReplicaPhase& phase) {
  struct Ran {
    bool operator()(const Starting&) const { return false; }
    bool operator()(const InSync&) const { return true; }
    bool operator()(const Solo&) const { return true; }
    bool operator()(const Suspended&) const { return true; }
    bool operator()(const Recording& p) const { return p.ran; }
    bool operator()(const Forwarding&) const { return false; }
    bool operator()(const Stopped& p) const { return p.ran; }
    bool operator()(const Failed& p) const { return p.ran; }
    bool operator()(const Closed&) const { return false; }
  };
  return std::visit(Ran{}, phase);
}

std::string contradiction(const ReplicaPhase& phase, const engine::EpochRecord& record, engine::NodeSide side) {
  const bool both = record.members.is_both();
  if (std::holds_alternative<InSync>(phase) && !both) return "in sync, and the record names one node";
  if (std::holds_alternative<Solo>(phase) && record.members != MemberSet::only(side)) {
    return "alone, and the record does not say so";
  }
  if (std::holds_alternative<Forwarding>(phase) && record.members.contains(side)) {
    return "a member by its record, and forwarding as if it were none";
  }
  if (std::holds_alternative<Suspended>(phase) && !both) return "suspended, and the record names one node";
  return {};
}

const char* name_of(const ReplicaPhase& phase) {
  static constexpr std::array kNames{"starting",   "in sync", "solo",   "suspended", "recording",
                                     "forwarding", "stopped", "failed", "closed"};
  static_assert(kNames.size() == std::variant_size_v<ReplicaPhase>);
  return kNames[phase.index()];
}

const char* name_of(const PhaseEvent& event) {
  static constexpr std::array kNames{
      "record begins",   "both recorded", "alone recorded",  "partner recorded", "not agreed",   "resumed",
      "lease granted",   "stores equal",  "partner went on", "lease lost",       "contact lost", "not alone",
      "sessions closed", "unfit",         "metadata lost",   "late record",      "detached"};
  static_assert(kNames.size() == std::variant_size_v<PhaseEvent>);
  return kNames[event.index()];
}

const char* name_of(Effect effect) {
  switch (effect) {
    case Effect::end_change:
      return "end the change";
    case Effect::hold_new:
      return "hold new operations";
    case Effect::lift_hold:
      return "hold no more";
    case Effect::lift_hold_if_idle:
      return "hold no more unless changing";
    case Effect::close_sessions:
      return "close sessions";
    case Effect::drop_own:
      return "drop what is not started";
    case Effect::take_back_waiting:
      return "take back what waits";
    case Effect::drop_possibly_retried:
      return "drop what hosts may have retried";
    case Effect::stop_resync:
      return "stop the resync";
    case Effect::stop_mirroring:
      return "stop mirroring to a target";
    case Effect::lose_target:
      return "go on without a target";
    case Effect::begin_in_sync:
      return "begin the epoch";
    case Effect::make_equal:
      return "make both equal";
    case Effect::serve_in_sync:
      return "serve in sync";
    case Effect::resume_in_sync:
      return "resume in sync";
    case Effect::serve_alone:
      return "serve alone";
    case Effect::forward_all:
      return "forward everything";
    case Effect::ask_about_leases:
      return "start what waited for a lease";
    case Effect::prove_store:
      return "prove the store";
    case Effect::tell_state:
      return "tell";
  }
  return "?";
}

}  // namespace lockstep::replication
