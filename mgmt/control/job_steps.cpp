#include "mgmt/control/job_steps.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/replace_jobs.hpp"
#include "mgmt/control/witness_jobs.hpp"

namespace lockstep::mgmt {
namespace {

std::string cancel_key(const Uuid& job) { return "cancel." + job.to_string(); }

const std::string kCancelled[] = {kImportKind, kReplaceKind, kWitnessKind, kArbiterKind, kDissolveKind};

/// Of a dissolution: nothing was deleted, and no node is out yet.
bool is_undecided(NodeCore& core, const Job& job) {
  const auto configuration = core.configuration();
  if (nlohmann::json::parse(job.parameters).value(kHasMarked, false)) return false;
  return (job.step == "delete" || job.step == "decide") &&
         std::ranges::none_of(configuration->volumes,
                              [](const Volume& v) { return v.lifecycle == Lifecycle::deleting; });
}

}  // namespace

bool is_alone(const Job& job) {
  const auto parameters = nlohmann::json::parse(job.parameters, nullptr, false);
  return parameters.is_object() && parameters.value("alone", false);
}

void set_alone(Job& job) {
  auto parameters = nlohmann::json::parse(job.parameters);
  parameters["alone"] = true;
  job.parameters = parameters.dump();
}

Outcome<Job> cancel_job(NodeCore& core, const Uuid& id) {
  auto job = core.jobs.get(id);
  if (!job) return refuse(RefusalKind::not_found, "There is no job with this id.");
  if (std::ranges::find(kCancelled, job->kind) == std::end(kCancelled))
    return refuse(
        RefusalKind::conflict,
        "Only an import, the replacement of a copy, a change of the witness or arbiter, or a dissolution that "
        "has begun to delete no volume yet can be cancelled.");
  if (job->finished()) return refuse(RefusalKind::conflict, "The job has ended already.");
  if (job->runner != core.node_id)
    return refuse(RefusalKind::conflict,
                  "The job is the other node's, which would not hear of it: send the request there, or try again when "
                  "that node is back.");
  if (job->kind == kDissolveKind && !is_undecided(core, *job))
    return refuse(RefusalKind::conflict, "The pair is being taken apart already: this can't be taken back.");
  core.settings.set(cancel_key(id), "1");
  return *job;
}

bool is_cancelled(NodeCore& core, const Job& job) { return core.settings.get(cancel_key(job.id)).has_value(); }

void forget_cancel(NodeCore& core, const Job& job) { core.settings.erase(cancel_key(job.id)); }

}  // namespace lockstep::mgmt
