#pragma once
// A pair in use comes to a replication link with TLS, or back to one without:
//
//   off <-> accepted <-> used <-> required      (LinkProtection, configuration.hpp)
//
// One revision a step, in the direction that is asked for; each step waits until both lockstepds were seen to carry out
// the one before. So the two are never further apart than one step, and in each step and its neighbours whatever one
// node calls with the other takes: a login succeeds at every moment, whatever dies at whatever step. From accepted to
// used, and back, the session is made anew, which hosts see as a pause of some milliseconds; in all other steps it goes
// on. Every step may be taken again; a job waits for a node that is missing.
#include <functional>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kLinkTlsKind = "pair.link_tls";

class LinkTlsJobs {
 public:
  LinkTlsJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  /// To TLS, or to none.
  [[nodiscard]] Outcome<Job> protect(bool with_tls);

 private:
  StepResult step(Job& job);
  StepResult finish(Job& job, bool with_tls);
  [[nodiscard]] Outcome<void> may_begin(const Configuration& configuration, bool with_tls) const;

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  PairHands hands_;
  std::function<void()> poke_;
};

/// The next one on the way there, and the same one at its end.
[[nodiscard]] LinkProtection next_on_the_way(LinkProtection from, bool with_tls);

}  // namespace lockstep::mgmt
