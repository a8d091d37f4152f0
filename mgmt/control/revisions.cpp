#include "mgmt/control/revisions.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "mgmt/control/configuration_change.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kPartnerAway =
    "The change was not made: it must be stored on both nodes, and the partner {}. Try again when both nodes run and "
    "can "
    "reach each other. Volumes are not touched by this.";

// One that answers, but not as the partner, or not to its partner, is not away: nobody goes on without it.
std::unexpected<Refusal> partner_away(const Refusal& trouble) {
  Refusal refusal{RefusalKind::not_current, fmt::format(kPartnerAway, trouble_with_partner(trouble)), {}};
  refusal.partner_away = trouble.kind == RefusalKind::not_current && !trouble.other_certificate;
  return std::unexpected(std::move(refusal));
}

std::unexpected<Refusal> perhaps_kept(const Refusal& trouble) {
  auto refusal = partner_away(trouble);
  refusal.error().perhaps_done = trouble.perhaps_done;
  return refusal;
}

std::unexpected<Refusal> overtaken() {
  return refuse(RefusalKind::not_current, "The partner's configuration was taken over just now. Try again.");
}

// The partner kept it, and may have gone on alone with it.
std::unexpected<Refusal> overtaken_perhaps_with_it() {
  Refusal refusal{RefusalKind::not_current,
                  "The partner's configuration was taken over just now, perhaps with this change in it. See what is "
                  "there now before you try again.",
                  {}};
  refusal.perhaps_done = true;
  return std::unexpected(std::move(refusal));
}

std::unexpected<Refusal> partner_is_older() {
  return refuse(
      RefusalKind::conflict,
      "The change was not made: the partner's version of Lockstep is older and does not know of what is asked "
      "for. Upgrade the partner, then try again.");
}

/// A number that both nodes of a new pair know, and that no earlier epoch of the pair had.
ConfigurationEpoch first_epoch(const RevisionId& id) {
  return {.id = id.epoch, .number = static_cast<std::uint64_t>(std::max<std::int64_t>(1, id.n))};
}

}  // namespace

Revisions::Revisions(RevisionStore& store, std::function<void()> changed)
    : store_(store), changed_(std::move(changed)), process_(random_uuid()) {
  configuration_ = std::make_shared<const Configuration>(store_.configuration());
  state_.head = store_.head();
  state_.epoch = store_.epoch();
  if (const auto tentative = store_.tentative()) state_.tentative = tentative->id;
}

std::shared_ptr<const Configuration> Revisions::configuration() const {
  const std::lock_guard lock(mutex_);
  return configuration_;
}

RevisionState Revisions::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::pair<RevisionId, std::shared_ptr<const Configuration>> Revisions::in_force() const {
  const std::lock_guard lock(mutex_);
  return {state_.head, configuration_};
}

CurrentRevision Revisions::current() const {
  const std::lock_guard lock(mutex_);
  return {state_, to_document(*configuration_), process_, kNewestDocument};
}

Revisions::Compared Revisions::compared() const {
  const std::lock_guard lock(mutex_);
  return compared_;
}

bool Revisions::conflict() const {
  const std::lock_guard lock(mutex_);
  return conflict_;
}

void Revisions::commit_locked(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string& summary,
                              const Configuration& configuration) {
  store_.commit(id, epoch, summary, configuration);
  configuration_ = std::make_shared<const Configuration>(configuration);
  state_.head = id;
  state_.epoch = epoch;
  state_.tentative.reset();
  had_all_ = true;
}

// A partner keeps a proposal without reading it, and one that it can't read would keep the two apart once decided. It
// is asked only when something is first used that older versions don't know.
Outcome<void> Revisions::check_partner_reads(const Configuration& next, RevisionPeer& peer) {
  const int needed = document_version(next);
  if (needed <= document_version(*configuration())) return {};
  const auto theirs = peer.ask();
  if (!theirs) return partner_away(theirs.error());
  if (theirs->reads >= needed) return {};
  return partner_is_older();
}

Outcome<void> Revisions::have_partner_keep(const Proposal& proposal, RevisionPeer& peer) {
  auto answer = peer.prepare(proposal);
  if (answer && *answer == PrepareAnswer::behind) {
    if (auto done = peer.bring_up_to_date(current()); !done) return partner_away(done.error());
    answer = peer.prepare(proposal);
    if (answer && *answer == PrepareAnswer::behind)
      return refuse(RefusalKind::not_current, fmt::format(kPartnerAway, "holds another configuration"));
  }
  if (!answer) return perhaps_kept(answer.error());
  return {};
}

Outcome<RevisionId> Revisions::change(const std::string& summary, const Edit& edit, RevisionPeer* peer) {
  const std::lock_guard one_at_a_time(change_mutex_);
  const auto [base, in_force] = base_of_change();
  Configuration next = *in_force;
  if (auto edited = edit(next); !edited) return std::unexpected(edited.error());
  next.sort();
  if (peer)
    if (auto good = check_partner_reads(next, *peer); !good) return std::unexpected(good.error());
  if (peer && !base.epoch.members.is_both()) return partner_away({RefusalKind::not_current, "is away", {}});
  const auto epoch = peer ? epoch_of_next(base.epoch, base.head, *peer) : base.epoch;
  if (!epoch) return std::unexpected(epoch.error());
  return propose(base.head, {epoch->id, base.head.n + 1, random_uuid()}, *epoch, summary, next, peer);
}

/// What is changed and its revision are of one moment: the partner is asked in between, and may be ahead.
Revisions::Base Revisions::base_of_change() const {
  const std::lock_guard lock(mutex_);
  return {state_, configuration_};
}

/// The orderer's process begins an epoch of its own. Numbers of one epoch are then given by one process: should this
/// node's database be an older one, or one of these be put back later, two lines are told apart whichever is longer.
Outcome<ConfigurationEpoch> Revisions::epoch_of_next(const ConfigurationEpoch& now, const RevisionId& head,
                                                     RevisionPeer& peer) {
  if (now.id == begun_) return now;
  const auto theirs = peer.ask();
  if (!theirs) return partner_away(theirs.error());
  if (!theirs->knows_epochs) return now;
  begun_ = random_uuid();
  return now.next(begun_, engine::MemberSet::both(), head, 0);
}

Outcome<RevisionId> Revisions::begin_next_epoch(std::uint64_t number, RevisionPeer& peer) {
  const std::lock_guard one_at_a_time(change_mutex_);
  const auto [base, in_force] = base_of_change();
  if (!base.epoch.members.is_both()) return overtaken();
  begun_ = random_uuid();
  const ConfigurationEpoch epoch = base.epoch.next(begun_, engine::MemberSet::both(), base.head, number);
  return propose(base.head, {epoch.id, base.head.n + 1, random_uuid()}, epoch, "Both nodes begin another epoch",
                 *in_force, &peer);
}

/// The three steps of a change; the change mutex is held.
Outcome<RevisionId> Revisions::propose(const RevisionId& base, const RevisionId& id, const ConfigurationEpoch& epoch,
                                       const std::string& summary, const Configuration& next, RevisionPeer* peer) {
  if (peer) {
    {
      const std::lock_guard lock(mutex_);
      state_.in_flight = id.change;
    }
    auto kept = have_partner_keep({base, id, summary, to_document(next), process_, ++attempt_, epoch}, *peer);
    if (!kept) {
      {
        const std::lock_guard lock(mutex_);
        state_.in_flight.reset();
      }
      (void)peer->discard(id);  // if this is lost, the partner finds out when it compares notes
      return std::unexpected(kept.error());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    state_.in_flight.reset();  // also when the commit throws: then it is not decided, and the partner will discard it
    if (state_.head != base) return overtaken_perhaps_with_it();
    commit_locked(id, epoch, summary, next);
  }
  if (peer) (void)peer->commit(id);  // decided already; if this is lost, the partner finds out when it compares notes
  changed_();
  return id;
}

Outcome<void> check_absent_partner_reads(const Configuration& now, const Configuration& next,
                                         ConfigurationArbiter& arbiter) {
  const int needed = document_version(next);
  if (needed <= document_version(now)) return {};
  const int reads = arbiter.partner_reads();
  if (needed <= reads) return {};
  if (reads > 0) return partner_is_older();
  return refuse(
      RefusalKind::conflict,
      "The change was not made: the partner is away, and it is not known whether its version of Lockstep knows "
      "of what is asked for: the two have not talked since this node was upgraded. Try again when they have.");
}

Outcome<RevisionId> Revisions::change_alone(const std::string& summary, const Edit& edit,
                                            ConfigurationArbiter& arbiter) {
  const std::lock_guard one_at_a_time(change_mutex_);
  auto newest = this->newest();
  if (!newest) return std::unexpected(newest.error());
  Configuration next = newest->configuration;
  if (auto edited = edit(next); !edited) return std::unexpected(edited.error());
  next.sort();
  if (auto good = check_absent_partner_reads(newest->configuration, next, arbiter); !good)
    return std::unexpected(good.error());
  const auto epoch = arbiter.claim(newest->epoch, newest->id(), newest->configuration);
  if (!epoch) return std::unexpected(epoch.error());
  const RevisionId id{epoch->id, newest->n() + 1, random_uuid()};
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != newest->state.head || state_.tentative != newest->state.tentative) return overtaken();
    commit_locked(id, *epoch, summary, next);
  }
  changed_();
  return id;
}

bool Revisions::join(const RevisionId& agreed) {
  const std::lock_guard one_at_a_time(change_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != agreed || state_.epoch.members.is_both()) return false;
    begun_ = random_uuid();
    const ConfigurationEpoch both = state_.epoch.next(begun_, engine::MemberSet::both(), state_.head, 0);
    commit_locked({both.id, state_.head.n, state_.head.change}, both, "Both nodes decide again", *configuration_);
  }
  changed_();
  return true;
}

void Revisions::commit_new_epoch(const RevisionId& id, const std::string& summary, const Configuration& configuration) {
  {
    const std::lock_guard lock(mutex_);
    commit_locked(id, first_epoch(id), summary, configuration);
    conflict_ = false;
  }
  changed_();
}

Outcome<Revisions::Newest> Revisions::newest() const {
  const std::lock_guard lock(mutex_);
  Newest newest{state_, *configuration_, {}, state_.epoch};
  const auto tentative = state_.tentative ? store_.tentative() : std::nullopt;
  if (!tentative) return newest;
  auto configuration = from_document(tentative->document);
  if (!configuration) return std::unexpected(configuration.error());
  newest.configuration = std::move(*configuration);
  newest.tentative = tentative->summary;
  newest.epoch = tentative->epoch;
  return newest;
}

bool Revisions::begin_epoch(const RevisionState& over, const RevisionId& id, const std::string& summary,
                            const Configuration& configuration) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != over.head || state_.tentative != over.tentative) return false;
    commit_locked(id, first_epoch(id), summary, configuration);
    conflict_ = false;
  }
  changed_();
  return true;
}

Outcome<RevisionId> Revisions::force(engine::NodeSide me, const std::string& summary) {
  const std::lock_guard one_at_a_time(change_mutex_);
  const auto newest = this->newest();
  if (!newest) return std::unexpected(newest.error());
  ConfigurationEpoch epoch = newest->epoch.next(random_uuid(), engine::MemberSet::only(me), newest->id(), 0);
  epoch.forced = true;
  const RevisionId id{epoch.id, newest->n() + 1, random_uuid()};
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != newest->state.head || state_.tentative != newest->state.tentative) return overtaken();
    commit_locked(id, epoch, summary, newest->configuration);
  }
  changed_();
  return id;
}

bool Revisions::give_up(const RevisionState& over, const CurrentRevision& theirs) {
  const auto configuration = from_document(theirs.document);
  if (!configuration) return false;
  const std::lock_guard one_at_a_time(change_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != over.head || state_.tentative != over.tentative) return false;
    commit_locked(theirs.state.head, theirs.state.epoch, "Given up for the partner's", *configuration);
    conflict_ = false;
  }
  changed_();
  return true;
}

PrepareAnswer Revisions::on_prepare(const Proposal& proposal) {
  const std::lock_guard lock(mutex_);
  const bool known = proposal.process == partner_.id && proposal.attempt > partner_.attempt;
  if (!known || proposal.base != state_.head || !state_.epoch.members.is_both()) return PrepareAnswer::behind;
  partner_.attempt = proposal.attempt;
  const bool same = proposal.id.epoch == state_.head.epoch;
  store_.put_tentative({proposal.id, proposal.summary, proposal.document, same ? state_.epoch : proposal.epoch});
  state_.tentative = proposal.id;
  return PrepareAnswer::kept;
}

Outcome<void> Revisions::on_commit(const RevisionId& id) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.head == id) return {};
    const auto tentative = store_.tentative();
    if (!tentative || tentative->id != id)
      return refuse(RefusalKind::conflict, "That revision does not wait here; the nodes will compare notes.");
    auto configuration = from_document(tentative->document);
    if (!configuration) return std::unexpected(configuration.error());
    commit_locked(id, tentative->epoch, tentative->summary, *configuration);
  }
  changed_();
  return {};
}

/// The partner's process is another one. What an older one said may still be on its way.
void Revisions::note_process_locked(const engine::Uuid& process) {
  constexpr std::size_t kRemembered = 64;
  if (former_.size() == kRemembered) former_.erase(former_.begin());
  former_.push_back(std::exchange(partner_, {process, 0}));
  const auto known = std::ranges::find(former_, process, &PartnerProcess::id);
  if (known == former_.end()) return;
  partner_.attempt = known->attempt;
  former_.erase(known);
}

void Revisions::on_discard(const RevisionId& id) {
  const std::lock_guard lock(mutex_);
  if (state_.tentative != id) return;
  store_.drop_tentative();
  state_.tentative.reset();
}

Outcome<void> Revisions::on_bring_up_to_date(const CurrentRevision& theirs) {
  RevisionState mine;
  {
    const std::lock_guard lock(mutex_);
    const bool ended = std::ranges::find(former_, theirs.process, &PartnerProcess::id) != former_.end();
    if (ended) return {};  // it was held up
    mine = state_;
    if (theirs.process != partner_.id) note_process_locked(theirs.process);
  }
  const auto verdict = compare_revisions(mine, theirs.state);
  // It may have been said long before the tentative revision came here: compare_notes() asks whether that is decided.
  if (verdict == RevisionVerdict::discard_tentative) return {};
  return carry_out(verdict, mine, theirs);
}

/// True when this process was set back with its machine's memory.
bool Revisions::note_compared_locked(const RevisionState& judged, RevisionVerdict verdict,
                                     const CurrentRevision& theirs, std::optional<engine::NodeSide> me) {
  if (theirs.process != partner_.id) note_process_locked(theirs.process);  // it answers now
  const bool lacks = state_.head == judged.head && lacks_what_it_decided(judged, theirs.state);
  const bool decided = me && orders(judged.epoch, *me);
  if (lacks && decided && had_all_) compared_.process_was_set_back = true;
  if (compared_.process_was_set_back) return true;
  compared_ = {{}, theirs.knows_epochs, std::move(compared_.behind_in), false, theirs.reads};
  if (lacks) compared_.behind_in = judged.epoch;
  if (verdict == RevisionVerdict::agree && !theirs.state.tentative) compared_.agreed = judged.head;
  had_all_ = had_all_ || !lacks;
  return false;
}

Outcome<RevisionVerdict> Revisions::compare_notes(RevisionPeer& peer, std::optional<engine::NodeSide> me) {
  const RevisionState mine = state();  // before asking: see compare_revisions()
  auto theirs = peer.ask();
  if (!theirs) return std::unexpected(theirs.error());
  const auto verdict = compare_revisions(mine, theirs->state);
  {
    const std::lock_guard lock(mutex_);
    if (note_compared_locked(mine, verdict, *theirs, me)) return RevisionVerdict::wait;
  }
  if (auto done = carry_out(verdict, mine, *theirs); !done) return std::unexpected(done.error());
  return verdict;
}

Outcome<void> Revisions::carry_out(RevisionVerdict verdict, const RevisionState& judged,
                                   const CurrentRevision& theirs) {
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != judged.head || state_.tentative != judged.tentative)
      return {};  // overtaken: the next turn judges
    conflict_ = verdict == RevisionVerdict::conflict;
    switch (verdict) {
      case RevisionVerdict::commit_tentative:
      case RevisionVerdict::adopt_theirs: {
        auto configuration = from_document(theirs.document);
        if (!configuration) return std::unexpected(configuration.error());
        const bool same = theirs.state.head.epoch == state_.head.epoch;
        commit_locked(theirs.state.head, same ? state_.epoch : theirs.state.epoch, "Taken over from the partner",
                      *configuration);
        changed = true;
        break;
      }
      case RevisionVerdict::discard_tentative:
        store_.drop_tentative();
        state_.tentative.reset();
        break;
      case RevisionVerdict::agree:
      case RevisionVerdict::wait:
      case RevisionVerdict::they_are_behind:
      case RevisionVerdict::conflict:
        break;
    }
  }
  if (changed) changed_();
  return {};
}

}  // namespace lockstep::mgmt
