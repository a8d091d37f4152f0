#include "mgmt/control/partner_watch.hpp"

#include <fmt/format.h>

#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr auto kPartnerTurn = std::chrono::seconds(1);
constexpr int kFirstRefusals = 3;

}  // namespace

PartnerWatch::PartnerWatch(NodeCore& core, ConfigurationWitness& arbiter, std::function<void()> agreed)
    : core_(core),
      arbiter_(arbiter),
      agreed_(std::move(agreed)),
      loop_("Looking at the partner", kPartnerTurn, [this] { turn(); }) {}

PartnerView PartnerWatch::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

void PartnerWatch::turn() {
  const auto configuration = core_.configuration();
  const Node* partner = core_.partner(*configuration);
  if (!partner) return forget();
  const auto peer = core_.peer();
  if (!peer) return;
  const auto seen = look(*peer);
  const PartnerTrouble trouble = seen ? PartnerTrouble::none : trouble_of(seen.error(), *peer);
  const Uuid pair = configuration->pair->id;
  note_standing(trouble, *partner, pair);
  const auto now = core_.configuration();
  if (!now->pair || now->pair->id != pair) return forget();  // this node has left it meanwhile
  note(seen, trouble, *partner);
}

/// There is no partner, or not any more: the next one is another.
void PartnerWatch::forget() {
  const std::lock_guard lock(mutex_);
  view_ = {};
  first_refusals_ = 0;
}

PartnerTrouble PartnerWatch::trouble_of(const Refusal& refusal, Peer& peer) {
  if (refusal.other_certificate) return PartnerTrouble::other_certificate;
  if (refusal.kind == RefusalKind::not_current) return PartnerTrouble::away;
  const auto configuration = core_.configuration();
  if (!configuration->pair) return PartnerTrouble::away;  // this node has left it meanwhile
  const auto standing = peer.standing(configuration->pair->id);
  if (!standing) return PartnerTrouble::away;
  if (standing->asker == NodeStanding::Asker::replaced) return PartnerTrouble::replaced_this;
  return standing->head ? PartnerTrouble::away : PartnerTrouble::has_no_pair;
}

// Once the partner has said so it holds until the partner takes this node for its partner again.
void PartnerWatch::note_standing(PartnerTrouble trouble, const Node& partner, const Uuid& pair) {
  if (trouble != PartnerTrouble::none && trouble != PartnerTrouble::replaced_this) return;
  if (!core_.note_standing(pair, trouble == PartnerTrouble::replaced_this)) return;
  core_.events.append(
      {.kind = "pair.replaced",
       .severity = lets_go(core_, partner.id) ? Severity::info : Severity::critical,
       .side = core_.side(),
       .volume = {},
       .message = fmt::format("{} says that this machine is not in the pair any more: it was taken out, or another one "
                              "took its place. lockstepd here is told nothing any more.",
                              partner.name)});
}

Outcome<NodeReport> PartnerWatch::look(Peer& peer) {
  const bool was_in_conflict = core_.revisions.conflict();
  const auto verdict = core_.revisions.compare_notes(peer, end_ ? core_.side() : std::nullopt);
  if (!verdict) return std::unexpected(verdict.error());
  end_if_set_back();
  if (core_.revisions.conflict() && !was_in_conflict)
    core_.events.append({.kind = "configuration.conflict",
                         .severity = Severity::critical,
                         .side = {},
                         .volume = {},
                         .message = "The two nodes hold configurations that do not follow from one another."});
  fetch_events(peer);
  auto report = peer.report();
  if (report && *verdict == RevisionVerdict::agree) agree(peer);
  return report;
}

/// What it has in memory is of a time that is over: the numbers of its changes, and which jobs it took up itself.
void PartnerWatch::end_if_set_back() {
  if (!core_.revisions.compared().process_was_set_back) return;
  log_error(
      "This machine was set back to a snapshot with its memory: the partner has what this process decided after that, "
      "and it does not know of it. This process ends; the next one takes the configuration over from the partner, and "
      "ends the jobs of that time.");
  end_();
}

// A full disk keeps nobody from knowing the partner.
void PartnerWatch::agree(Peer& peer) {
  std::string problem;
  try {
    arbiter_.on_agreement(peer);
    agreed_();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  if (!problem.empty() && problem != agreement_problem_)
    log_error(fmt::format("What both nodes agree on can't be noted: {}", problem));
  agreement_problem_ = problem;
}

void PartnerWatch::fetch_events(Peer& peer) {
  const auto last = core_.events.last_from_partner();
  auto events = peer.events(last > 0 ? last - 1 : 0);
  if (!events) return;  // the next turn asks again
  if (last > 0 && events->empty()) {
    core_.events.forget_partner_ids();  // its log does not reach as far as what we have: it was begun anew
    return;
  }
  if (!events->empty() && events->back().id > last) core_.events.append_from_partner(*events);
}

void PartnerWatch::note(const Outcome<NodeReport>& seen, PartnerTrouble trouble, const Node& partner) {
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    // A partner that has just been let in, or has just started, may not know of this node yet.
    if (!view_.asked && !seen && ++first_refusals_ < kFirstRefusals) return;
    changed = !view_.asked || view_.reachable != seen.has_value();
    view_.asked = true;
    view_.reachable = seen.has_value();
    if (changed) view_.since_ms = wall_clock_ms();
    view_.trouble = trouble;
    view_.refuses = !seen && trouble == PartnerTrouble::away && seen.error().kind == RefusalKind::forbidden;
    if (seen) view_.report = *seen;
    view_.reason = seen ? "" : trouble_with_partner(seen.error());
  }
  if (!changed) return;
  if (seen)
    core_.events.append({.kind = "node.reachable",
                         .side = partner.side,
                         .volume = {},
                         .message = fmt::format("The management of {} answers.", partner.name)});
  else
    core_.events.append(
        {.kind = "node.unreachable",
         .severity = Severity::warning,
         .side = partner.side,
         .volume = {},
         .message = fmt::format("The management of {} {}.", partner.name, trouble_with_partner(seen.error()))});
}

}  // namespace lockstep::mgmt
