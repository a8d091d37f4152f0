#include "mgmt/control/revisions.hpp"

#include <fmt/format.h>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kPartnerAway =
    "The change was not made: it must be stored on both nodes, and the partner {}. Try again when both nodes run and "
    "can "
    "reach each other. Volumes are served meanwhile.";

}  // namespace

Revisions::Revisions(RevisionStore& store, std::function<void()> changed)
    : store_(store), changed_(std::move(changed)), process_(random_uuid()) {
  configuration_ = std::make_shared<const Configuration>(store_.configuration());
  state_.head = store_.head();
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

bool Revisions::conflict() const {
  const std::lock_guard lock(mutex_);
  return conflict_;
}

void Revisions::commit_locked(const RevisionId& id, const std::string& summary, const Configuration& configuration) {
  store_.commit(id, summary, configuration);
  configuration_ = std::make_shared<const Configuration>(configuration);
  state_.head = id;
  state_.tentative.reset();
}

// A partner keeps a proposal without reading it, and one that it can't read would keep the two apart once decided. It
// is asked only when something is first used that older versions don't know.
Outcome<void> Revisions::check_partner_reads(const Configuration& next, RevisionPeer& peer) {
  const int needed = document_version(next);
  if (needed <= document_version(*configuration())) return {};
  const auto theirs = peer.ask();
  if (!theirs) return refuse(RefusalKind::not_current, fmt::format(kPartnerAway, trouble_with_partner(theirs.error())));
  if (theirs->reads >= needed) return {};
  return refuse(
      RefusalKind::conflict,
      "The change was not made: the partner's version of Lockstep is older and does not know of what is asked "
      "for. Upgrade the partner, then try again.");
}

Outcome<void> Revisions::have_partner_keep(const Proposal& proposal, RevisionPeer& peer) {
  auto answer = peer.prepare(proposal);
  if (answer && *answer == PrepareAnswer::behind) {
    if (auto done = peer.bring_up_to_date(current()); !done)
      return refuse(RefusalKind::not_current, fmt::format(kPartnerAway, trouble_with_partner(done.error())));
    answer = peer.prepare(proposal);
    if (answer && *answer == PrepareAnswer::behind)
      return refuse(RefusalKind::not_current, fmt::format(kPartnerAway, "holds another configuration"));
  }
  if (!answer) return refuse(RefusalKind::not_current, fmt::format(kPartnerAway, trouble_with_partner(answer.error())));
  return {};
}

Outcome<RevisionId> Revisions::change(const std::string& summary, const Edit& edit, RevisionPeer* peer) {
  const std::lock_guard one_at_a_time(change_mutex_);
  Configuration next = *configuration();
  if (auto edited = edit(next); !edited) return std::unexpected(edited.error());
  next.sort();
  if (peer)
    if (auto good = check_partner_reads(next, *peer); !good) return std::unexpected(good.error());
  const RevisionId base = state().head;
  const RevisionId id{base.epoch, base.n + 1, random_uuid()};
  if (peer) {
    {
      const std::lock_guard lock(mutex_);
      state_.in_flight = id.change;
    }
    auto kept = have_partner_keep({base, id, summary, to_document(next), process_, ++attempt_}, *peer);
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
    if (state_.head != base)
      return refuse(RefusalKind::not_current, "The partner's configuration was taken over just now. Try again.");
    commit_locked(id, summary, next);
  }
  if (peer) (void)peer->commit(id);  // decided already; if this is lost, the partner finds out when it compares notes
  changed_();
  return id;
}

void Revisions::commit_new_epoch(const RevisionId& id, const std::string& summary, const Configuration& configuration) {
  {
    const std::lock_guard lock(mutex_);
    commit_locked(id, summary, configuration);
    conflict_ = false;
  }
  changed_();
}

Outcome<Revisions::Newest> Revisions::newest() const {
  const std::lock_guard lock(mutex_);
  Newest newest{state_, *configuration_, {}};
  const auto tentative = state_.tentative ? store_.tentative() : std::nullopt;
  if (!tentative) return newest;
  auto configuration = from_document(tentative->document);
  if (!configuration) return std::unexpected(configuration.error());
  newest.configuration = std::move(*configuration);
  newest.tentative = tentative->summary;
  return newest;
}

bool Revisions::begin_epoch(const RevisionState& over, const RevisionId& id, const std::string& summary,
                            const Configuration& configuration) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.head != over.head || state_.tentative != over.tentative) return false;
    commit_locked(id, summary, configuration);
    conflict_ = false;
  }
  changed_();
  return true;
}

PrepareAnswer Revisions::on_prepare(const Proposal& proposal) {
  const std::lock_guard lock(mutex_);
  const bool known = proposal.process == partner_process_ && proposal.attempt > partner_attempt_;
  if (!known || proposal.base != state_.head) return PrepareAnswer::behind;
  partner_attempt_ = proposal.attempt;
  store_.put_tentative({proposal.id, proposal.summary, proposal.document});
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
    commit_locked(id, tentative->summary, *configuration);
  }
  changed_();
  return {};
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
    mine = state_;
    if (theirs.process != partner_process_) {
      partner_process_ = theirs.process;
      partner_attempt_ = 0;
    }
  }
  return carry_out(compare_revisions(mine, theirs.state), mine, theirs);
}

Outcome<RevisionVerdict> Revisions::compare_notes(RevisionPeer& peer) {
  const RevisionState mine = state();  // before asking: see compare_revisions()
  auto theirs = peer.ask();
  if (!theirs) return std::unexpected(theirs.error());
  const auto verdict = compare_revisions(mine, theirs->state);
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
        commit_locked(theirs.state.head, "Taken over from the partner", *configuration);
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
