#include "mgmt/control/link_jobs.hpp"

#include <fmt/format.h>

#include "mgmt/control/carried_out.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/pair_members.hpp"

namespace lockstep::mgmt {
namespace {

enum class Beside : std::uint8_t { nothing, new_ones, old_ones };

Beside beside(const Configuration& c) {
  if (!c.pair || !c.pair->link_beside) return Beside::nothing;
  return c.pair->link_beside->are_old ? Beside::old_ones : Beside::new_ones;
}

}  // namespace

LinkJobs::LinkJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void LinkJobs::teach() {
  runner_.teach(kLinkSecretsKind, [this](Job& job) { return step(job); });
}

// ---- the request ----

Outcome<void> LinkJobs::may_begin(const Configuration& configuration) const {
  if (!configuration.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (configuration.nodes.size() != 2)
    return refuse(RefusalKind::conflict, "The pair has one node so far: it has no link. The node that joins makes it.");
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kLinkSecretsKind)
      return refuse(RefusalKind::conflict, "The link's secrets are being replaced already. Wait for that job to end.");
  if (auto good = both_run(configuration, hands_,
                           "The link's secrets are replaced on both nodes or not at all; nothing was changed.");
      !good)
    return good;
  return core_.check_orders_for_both();
}

Outcome<Job> LinkJobs::rotate() {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  if (auto good = may_begin(*configuration); !good) return std::unexpected(good.error());
  Job job = make_job(core_, kLinkSecretsKind, "accept", "Has both nodes accept new secrets, too.");
  runner_.submit(job);
  return job;
}

// ---- the steps ----

StepResult LinkJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  if (!configuration->pair || configuration->nodes.size() != 2)
    return fail(core_, job, {RefusalKind::not_found, "The pair, or its second node, is gone.", {}});
  if (job.step == "accept") return accept(job);
  if (job.step == "send") return send(job);
  if (job.step == "forget") return forget(job);
  return fail(core_, job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

StepResult LinkJobs::change(Job& job, const char* summary, const Revisions::Edit& edit, const char* next,
                            double progress, const char* message) {
  const auto changed = hands_.change(summary, edit);
  poke_();
  if (!changed && (passing(changed.error()) || job.step != "accept")) return wait(job, changed.error().detail);
  if (!changed) return fail(core_, job, changed.error());
  return move_on(job, next, progress, message);
}

/// Old ones that a job which was lost left beside those in force go first.
StepResult LinkJobs::accept(Job& job) {
  const Beside now = beside(*core_.configuration());
  if (now == Beside::new_ones) return move_on(job, "send", 0.3, job.message);
  if (now == Beside::old_ones) {
    if (const auto why = why_behind(core_, hands_)) return wait(job, *why);
    return change(job, "The link's old secrets forgotten", forget_old_link_secrets, "accept", 0.1, job.message.c_str());
  }
  return change(job, "New secrets of the link accepted", add_link_secrets, "send", 0.3,
                "Waits until both nodes accept them.");
}

StepResult LinkJobs::send(Job& job) {
  const Beside now = beside(*core_.configuration());
  if (now == Beside::old_ones) return move_on(job, "forget", 0.6, job.message);
  // Nobody else removes them: with the new node the link has other secrets than any that were known.
  if (now == Beside::nothing) return finish(job, "A node was replaced meanwhile: the link has new secrets since.");
  if (const auto why = why_behind(core_, hands_)) {
    poke_();
    return wait(job, *why);
  }
  return change(job, "New secrets of the link shown", swap_link_secrets, "forget", 0.6,
                "Waits until both nodes show them.");
}

StepResult LinkJobs::forget(Job& job) {
  if (beside(*core_.configuration()) != Beside::nothing) {
    if (const auto why = why_behind(core_, hands_)) {
      poke_();
      return wait(job, *why);
    }
    const auto changed = hands_.change("The link's old secrets forgotten", forget_old_link_secrets);
    poke_();
    if (!changed) return wait(job, changed.error().detail);
  }
  const std::string message = "The link has new secrets. Its session went on.";
  core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = message});
  return finish(job, message);
}

}  // namespace lockstep::mgmt
