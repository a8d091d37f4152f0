#include "replication/core/going_alone.hpp"

#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

using engine::MemberSet;

namespace {
/// A witness that said that this node may not start.
constexpr engine::Duration kAskAgainAfter = std::chrono::seconds(1);
/// … and one that could not be asked.
constexpr engine::Duration kTryAgainAfter = std::chrono::milliseconds(200);
}  // namespace

GoingAlone::GoingAlone(const MirrorParts& parts, StoreWatch& store_watch, const StateExchange& exchange,
                       EpochSteps& steps, PhaseRunner& phases, AloneUser& user)
    : settings_(parts.settings),
      clock_(parts.clock),
      random_(parts.random),
      witness_(parts.witness),
      fencing_(parts.fencing),
      partner_(parts.partner),
      standing_(parts.standing),
      store_(parts.store),
      witnessing_(parts.witnessing),
      lu_(parts.lu),
      store_watch_(store_watch),
      exchange_(exchange),
      steps_(steps),
      phases_(phases),
      user_(user) {}

/// A node whose store stands still would win as often as one that can serve, and then serve nothing. So it asks only
/// after its store has completed a flush that began after the partner was lost, and its metadata a record.
bool GoingAlone::store_is_proven() {
  if (store_watch_.is_proven()) return true;
  store_watch_.prove([this] { decide_without_partner(); });
  return false;
}

/// Or nobody that can agree.
bool GoingAlone::hears_nobody() const {
  return !partner_.in_contact() || phases_.partner_stopped || (exchange_.partner_unknown() && partner_.connected());
}

/// By its own record, which may be of before the partner went on: a copy that was set back has such a one, too, and the
/// witness need not have heard of a join. So whoever knows better has time to call. Where nobody is, a lease is all
/// that a node alone for good waits; a witness that says nothing for as long as a decision takes is out of reach, one
/// that misses a question (it elects a leader, a packet was lost) is not.
void GoingAlone::confirm_start() {
  const engine::TimePoint now = clock_.now();
  if (now < partner_calls_until() || now < confirm_again_) return;
  // One that heard its partner meanwhile, or stood still, has not asked all the time.
  if (confirming_ && now - confirming_->looked > settings_.lease) confirming_.reset();
  if (!confirming_) confirming_ = Confirming{.since = now, .looked = now};
  confirming_->looked = now;
  if (now - confirming_->since >= (kDecidesWithin - 1) * settings_.lease) {
    ++confirm_run_;
    confirming_.reset();
    confirm_again_ = now + kAskAgainAfter;
    if (witnessing_.forbade_start()) return;
    mark<"membership.starts_without_an_answer">();
    return start();
  }
  if (std::exchange(confirming_->asked, true)) return;
  witnessing_.confirm([this, run = ++confirm_run_](Witnessing::StartWord word) {
    if (run == confirm_run_) take_word(word);
  });
}

void GoingAlone::take_word(Witnessing::StartWord word) {
  const engine::TimePoint now = clock_.now();
  if (word == Witnessing::StartWord::none) {
    mark<"membership.start_was_not_answered">();
    confirming_->asked = false;
    confirm_again_ = now + kTryAgainAfter;
    return;
  }
  confirming_.reset();
  confirm_again_ = now + kAskAgainAfter;
  if (word == Witnessing::StartWord::may) start();
}

void GoingAlone::start() {
  if (!standing_.serves_nothing() || !hears_nobody() || partner_went_on()) return;
  if (steps_.busy() || standing_.closed() || standing_.epoch().members != MemberSet::only(standing_.side())) return;
  phases_.apply(event::AloneRecorded{});
}

void GoingAlone::decide_without_partner() {
  if (!standing_.serves_nothing() || !hears_nobody() || pending_ || witnessing_.asking()) return;
  if (user_.sees_split_brain() && partner_.connected()) return;
  const AloneRule rule = decide_alone(user_.state(), configured());
  const engine::EpochRecord& mine = standing_.epoch();
  switch (rule) {
    case AloneRule::start:
      if (!partner_went_on()) confirm_start();
      break;
    case AloneRule::ask_witness: {
      if (!store_is_proven()) break;
      if (!ran(standing_.phase) && clock_.now() < partner_calls_until()) break;
      witnessing_.ask([this, before = mine](WitnessRecord won) {
        if (standing_.epoch().id != before.id || !standing_.serves_nothing() || steps_.busy()) return;
        engine::EpochRecord next =
            next_epoch(before, MemberSet::only(standing_.side()), standing_.side(), won.epoch, 0);
        next.number = won.number;
        want(next, false);
      });
      break;
    }
    case AloneRule::preferred_goes_on:
      if (!store_is_proven()) break;
      want(next_epoch(mine, MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), 0), false);
      break;
    case AloneRule::fence_partner:
      if (!store_is_proven() || !no_process_is_in_this_epoch()) break;
      want(next_epoch(mine, MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), 0), false);
      break;
    case AloneRule::stay:
      break;
  }
}

/// Of the partner's: it was powered off, or says itself that it has not got the volume, and whatever attaches it there
/// begins outside of every epoch. So a lockstepd that is just starting there is not the end of its machine.
bool GoingAlone::no_process_is_in_this_epoch() {
  if (partner_.connected() && exchange_.partner_unknown()) {
    mark<"fencing.partner_has_not_got_it">();
    return true;
  }
  if (fence_asked_.epoch != standing_.epoch().id) fence_asked_ = {standing_.epoch().id, clock_.now()};
  return fencing_->is_off(fence_asked_.since);
}

std::string GoingAlone::why_not_fenced() const {
  if (!configured().fence)
    return "The arbiter is a fence, and this node has no command for it: the partner or an operator decides.";
  if (!ran(standing_.phase))
    return "The arbiter is a fence, which decides nothing for a process that was not in sync: the partner or an "
           "operator does.";
  return fencing_->reason();
}

void GoingAlone::want(engine::EpochRecord next, bool forced) {
  pending_ = Pending{standing_.epoch().id, std::move(next), forced};
  go_when_leases_are_over();
}

/// Leases that this node granted, or a process before it may have, have run out by now, on a clock that runs slow.
void GoingAlone::go_when_leases_are_over() {
  if (!pending_ || steps_.busy()) return;
  if (!is_wanted()) {
    mark<"membership.decision_outlived">();
    return pending_.reset();
  }
  const bool witnessed = standing_.epoch().arbiter.kind == engine::ArbiterKind::witness && witness_;
  if (!pending_->forced && !witnessed && partner_.in_contact() && !phases_.partner_stopped &&
      !exchange_.partner_unknown()) {
    return pending_.reset();  // the partner is back: no arbiter was asked, nothing is decided
  }
  // Alone with a store that does not return is nothing: a partner that comes back may take over meanwhile.
  if (store_.failed) return;
  const auto wait = settings_.granted_lease * (100 + settings_.drift_percent) / 100;
  const engine::TimePoint since = std::max(last_grant_, attached_);
  if (!phases_.partner_stopped && clock_.now() < since + wait) return;
  mark<"membership.goes_solo">();
  lu_.on_partner_lost();
  const engine::EpochRecord next = pending_->next;
  const bool forced = pending_->forced;
  const std::uint64_t step = steps_.begin(Step::recording);
  pending_.reset();
  phases_.close_gate();
  steps_.settle_store(step, [this, step, next, forced] {
    steps_.record(next, [this, step, forced](std::error_code error) {
      if (!steps_.current(step)) return;
      steps_.end();
      if (error) return;
      phases_.apply(event::AloneRecorded{});
      user_.on_gone_alone(forced);
    });
  });
}

/// A step of the partner's may have come between: its store proved itself while it followed.
bool GoingAlone::is_wanted() const { return pending_ && pending_->from == standing_.epoch().id; }

bool GoingAlone::goes_on_soon() const {
  const engine::Duration since = clock_.now() - standing_.suspended()->since;
  if (since > kDecidesWithin * settings_.lease) return false;
  if (pending_ || steps_.busy()) return true;
  ReplicaState mine = user_.state();
  mine.able |= store_watch_.is_suspect();  // it may be only slow
  if (decide_alone(mine, configured()) == AloneRule::stay) return false;
  return !witnessing_.lost() && !witnessing_.unreachable() && since <= settings_.lease;
}

/// Whoever waits here is sent to the other node, which may have served meanwhile, or will.
void GoingAlone::watch_kept_sessions() {
  if (!standing_.keeps_sessions() || goes_on_soon()) return;
  mark<"membership.sessions_given_up">();
  phases_.apply(event::NotAlone{});
}

bool GoingAlone::grant(const engine::Uuid& epoch) {
  if (!standing_.in_sync() || standing_.gated || standing_.closed() || epoch != standing_.epoch().id) return false;
  last_grant_ = clock_.now();
  return true;
}

}  // namespace lockstep::replication
