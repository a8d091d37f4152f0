#pragma once
// Other secrets for the replication link of a pair that is in use:
//
//   accept -> send -> forget -> done
//
//   accept   revision: the new ones stand beside those in force. Both lockstepds let in who shows either
//   send     both were seen to carry that out. Revision: the new ones are in force, the old ones stand beside them
//   forget   both were seen to carry that out. Revision: the new ones alone
//
// So whatever one node shows the other accepts, whichever of two revisions that follow one another each of them is at:
// a login succeeds at every moment, whatever dies at whatever step, and a session that stands goes on. The witness's
// records keep their seal (Pair::seal), so that what one node wrote the other believes throughout. Every step may be
// taken again; none fails once the new ones stand anywhere, it waits for the node that is missing.
#include <functional>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kLinkSecretsKind = "pair.link_secrets";

class LinkJobs {
 public:
  LinkJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  [[nodiscard]] Outcome<Job> rotate();

 private:
  StepResult step(Job& job);
  StepResult accept(Job& job);
  StepResult send(Job& job);
  StepResult forget(Job& job);
  [[nodiscard]] Outcome<void> may_begin(const Configuration& configuration) const;
  /// Gives the step to be taken next, or has the job wait.
  StepResult change(Job& job, const char* summary, const Revisions::Edit& edit, const char* next, double progress,
                    const char* message);

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  PairHands hands_;
  std::function<void()> poke_;
};

}  // namespace lockstep::mgmt
