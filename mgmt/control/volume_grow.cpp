// The job that makes a volume larger in use: room on both nodes, then the revision that says so
// (docs/developer/grow.md).
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/volume_jobs.hpp"

namespace lockstep::mgmt {
namespace {

bool serves(const NodeReport& report, const Volume& volume) {
  const ReplicaStatus* replica = report.running && report.status ? report.status->volume(volume.id) : nullptr;
  return replica && replica->serving && replica->size >= volume.size;
}

Refusal unchanged(Refusal reason, const std::string& who) {
  reason.detail = fmt::format("{} can't grow: {} Its size is as it was.", who, reason.detail);
  return reason;
}

}  // namespace

StepResult VolumeJobs::grow(Job& job) {
  const auto parameters = nlohmann::json::parse(job.parameters, nullptr, false);
  const auto configuration = core_.configuration();
  const Volume* found = job.volume ? configuration->volume(*job.volume) : nullptr;
  if (!found) return fail(core_, job, {RefusalKind::not_found, "The volume is gone.", {}});
  Volume volume = *found;
  volume.size = parameters.value("size", std::int64_t{0});
  const ReplicaOrder order{.kind = ReplicaOrder::Kind::grow, .volume = volume, .birth = {}};
  const auto peer = is_alone(job) ? nullptr : core_.peer();
  const bool late = out_of_patience(job.created_ms, volume);

  if (job.step == "room_here") {
    const auto made = agent_.carry_out(order);
    if (!made && passing(made.error()) && !late) return wait(job, made.error().detail);
    if (!made) return fail(core_, job, unchanged(made.error(), volume.name));
    if (!peer) return move_on(job, "publish", 0.6, fmt::format("Makes {} larger.", volume.name));
    return move_on(job, "room_there", 0.3, fmt::format("Makes room for {} on the partner.", volume.name));
  }
  if (job.step == "room_there") {
    const auto made = peer ? peer->carry_out(order) : Outcome<void>();
    if (!made && passing(made.error()) && !late) {
      job.message = fmt::format("Waits for the partner, which {}.", trouble_with_partner(made.error()));
      return StepResult::again_later;
    }
    if (!made) {
      Refusal reason = made.error();
      reason.detail = fmt::format("The partner {}.", trouble_with_partner(reason));
      return fail(core_, job, unchanged(std::move(reason), volume.name));
    }
    return move_on(job, "publish", 0.6, fmt::format("Makes {} larger.", volume.name));
  }
  if (job.step == "publish") {
    const auto changed = core_.change(
        fmt::format("Volume {} grown", volume.name),
        [&](Configuration& c) -> Outcome<void> {
          Volume* v = c.volume(volume.id);
          if (v && v->size < volume.size) v->size = volume.size;
          return {};
        },
        agreement_of(job));
    if (!changed && passing(changed.error()) && !late) return wait(job, changed.error().detail);
    if (!changed) return fail(core_, job, unchanged(changed.error(), volume.name));
    poke_();
    return move_on(job, "serve", 0.8, fmt::format("Waits until {} is served with its new size.", volume.name));
  }
  const PairReports reports = reports_();
  if (serves(reports.here, volume) && (!peer || serves(reports.there, volume))) {
    core_.events.append({.kind = "volume.grown",
                         .side = {},
                         .volume = volume.id,
                         .message = fmt::format("{} has {} bytes now.", volume.name, volume.size)});
    return finish(job, fmt::format("{} has {} bytes now{}.", volume.name, volume.size,
                                   is_alone(job) ? "; the other node makes room for them when it is back" : ""));
  }
  poke_();
  if (!late) return StepResult::again_later;
  return fail(core_, job,
              {RefusalKind::conflict,
               fmt::format("{} is not served with its new size yet, because not both nodes are in sync. It will be as "
                           "soon as they are; look at the pair's health.",
                           volume.name),
               {}});
}

}  // namespace lockstep::mgmt
