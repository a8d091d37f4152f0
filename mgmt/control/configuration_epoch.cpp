#include "mgmt/control/configuration_epoch.hpp"

#include <algorithm>

namespace lockstep::mgmt {

using engine::MemberSet;
using engine::NodeSide;
using replication::WitnessRecord;
using replication::WitnessTrust;
using replication::WitnessView;

bool ConfigurationEpoch::descends_from(const RevisionId& older) const {
  const auto last = std::ranges::find(ancestors, older.epoch, &RevisionId::epoch);
  return last != ancestors.end() && (last->n > older.n || *last == older);
}

ConfigurationEpoch ConfigurationEpoch::next(const engine::Uuid& with_id, MemberSet with_members, const RevisionId& last,
                                            std::uint64_t above) const {
  ConfigurationEpoch made{.id = with_id, .number = std::max(number, above) + 1, .members = with_members};
  made.ancestors.push_back(last);
  made.ancestors.insert(made.ancestors.end(), ancestors.begin(), ancestors.end());
  if (made.ancestors.size() > kMaxAncestors) made.ancestors.resize(kMaxAncestors);
  return made;
}

namespace {
/// Both nodes have begun the next epoch of both, and the witness has not heard of it yet. Nobody is granted anything in
/// between: whoever goes on takes this record's place.
bool is_behind(const WitnessRecord& there, const ConfigurationEpoch& mine) {
  return there.members.is_both() && mine.members.is_both() && there.number < mine.number &&
         std::ranges::find(mine.ancestors, there.epoch, &RevisionId::epoch) != mine.ancestors.end();
}
}  // namespace

Claim judge_claim(NodeSide me, const ConfigurationEpoch& mine, const RevisionId& newest,
                  const ConfigurationKnowledge& known, const WitnessView& view, const engine::Uuid& begun,
                  const engine::Uuid& fresh) {
  const MemberSet alone = MemberSet::only(me);
  Claim claim;
  claim.trust = replication::judge_witness(known.witness, view);
  if (claim.trust != WitnessTrust::ok) return claim;
  if (!view.record) return claim.verdict = ClaimVerdict::not_of_both, claim;
  const WitnessRecord& there = *view.record;
  if (there.generation_of(me) > static_cast<std::uint64_t>(known.reached))
    return claim.verdict = ClaimVerdict::set_back, claim;
  if (there.members == MemberSet::only(engine::other(me))) return claim.verdict = ClaimVerdict::partner_went_on, claim;
  const bool same = (there.epoch == mine.id && there.members == mine.members) || is_behind(there, mine);
  // Its own win that it never came to know of, or not before its machine ended: nobody else acts on that.
  const bool won_before = there.members == alone && there.number > mine.number;
  if (!same && !won_before) return claim.verdict = ClaimVerdict::not_of_both, claim;
  claim.verdict = ClaimVerdict::granted;
  const bool goes_on = same && mine.members == alone && mine.id == begun;
  claim.epoch = goes_on ? mine : mine.next(fresh, alone, newest, there.number);
  claim.record = {claim.epoch.number, claim.epoch.id, alone, there.generations};
  claim.record.generations[me == NodeSide::a ? 0 : 1] = static_cast<std::uint64_t>(newest.n + 1);
  return claim;
}

Mend judge_mend(bool orders, const ConfigurationEpoch& mine, std::int64_t n, const ConfigurationKnowledge& known,
                const WitnessView& view) {
  const auto reached = static_cast<std::uint64_t>(n);
  const WitnessRecord wanted{mine.number, mine.id, MemberSet::both(), {reached, reached}};
  const bool trusted = replication::judge_witness(known.witness, view) == WitnessTrust::ok;
  // By its id: a node that joined with an earlier version has another number for the same epoch.
  const bool same = view.record && view.record->epoch == mine.id && view.record->members.is_both() && !view.tampered;
  if (same && view.record->generations == wanted.generations) return {};
  if (!orders) return {same ? Mending::none : Mending::for_partner, {}};
  if (!same && trusted && view.record && view.record->number >= mine.number) return {Mending::next_epoch, *view.record};
  return {Mending::write, wanted};
}

}  // namespace lockstep::mgmt
