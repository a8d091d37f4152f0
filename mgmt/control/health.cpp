// The pair's verdict: what is wrong, the worst first, and one sentence that sums it up.
#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "mgmt/control/pair_view.hpp"

namespace lockstep::mgmt {
namespace {

std::string clock_time(std::int64_t at_ms) {
  const std::time_t seconds = at_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:02}:{:02}:{:02} UTC", utc.tm_hour, utc.tm_min, utc.tm_sec);
}

void judge_node(const NodeView& n, std::vector<HealthProblem>& problems) {
  const NodeSide side = n.node->side;
  const std::string& name = n.node->name;
  if (!n.asked) return;
  if (!n.reachable) {
    problems.push_back(
        {Severity::warning,
         "node",
         side,
         {},
         fmt::format("The management of {} has not been reachable since {}: it {}.", name, clock_time(n.since_ms),
                     n.reason),
         "Check its power and its network. Volumes are brought up to date by themselves when it returns; "
         "the configuration can be changed only when both nodes answer."});
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
  for (const auto& p : n.report.problems)
    problems.push_back({Severity::warning,
                        "node",
                        side,
                        {},
                        fmt::format("{} could not carry out the configuration: {}: {}", name, p.object, p.message),
                        "It is tried again every few seconds."});
  if (n.report.status) {
    for (const auto& finding : n.report.status->findings)
      problems.push_back({Severity::warning, "node", side, {}, fmt::format("On {}: {}", name, finding), ""});
  }
}

void judge_link(const PairView& view, std::vector<HealthProblem>& problems) {
  const NodeView& a = view.at(NodeSide::a);
  const NodeView& b = view.at(NodeSide::b);
  if (!a.node || !b.node) return;
  for (const NodeView* n : {&a, &b}) {
    if (!n->current() || n->report.status->partner_connected) continue;
    const NodeView& other = n == &a ? b : a;
    if (other.reachable && !other.report.running && other.asked) return;  // said already
    problems.push_back(
        {Severity::warning,
         "link",
         n->node->side,
         {},
         fmt::format("{} has no replication link to {}.", n->node->name, other.node->name),
         fmt::format("Check the network between {} and {}.", n->node->link_address, other.node->link_address)});
    return;  // one side's word is enough
  }
}

void judge_witness(const PairView& view, std::vector<HealthProblem>& problems) {
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

Health summed_up(std::vector<HealthProblem> problems) {
  std::ranges::stable_sort(problems, std::greater<>(), &HealthProblem::severity);
  Health health;
  if (problems.empty()) {
    health.summary = "Everything is in order.";
    return health;
  }
  health.verdict = problems.front().severity == Severity::critical ? Verdict::critical : Verdict::degraded;
  health.summary = problems.front().message;
  if (problems.size() > 1)
    health.summary +=
        fmt::format(" And {} more {}.", problems.size() - 1, problems.size() == 2 ? "problem" : "problems");
  health.problems = std::move(problems);
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
    problems.push_back({Severity::warning,
                        "pair",
                        {},
                        {},
                        "This node is not in a pair yet.",
                        "Make a pair, or join one with an invitation made on the other node."});
  else if (c.nodes.size() < 2)
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
                        "Has a database been restored from an old backup? Restore the newer one on that node."});
  for (const auto& n : view.nodes)
    if (n.node) judge_node(n, problems);
  judge_link(view, problems);
  judge_witness(view, problems);
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
