#pragma once
// Another lease for a pair that is in use. The lease is how long a node serves on its partner's word, and how long the
// partner waits before it goes on alone; so the two must never disagree in the wrong direction, whichever node is told
// first, and whatever dies at whatever moment. Between two leases there are two revisions in which both count:
//
//   lease L            the one in force
//   lease L, other N   whoever grants waits for the longer of both, and nothing else trusts more than the shorter;
//   lease N, other L   `lease` is what a node holds
//   lease N
//
// The next revision is made when both lockstepds were seen to carry out the one before; the last one when both hold N,
// and nothing that either held or sent by L counts any more (replication/core/partner.hpp). So the two are never
// further apart than one, whichever configuration a node that starts anew has.
//
// What is to be done next follows from the configuration alone: a step may be taken again, and a change whose job was
// lost with its node's database is brought to an end by the next one. None fails once both count: it waits for the node
// that is missing, and until then a node that fails is waited for by the longer.
#include <functional>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kLeaseKind = "pair.lease";

/// What follows for the settings, where `target` is the lease that is wanted.
struct LeaseStep {
  enum class When : std::uint8_t {
    done,     ///< it is in force alone
    now,      ///< nothing has to be waited for
    told,     ///< both lockstepds carry out what is in force
    settled,  ///< … and hold its lease, and nothing held or sent by another one counts any more
  };
  When when = When::done;
  std::int64_t lease_ms = 0, other_lease_ms = 0;  ///< then
  bool operator==(const LeaseStep&) const = default;
};
[[nodiscard]] LeaseStep next_step(const PairSettings& settings, std::int64_t target, bool alone);

class LeaseJobs {
 public:
  LeaseJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  [[nodiscard]] Outcome<Job> change(std::int64_t lease_ms);

 private:
  StepResult step(Job& job);
  [[nodiscard]] Outcome<void> may_begin(const Configuration& configuration, std::int64_t lease_ms) const;
  /// Nothing when both lockstepds carry out what is in force, and, where `settled`, hold its lease and no other; else a
  /// sentence.
  [[nodiscard]] std::optional<std::string> why_wait(bool settled) const;

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  PairHands hands_;
  std::function<void()> poke_;
};

}  // namespace lockstep::mgmt
