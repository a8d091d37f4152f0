#include "mgmt/control/volume_jobs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/shard_choice.hpp"
#include "mgmt/control/volume_edits.hpp"
#include "mgmt/control/volume_service.hpp"

namespace lockstep::mgmt {
namespace {

using Kind = ReplicaOrder::Kind;

std::string problem_with(const NodeReport& report, const Volume& volume) {
  for (const auto& p : report.problems)
    if (p.object == "volume " + volume.name) return p.message;  // docs/developer/rpc.md
  return {};
}

bool in_sync(const NodeReport& report, const Uuid& volume, bool alone) {
  if (!report.running || !report.status) return false;
  const ReplicaStatus* replica = report.status->volume(volume);
  return replica && replica->serving && (replica->state == "in_sync" || (alone && replica->state == "solo"));
}

bool detached(const NodeReport& report, std::int64_t revision, const Uuid& volume) {
  return report.running && report.status && report.status->revision >= revision && !report.status->volume(volume);
}

}  // namespace

VolumeJobs::VolumeJobs(NodeCore& core, ReplicaAgent& agent, std::function<PairReports()> reports,
                       std::function<void()> poke, std::function<Outcome<void>(const Volume&, NodeSide)> unserved)
    : core_(core),
      agent_(agent),
      reports_(std::move(reports)),
      poke_(std::move(poke)),
      unserved_(std::move(unserved)) {}

std::vector<std::int64_t> VolumeJobs::shards() const {
  const PairReports reports = reports_();
  if (core_.peer() == nullptr) return {0};  // what its partner will have, nobody knows
  return usable_shards(reports.here, reports.partner_reachable ? reports.there : NodeReport{});
}

void VolumeJobs::teach(JobRunner& runner) {
  for (const char* kind : {"volume.create", "volume.delete"})
    runner.teach(kind, [this](Job& job) { return step(job); });
  for (const char* kind : {"volume.leave", "volume.force_solo", "volume.give_up"})
    runner.teach_first(kind, [this](Job& job) { return act(job); });
  runner.teach("volume.grow", [this](Job& job) { return grow(job); });
}

// Reserving all of a volume's space takes some file systems long.
bool VolumeJobs::out_of_patience(std::int64_t since_ms, const Volume& volume) const {
  constexpr std::int64_t kReservedASecond = std::int64_t{64} << 20;  // bytes
  const std::int64_t reserving = volume.thin ? 0 : volume.size / kReservedASecond;
  return age_ms(since_ms) >= (core_.local.create_patience.count() + reserving) * 1000;
}

StepResult VolumeJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  const Volume* volume = job.volume ? configuration->volume(*job.volume) : nullptr;
  if (is_alone(job) && job.step != "begin" && !core_.orders_changes())
    return fail(
        core_, job,
        {RefusalKind::conflict,
         "Both nodes decide together again, and this node was not at the end of what it began alone. A volume that "
         "was to be deleted is deleted by the other node; delete one that is still being made.",
         {}});
  if (job.step == "begin") return begin(job, volume);
  if (!volume) {  // only its last step does this
    if (job.error) return fail(core_, job, *job.error);
    return finish(job, "The volume is gone.");
  }
  if (job.step == "replica_here") return replica_here(job, *volume);
  if (job.step == "replica_there") return replica_there(job, *volume);
  if (job.step == "publish") return publish(job, *volume);
  if (job.step == "sync") return sync(job, *volume);
  if (job.step == "undo") return undo(job);
  if (job.step == "detach") return detach(job);
  if (job.step == "remove_there") return remove_there(job, *volume);
  if (job.step == "remove_here") return remove_here(job, *volume);
  if (job.step == "forget") return forget(job);
  return fail(core_, job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

// The process ended between the job and its revision, or the revision could not be stored.
StepResult VolumeJobs::begin(Job& job, const Volume* volume) {
  if (age_ms(job.created_ms) < 60'000) return StepResult::again_later;  // it may still be under way
  const Lifecycle wanted = job.kind == "volume.delete" ? Lifecycle::deleting : Lifecycle::creating;
  if (!volume || volume->lifecycle != wanted)
    return fail(core_, job,
                {RefusalKind::internal,
                 "lockstep-mgmtd was interrupted before it had begun, so nothing was changed. Try again.",
                 {}});
  return move_on(job, wanted == Lifecycle::deleting ? "detach" : "replica_here", job.progress, job.message);
}

StepResult begin_undo(Job& job, Refusal reason) {
  const std::string message = fmt::format("Takes everything back: {}", reason.detail);
  job.error = std::move(reason);
  return move_on(job, "undo", job.progress, message);
}

StepResult VolumeJobs::replica_here(Job& job, const Volume& volume) {
  const bool both = core_.peer() != nullptr && !is_alone(job);
  const auto made = agent_.carry_out({.kind = Kind::create, .volume = volume, .birth = {.both = both, .clean = true}});
  if (!made && passing(made.error()) && !out_of_patience(volume.created_ms, volume))
    return wait(job, made.error().detail);
  if (!made) return begin_undo(job, made.error());
  if (!both) return move_on(job, "publish", 0.6, fmt::format("Puts {} into service.", volume.name));
  return move_on(job, "replica_there", 0.3, fmt::format("Makes the replica of {} on the partner.", volume.name));
}

StepResult VolumeJobs::replica_there(Job& job, const Volume& volume) {
  const auto peer = core_.peer();
  if (!peer) return begin_undo(job, {RefusalKind::internal, "The partner is gone from the configuration.", {}});
  const auto made = peer->carry_out({.kind = Kind::create, .volume = volume, .birth = {.both = true, .clean = true}});
  if (!made && passing(made.error()) && !out_of_patience(volume.created_ms, volume))
    return wait(job, fmt::format("Waits for the partner, which {}.", trouble_with_partner(made.error())));
  if (!made) {
    Refusal reason = made.error();
    reason.detail = fmt::format("The partner {}.", trouble_with_partner(reason));
    return begin_undo(job, std::move(reason));
  }
  return move_on(job, "publish", 0.6, fmt::format("Puts {} into service.", volume.name));
}

StepResult VolumeJobs::publish(Job& job, const Volume& volume) {
  const auto changed = core_.change(
      fmt::format("Volume {} in service", volume.name),
      [&](Configuration& c) -> Outcome<void> {
        Volume* v = c.volume(volume.id);
        if (v && v->lifecycle == Lifecycle::deleting)
          return refuse(RefusalKind::conflict, fmt::format("{} was taken back meanwhile.", v->name));
        if (v) v->lifecycle = Lifecycle::ready;
        return {};
      },
      agreement_of(job));
  if (!changed && passing(changed.error()) && !out_of_patience(volume.created_ms, volume))
    return wait(job, changed.error().detail);
  if (!changed) return begin_undo(job, changed.error());
  return move_on(job, "sync", 0.8, fmt::format("Waits until {} is in service.", volume.name));
}

StepResult VolumeJobs::sync(Job& job, const Volume& volume) {
  const bool alone = core_.peer() == nullptr || is_alone(job);
  const PairReports reports = reports_();
  const bool here = in_sync(reports.here, volume.id, alone);
  const bool there = alone || in_sync(reports.there, volume.id, false);
  if (here && there) {
    if (job.kind == kImportKind) return move_on(job, "copy", job.progress, "Begins to copy.");
    core_.events.append({.kind = "volume.created",
                         .side = {},
                         .volume = volume.id,
                         .message = fmt::format("The volume {} was made.", volume.name)});
    return finish(job, fmt::format("{} is in service{}.{}", volume.name,
                                   is_alone(job) ? " on this node; the other makes its copy when it is back"
                                   : alone       ? ""
                                                 : " on both nodes",
                                   closed_hint(volume)));
  }
  poke_();
  // An import goes on whenever both are in sync; until then it can be cancelled.
  if (job.kind == kImportKind || !out_of_patience(volume.created_ms, volume)) return StepResult::again_later;
  std::string why = problem_with(reports.here, volume);
  if (why.empty()) why = problem_with(reports.there, volume);
  if (why.empty()) why = "Look at the health of both nodes and of the link between them.";
  return fail(core_, job,
              {RefusalKind::conflict,
               fmt::format("{} was made, but did not come into service on {} within {} seconds. {} It comes into "
                           "service by itself when that is mended; delete it if it is not wanted.",
                           volume.name, here ? "the partner" : "this node", core_.local.create_patience.count(), why),
               {}});
}

StepResult VolumeJobs::undo(Job& job) {
  const auto changed = core_.change(
      "Volume taken back",
      [&](Configuration& c) -> Outcome<void> {
        Volume* v = c.volume(*job.volume);
        if (v && v->lifecycle == Lifecycle::ready && v->import_secret.empty())
          return refuse(RefusalKind::conflict, fmt::format("{} is in service and is not taken back.", v->name));
        if (v) v->lifecycle = Lifecycle::deleting;
        return {};
      },
      agreement_of(job));
  if (!changed && !passing(changed.error())) return fail(core_, job, changed.error());
  if (!changed) return wait(job, fmt::format("Will take everything back. {}", changed.error().detail));
  return move_on(job, "detach", job.progress, job.message);
}

StepResult VolumeJobs::detach(Job& job) {
  const auto revision = core_.revisions.state().head.n;
  const PairReports reports = reports_();
  const bool alone = core_.peer() == nullptr || is_alone(job);
  if (!detached(reports.here, revision, *job.volume)) {
    poke_();
    return wait(job, "Waits until the volume is out of service on this node.");
  }
  if (!alone && (!reports.partner_reachable || !detached(reports.there, revision, *job.volume))) {
    poke_();
    return wait(job, "Waits until the volume is out of service on the partner.");
  }
  return move_on(job, alone ? "remove_here" : "remove_there", 0.5, "Removes the data.");
}

StepResult VolumeJobs::remove_there(Job& job, const Volume& volume) {
  const auto peer = core_.peer();
  const auto done = peer ? peer->carry_out({.kind = Kind::remove, .volume = volume, .birth = {}}) : Outcome<void>();
  if (!done && passing(done.error()))
    return wait(job, fmt::format("Waits for the partner, which {}.", trouble_with_partner(done.error())));
  if (!done) {
    const Refusal reason{
        RefusalKind::conflict,
        fmt::format("The partner could not remove its replica: {} Mend this and delete the volume again.",
                    done.error().detail),
        {}};
    return fail(core_, job, reason);
  }
  return move_on(job, "remove_here", 0.7, job.message);
}

StepResult VolumeJobs::remove_here(Job& job, const Volume& volume) {
  const auto done = agent_.carry_out({.kind = Kind::remove, .volume = volume, .birth = {}});
  if (!done && passing(done.error())) return wait(job, done.error().detail);
  if (!done) {
    const Refusal reason{
        RefusalKind::conflict,
        fmt::format("This node's replica could not be removed: {} Mend this and delete the volume again.",
                    done.error().detail),
        {}};
    return fail(core_, job, reason);
  }
  return move_on(job, "forget", 0.9, job.message);
}

/// What the partner has of a volume that was deleted without it is removed when it has taken that over: until then the
/// volume stays in the configuration, as one that is being deleted.
StepResult VolumeJobs::forget(Job& job) {
  const NodeSide here = core_.side().value_or(NodeSide::a);
  const bool alone = is_alone(job);
  std::string name;
  bool stays = false;
  const auto changed = core_.change(
      "Volume forgotten",
      [&](Configuration& c) -> Outcome<void> {
        if (const Volume* v = c.volume(*job.volume)) name = v->name;
        stays = forget_volume(c, *job.volume, here, alone);
        return {};
      },
      agreement_of(job));
  if (!changed) return wait(job, changed.error().detail);
  if (job.error) return fail(core_, job, *job.error);
  core_.events.append({.kind = "volume.deleted",
                       .side = {},
                       .volume = job.volume,
                       .message = fmt::format("The volume {} was deleted.", name)});
  if (stays)
    return finish(job, fmt::format("{} was deleted on this node. The other one removes its copy when it is back; until "
                                   "then the name stays in use.",
                                   name));
  return finish(job, fmt::format("{} was deleted on all nodes.", name));
}

/// A force is the last resort: it reaches a copy, too, that was taken out of service by a job which is lost with the
/// other node. Nothing: the copy is in service.
std::optional<StepResult> VolumeJobs::put_in_service(Job& job, const Volume& volume, NodeSide side) {
  if (job.step == "attach") {
    const PairReports reports = reports_();
    const NodeReport& report = core_.side() == side ? reports.here : reports.there;
    const bool attached = report.running && report.status && report.status->volume(volume.id);
    if (attached || out_of_patience(job.created_ms, volume)) return std::nullopt;
    poke_();
    return StepResult::again_later;
  }
  if (!volume.copy(side).retired || volume.copy(side).unmade) return std::nullopt;
  const bool at_work = std::ranges::any_of(core_.jobs.unfinished(), [&](const Job& other) {
    const bool of_it = other.volume == volume.id || other.kind == kLeaveKind;
    return of_it && other.id != job.id && other.runner == core_.node_id;
  });
  if (at_work)
    return fail(core_, job,
                {RefusalKind::conflict,
                 "Another job has that copy out of service at present. Try again when it has ended.",
                 {}});
  const auto changed = core_.change(
      fmt::format("The copy of {} in service again, by an operator's force", volume.name),
      [&](Configuration& c) -> Outcome<void> {
        if (Volume* v = c.volume(volume.id)) v->copy(side).retired = v->copy(side).unmade;
        return {};
      },
      Agreement::one_is_let);
  if (!changed)
    return fail(
        core_, job,
        {changed.error().kind,
         fmt::format("The copy of {} there is out of service, and first has to be put in service. {} If nothing "
                     "lets this node change that: `lockstep pair configuration force`.",
                     volume.name, changed.error().detail),
         {}});
  poke_();
  (void)move_on(job, "attach", 0.3, fmt::format("Puts the copy of {} in service again.", volume.name));
  return StepResult::again_later;
}

StepResult VolumeJobs::act(Job& job) {
  // What was true when it was asked for may not be so any more: a node that was off since then, or whose database was
  // set back, must not go on by an old word.
  constexpr std::int64_t kActsWithinMs = 300'000;
  if (age_ms(job.created_ms) > kActsWithinMs)
    return fail(core_, job,
                {RefusalKind::conflict,
                 "It was cut off some time ago, and it is not known whether it was carried out; it is not repeated. "
                 "Look at the volume, and ask for it again if it is still wanted.",
                 {}});
  const auto parameters = nlohmann::json::parse(job.parameters, nullptr, false);
  const auto configuration = core_.configuration();
  const Volume* volume = job.volume ? configuration->volume(*job.volume) : nullptr;
  if (!volume) return fail(core_, job, {RefusalKind::not_found, "The volume is gone.", {}});
  const NodeSide side = parameters.value("side", "a") == "a" ? NodeSide::a : NodeSide::b;
  const auto kind = static_cast<Kind>(parameters.value("action", 0));
  const bool accept_inconsistent = parameters.value("accept_inconsistent", false);
  const ReplicaOrder order{.kind = kind, .volume = *volume, .birth = {}, .accept_inconsistent = accept_inconsistent};
  const bool here = core_.side() == side;
  const auto peer = core_.peer();
  // Likewise: the partner may have come back and gone on since.
  if (kind == Kind::force_solo && unserved_ && !parameters.value("despite_partner", false))
    if (auto unserved = unserved_(*volume, side); !unserved) return fail(core_, job, std::move(unserved.error()));
  if (kind == Kind::force_solo)
    if (const auto first = put_in_service(job, *volume, side)) return *first;
  const auto done = here   ? agent_.carry_out(order)
                    : peer ? peer->carry_out(order)
                           : Outcome<void>(refuse(RefusalKind::conflict, "That node is not in the pair."));
  poke_();
  if (done) return finish(job, fmt::format("Done on {}.", here ? "this node" : "the partner"));
  Refusal reason = done.error();
  if (!here && reason.kind == RefusalKind::not_current)
    reason.detail = fmt::format("The partner, whose replica is meant, {}. Send the request there when it answers.",
                                trouble_with_partner(reason));
  return fail(core_, job, std::move(reason));
}

}  // namespace lockstep::mgmt
