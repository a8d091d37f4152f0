#pragma once
// A new copy of a volume in the place of one that is lost, or is to be moved, while the other copy serves:
//
//   [leave ->] make -> retire -> detach -> publish -> sync [-> clear] -> done
//   a failure before publish -> back_out -> back_in -> unmake -> failed
//
// The new copy is made beside the old one, with the next number, of the epoch in which the survivor is alone: it is no
// member of that, so that it serves nothing and wins nothing before it was brought up to date
// (docs/developer/mirror.md). Only when lockstepd has let go of the old copy, and the survivor was seen alone after
// that, does the configuration name the new one. From then on nothing is taken back. Every step may be taken again.
#include <functional>

#include <nlohmann/json_fwd.hpp>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/replace_verdict.hpp"
#include "mgmt/control/volume_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kReplaceKind = "replica.replace";

struct ReplaceWish {
  NodeSide side = NodeSide::a;  ///< whose copy is made anew
  std::string store;            ///< folder on that node; empty: where the copy is
  std::string confirm;          ///< the volume's name, for a copy that is not lost
};

/// How the steps reach the two nodes, whichever of them they run on.
struct PairHands {
  std::function<Outcome<NodeReport>(NodeSide)> look;  ///< of this very moment
  std::function<Outcome<void>(NodeSide, const ReplicaOrder&)> carry_out;
  std::function<std::optional<NodeReport>(NodeSide)> last_seen;  ///< nothing: it can't be reached
  std::function<Outcome<RevisionId>(const std::string& summary, const Revisions::Edit&)> change;
};
[[nodiscard]] PairHands hands_of(NodeCore& core, ReplicaAgent& agent, std::function<PairReports()> reports);

class ReplaceJobs {
 public:
  ReplaceJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  [[nodiscard]] Outcome<Job> replace(const Uuid& id, const ReplaceWish& wish);
  /// Of a volume that was made while that node was away.
  void make_first(const Volume& volume, NodeSide side);

 private:
  struct Task;
  [[nodiscard]] Outcome<void> check_free(const Uuid& volume) const;
  StepResult step(Job& job);
  StepResult end_without(Task& task);
  StepResult take(Task& task);
  StepResult cancel(Task& task);
  StepResult leave(Task& task);
  StepResult make(Task& task);
  StepResult retire(Task& task);
  StepResult detach(Task& task);
  StepResult publish(Task& task);
  StepResult sync(Task& task);
  StepResult clear(Task& task);
  StepResult back_out(Task& task);
  StepResult back_in(Task& task);
  StepResult unmake(Task& task);
  StepResult give_up(Task& task, Refusal reason);
  [[nodiscard]] Outcome<CopyView> look(const Configuration& configuration, NodeSide side) const;
  [[nodiscard]] CopyView last_seen(const Configuration& configuration, NodeSide side) const;
  [[nodiscard]] Outcome<LoneEpoch> survivor_alone(const Task& task) const;
  [[nodiscard]] Outcome<bool> is_detached(const Task& task) const;
  [[nodiscard]] std::optional<std::string> why_not_dropped(const Task& task) const;
  [[nodiscard]] bool has_come_back(const Task& task) const;
  [[nodiscard]] bool out_of_patience(const Task& task) const;
  Outcome<RevisionId> change_copy(const Task& task, const std::string& summary, const std::function<void(Copy&)>& edit);

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  PairHands hands_;
  std::function<void()> poke_;
};

}  // namespace lockstep::mgmt
