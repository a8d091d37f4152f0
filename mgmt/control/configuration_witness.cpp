#include "mgmt/control/configuration_witness.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

using engine::MemberSet;
using engine::NodeSide;

namespace {

constexpr int kTries = 3;

std::unexpected<Refusal> not_alone(std::string why) {
  return refuse(RefusalKind::not_current,
                fmt::format("The change was not made: the partner can't be reached, and {} Try again when both nodes "
                            "run and can reach each other. Volumes are not touched by this.",
                            why));
}

std::unexpected<Refusal> refused(const Claim& claim) {
  switch (claim.verdict) {
    case ClaimVerdict::partner_went_on:
      return not_alone(
          "the witness has let the partner go on: the configuration is changed there now, and taken over here when the "
          "two can talk.");
    case ClaimVerdict::set_back:
      return not_alone(
          "this node's database is of an earlier time than the witness knows of (was it restored from a backup?).");
    case ClaimVerdict::not_of_both:
      return not_alone(
          "the witness has not heard yet of what the two nodes last agreed on, so that it can't say who goes on.");
    case ClaimVerdict::granted:
    case ClaimVerdict::distrusted:
      break;
  }
  return not_alone(fmt::format("the witness is not to be trusted ({}) before both nodes have put it right.",
                               replication::to_string(claim.trust)));
}

}  // namespace

Outcome<ConfigurationEpoch> ConfigurationWitness::claim(const ConfigurationEpoch& mine, const RevisionId& newest,
                                                        const Configuration& configuration) {
  const auto in_force = revisions_.configuration();
  const auto me = node_.side();
  if (!me || !in_force->pair || !configuration.pair)
    return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (mine.is_only(engine::other(*me)))
    return not_alone(
        "it has gone on with the configuration alone: what it changed is taken over when the two can talk.");
  if (mine.forced && mine.is_only(*me)) return go_on_forced(*me, mine, newest);
  // One node may ask the one arbiter, the other node the other.
  if (configuration.pair->arbiter != in_force->pair->arbiter)
    return not_alone(
        "it was just deciding on another arbiter, so that it is not known which of the two is to be asked.");
  if (in_force->pair->arbiter.changing)
    return not_alone("the pair's arbiter is being changed: until both know the new one, none lets a node go on.");
  const std::lock_guard lock(mutex_);
  if (!node_.known(in_force->pair->id).partner_knows_epochs)
    return not_alone("its version of Lockstep could not take over what was changed without it.");
  if (in_force->pair->arbiter.fence)
    return not_alone("a fence lets a node go on with the volumes only: it does not remember who went on.");
  if (!in_force->pair->arbiter.witness) return claim_by_preference(*me, mine, newest, *in_force->pair);
  return claim_at_witness(*me, mine, newest, *in_force->pair);
}

/// No arbiter is asked. A process begins an epoch of its own here, too: should the database be an older one, the
/// partner, which may have more of that epoch, finds it out.
ConfigurationEpoch ConfigurationWitness::go_on_forced(NodeSide me, const ConfigurationEpoch& mine,
                                                      const RevisionId& newest) {
  const std::lock_guard lock(mutex_);
  if (mine.id == begun_) return mine;
  begun_ = random_uuid();
  ConfigurationEpoch epoch = mine.next(begun_, MemberSet::only(me), newest, 0);
  epoch.forced = true;
  return epoch;
}

/// A preference has no memory: it decides only for a node that was of one mind with its partner since it started. A
/// process begins an epoch of its own also where one of this node's is in force: should the database be an older one,
/// the partner, which has more of that epoch, finds it out.
Outcome<ConfigurationEpoch> ConfigurationWitness::claim_by_preference(NodeSide me, const ConfigurationEpoch& mine,
                                                                      const RevisionId& newest, const Pair& pair) {
  const NodeSide preferred = pair.arbiter.preferred;
  if (preferred != me)
    return not_alone(fmt::format("without a witness only the preferred node, side {}, goes on alone.",
                                 preferred == NodeSide::a ? "A" : "B"));
  if (mine.is_only(me) && mine.id == begun_) return mine;
  if (!mine.is_only(me) && !agreed_)
    return not_alone(
        "since lockstep-mgmtd was started here the two have not talked, so that the partner may know of changes that "
        "this node lacks.");
  begun_ = random_uuid();
  return mine.next(begun_, MemberSet::only(me), newest, 0);
}

Outcome<ConfigurationEpoch> ConfigurationWitness::claim_at_witness(NodeSide me, const ConfigurationEpoch& mine,
                                                                   const RevisionId& newest, const Pair& pair) {
  for (int i = 0; i < kTries; ++i) {
    const auto view = node_.read(pair.arbiter);
    if (!view)
      return not_alone(
          fmt::format("the witness does not answer either ({}): a change needs one of the two.", view.error().detail));
    ConfigurationKnowledge known = node_.known(pair.id);
    known.reached = std::max(known.reached, revisions_.state().head.n);
    const Claim claim = judge_claim(me, mine, newest, known, *view, begun_, random_uuid());
    known.witness = replication::learn(known.witness, *view);
    if (claim.verdict == ClaimVerdict::granted) known.reached = std::max(known.reached, newest.n + 1);
    node_.keep(pair.id, known);
    if (claim.verdict != ClaimVerdict::granted) return refused(claim);
    const auto swapped = node_.swap(pair.arbiter, *view, claim.record);
    if (!swapped.known || !swapped.won) continue;  // what became of it is read
    known.witness = replication::learn(known.witness, swapped.view);
    node_.keep(pair.id, known);
    begun_ = claim.epoch.id;
    return claim.epoch;
  }
  return not_alone("the witness does not say whether this node may go on.");
}

int ConfigurationWitness::partner_reads() {
  const auto configuration = revisions_.configuration();
  const std::lock_guard lock(mutex_);
  return configuration->pair ? node_.known(configuration->pair->id).partner_reads : 0;
}

void ConfigurationWitness::on_agreement(RevisionPeer& peer) {
  const auto me = node_.side();
  const RevisionState state = revisions_.state();
  const auto configuration = revisions_.configuration();
  const Revisions::Compared compared = revisions_.compared();
  if (!me || !configuration->pair || state.tentative || compared.agreed != state.head) return;
  std::optional<Mend> mend;
  {
    const std::lock_guard lock(mutex_);
    ConfigurationKnowledge known = node_.known(configuration->pair->id);
    known.partner_knows_epochs = compared.partner_knows_epochs;
    known.partner_reads = compared.partner_reads;
    node_.keep(configuration->pair->id, known);
    if (!known.partner_knows_epochs) return;
    if (state.epoch.members.is_both()) {
      agreed_ = true;
      mend = look(*me, state, *configuration->pair);
    }
  }
  // Not under the lock: a change that waits for the arbiter holds the right to change.
  if (state.epoch.is_only(*me)) {
    if (!node_.is_at_work_alone()) join(state, peer);
    return;
  }
  if (!mend || mend->what != Mending::next_epoch) return;
  if (!revisions_.begin_next_epoch(mend->record.number, peer)) return;  // the next look finds it again
  tell_if_lost(mend->record, state.head.n, /*about_to=*/1);
}

/// `about_to`: so much more than `n` a node may have noted there before it was cut off.
void ConfigurationWitness::tell_if_lost(const replication::WitnessRecord& there, std::int64_t n,
                                        std::int64_t about_to) {
  const auto lost = static_cast<std::int64_t>(std::max(there.generations[0], there.generations[1]));
  if (lost <= n + about_to) return;
  node_.tell("configuration.lost", Severity::critical,
             fmt::format("The witness knows of revision {} of the configuration, which no node has any more: was a "
                         "database restored from a backup? Both nodes go on from revision {}.",
                         lost, n));
}

void ConfigurationWitness::join(const RevisionState& state, RevisionPeer& peer) {
  if (!revisions_.join(state.head)) return;
  (void)peer.bring_up_to_date(revisions_.current());  // else it finds out when it compares notes
  node_.tell("configuration.together", Severity::info,
             "The partner has taken over what was changed without it. Both nodes decide again.");
}

bool ConfigurationWitness::is_time_to_look(const RevisionState& state) const {
  return node_.now() >= look_after_ || (!look_failed_ && looked_at_ != state.head);
}

/// Puts the witness right, and gives what is left to do. Under the lock.
std::optional<Mend> ConfigurationWitness::look(NodeSide me, const RevisionState& state, const Pair& pair) {
  if (!pair.arbiter.witness || !is_time_to_look(state)) return std::nullopt;
  look_failed_ = true;
  look_after_ = node_.now() + kLookAgain;
  const auto view = node_.read(pair.arbiter);
  if (!view) return std::nullopt;
  ConfigurationKnowledge known = node_.known(pair.id);
  known.reached = std::max(known.reached, state.head.n);
  const Mend mend = judge_mend(me == NodeSide::a, state.epoch, state.head.n, known, *view);
  replication::WitnessView there = *view;
  if (mend.what == Mending::write) {
    const auto swapped = node_.swap(pair.arbiter, *view, mend.record);
    if (!swapped.won) return std::nullopt;
    there = swapped.view;
    // Of the same epoch it had less before only if both databases are of earlier.
    const bool trusted = replication::judge_witness(known.witness, *view) == replication::WitnessTrust::ok;
    if (trusted && view->record && view->record->epoch == state.epoch.id) tell_if_lost(*view->record, state.head.n, 0);
  } else if (mend.what != Mending::none) {
    look_failed_ = false;  // the next turn looks what has become of it
    return mend;
  }
  known.witness = replication::accept_witness(known.witness, there);
  node_.keep(pair.id, known);
  looked_at_ = state.head;
  look_failed_ = false;
  look_after_ = node_.now() + kLookEvery;
  return std::nullopt;
}

}  // namespace lockstep::mgmt
