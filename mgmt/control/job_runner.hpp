#pragma once
// Takes this node's unfinished jobs step by step, each step's result durable before the next, until they are done. A
// restart goes on where the last one stood; but with a database that was set back they end, since that is not where
// they stand. The partner is told of them by a thread of its own, so that it can tell of all jobs, too, and so that one
// that is away holds up no step; what it could not be told is told again.
#include <atomic>
#include <chrono>
#include <condition_variable>
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
  /// The same of a kind of which a job from before this start has no step before the database is known to be of now.
  void teach_sure(const std::string& kind, Step step);
  /// The same of a kind whose jobs wait for no others than one that has its step at that moment.
  void teach_first(const std::string& kind, Step step);
  void start();
  void stop();
  void poke() { loop_.poke(); }
  /// Stores a new job of this node's and runs it. The partner knows of it then, unless it does not answer: who asked by
  /// way of the partner looks for the job there.
  void submit(Job job);
  /// It was just heard of: the next submit() waits for it again.
  void partner_is_there();

  void turn();       ///< a step of each job; the loop's body
  void tell_turn();  ///< tells the partner what it lacks, until it does not hear; the other loop's body

 private:
  void release_what_was_found();
  void end_what_was_set_back();
  void end_if_abandoned(Job job) const;
  void run_those_that_come_first();
  void take_turn_of(Job job);
  void wait_for_the_partners_word(Job job);
  bool run(Job job);
  void store(const Job& job);
  void mark_untold(const Uuid& id);
  bool tell(const Uuid& id, std::uint64_t mark);
  [[nodiscard]] bool tell_partner(Job job) const;
  void wait_until_known(const Uuid& id);

  NodeCore& core_;
  const Tell tell_;
  const std::function<DatabaseTime()> time_;
  std::set<Uuid> found_;      ///< jobs from before this start, while they wait for the time of the database
  std::set<Uuid> released_;   ///< those that wait no more, until it is known whether the database is of the past
  bool forgot_pair_ = false;  ///< likewise: a mark from before this start
  std::map<std::string, Step> steps_;
  std::set<std::string> sure_;            ///< kinds
  std::set<std::string> first_;           ///< kinds
  std::atomic<bool> first_came_ = false;  ///< a job of such a kind, since they were looked at
  struct Untold {
    std::uint64_t mark = 0;  ///< of what was stored last
    bool known = false;      ///< the partner knows of the job, but not of that
  };
  std::mutex untold_mutex_;  ///< guards the next five; not held while the partner is told
  std::condition_variable told_;
  std::map<Uuid, Untold> untold_;  ///< jobs of which the partner may know less than this node
  std::uint64_t marks_ = 0;
  bool partner_hears_ = false;  ///< as far as was last seen
  std::uint64_t heard_of_ = 0;  ///< how often it was, other than by telling it
  TurnLoop teller_;
  TurnLoop loop_;  ///< pokes the teller
};

/// A new job of this node's.
[[nodiscard]] Job make_job(const NodeCore& core, std::string kind, std::string step, std::string message);
/// Ends a job, one way or the other.
StepResult finish(Job& job, std::string message);
StepResult fail(NodeCore& core, Job& job, Refusal reason);

}  // namespace lockstep::mgmt
