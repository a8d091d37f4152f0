// The pair's verdict: what is wrong, the worst first, and one sentence that sums it up.
#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "mgmt/control/link_health.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/stale_database.hpp"
#include "mgmt/control/witness_place.hpp"
#include "mgmt/control/witness_verdict.hpp"

namespace lockstep::mgmt {
namespace {

using engine::MemberSet;

std::string clock_time(std::int64_t at_ms) {
  const std::time_t seconds = at_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:02}:{:02}:{:02} UTC", utc.tm_hour, utc.tm_min, utc.tm_sec);
}

/// What this node knows of the other one may be, too.
bool is_of_the_past(const PairView& view) {
  return view.newer_copy != 0 || std::ranges::any_of(view.nodes, [](const NodeView& n) {
           return n.node && n.local && n.report.is_held_back();
         });
}

// Its management is there, or somebody's, but it is the pair's no more.
bool judge_lost(const NodeView& n, bool of_the_past, std::vector<HealthProblem>& problems) {
  std::string what;
  if (n.trouble == PartnerTrouble::has_no_pair)
    what = fmt::format("The management of {} answers, but is in no pair", n.node->name);
  if (n.trouble == PartnerTrouble::has_no_pair && !of_the_past) what += ": it has lost its database";
  if (n.trouble == PartnerTrouble::other_certificate)
    what = fmt::format("The management of {} answers with a certificate that is not the pair's", n.node->name);
  if (what.empty()) return false;
  problems.push_back(
      {Severity::warning,
       "node",
       n.node->side,
       {},
       fmt::format("{}, since {}. Volumes are not touched by this; the configuration can't be changed.", what,
                   clock_time(n.since_ms)),
       of_the_past
           ? fmt::format(
                 "First see to this node's database, which is of an earlier time: {} may have left the pair, or "
                 "be another machine, since then.",
                 n.node->name)
           : fmt::format(
                 "If it was set up anew, run `lockstep node replace {}` here, then `lockstep pair join` there.{}",
                 side_name(n.node->side),
                 n.trouble == PartnerTrouble::other_certificate
                     ? " If its database is still there, first restore its tls.crt and tls.key from a backup, or "
                       "move mgmt.db and what begins with that name away there."
                     : "")});
  return true;
}

/// This node has the pair's database, and a certificate of its own that the pair does not know.
void judge_refused(const PairView& view, const NodeView& n, std::vector<HealthProblem>& problems) {
  const std::string side = side_name(engine::other(n.node->side));
  problems.push_back(
      {Severity::warning,
       "node",
       view.local_side,
       {},
       fmt::format("The management of {} does not take this node for its partner, since {}: it {}.", n.node->name,
                   clock_time(n.since_ms), n.reason),
       fmt::format(
           "The certificate here, tls.crt and tls.key, is not the one of before. Restore both from a backup and "
           "restart lockstep-mgmtd. Without one this node takes its own place anew: stop lockstep-mgmtd here, "
           "move mgmt.db and what begins with that name away, start it, run `lockstep node replace {}` on {} and "
           "`lockstep pair join` here. lockstepd goes on meanwhile; do not restart it.",
           side, n.node->name)});
}

std::string advice_on_silent(const PairView& view) {
  const bool linked = std::ranges::any_of(
      view.nodes, [](const NodeView& n) { return n.node && n.local && n.current() && is_linked(n.report); });
  if (linked)
    return "Its lockstepd runs and is connected to this node's: volumes are served as before, and it is not lost. See "
           "to lockstep-mgmtd there (`systemctl status lockstep-mgmtd`), and to the network of the management.";
  return "Check its power and its network. Volumes are brought up to date by themselves when it returns. Until then "
         "hosts, access lists, tokens and names can be changed, and volumes made, grown and deleted, where the arbiter "
         "lets one node go on.";
}

void judge_unpaired(const Unpaired& u, std::vector<HealthProblem>& problems) {
  const bool lost = u.served > 0 || u.replicas > 0 || u.saved;
  if (!lost) {
    problems.push_back({Severity::warning,
                        "pair",
                        {},
                        {},
                        "This node is not in a pair yet.",
                        "Make a pair, or join one with an invitation made on the other node."});
    return;
  }
  std::string what = "This node is not in a pair";
  if (u.served > 0)
    what += fmt::format(", but its lockstepd serves {} that the management does not know",
                        u.served == 1 ? "a volume" : fmt::format("{} volumes", u.served));
  else if (u.replicas > 0)
    what +=
        fmt::format(", but has the files of {}", u.replicas == 1 ? "a volume" : fmt::format("{} volumes", u.replicas));
  what += u.saved_of.empty() ? "." : fmt::format(". A copy of the configuration of {} is beside them.", u.saved_of);
  if (!u.saved_problem.empty()) what += " " + u.saved_problem;
  problems.push_back(
      {Severity::critical,
       "pair",
       {},
       {},
       what,
       "If it was in a pair and its database is lost: run `lockstep node replace` on the other node, then "
       "`lockstep pair join` here. If no node has its database any more: `lockstep pair recover` here. "
       "lockstepd is left as it is until then; do not restart it."});
}

void judge_node(const PairView& view, const NodeView& n, std::vector<HealthProblem>& problems) {
  const Configuration& c = *view.configuration;
  const NodeSide side = n.node->side;
  const std::string& name = n.node->name;
  if (!n.asked) return;
  if (!n.reachable) {
    if (judge_lost(n, is_of_the_past(view), problems)) return;
    if (n.refuses) return judge_refused(view, n, problems);
    problems.push_back({Severity::warning,
                        "node",
                        side,
                        {},
                        fmt::format("The management of {} has not been reachable since {}: it {}.", name,
                                    clock_time(n.since_ms), n.reason),
                        advice_on_silent(view)});
    return;
  }
  if (!n.report.running) {
    problems.push_back({Severity::warning,
                        "node",
                        side,
                        {},
                        fmt::format("On {}: {}", name, n.report.message),
                        "Look at the log of lockstepd there."});
    return;
  }
  const auto told_with_its_volume = [&](const ApplyProblem& p) {
    return std::ranges::any_of(n.report.missing, [&](const Uuid& id) {
      const Volume* volume = c.volume(id);
      return volume && p.object == "volume " + volume->name;
    });
  };
  for (const auto& p : n.report.problems) {
    if (told_with_its_volume(p)) continue;
    if (p.object == kHeldBack) {
      problems.push_back({Severity::warning,
                          "node",
                          side,
                          {},
                          fmt::format("On {}: {}", name, p.message),
                          fmt::format("Volumes are served as before. If `lockstep pair configuration` shows two "
                                      "that differ, settle that first. Else {} To have what the database says carried "
                                      "out as it is: restart lockstepd on {}.",
                                      without_the_database(name, side), name)});
      continue;
    }
    problems.push_back({Severity::warning,
                        "node",
                        side,
                        {},
                        fmt::format("{} could not carry out the configuration: {}: {}", name, p.object, p.message),
                        "It is tried again every few seconds."});
  }
  if (n.report.status) {
    for (const auto& finding : n.report.status->findings)
      problems.push_back({Severity::warning, "node", side, {}, fmt::format("On {}: {}", name, finding), ""});
    for (const auto& f : n.report.status->rdma_findings)
      problems.push_back({f.severity == "advice" ? Severity::info : Severity::warning,
                          "node",
                          side,
                          {},
                          fmt::format("On {}: {}", name, f.message),
                          f.advice});
  }
}

void judge_who_decides(const PairView& view, std::vector<HealthProblem>& problems) {
  const MemberSet members = view.revision.epoch.members;
  if (members.is_both() || view.configuration->nodes.size() < 2) return;
  const NodeSide side = members.contains(NodeSide::a) ? NodeSide::a : NodeSide::b;
  problems.push_back({Severity::warning,
                      "pair",
                      side,
                      {},
                      fmt::format("{} has changed the configuration alone: {} does not carry out the changes yet.",
                                  view.at(side).node->name, view.at(engine::other(side)).node->name),
                      "They are taken over by themselves when the two nodes' management can talk again."});
}

/// In sync, and not because it has just been told: a configuration that was rebuilt may name another one.
void judge_arbiter(const PairView& view, const Pair& pair, std::vector<HealthProblem>& problems) {
  const std::string named = arbiter_name(pair.arbiter);
  for (const auto& n : view.nodes) {
    if (!n.node || !n.current()) continue;
    for (const auto& volume : view.configuration->volumes) {
      const auto* replica = n.report.status->volume(volume.id);
      if (!replica || replica->state != "in_sync" || !replica->epoch || replica->epoch->arbiter.empty()) continue;
      if (replica->epoch->arbiter == named) continue;
      problems.push_back({Severity::warning,
                          "pair",
                          {},
                          volume.id,
                          fmt::format("{} does not go by the pair's arbiter: its copies name {}, and the pair {}.",
                                      volume.name, replica->epoch->arbiter, named),
                          "Run `lockstep pair arbiter set` with the arbiter that it is to be."});
    }
    return;  // in sync both name the same
  }
}

void judge_witness(const PairView& view, std::vector<HealthProblem>& problems) {
  const auto& pair = view.configuration->pair;
  if (pair && pair->arbiter.changing) {
    problems.push_back({Severity::warning,
                        "witness",
                        {},
                        {},
                        fmt::format("The {} is being changed: if a node fails now, I/O stops.",
                                    pair->arbiter.witness ? "witness" : "arbiter"),
                        "It takes a few seconds; `lockstep job list` says how far it is. If no such job is under way, "
                        "run `lockstep pair arbiter set` again."});
    return;
  }
  if (pair) judge_arbiter(view, *pair, problems);
  if (pair && pair->arbiter.fence) return;  // lockstepd itself tells what its device said
  for (const auto& n : view.nodes) {
    if (!n.node || !n.current() || n.report.status->witness_reachable.value_or(true)) continue;
    problems.push_back({Severity::warning,
                        "witness",
                        n.node->side,
                        {},
                        fmt::format("{} cannot reach the witness: if a node fails now, I/O stops.", n.node->name),
                        "Check that the witness (etcd) runs and can be reached from both nodes."});
  }
}

/// It may have been so when the second node joined, or a node's addresses changed.
void judge_witness_place(const Configuration& c, std::vector<HealthProblem>& problems) {
  const auto places = c.pair ? own_machines_of(c.pair->arbiter, c.nodes) : std::nullopt;
  if (!places) return;
  problems.push_back({Severity::warning,
                      "witness",
                      {},
                      {},
                      fmt::format("The witness is on the pair's own machines ({}): with one of them the witness is "
                                  "lost, and I/O stops.",
                                  *places),
                      "Have it run on a third machine, and name it with `lockstep pair witness set --endpoint URL`."});
}

/// For seconds, with both nodes; else until the missing one is back.
void judge_lease(const Configuration& c, std::vector<HealthProblem>& problems) {
  if (!c.pair || c.pair->settings.other_lease_ms == 0) return;
  const auto [shorter, longer] = std::minmax(c.pair->settings.lease_ms, c.pair->settings.other_lease_ms);
  problems.push_back({Severity::warning,
                      "pair",
                      {},
                      {},
                      fmt::format("The lease is being changed: until that is done a node holds it for {} ms, and its "
                                  "partner waits {} ms before it goes on alone.",
                                  shorter, longer),
                      "It takes both nodes, and then a few seconds; `lockstep job list` says what it waits for. If no "
                      "such job is under way, give the lease again with `lockstep pair set --lease`."});
}

/// For seconds, with both nodes; else until the missing one is back.
void judge_link_secrets(const Configuration& c, std::vector<HealthProblem>& problems) {
  if (!c.pair || !c.pair->link_beside) return;
  problems.push_back({Severity::warning,
                      "link",
                      {},
                      {},
                      "The link's secrets are being replaced: the old ones and the new ones are accepted.",
                      "It takes both nodes, and then a few seconds; `lockstep job list` says what it waits for. If no "
                      "such job is under way, run `lockstep pair rotate-secrets` again."});
}

/// Said while the link stands, so that what is read is what goes over the wire.
void judge_link_protection(const PairView& view, std::vector<HealthProblem>& problems) {
  const Configuration& c = *view.configuration;
  if (!c.pair || c.nodes.size() != 2) return;
  if (c.pair->link_protection == LinkProtection::off) {
    problems.push_back(
        {Severity::warning,
         "link",
         {},
         {},
         "The replication link is not encrypted: whoever is on its network can read and change volumes.",
         "`lockstep pair protect-link` encrypts it, while hosts go on. Until then keep its network to the "
         "two nodes."});
    return;
  }
  if (c.pair->link_protection != LinkProtection::required) {
    problems.push_back({Severity::warning,
                        "link",
                        {},
                        {},
                        "The replication link is about to be protected otherwise: it takes calls without TLS, too.",
                        "It takes both nodes, and then a few seconds; `lockstep job list` says what it waits for. If "
                        "no such job is under way, run `lockstep pair protect-link` again."});
    return;
  }
}

/// For seconds, with both nodes; else until the missing one is back.
void judge_addresses(const PairView& view, std::vector<HealthProblem>& problems) {
  for (const auto& node : view.configuration->nodes) {
    if (node.beside.empty()) continue;
    problems.push_back(
        {Severity::warning,
         "node",
         node.side,
         {},
         fmt::format("The addresses of {} are being changed: it is reached at the old and the new ones.", node.name),
         "It takes both nodes, and then a few seconds; `lockstep job list` says what it waits for. If "
         "no such job is under way, give the addresses again with `lockstep node set`."});
  }
  for (const auto& sentence : view.not_listened)
    problems.push_back({Severity::warning,
                        "node",
                        view.local_side,
                        {},
                        fmt::format("The management of this node can't be reached where it should. {}", sentence),
                        fmt::format("If this machine has another address: `lockstep node set {} --management-address "
                                    "ADDRESS:PORT`, with --link-address and --portal where these have changed, too.",
                                    side_name(view.local_side.value_or(NodeSide::a)))});
  for (const auto& d : view.file_differences)
    problems.push_back({Severity::warning, "node", view.local_side, {}, d.sentence, d.advice});
}

Health summed_up(std::vector<HealthProblem> problems) {
  std::ranges::stable_sort(problems, std::greater<>(), &HealthProblem::severity);
  const auto wrong = std::ranges::count_if(problems, [](const auto& p) { return p.severity != Severity::info; });
  Health health;
  health.problems = std::move(problems);
  if (wrong == 0) {
    health.summary = "Everything is in order.";
    return health;
  }
  const HealthProblem& worst = health.problems.front();
  health.verdict = worst.severity == Severity::critical ? Verdict::critical : Verdict::degraded;
  health.summary = worst.message;
  if (wrong > 1) health.summary += fmt::format(" And {} more {}.", wrong - 1, wrong == 2 ? "problem" : "problems");
  return health;
}

}  // namespace

const char* to_string(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::degraded ? "degraded" : "critical";
}

Health judge_pair(const PairView& view) {
  std::vector<HealthProblem> problems;
  const Configuration& c = *view.configuration;
  if (!c.pair)
    judge_unpaired(view.unpaired.value_or(Unpaired{}), problems);
  else if (c.nodes.size() < 2 && view.newer_copy == 0)
    problems.push_back({Severity::warning,
                        "pair",
                        {},
                        {},
                        "The pair has one node: nothing is mirrored yet.",
                        "Make an invitation and use it on the second node."});
  if (view.conflict)
    problems.push_back({Severity::critical,
                        "pair",
                        {},
                        {},
                        "The two nodes hold configurations that do not follow from one another.",
                        "`lockstep pair configuration` shows both. On the node whose changes are to be dropped run "
                        "`lockstep pair configuration give-up`."});
  judge_who_decides(view, problems);
  if (view.replaced_ms != 0)
    problems.push_back(
        {Severity::critical,
         "pair",
         view.local_side,
         {},
         fmt::format(
             "This machine is not in the pair any more, as its partner said at {}: it was taken out, or another "
             "one took the place of this one. What is shown here is of the past.",
             clock_time(view.replaced_ms)),
         fmt::format(
             "To use this machine again, have it forget the pair and what it has of its volumes: `lockstep pair "
             "leave {}` here. Else stop lockstepd and lockstep-mgmtd.",
             side_name(view.local_side.value_or(NodeSide::a)))});
  judge_copy(view, problems);
  if (!view.certificate_problem.empty())
    problems.push_back(
        {Severity::warning,
         "node",
         view.local_side,
         {},
         view.certificate_problem,
         "Give it another one with `lockstep node certificate set`, or have it show a self-made one with "
         "`lockstep node certificate reset`. Volumes and the partner are not touched by this."});
  for (const auto& n : view.nodes)
    if (n.node) judge_node(view, n, problems);
  judge_link(view, problems);
  judge_link_paths(view, problems);
  judge_lease(c, problems);
  judge_link_secrets(c, problems);
  judge_link_protection(view, problems);
  judge_addresses(view, problems);
  judge_witness(view, problems);
  judge_witness_place(c, problems);
  for (const auto& volume : c.volumes) {
    const auto verdict = judge_volume(view, volume);
    if (verdict.verdict == Verdict::ok) continue;
    if (c.nodes.size() < 2 && verdict.verdict == Verdict::degraded) continue;  // said of the pair already
    problems.push_back({verdict.verdict == Verdict::critical ? Severity::critical : Severity::warning,
                        "volume",
                        {},
                        volume.id,
                        fmt::format("{}: {}", volume.name, verdict.summary),
                        verdict.advice});
  }
  return summed_up(std::move(problems));
}

}  // namespace lockstep::mgmt
