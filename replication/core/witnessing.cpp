#include "replication/core/witnessing.hpp"

#include <algorithm>

#include "replication/core/marks.hpp"
#include "replication/core/verdict.hpp"
#include "replication/core/witness_memory.hpp"

namespace lockstep::replication {

using engine::IoResult;
using engine::MemberSet;

Witnessing::~Witnessing() { clock_.cancel(timer_); }

namespace {
/// A witness that was set back, emptied or replaced is noticed within a minute. All volumes of a node look at once.
constexpr engine::Duration kLookAgain = std::chrono::seconds(20);
/// Looks without an answer, one after the other, until it counts as out of reach.
constexpr unsigned kUnanswered = 5;
/// Alone, the record is all that keeps a partner that knows nothing of it from winning, too.
constexpr engine::Duration kLookAgainAlone = std::chrono::milliseconds(500);
/// Where the answer takes long this many times as long, up to the second: it may be that many are alone, and a witness
/// that has much to do must not get more for that.
constexpr int kAloneTimesAnswer = 10;
constexpr engine::Duration kLookAgainAloneAtMost = std::chrono::seconds(5);

/// The code alone is known here, whose own words are a store's; the event "witness.lost" has the endpoint's.
std::string is_unreachable(std::error_code error) {
  const bool store = error == engine::Errc::io_error;
  return "The witness can't be reached: " + (store ? "it does not answer as a witness does" : error.message()) + ".";
}

constexpr const char* kTakesNoWrite =
    "The witness was asked to let this node go on alone, and has not said that it wrote that down.";

constexpr const char* kWithoutThisReplica =
    "The witness holds a newer epoch without this replica; it waits for its partner.";

std::string what_is_wrong(WitnessTrust trust) {
  switch (trust) {
    case WitnessTrust::ok:
      break;
    case WitnessTrust::behind:
      return "The witness was set back in time: it has less than this node has seen of it.";
    case WitnessTrust::other_cluster:
      return "The witness is another one than before.";
    case WitnessTrust::no_record_any_more:
      return "The witness has lost its record of this volume.";
    case WitnessTrust::tampered:
      return "Somebody else has written to the witness's record of this volume: keep others from writing to that etcd.";
    case WitnessTrust::let_go:
      return "The two nodes have not agreed on one witness since this node's was another one.";
  }
  return {};
}

constexpr const char* kBesidePartner =
    "The two nodes' witnesses are different ones, and both nodes could go on: look at what each node's endpoints lead "
    "to. It grants nothing until they are one.";

bool holds_the_same(const engine::Knowledge& a, const engine::Knowledge& b) {
  return a.witness_cluster == b.witness_cluster && a.witness_repairs == b.witness_repairs &&
         a.record_epoch == b.record_epoch && a.record_number == b.record_number;
}
}  // namespace

/// Of a witness that was never seen nothing is learnt: what it says is first believed in sync (believe_when_confirmed).
void Witnessing::learn(const WitnessView& view) {
  if (store_.known.witness_cluster != 0) keep(view);
}

/// What it holds is written down at once; the revision alone, which others' records move, with the next.
void Witnessing::keep(const WitnessView& view) {
  if (standing_.closed()) return;
  const bool trusted = judge_witness(store_.known, view) == WitnessTrust::ok;
  if (trusted && view.record) generations_.expect(view.record->generation_of(standing_.side()));
  store_.known = replication::learn(store_.known, view);
  if (!holds_the_same(store_.known, store_.meta->knowledge())) store_.keep_knowledge();
}

bool Witnessing::is_trusted(const engine::Knowledge& asked_with, const WitnessView& view) {
  const WitnessTrust trust = judge_witness(asked_with, view);
  if (trust == WitnessTrust::ok) return true;
  mark<"witness.not_trusted">();
  reason_ = what_is_wrong(trust) +
            " It grants nothing until both nodes are in sync again and put it right, or an "
            "operator forces this one.";
  return false;
}

/// Every answer is learnt, also one to a question that matters no more: it may tell of the partner's win.
void Witnessing::ask_for_record(engine::Callback<const IoResult<WitnessView>&> answered) {
  auto learnt = [this, answered = std::move(answered)](const IoResult<WitnessView>& view) mutable {
    if (view) learn(*view);
    answered(view);
  };
  witness_->read(volume(), counted(owed_, std::move(learnt)));
}

/// `trusted`: nothing that was known to be there is missing in what was `seen`, so that what is won there is known,
/// too.
void Witnessing::ask_to_swap(const WitnessView& seen, const WitnessRecord& record, bool trusted,
                             engine::Callback<const IoResult<SwapOutcome>&> answered) {
  auto learnt = [this, trusted, answered = std::move(answered)](const IoResult<SwapOutcome>& result) mutable {
    if (result && !result->won) learn(result->current);
    // A win is durable with the epoch that follows.
    if (result && result->won && trusted) store_.known = replication::learn(store_.known, result->current);
    answered(result);
  };
  witness_->swap(volume(), seen, record, counted(owed_, std::move(learnt)));
}

void Witnessing::ask(engine::Callback<WitnessRecord> won) {
  if (asking_ || !witness_) return;
  asking_ = true;
  lost_ = unreachable_ = false;
  ++run_;
  won_ = std::move(won);
  read();
}

void Witnessing::abandon() {
  asking_ = false;
  ++run_;
  won_ = nullptr;
  clock_.cancel(timer_);
}

void Witnessing::settled() {
  abandon();
  attempted_ = 0;
  above_ = 0;
  raised_ = raising_ = overruled_ = false;
  unconfirmed_.reset();
  ++raise_run_;
  next_raise_ = {};
  reason_.clear();
}

void Witnessing::look_again() {
  ++raise_run_;
  raising_ = false;
  unconfirmed_.reset();
  unanswered_ = 0;
  next_raise_ = {};
  if (std::exchange(raised_, false)) changed_();
}

void Witnessing::again_after(engine::Duration delay) {
  clock_.cancel(timer_);
  timer_ = clock_.call_after(delay, [this, run = run_] {
    if (run == run_ && asking_) read();
  });
}

void Witnessing::read() {
  asked_with_ = store_.known;
  ask_for_record([this, run = run_](const IoResult<WitnessView>& view) {
    if (run != run_) return;
    unreachable_ = !view;
    if (view) return consider(*view);
    mark<"witness.unreachable">();
    reason_ = is_unreachable(view.error());
    again_after(std::chrono::milliseconds(200));
  });
}

void Witnessing::consider(const WitnessView& view) {
  if (!is_trusted(asked_with_, view)) return again_after(std::chrono::seconds(1));
  if (asked_with_.witness_cluster == 0) {
    mark<"witness.never_seen">();
    reason_ = "This node had not seen the witness's record when it lost its partner: it grants nothing.";
    return again_after(std::chrono::seconds(1));
  }
  if (is_set_back() || beside_partner()) return again_after(std::chrono::seconds(1));
  // A win at or below this replica's own number is void: another epoch was agreed since.
  const bool counts = attempted_ > standing_.epoch().number;
  if (view.record && counts && *view.record == mine_) {
    mark<"witness.unknown_outcome_was_won">();
    return win(mine_);
  }
  const auto word = judge(user_.state(), view.record ? &*view.record : nullptr, user_.agreed());
  lost_ = word == WitnessWord::lost;
  switch (word) {
    case WitnessWord::may_try:
      return swap(view);
    case WitnessWord::lost:
      mark<"witness.lost">();
      attempted_ = 0;
      reason_ = "The witness let the partner go on alone; this replica waits to be brought up to date by it.";
      return again_after(std::chrono::seconds(1));
    case WitnessWord::no_record:
      reason_ = "The witness has no record of this volume: only both nodes together make one.";
      return again_after(std::chrono::seconds(1));
  }
}

void Witnessing::swap(const WitnessView& view) {
  const std::uint64_t there = view.record ? view.record->number : 0;
  attempted_ = std::max({standing_.epoch().number, there, attempted_}) + 1;
  mine_ = record_for(attempted_, random_.uuid(), MemberSet::only(standing_.side()));
  asked_with_ = store_.known;
  ask_to_swap(view, mine_, true, [this, run = run_](const IoResult<SwapOutcome>& result) {
    if (run != run_) return;
    if (!result) {
      mark<"witness.outcome_unknown">();
      reason_ = kTakesNoWrite;
      return again_after(std::chrono::milliseconds(100));
    }
    if (result->won) return win(mine_);
    mark<"witness.swap_lost">();
    consider(result->current);
  });
}

void Witnessing::win(const WitnessRecord& record) {
  asking_ = false;
  ++run_;
  auto won = std::exchange(won_, nullptr);
  mark<"witness.won">();
  if (won) won(record);
}

bool Witnessing::is_lost(const std::optional<WitnessRecord>& record) const {
  return judge(user_.state(), record ? &*record : nullptr, user_.agreed()) == WitnessWord::lost;
}

/// What it said last counts as well: without an answer, and beside one of a witness that forgot it.
void Witnessing::confirm(engine::Callback<StartWord> answered) {
  if (!witness_ || standing_.epoch().arbiter.kind != engine::ArbiterKind::witness) return answered(StartWord::may);
  auto told = std::make_shared<engine::Callback<StartWord>>(std::move(answered));
  ask_for_record([this, told, run = run_](const IoResult<WitnessView>& view) {
    if (run != run_ || is_set_back()) return (*told)(StartWord::may_not);
    if (view) overruled_ = is_lost(view->record);
    if (forbade_start()) return (*told)(StartWord::may_not);
    if (view) return (*told)(StartWord::may);
    reason_ = is_unreachable(view.error());
    (*told)(StartWord::none);
  });
}

bool Witnessing::forbade_start() {
  const bool asked = witness_ && standing_.epoch().arbiter.kind == engine::ArbiterKind::witness;
  if (!asked || (!overruled_ && !is_lost(last_seen(store_.known)))) return false;
  reason_ = kWithoutThisReplica;
  return true;
}

/// Once in a process is enough: nobody else makes a later state of this replica. A partner waits, and hosts: so one
/// that does not answer soon is taken to know of none. One that can't be reached yet is asked again until then: the
/// machine's network may have just begun.
bool Witnessing::has_told_of_this_replica(engine::Callback<> told) {
  const bool asked = witness_ && standing_.epoch().arbiter.kind == engine::ArbiterKind::witness;
  if (!asked || told_of_this_replica_) return true;
  if (!asked_of_this_replica_) asked_of_this_replica_ = clock_.now();
  if (clock_.now() - *asked_of_this_replica_ >= settings_.lease / 2) return true;
  if (std::exchange(asking_of_this_replica_, true)) return false;
  ask_for_record([this, told = std::move(told)](const IoResult<WitnessView>& view) mutable {
    asking_of_this_replica_ = false;
    if (!view) return;  // the caller looks again
    told_of_this_replica_ = true;
    static_cast<void>(is_set_back());
    told();
  });
  return false;
}

// ---- raising -----------------------------------------------------------------------------------------------------

bool Witnessing::raised() const {
  const bool is_let_go = store_.known.witness_cluster != 0 && !has_taken_witness(store_.known);
  return raised_ && !is_let_go && !agreement_.differs() &&
         store_.known.witness_repairs == store_.meta->knowledge().witness_repairs;
}

void Witnessing::tick() {
  const bool serves = standing_.in_sync() || standing_.is_alone();
  if (!witness_ || standing_.epoch().arbiter.kind != engine::ArbiterKind::witness) return;
  agree_with_partner();
  if (unconfirmed_) return believe_when_confirmed();
  if (!serves || raising_ || above_ || standing_.gated || clock_.now() < next_raise_) return;
  raise();
}

/// Of the first witness of all the partner hears with the next question; of another one at once.
void Witnessing::agree_with_partner() {
  const bool is_first = store_.known.witness_repairs == 0 && has_taken_witness(store_.known);
  if (!is_first && agreement_.is_untold()) user_.tell_partner();
  if (agreement_.take_news()) changed_();
}

/// In sync. One that is taken already goes on to be, and what is taken alone is found by who joins.
bool Witnessing::may_take(const WitnessView& view) {
  if (judge_witness(raised_with_, view) == WitnessTrust::ok && raised_with_.witness_cluster != 0) return true;
  if (agreement_.may_take(view.cluster)) return true;
  mark<"witness.not_agreed">();
  reason_ = kBesidePartner;
  return false;
}

bool Witnessing::beside_partner() {
  if (!agreement_.differs()) return false;
  mark<"witness.differs">();
  reason_ = kBesidePartner;
  return true;
}

/// In sync. Another one answers than the one that is known.
void Witnessing::let_go_of_old(const WitnessView& view) {
  const bool asked_since = raised_with_.witness_cluster == store_.known.witness_cluster;
  if (!asked_since || judge_witness(store_.known, view) == WitnessTrust::ok) return;
  if (view.cluster != store_.known.witness_cluster && agreement_.is_to_let_go()) agreement_.let_go();
}

void Witnessing::raise() {
  raising_ = true;
  raised_with_ = store_.known;
  looked_at_ = clock_.now();
  next_raise_ = clock_.now() + std::chrono::seconds(1);
  ask_for_record([this, run = raise_run_](const IoResult<WitnessView>& view) {
    if (run != raise_run_) return;
    raising_ = false;
    if (!view) {
      if (unanswered_ + 1 >= kUnanswered || !raised_) {
        reason_ = is_unreachable(view.error());
      }
      if (++unanswered_ >= kUnanswered && std::exchange(raised_, false)) changed_();
      return;
    }
    raise_over(*view);
  });
}

/// After an answer.
engine::Duration Witnessing::pause_alone() const {
  return std::clamp((clock_.now() - looked_at_) * kAloneTimesAnswer, kLookAgainAlone, kLookAgainAloneAtMost);
}

/// It holds the epoch that this node serves. One that both serve makes good whatever was lost there; so does one that
/// this node had won before the witness was set back.
void Witnessing::note_raised(const WitnessView& view, bool trusted) {
  const bool known = trusted && raised_with_.witness_cluster != 0;
  if (known || standing_.is_alone()) return believe(view);
  if (standing_.in_sync()) unconfirmed_ = {view, clock_.now()};  // else its lease was lost since it asked
}

/// In sync by a lease, whose clock may have stood still: the partner may have gone on alone meanwhile, and the witness
/// have lost that. One that answers a question of later has not.
void Witnessing::believe_when_confirmed() {
  if (standing_.in_sync() && !standing_.is_leased_since(unconfirmed_->came)) return;
  const Unconfirmed seen = *std::exchange(unconfirmed_, std::nullopt);
  if (standing_.in_sync() && may_take(seen.view)) believe(seen.view);
}

void Witnessing::believe(const WitnessView& view) {
  if (judge_witness(raised_with_, view) != WitnessTrust::ok) {
    mark<"witness.put_right">();
    store_.known = accept_witness(store_.known, view);
    store_.keep_knowledge();
  }
  standing_.in_sync() ? keep(view) : learn(view);
  unanswered_ = 0;
  next_raise_ = standing_.is_alone() ? clock_.now() + pause_alone() : look_times_.after(clock_.now(), kLookAgain);
  reason_.clear();
  if (!std::exchange(raised_, true)) changed_();
}

/// With what is durable of both replicas' generations: no more is ever known of them.
WitnessRecord Witnessing::record_for(std::uint64_t number, const engine::Uuid& epoch, MemberSet members) const {
  const engine::Knowledge& known = store_.meta->knowledge();
  const bool is_a = standing_.side() == engine::NodeSide::a;
  return {number, epoch, members,
          is_a ? std::array{known.generation, known.partner_generation}
               : std::array{known.partner_generation, known.generation}};
}

const char* Witnessing::why_set_back() {
  return "This replica was set back in time: a later state of it is known. It goes on with its partner, or when an "
         "operator forces it.";
}

bool Witnessing::is_set_back() {
  if (!generations_.set_back()) return false;
  mark<"witness.knows_a_newer_generation">();
  reason_ = why_set_back();
  return true;
}

/// The one that orders tells, and seldom, of all its volumes at once: each is a write at the witness for each volume.
bool Witnessing::may_refresh(const WitnessRecord& there) const {
  if (!standing_.orders() || clock_.now() < next_refresh_) return false;
  return there.generations != record_for(there.number, there.epoch, there.members).generations;
}

void Witnessing::refresh(const WitnessView& view, const WitnessRecord& record) {
  mark<"witness.refreshed">();
  next_refresh_ = look_times_.after(clock_.now(), settings_.witness_refresh);
  ask_to_swap(view, record, true, [this, run = raise_run_](const IoResult<SwapOutcome>& result) {
    if (run == raise_run_ && result && result->won) note_raised(result->current, true);
  });
}

/// This very epoch was seen there, by this node alone: what stands there now is from before.
bool Witnessing::mine_was_there() const {
  return store_.known.record_epoch == standing_.epoch().id && store_.known.record_number == standing_.epoch().number;
}

/// It started without an answer, and its record is of before the partner went on: it was set back in time, or its disk
/// lost what was written since. What the partner won before it recorded this very epoch, and comes late, is void.
bool Witnessing::serves_against(const WitnessView& view, bool trusted) {
  if (!standing_.is_alone()) return false;
  if (!trusted || user_.agreed() || !is_lost(view.record)) return false;
  mark<"witness.overrules">();
  overruled_ = true;
  above_ = view.record->number;
  reason_ = kWithoutThisReplica;
  return true;
}

/// Only both nodes together make a record, or mend one: in sync, by the one that orders. Alone, a missing one stays
/// missing.
void Witnessing::raise_over(const WitnessView& view) {
  const engine::EpochRecord& epoch = standing_.epoch();
  const WitnessRecord record = record_for(epoch.number, epoch.id, epoch.members);
  // What was recorded since it looked, and is not served yet, the partner has perhaps won over.
  if (!standing_.in_sync() && !standing_.is_alone()) return;
  if (standing_.in_sync() && !standing_.lease_valid()) return;
  // What the witness knows of it is all that tells, where both nodes were set back: nothing is written over that.
  if (is_set_back()) return;
  const bool right = judge_witness(raised_with_, view) == WitnessTrust::ok;
  if (serves_against(view, right)) return;
  if (standing_.in_sync()) let_go_of_old(view);
  if (view.record == record) {
    note_raised(view, right);
    if (!unconfirmed_ && may_refresh(*view.record)) refresh(view, record);
    return;
  }
  if (std::exchange(raised_, false)) changed_();
  const bool trusted = is_trusted(raised_with_, view);
  if (standing_.in_sync() && !standing_.is_sequencer()) return;
  if (!standing_.in_sync() && !view.record) return;
  if (!standing_.in_sync() && !trusted && !mine_was_there()) return;
  if (view.record && view.record->number >= epoch.number) {
    mark<"witness.record_is_above">();
    above_ = view.record->number;
    return;
  }
  raising_ = true;
  const bool known = trusted && raised_with_.witness_cluster != 0;
  ask_to_swap(view, record, known || !standing_.in_sync(),
              [this, trusted, run = raise_run_](const IoResult<SwapOutcome>& result) {
                if (run != raise_run_) return;
                raising_ = false;
                if (result && result->won) note_raised(result->current, trusted);
                if (!result) reason_ = "The witness has not said that it wrote this epoch down.";
              });
}

}  // namespace lockstep::replication
