#include "mgmt/control/lease_jobs.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {

LeaseStep next_step(const PairSettings& s, std::int64_t target, bool alone) {
  using When = LeaseStep::When;
  if (s.other_lease_ms == 0 && s.lease_ms == target) return {When::done, target, 0};
  if (alone) return {When::now, target, 0};
  if (s.other_lease_ms == 0) return {When::now, s.lease_ms, target};
  if (s.other_lease_ms == target) return {When::told, target, s.lease_ms};
  return {When::settled, s.lease_ms, 0};  // of a change to another one, whose job was lost, too
}

LeaseJobs::LeaseJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void LeaseJobs::teach() {
  runner_.teach(kLeaseKind, [this](Job& job) { return step(job); });
}

std::optional<std::string> LeaseJobs::why_wait(bool settled) const {
  const auto configuration = core_.configuration();
  const std::int64_t revision = core_.revisions.state().head.n;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const Node* node = configuration->node(side);
    if (!node) continue;
    const auto seen = hands_.look(side);
    if (!seen) return seen.error().detail;
    if (!seen->running || !seen->status) return fmt::format("lockstepd does not run on {}.", node->name);
    if (seen->status->revision < revision)
      return fmt::format("lockstepd on {} does not carry out the newest configuration yet.", node->name);
    if (!settled) continue;
    if (seen->status->lease_ms != configuration->pair->settings.lease_ms)
      return fmt::format("{} holds {} ms still.", node->name, seen->status->lease_ms.value_or(0));
    if (!seen->status->lease_settled) return fmt::format("What {} holds by the old one runs out.", node->name);
  }
  return std::nullopt;
}

// ---- the request ----

Outcome<void> LeaseJobs::may_begin(const Configuration& configuration, std::int64_t lease_ms) const {
  if (!configuration.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (const auto complaint = check_lease(lease_ms))
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", {{"/lease_ms", *complaint}});
  const PairSettings& now = configuration.pair->settings;
  if (now.lease_ms == lease_ms && now.other_lease_ms == 0)
    return refuse(RefusalKind::conflict, fmt::format("The pair's lease is {} ms already.", lease_ms));
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kLeaseKind)
      return refuse(RefusalKind::conflict, "The lease is being changed already. Wait for that job to end.");
  if (configuration.nodes.size() < 2) return {};
  for (const auto& node : configuration.nodes) {
    constexpr const char* kTodo = "The lease is changed on both nodes or not at all; nothing was changed.";
    const auto seen = hands_.look(node.side);
    if (!seen) return refuse(seen.error().kind, fmt::format("{} {}", seen.error().detail, kTodo));
    if (!seen->running || !seen->status)
      return refuse(RefusalKind::data_plane_away, fmt::format("lockstepd does not run on {}. {}", node.name, kTodo));
    if (!seen->status->lease_ms)
      return refuse(RefusalKind::conflict,
                    fmt::format("lockstepd on {} runs version {}, which can't change its lease in use. {}", node.name,
                                seen->status->version, kTodo));
  }
  return core_.check_orders_for_both();
}

Outcome<Job> LeaseJobs::change(std::int64_t lease_ms) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  if (auto good = may_begin(*configuration, lease_ms); !good) return std::unexpected(good.error());
  Job job = make_job(core_, kLeaseKind, "change", "Has both nodes count both leases.");
  job.parameters = nlohmann::json{{"lease_ms", lease_ms}}.dump();
  runner_.submit(job);
  return job;
}

// ---- the steps ----

StepResult LeaseJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return fail(core_, job, {RefusalKind::not_found, "The pair is gone.", {}});
  const std::int64_t target = nlohmann::json::parse(job.parameters).at("lease_ms");
  const PairSettings& before = configuration->pair->settings;
  const LeaseStep next = next_step(before, target, configuration->nodes.size() < 2);
  if (next.when == LeaseStep::When::done) {
    const std::string message = fmt::format("The lease is {} ms now.", target);
    core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = message});
    return finish(job, message);
  }
  if (next.when != LeaseStep::When::now) {
    poke_();
    if (const auto why = why_wait(next.when == LeaseStep::When::settled)) return wait(job, *why);
  }
  const auto edit = [&](Configuration& c) -> Outcome<void> {
    if (c.pair->settings != before) return refuse(RefusalKind::not_current, "The pair's settings changed meanwhile.");
    c.pair->settings.lease_ms = next.lease_ms;
    c.pair->settings.other_lease_ms = next.other_lease_ms;
    return {};
  };
  const auto changed = hands_.change(fmt::format("The lease is being changed to {} ms", target), edit);
  poke_();
  if (!changed && (passing(changed.error()) || before.other_lease_ms != 0)) return wait(job, changed.error().detail);
  if (!changed) return fail(core_, job, changed.error());
  const bool last = next.other_lease_ms == 0;
  return move_on(job, "change",
                 last                      ? 0.9
                 : next.lease_ms == target ? 0.6
                                           : 0.3,
                 next.lease_ms == target ? "Waits until nothing is held by the old one." : "Waits for both nodes.");
}

}  // namespace lockstep::mgmt
