#pragma once
// How a step of a job ends, for those that work on volumes.
#include <string>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

/// Whether trying again may help: the other side could not be asked, as against refused.
inline bool passing(const Refusal& refusal) {
  return refusal.kind == RefusalKind::not_current || refusal.kind == RefusalKind::data_plane_away;
}

inline StepResult move_on(Job& job, const char* step, double progress, std::string message) {
  job.step = step;
  job.progress = progress;
  job.message = std::move(message);
  return StepResult::again_now;
}

inline StepResult wait(Job& job, std::string message) {
  job.message = std::move(message);
  return StepResult::again_later;
}

/// Begun by a node that goes on alone with the volumes that it works on: the partner has no part in it.
[[nodiscard]] bool is_alone(const Job& job);
void set_alone(Job& job);
/// Whose agreement the job's changes need.
[[nodiscard]] inline Agreement agreement_of(const Job& job) {
  return is_alone(job) ? Agreement::one_is_let : Agreement::both;
}

/// The runner sees it with the job's next step. Only of jobs that look.
[[nodiscard]] Outcome<Job> cancel_job(NodeCore& core, const Uuid& id);
[[nodiscard]] bool is_cancelled(NodeCore& core, const Job& job);
void forget_cancel(NodeCore& core, const Job& job);

}  // namespace lockstep::mgmt
