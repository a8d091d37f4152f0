#include "mgmt/control/reconciler.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kReconcileTurn = 1s;
constexpr int kFirstFailures = 5;
constexpr auto kRetry = 5s;  // of an apply that left problems
constexpr auto kStatusPatience = 3s;
constexpr auto kApplyPatience = 20s;

std::vector<ApplyProblem> problems_from(const std::string& result) {
  std::vector<ApplyProblem> problems;
  const auto j = nlohmann::json::parse(result, nullptr, false);
  if (!j.is_object()) return {{"node", "lockstepd's answer to node.apply cannot be read."}};
  for (const auto& p : j.value("problems", nlohmann::json::array()))
    problems.push_back({p.value("object", ""), p.value("message", "")});
  return problems;
}

}  // namespace

Reconciler::Reconciler(DataPlane& data_plane, EventLog& events, std::function<std::optional<WantedState>()> wanted,
                       std::function<std::optional<engine::NodeSide>()> side)
    : data_plane_(data_plane),
      events_(events),
      wanted_(std::move(wanted)),
      side_(std::move(side)),
      loop_("The reconcile loop", kReconcileTurn, [this] { turn(); }) {
  report_.message = "lockstepd has not been asked yet.";
}

NodeReport Reconciler::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void Reconciler::turn() {
  const NodeReport before = report();
  NodeReport now = before;
  now.at_ms = wall_clock_ms();
  auto answer = data_plane_.call("node.status", "{}", kStatusPatience);
  auto status = answer ? status_from(*answer) : std::unexpected(answer.error());
  now.running = status.has_value();
  now.message = status ? "" : status.error().detail;
  if (status) {
    const bool restarted = status->process != applied_process_;
    now.status = std::move(*status);
    auto wanted = wanted_();
    const bool told_by_another = restarted && now.status->revision != 0;  // or by the process before this one
    const bool is_past = wanted && told_by_another && is_of_the_past(*wanted, *now.status);
    if (is_past) hold_back(*wanted, now);
    if (is_past || (wanted && wanted->may_wait && told_by_another)) wanted.reset();
    const bool differs =
        wanted && (restarted || wanted->parameters != applied_parameters_ || now.status->revision != wanted->revision);
    const bool again = wanted && !now.problems.empty() && Clock::now() >= retry_at_;
    if (differs || again) apply(*wanted, now);
  }
  {
    const std::lock_guard lock(mutex_);
    report_ = now;
  }
  tell_of_changes(before, now);
}

/// Changes that are made meanwhile count on from an old number: who was once seen to be of the past stays so until both
/// nodes agree. A lockstepd without volumes loses nothing.
bool Reconciler::is_of_the_past(const WantedState& wanted, const DataPlaneStatus& status) const {
  if (wanted.is_agreed || status.volumes.empty()) return false;
  return status.revision > wanted.revision || status.process == held_back_process_;
}

void Reconciler::hold_back(const WantedState& wanted, NodeReport& report) {
  held_back_process_ = report.status->process;
  report.problems = {
      {kHeldBack,
       fmt::format("lockstepd has orders of revision {}, and this node's database only has revision {}: it is of "
                   "an earlier time, and lockstepd is told nothing.",
                   report.status->revision, wanted.revision)}};
}

void Reconciler::apply(const WantedState& wanted, NodeReport& report) {
  auto applied = data_plane_.call("node.apply", wanted.parameters, kApplyPatience);
  retry_at_ = Clock::now() + kRetry;
  if (!applied) {
    report.problems = {{"node", applied.error().detail}};
    applied_parameters_.clear();  // the outcome is not known: tell it again
    if (applied.error().kind == RefusalKind::conflict)
      applied_parameters_ = wanted.parameters;  // refused: after kRetry
    return;
  }
  report.problems = problems_from(*applied);
  report.applied = wanted.revision;
  applied_parameters_ = wanted.parameters;
  applied_process_ = report.status->process;
  if (auto answer = data_plane_.call("node.status", "{}", kStatusPatience)) {
    if (auto status = status_from(*answer)) report.status = std::move(*status);
  }
}

void Reconciler::tell_of_changes(const NodeReport& before, const NodeReport& now) {
  const auto side = side_();
  if (now.running && !before.running)
    events_.append({.kind = "lockstepd.started", .side = side, .volume = {}, .message = "lockstepd answers."});
  // When both daemons start together, lockstepd may well be the later one.
  failures_ = now.running ? 0 : failures_ + 1;
  const bool never_came = !seen_running_ && failures_ == kFirstFailures;
  seen_running_ = seen_running_ || now.running;
  if (!now.running && (before.running || never_came))
    events_.append({.kind = "lockstepd.stopped",
                    .severity = Severity::critical,
                    .side = side,
                    .volume = {},
                    .message = now.message});
  for (const auto& p : now.problems) {
    const bool known = std::ranges::any_of(
        before.problems, [&](const ApplyProblem& b) { return b.object == p.object && b.message == p.message; });
    if (!known)
      events_.append({.kind = "apply.problem",
                      .severity = Severity::warning,
                      .side = side,
                      .volume = {},
                      .message = fmt::format("{}: {}", p.object, p.message)});
  }
}

}  // namespace lockstep::mgmt
