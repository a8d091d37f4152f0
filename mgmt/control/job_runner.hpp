#pragma once
// Takes this node's unfinished jobs step by step, each step's result durable before the next, until they are done. A
// restart goes on where the last one stood.
#include <functional>
#include <map>
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

  explicit JobRunner(NodeCore& core);
  /// For start-up: who takes the steps of jobs of this kind.
  void teach(const std::string& kind, Step step);
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }
  void poke() { loop_.poke(); }
  /// Stores a new job of this node's and runs it.
  void submit(Job job);

  void turn();  ///< a step of each job; the loop's body

 private:
  bool run(Job job);
  void store(const Job& job);

  NodeCore& core_;
  std::map<std::string, Step> steps_;
  TurnLoop loop_;
};

/// A new job of this node's.
[[nodiscard]] Job make_job(const NodeCore& core, std::string kind, std::string step, std::string message);
/// Ends a job, one way or the other.
StepResult finish(Job& job, std::string message);
StepResult fail(NodeCore& core, Job& job, Refusal reason);

}  // namespace lockstep::mgmt
