#pragma once
// Takes this node's unfinished jobs step by step, each step's result durable before the next, until they are done. A
// restart goes on where the last one stood; but with a database that was set back they end, since that is not where
// they stand. The partner is told of each step, so that it can tell of all jobs, too; what it could not be told is told
// again.
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "mgmt/control/node_core.hpp"
#include "mgmt/control/turn_loop.hpp"

namespace lockstep::mgmt {

enum class StepResult : std::uint8_t {
  again_now,    ///< the job's next step is to be taken
  again_later,  ///< nothing could be done; try the same step in a moment
  finished,     ///< the job's state says how
};

class JobRunner {
 public:
  using Step = std::function<StepResult(Job&)>;

  using Tell = std::function<bool(Job)>;  ///< false: it does not know of it

  /// `tell` is for tests; without one the partner's management is told. `time` is asked until it knows; without one the
  /// copy beside the volumes alone tells. For start-up, before anything can bring the database up to date.
  explicit JobRunner(NodeCore& core, Tell tell = {}, std::function<DatabaseTime()> time = {});
  /// For start-up: who takes the steps of jobs of this kind.
  void teach(const std::string& kind, Step step);
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }
  void poke() { loop_.poke(); }
  /// Stores a new job of this node's and runs it.
  void submit(Job job);

  void turn();  ///< a step of each job; the loop's body

 private:
  void release_what_was_found();
  void end_what_was_set_back();
  void end_if_abandoned(Job job) const;
  bool run(Job job);
  void store(const Job& job);
  bool tell(const Uuid& id);
  [[nodiscard]] bool tell_partner(Job job) const;
  void tell_again();

  NodeCore& core_;
  const Tell tell_;
  const std::function<DatabaseTime()> time_;
  std::set<Uuid> found_;      ///< jobs from before this start, until it is known whether the database is of the past
  bool forgot_pair_ = false;  ///< likewise: a mark from before this start
  std::map<std::string, Step> steps_;
  std::mutex tell_mutex_;  ///< guards untold_; held while the partner is told
  std::set<Uuid> untold_;  ///< jobs of which the partner may know less than this node
  std::chrono::steady_clock::time_point tell_again_at_;
  TurnLoop loop_;
};

/// A new job of this node's.
[[nodiscard]] Job make_job(const NodeCore& core, std::string kind, std::string step, std::string message);
/// Ends a job, one way or the other.
StepResult finish(Job& job, std::string message);
StepResult fail(NodeCore& core, Job& job, Refusal reason);

}  // namespace lockstep::mgmt
