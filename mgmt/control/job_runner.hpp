#pragma once
// Takes this node's unfinished jobs step by step, each step's result durable before the next, until they are done. A
// restart goes on where the last one stood.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

enum class StepResult : std::uint8_t {
  again_now,    ///< the job's next step is to be taken
  again_later,  ///< nothing could be done; try the same step in a moment
  finished,     ///< the job's state says how
};

class JobRunner {
 public:
  using Step = std::function<StepResult(Job&)>;

  explicit JobRunner(NodeCore& core) : core_(core) {}
  ~JobRunner();
  /// For start-up: who takes the steps of jobs of this kind.
  void teach(const std::string& kind, Step step);
  void start();
  void stop();
  void poke();
  /// Stores a new job of this node's and runs it.
  void submit(Job job);

  void turn();  ///< a step of each job; the loop's body

 private:
  void loop();
  bool run(Job job);
  void store(const Job& job);

  NodeCore& core_;
  std::map<std::string, Step> steps_;
  std::mutex mutex_;
  std::condition_variable poked_;
  bool poke_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

/// A new job of this node's.
[[nodiscard]] Job make_job(const NodeCore& core, std::string kind, std::string step, std::string message);
/// Ends a job, one way or the other.
StepResult finish(Job& job, std::string message);
StepResult fail(NodeCore& core, Job& job, Refusal reason);

}  // namespace lockstep::mgmt
