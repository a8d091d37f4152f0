#pragma once
// Another arbiter for a pair that is in use: another witness, or the same one with other endpoints, another CA or other
// credentials; a preferred side in a witness's place, the reverse, or the other side; to a fence and from one:
//
//   stop -> stopped -> start -> learn -> clear -> done
//   a failure before start: start (the old one) -> learn -> failed
//   a failure from start on: stop -> stopped -> start (the old one) -> learn -> failed
//
// With two arbiters in force at a time, one on each node, both nodes could go on alone: split brain. So between any
// two there is a revision in which the arbiter is `changing`: neither node asks a witness or uses a fence, and every
// volume's epoch names a witness, so that no side is preferred. Both lockstepds are seen to carry it out before another
// one is named. From the moment when the new one may be in force somewhere, the old one comes back only in that way,
// too, and only with every volume in sync: one node may have gone on alone by the new one's word
// (docs/developer/management.md). Every step may be taken again.
#include <functional>
#include <mutex>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/replace_jobs.hpp"
#include "mgmt/control/witness_check.hpp"
#include "mgmt/control/witness_verdict.hpp"

namespace lockstep::mgmt {

constexpr const char* kWitnessKind = "pair.witness";
constexpr const char* kArbiterKind = "pair.arbiter";

/// With endpoints everything is said anew, and what is not said is not used. Without, what is not said stays.
struct WitnessWish {
  std::vector<std::string> endpoints{};
  std::optional<std::string> ca{}, certificate{}, key{}, user{}, password{};
};
[[nodiscard]] Arbiter arbiter_after(const WitnessWish& wish, const Arbiter& now);

struct WitnessHands {
  std::function<Outcome<NodeReport>(NodeSide)> look;  ///< of this very moment
  std::function<Outcome<WitnessTrial>(NodeSide, const Arbiter&)> try_endpoints;
  std::function<Outcome<void>(NodeSide)> try_fence;  ///< looks at the other node's power; changes nothing
  std::function<Outcome<RevisionId>(const std::string& summary, const Revisions::Edit&)> change;
  /// Removes the volumes' records there, by this node; refused where the cluster is `keep`.
  std::function<Outcome<void>(const std::string& endpoint, const replication::WitnessAccess&, const std::string& keep)>
      forget;
};
[[nodiscard]] WitnessHands hands_of(NodeCore& core, DataPlane& data_plane, PairHands pair);

class WitnessJobs {
 public:
  WitnessJobs(NodeCore& core, JobRunner& runner, WitnessHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  /// Both nodes ask the new one before anything is changed. Refusal invalid: what each endpoint answered.
  [[nodiscard]] Outcome<Job> change(const WitnessWish& wish);
  /// To this one, of whichever kind; a witness is asked in the same way.
  [[nodiscard]] Outcome<Job> change_arbiter(const Arbiter& next);

 private:
  struct Task;
  StepResult step(Job& job);
  StepResult take(Task& task);
  StepResult cancel(Task& task);
  StepResult overtaken(Task& task);
  StepResult stop(Task& task);
  StepResult stopped(Task& task);
  StepResult start(Task& task);
  StepResult learn(Task& task);
  StepResult clear(Task& task);
  StepResult give_up(Task& task, Refusal reason);
  StepResult end(Task& task, std::string message);
  [[nodiscard]] Outcome<Job> begin(const char* kind, const Configuration& configuration, const Arbiter& next);
  [[nodiscard]] Outcome<void> check_idle() const;
  [[nodiscard]] Outcome<void> may_begin(const Configuration& configuration, const Arbiter& next) const;
  [[nodiscard]] Outcome<void> try_fence_on_both(const Configuration& configuration) const;
  [[nodiscard]] Outcome<void> try_on_both(const Configuration& configuration, const Arbiter& next) const;
  [[nodiscard]] Learnt learnt_of(const BothNodes& both, const Arbiter& target) const;
  [[nodiscard]] Outcome<BothNodes> look(const Configuration& configuration) const;
  [[nodiscard]] std::string forget(const Task& task) const;

  NodeCore& core_;
  JobRunner& runner_;
  WitnessHands hands_;
  std::function<void()> poke_;
  std::mutex begin_mutex_;  ///< of two requests one is the first
};

}  // namespace lockstep::mgmt
