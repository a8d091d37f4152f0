#include "mgmt/control/job_runner.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr auto kRunnerTurn = std::chrono::milliseconds(300);
constexpr int kStepsATurn = 16;  // so that one job can't keep the others waiting for ever
constexpr auto kTellPartnerAgain = std::chrono::seconds(1);
constexpr auto kKnownWithin = std::chrono::seconds(2);
constexpr std::int64_t kTellAfterStart = 50;  // jobs; what was told of them before is not known

}  // namespace

JobRunner::JobRunner(NodeCore& core, Tell tell, std::function<DatabaseTime()> time)
    : core_(core),
      tell_(tell ? std::move(tell) : [this](Job job) { return tell_partner(std::move(job)); }),
      time_(time ? std::move(time) : [this] { return core_.database_time(); }),
      teller_("Telling the partner of jobs", kTellPartnerAgain, [this] { tell_turn(); }),
      loop_("The job runner", kRunnerTurn, [this] { turn(); }) {
  for (const auto& job : core_.jobs.newest(kTellAfterStart))
    if (job.runner == core_.node_id) mark_untold(job.id);
  for (const auto& job : core_.jobs.unfinished())
    if (job.runner == core_.node_id) found_.insert(job.id);
  forgot_pair_ = core_.forgets_pair();
  release_what_was_found();
}

/// A database of the past has jobs of the past: what they were at work on may have been in use for long, an import
/// would write over it, and a way back delete it. They wait until it is known that it is of now.
void JobRunner::release_what_was_found() {
  if (found_.empty() && released_.empty() && !forgot_pair_) return;
  const DatabaseTime time = time_();
  if (time == DatabaseTime::unknown) return;
  released_.merge(found_);
  found_.clear();
  if (time == DatabaseTime::presumed) return;  // they go on, until it is known after all
  if (time == DatabaseTime::past) end_what_was_set_back();
  released_.clear();
  forgot_pair_ = false;
}

void JobRunner::end_what_was_set_back() {
  for (auto& job : core_.jobs.unfinished()) {
    if (!released_.contains(job.id)) continue;
    (void)fail(core_, job,
               {RefusalKind::conflict,
                "The database of this node's management was set back to a time at which this was under way. How it "
                "ended is not known, and it is not repeated: look at what it was at work on, and ask for it again if "
                "it is still wanted.",
                {}});
    job.parameters = "{}";  // nobody works with it any more, and there may be secrets in it
    core_.jobs.put(job);
    forget_cancel(core_, job);
    mark_untold(job.id);
  }
  if (forgot_pair_) core_.settings.erase(kForgetsPair);  // its job has ended, and the node was in the pair after that
}

void JobRunner::teach(const std::string& kind, Step step) { steps_[kind] = std::move(step); }

void JobRunner::teach_sure(const std::string& kind, Step step) {
  sure_.insert(kind);
  teach(kind, std::move(step));
}

void JobRunner::teach_first(const std::string& kind, Step step) {
  first_.insert(kind);
  teach(kind, std::move(step));
}

void JobRunner::start() {
  partner_is_there();  // until it is found not to be
  teller_.start();
  loop_.start();
}

void JobRunner::stop() {
  loop_.stop();
  teller_.stop();
}

void JobRunner::submit(Job job) {
  store(job);
  if (first_.contains(job.kind)) first_came_ = true;
  poke();
  wait_until_known(job.id);
}

void JobRunner::store(const Job& job) {
  core_.jobs.put(job);
  mark_untold(job.id);
}

// ---- what the partner is told ----

void JobRunner::mark_untold(const Uuid& id) {
  {
    const std::lock_guard lock(untold_mutex_);
    untold_[id].mark = ++marks_;
  }
  teller_.poke();
}

void JobRunner::partner_is_there() {
  const std::lock_guard lock(untold_mutex_);
  partner_hears_ = true;
  ++heard_of_;
}

/// One that does not answer is waited for once, and not again before it is heard of.
void JobRunner::wait_until_known(const Uuid& id) {
  std::unique_lock lock(untold_mutex_);
  const auto known = [&] {
    const auto untold = untold_.find(id);
    return untold == untold_.end() || untold->second.known;
  };
  if (!told_.wait_for(lock, kKnownWithin, [&] { return !partner_hears_ || known(); })) partner_hears_ = false;
}

void JobRunner::tell_turn() {
  std::map<Uuid, Untold> untold;
  {
    const std::lock_guard lock(untold_mutex_);
    untold = untold_;
  }
  for (const auto& [id, what] : untold)
    if (teller_.stopping() || !tell(id, what.mark)) return;
}

// What is told is the newest there is, and by one thread: the last word is never an old one.
bool JobRunner::tell(const Uuid& id, std::uint64_t mark) {
  std::uint64_t heard_of = 0;
  {
    const std::lock_guard lock(untold_mutex_);
    heard_of = heard_of_;
  }
  auto job = core_.jobs.get(id);
  const bool told = !job || tell_(std::move(*job));
  {
    const std::lock_guard lock(untold_mutex_);
    if (told || heard_of == heard_of_) partner_hears_ = told;
    Untold& what = untold_.at(id);
    what.known = what.known || told;
    if (told && what.mark == mark) untold_.erase(id);  // else more was stored meanwhile
  }
  told_.notify_all();
  return told;
}

bool JobRunner::tell_partner(Job job) const {
  const auto peer = core_.peer();
  job.parameters = "{}";  // it is only to tell of it, too: what the steps work with, secrets among it, stays here
  return !peer || peer->put_job(job).has_value();
}

// ---- the turns ----

void JobRunner::turn() {
  release_what_was_found();
  run_those_that_come_first();
  for (auto& job : core_.jobs.unfinished()) {
    if (loop_.stopping()) return;
    if (first_.contains(job.kind)) continue;
    if (first_came_) run_those_that_come_first();
    take_turn_of(std::move(job));
  }
}

/// A step may take half a minute, as where a disk hangs, and an operator's order is good for five only.
void JobRunner::run_those_that_come_first() {
  first_came_ = false;
  for (auto& job : core_.jobs.unfinished()) {
    if (loop_.stopping()) return;
    if (first_.contains(job.kind)) take_turn_of(std::move(job));
  }
}

void JobRunner::take_turn_of(Job job) {
  if (job.runner != core_.node_id) return end_if_abandoned(std::move(job));
  if (found_.contains(job.id)) return;
  if (released_.contains(job.id) && sure_.contains(job.kind)) return wait_for_the_partners_word(std::move(job));
  if (run(std::move(job))) poke();
}

void JobRunner::wait_for_the_partners_word(Job job) {
  const std::string why =
      "Waits until the other node's management answers, and says that this node's database is not of the past.";
  if (job.message == why) return;
  job.message = why;
  store(job);
}

/// Nobody goes on with a job of a node that was lost and is out of the pair, and what it was at work on is free.
void JobRunner::end_if_abandoned(Job job) const {
  const auto configuration = core_.configuration();
  const bool in_pair = std::ranges::find(configuration->nodes, job.runner, &Node::id) != configuration->nodes.end();
  if (!configuration->pair || in_pair) return;
  (void)fail(core_, job, {RefusalKind::not_found, "The node that was at work on it is not in the pair any more.", {}});
  core_.jobs.put(job);
}

// True when there is more to do at once.
bool JobRunner::run(Job job) {
  const auto step = steps_.find(job.kind);
  if (step == steps_.end()) return false;
  for (int i = 0; i < kStepsATurn; ++i) {
    const Job before = job;
    StepResult result = StepResult::again_later;
    try {
      result = step->second(job);
    } catch (const std::exception& e) {
      log_error(fmt::format("{}, step {}: {}", job.kind, job.step, e.what()));
      job.message = fmt::format("{}: tries again.", e.what());
    }
    const bool idle = result == StepResult::again_later && job.message == before.message;
    if (job.state == JobState::pending && !idle) job.state = JobState::running;
    const bool moved = job.step != before.step || job.state != before.state || job.message != before.message ||
                       job.progress != before.progress;
    if (moved) store(job);
    if (result != StepResult::again_now) return false;
    if (loop_.stopping()) return false;
  }
  return true;
}

Job make_job(const NodeCore& core, std::string kind, std::string step, std::string message) {
  Job job;
  job.id = random_uuid();
  job.kind = std::move(kind);
  job.runner = core.node_id;
  job.step = std::move(step);
  job.message = std::move(message);
  job.parameters = "{}";
  job.created_ms = wall_clock_ms();
  return job;
}

StepResult finish(Job& job, std::string message) {
  job.state = JobState::done;
  job.step = "done";
  job.progress = 1;
  job.message = std::move(message);
  job.finished_ms = wall_clock_ms();
  return StepResult::finished;
}

StepResult fail(NodeCore& core, Job& job, Refusal reason) {
  job.state = JobState::failed;
  job.step = "failed";
  job.finished_ms = wall_clock_ms();
  job.message = reason.detail;
  core.events.append({.kind = "job.failed",
                      .severity = Severity::warning,
                      .side = core.side(),
                      .volume = job.volume,
                      .message = fmt::format("{}: {}", job.kind, reason.detail)});
  job.error = std::move(reason);
  return StepResult::finished;
}

}  // namespace lockstep::mgmt
