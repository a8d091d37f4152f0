#include "replication/core/verdict.hpp"

#include <algorithm>

#include "replication/core/arbiter.hpp"

namespace lockstep::replication {
namespace {
using engine::EpochRecord;
using engine::MemberSet;
using engine::NodeSide;
using engine::Uuid;

bool knows(const EpochRecord& record, const Uuid& id) {
  return record.id == id || std::ranges::find(record.ancestors, id) != record.ancestors.end();
}

bool is_void_beside(const ReplicaState& holder, const ReplicaState& other) {
  const EpochRecord& r = holder.record;
  const bool could_serve_alone = !r.members.is_both() && r.members.contains(holder.side);
  return !could_serve_alone && !r.ancestors.empty() && knows(other.record, r.ancestors.front());
}

/// Both hold the volume's whole truth: the newer record {A,B} was made from the older one, also {A,B}, and nobody
/// served the newer one, since the older's holder never recorded it.
bool is_direct_heir(const EpochRecord& newer, const EpochRecord& older) {
  return newer.members.is_both() && older.members.is_both() && !newer.ancestors.empty() &&
         newer.ancestors.front() == older.id;
}

bool fit_alone(const ReplicaState& s) { return s.able || s.only_failed_operations; }

/// Two members of one truth whose records are the same, or of which one is the direct heir of the other. When neither
/// is able, so that neither can leave in favour of the other, one whose store has only failed operations goes on:
/// alone, each operation tells its own error.
Verdict decide_members(const ReplicaState& mine, const ReplicaState& theirs, const EpochRecord& newer, bool same) {
  if (mine.able != theirs.able) return mine.able ? Verdict::drive_solo : Verdict::follow;
  if (fit_alone(mine) != fit_alone(theirs)) return fit_alone(mine) ? Verdict::drive_solo : Verdict::follow;
  if (!fit_alone(mine)) return Verdict::wait;
  if (mine.running != theirs.running) return mine.running ? Verdict::drive_solo : Verdict::follow;
  const bool lead = newer.sequencer == mine.side;
  if (!mine.able) return lead ? Verdict::drive_solo : Verdict::follow;
  const bool undecided = mine.attempted > newer.number || theirs.attempted > newer.number;
  if (!same || !mine.running || undecided) return lead ? Verdict::drive_both : Verdict::follow;
  if (mine.serving && theirs.serving) return Verdict::settled;
  return lead ? Verdict::drive_resume : Verdict::follow;
}

/// At least one of the two records is void, and neither descends from the other. Whoever `newer` names goes on alone,
/// in an epoch that descends from both, so that nobody has to record one that does not descend from its own.
Verdict decide_over_void(const ReplicaState& mine, const ReplicaState& theirs, bool mine_is_newer) {
  const ReplicaState& newer = mine_is_newer ? mine : theirs;
  const ReplicaState& older = mine_is_newer ? theirs : mine;
  const bool both_void = is_void_beside(newer, older) && is_void_beside(older, newer);
  if (both_void && newer.record.members.is_both() && older.record.members.is_both()) {
    return decide_members(mine, theirs, newer.record, false);
  }
  const ReplicaState& survivor = newer.record.members.contains(newer.side) ? newer : older;
  if (!survivor.able) return Verdict::wait;
  return survivor.side == mine.side ? Verdict::drive_solo : Verdict::follow;
}

Verdict decide_mine_newer(const ReplicaState& mine, const ReplicaState& theirs) {
  const EpochRecord& r = mine.record;
  if (r.members == MemberSet::only(mine.side)) {
    if (!mine.able) return Verdict::wait;
    return mine.serving ? Verdict::source : Verdict::start_solo;
  }
  if (r.members == MemberSet::only(theirs.side)) return Verdict::follow;
  if (is_direct_heir(r, theirs.record)) return decide_members(mine, theirs, r, false);
  // The solo member records a join before its target does: the reverse cannot be, unless it was set back.
  if (theirs.record.members == MemberSet::only(theirs.side) && !theirs.set_back) return Verdict::wait;
  return mine.able ? Verdict::drive_solo : Verdict::wait;
}

Verdict decide_theirs_newer(const ReplicaState& mine, const ReplicaState& theirs) {
  const EpochRecord& r = theirs.record;
  if (r.members == MemberSet::only(theirs.side)) return Verdict::adopt;
  if (r.members == MemberSet::only(mine.side)) {
    return mine.record.members.contains(mine.side) && mine.able ? Verdict::take_over : Verdict::wait;
  }
  if (is_direct_heir(r, mine.record)) return decide_members(mine, theirs, r, false);
  if (mine.record.members == MemberSet::only(mine.side) && !mine.set_back) return Verdict::wait;
  return theirs.able ? Verdict::follow : Verdict::wait;
}

Verdict decide_same(const ReplicaState& mine, const ReplicaState& theirs) {
  if (mine.record.members.is_both()) return decide_members(mine, theirs, mine.record, true);
  if (!mine.record.members.contains(mine.side)) return Verdict::target;
  if (!mine.able) return Verdict::wait;
  return mine.serving ? Verdict::source : Verdict::start_solo;
}
}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::wait:
      return "wait";
    case Verdict::follow:
      return "follow";
    case Verdict::settled:
      return "settled";
    case Verdict::drive_resume:
      return "drive_resume";
    case Verdict::drive_both:
      return "drive_both";
    case Verdict::drive_solo:
      return "drive_solo";
    case Verdict::start_solo:
      return "start_solo";
    case Verdict::source:
      return "source";
    case Verdict::adopt:
      return "adopt";
    case Verdict::target:
      return "target";
    case Verdict::take_over:
      return "take_over";
    case Verdict::split_brain:
      return "split_brain";
  }
  return "?";
}

Relation relate(const ReplicaState& mine, const ReplicaState& theirs) {
  if (mine.record.id == theirs.record.id) return Relation::same;
  if (mine.record.descends_from(theirs.record)) return Relation::mine_newer;
  if (theirs.record.descends_from(mine.record)) return Relation::theirs_newer;
  const bool mine_void = is_void_beside(mine, theirs), theirs_void = is_void_beside(theirs, mine);
  if (mine_void && theirs_void) {
    const auto rank = [](const EpochRecord& r) { return std::pair(r.number, r.id); };
    return rank(mine.record) > rank(theirs.record) ? Relation::mine_newer : Relation::theirs_newer;
  }
  if (mine_void) return Relation::theirs_newer;
  return theirs_void ? Relation::mine_newer : Relation::unrelated;
}

Verdict decide(const ReplicaState& mine, const ReplicaState& theirs) {
  const Relation relation = relate(mine, theirs);
  const bool by_descent = mine.record.descends_from(theirs.record) || theirs.record.descends_from(mine.record);
  if (relation != Relation::unrelated && !by_descent) {
    return decide_over_void(mine, theirs, relation == Relation::mine_newer);
  }
  switch (relation) {
    case Relation::same:
      return decide_same(mine, theirs);
    case Relation::mine_newer:
      return decide_mine_newer(mine, theirs);
    case Relation::theirs_newer:
      return decide_theirs_newer(mine, theirs);
    case Relation::unrelated:
      break;
  }
  return Verdict::split_brain;
}

bool went_on_without(const EpochRecord& mine, const ReplicaState& theirs) {
  return theirs.record.members.contains(theirs.side) && theirs.record.descends_from(mine);
}

namespace {
void add_ancestor(EpochRecord& record, const Uuid& older) {
  if (record.ancestors.size() < EpochRecord::kMaxAncestors && !knows(record, older)) record.ancestors.push_back(older);
}

/// Above both, and descending from both, `parent` first; `first` gives it everything that is not named here.
EpochRecord follow(const EpochRecord& first, const EpochRecord& second, const Uuid& parent, MemberSet members,
                   NodeSide sequencer, const Uuid& id, std::uint64_t above) {
  EpochRecord next = first;
  next.number = std::max({first.number, second.number, above}) + 1;
  next.id = id;
  next.members = members;
  next.size = std::max(first.size, second.size);  // no volume ever shrinks
  next.sequencer = sequencer;
  next.ancestors.assign({parent});
  add_ancestor(next, first.id);
  add_ancestor(next, second.id);
  for (const Uuid& older : first.ancestors) add_ancestor(next, older);
  return next;
}

/// The newest epoch of the two lines that may have been served.
Uuid last_in_force(const ReplicaState& newer, const ReplicaState& older) {
  const bool newer_void = is_void_beside(newer, older), older_void = is_void_beside(older, newer);
  if (newer.record.id == older.record.id || !newer_void) return newer.record.id;
  return older_void ? newer.record.ancestors.front() : older.record.id;
}
}  // namespace

EpochRecord next_epoch(const EpochRecord& mine, MemberSet members, NodeSide sequencer, const Uuid& id,
                       std::uint64_t above) {
  return follow(mine, mine, mine.id, members, sequencer, id, above);
}

EpochRecord next_epoch(const ReplicaState& mine, const ReplicaState& theirs, MemberSet members, NodeSide sequencer,
                       const Uuid& id, std::uint64_t above) {
  const bool by_number = !theirs.record.descends_from(mine.record) && mine.record.number >= theirs.record.number;
  const bool mine_first = mine.record.descends_from(theirs.record) || by_number;
  const ReplicaState& first = mine_first ? mine : theirs;
  const ReplicaState& second = mine_first ? theirs : mine;
  return follow(first.record, second.record, last_in_force(first, second), members, sequencer, id, above);
}

EpochRecord epoch_after_giving_up(const EpochRecord& kept, const EpochRecord& given_up, NodeSide survivor,
                                  const Uuid& id, std::uint64_t above) {
  EpochRecord next = follow(kept, given_up, kept.id, MemberSet::only(survivor), survivor, id, above);
  // What the line that ends here won at the witness was before this epoch, too.
  for (const Uuid& older : given_up.ancestors) add_ancestor(next, older);
  return next;
}

AloneRule decide_alone(const ReplicaState& mine, Arbiters configured) {
  if (!mine.able || !mine.record.members.contains(mine.side)) return AloneRule::stay;
  if (!mine.record.members.is_both()) return AloneRule::start;
  switch (mine.record.arbiter.kind) {
    case engine::ArbiterKind::witness:
      return configured.witness ? AloneRule::ask_witness : AloneRule::stay;
    case engine::ArbiterKind::preferred:
      return mine.running && mine.record.arbiter.preferred == mine.side ? AloneRule::preferred_goes_on
                                                                        : AloneRule::stay;
    case engine::ArbiterKind::fence:
      return mine.running && configured.fence ? AloneRule::fence_partner : AloneRule::stay;
  }
  return AloneRule::stay;
}

std::optional<engine::ArbiterSettings> next_arbiter(const ReplicaState& mine, const ReplicaState& theirs) {
  const engine::EpochRecord& r = mine.record;
  const bool agreed = mine.wish == theirs.wish && r.id == theirs.record.id && r.members.is_both();
  const bool named_none = r.arbiter.kind == engine::ArbiterKind::witness;  // neither asks one: both wish another
  switch (agreed ? mine.wish : ArbiterWish::none) {
    case ArbiterWish::none:
      break;
    case ArbiterWish::nobody:
      if (named_none) break;
      return engine::ArbiterSettings{engine::ArbiterKind::witness, r.arbiter.preferred, ""};
    case ArbiterWish::preferred_a:
    case ArbiterWish::preferred_b:
    case ArbiterWish::fence:
      if (!named_none) break;
      if (mine.wish == ArbiterWish::fence)
        return engine::ArbiterSettings{engine::ArbiterKind::fence, r.arbiter.preferred, ""};
      return engine::ArbiterSettings{engine::ArbiterKind::preferred,
                                     mine.wish == ArbiterWish::preferred_a ? NodeSide::a : NodeSide::b, ""};
  }
  return std::nullopt;
}

WitnessWord judge(const ReplicaState& mine, const WitnessRecord* record, bool agreed) {
  if (!record) return WitnessWord::no_record;
  // The driver of {A,B} records first: until the partner has recorded it, a win of the partner's may be in use.
  const EpochRecord& r = mine.record;
  const bool mine_alone = r.members.is_both() && r.sequencer == mine.side && !agreed;
  const bool partners_win = record->members == MemberSet::only(engine::other(mine.side));
  if (mine_alone && partners_win && !knows(r, record->epoch)) return WitnessWord::lost;
  // Alone, by the same number: no agreement gives it twice.
  const bool only_me = r.members == MemberSet::only(mine.side);
  if (only_me && partners_win && record->number == r.number && !knows(r, record->epoch)) return WitnessWord::lost;
  // A record at or below my own number was settled by a later agreement that I took part in: void.
  if (record->number <= mine.record.number) return WitnessWord::may_try;
  return record->members == MemberSet::only(mine.side) ? WitnessWord::may_try : WitnessWord::lost;
}

}  // namespace lockstep::replication
