#include "mgmt/control/job_steps.hpp"

#include <nlohmann/json.hpp>

#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/replace_jobs.hpp"
#include "mgmt/control/witness_jobs.hpp"

namespace lockstep::mgmt {
namespace {

std::string cancel_key(const Uuid& job) { return "cancel." + job.to_string(); }

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
  if (job->kind != kImportKind && job->kind != kReplaceKind && job->kind != kWitnessKind && job->kind != kArbiterKind)
    return refuse(RefusalKind::conflict,
                  "Only an import, the replacement of a copy, or the change of the arbiter can be cancelled.");
  if (job->finished()) return refuse(RefusalKind::conflict, "The job has ended already.");
  core.settings.set(cancel_key(id), "1");
  return *job;
}

bool is_cancelled(NodeCore& core, const Job& job) { return core.settings.get(cancel_key(job.id)).has_value(); }

void forget_cancel(NodeCore& core, const Job& job) { core.settings.erase(cancel_key(job.id)); }

}  // namespace lockstep::mgmt
