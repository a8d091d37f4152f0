// Which unfinished jobs are gone on with after a start, what the partner is told of them, and which come first.
#include "mgmt/control/job_runner.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using test::JobTest;

class JobsAfterAStart : public JobTest {
 protected:
  void SetUp() override {
    open_core();
    make_whole_pair();
    mine_ = make_job(*core_, "counts", "count", "Counts.");
    mine_.parameters = R"({"secret": "hidden"})";
    theirs_ = make_job(*core_, "counts", "count", "Counts.");
    theirs_.runner = core_->configuration()->nodes.at(1).id;
    core_->jobs.put(mine_);
    core_->jobs.put(theirs_);
  }
  /// As if mgmt.db had been put back from a backup: the copy beside the volumes has a revision that it lacks.
  void set_database_back() {
    auto saved = core_->saved_file.read();
    ASSERT_TRUE(saved) << saved.error().detail;
    saved->revision.n += 3;
    ASSERT_TRUE(core_->saved_file.write(*saved));
  }
  /// A runner that hears of the database what `time` says at that moment.
  void start_at(const DatabaseTime& time) {
    runner_.reset();
    runner_ = std::make_unique<JobRunner>(
        *core_, [](const Job&) { return true; }, [&time] { return time; });
  }
  void start_and_take_turns() {
    open_core();
    runner_->teach("counts", [this](Job&) {
      ++steps_;
      return StepResult::again_later;
    });
    for (int i = 0; i < 3; ++i) runner_->turn();
  }

  Job mine_, theirs_;
  int steps_ = 0;
};

TEST_F(JobsAfterAStart, AJobGoesOnWhereItStood) {
  start_and_take_turns();
  EXPECT_FALSE(job(mine_.id).finished());
  EXPECT_EQ(steps_, 3);
}

TEST_F(JobsAfterAStart, WithADatabaseThatWasSetBackTheNodesOwnJobsEndAndNoStepIsTaken) {
  ASSERT_NO_FATAL_FAILURE(set_database_back());
  start_and_take_turns();
  EXPECT_EQ(steps_, 0);
  const Job ended = job(mine_.id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_NE(ended.message.find("was set back to a time at which this was under way"), std::string::npos);
  EXPECT_EQ(ended.parameters.find("hidden"), std::string::npos) << "what it worked with is nobody's business any more";
  EXPECT_FALSE(job(theirs_.id).finished()) << "the partner's database was not set back";
  const auto events = core_->events.list({}, 1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, "job.failed");
}

TEST_F(JobsAfterAStart, WithADatabaseThatWasSetBackNothingIsForgottenThatTheNodeWasAboutToForget) {
  core_->settings.set(kForgetsPair, "1");
  ASSERT_NO_FATAL_FAILURE(set_database_back());
  start_and_take_turns();
  EXPECT_FALSE(core_->forgets_pair());
}

TEST_F(JobsAfterAStart, JobsFromBeforeTheStartWaitUntilTheTimeOfTheDatabaseIsKnown) {
  DatabaseTime time = DatabaseTime::unknown;
  start_at(time);
  std::set<Uuid> run;
  runner_->teach("counts", [&run](Job& job) {
    run.insert(job.id);
    return StepResult::again_later;
  });
  const Job since = make_job(*core_, "counts", "count", "Counts.");
  core_->jobs.put(since);
  runner_->turn();
  EXPECT_EQ(run, std::set<Uuid>{since.id});
  time = DatabaseTime::past;
  runner_->turn();
  EXPECT_EQ(run, std::set<Uuid>{since.id});
  EXPECT_EQ(job(mine_.id).state, JobState::failed);
  EXPECT_FALSE(job(since.id).finished());
}

TEST_F(JobsAfterAStart, JobsFromBeforeTheStartGoOnWithADatabaseOfNow) {
  DatabaseTime time = DatabaseTime::unknown;
  start_at(time);
  runner_->teach("counts", [this](Job&) {
    ++steps_;
    return StepResult::again_later;
  });
  runner_->turn();
  EXPECT_EQ(steps_, 0);
  time = DatabaseTime::now;
  runner_->turn();
  EXPECT_EQ(steps_, 1);
}

/// As where the partner's management is silent for longer than it is waited for.
TEST_F(JobsAfterAStart, WhatGoesOnForWantOfAWordEndsWhenTheDatabaseTurnsOutToBeOfThePast) {
  DatabaseTime time = DatabaseTime::presumed;
  start_at(time);
  runner_->teach("counts", [this](Job&) {
    ++steps_;
    return StepResult::again_later;
  });
  const Job since = make_job(*core_, "counts", "count", "Counts.");
  core_->jobs.put(since);
  runner_->turn();
  EXPECT_EQ(steps_, 2);
  time = DatabaseTime::past;
  runner_->turn();
  EXPECT_EQ(job(mine_.id).state, JobState::failed);
  EXPECT_FALSE(job(since.id).finished());
  EXPECT_EQ(steps_, 3);
}

/// As an import, which would write over what has come into service since.
TEST_F(JobsAfterAStart, WhatHasToBeSureHasNoStepBeforeTheDatabaseIsKnownToBeOfNow) {
  for (const DatabaseTime then : {DatabaseTime::past, DatabaseTime::now}) {
    DatabaseTime time = DatabaseTime::presumed;
    Job before = make_job(*core_, "writes", "copy", "Copies.");
    core_->jobs.put(before);
    start_at(time);
    std::set<Uuid> at_work;
    runner_->teach_sure("writes", [&at_work](Job& job) {
      at_work.insert(job.id);
      return StepResult::again_later;
    });
    const Job since = make_job(*core_, "writes", "copy", "Copies.");
    core_->jobs.put(since);
    for (int turn = 0; turn < 3; ++turn) runner_->turn();
    EXPECT_EQ(at_work, std::set<Uuid>{since.id});
    EXPECT_NE(job(before.id).message.find("Waits until the other node's management answers"), std::string::npos);
    time = then;
    runner_->turn();
    EXPECT_EQ(job(before.id).state == JobState::failed, then == DatabaseTime::past);
    EXPECT_EQ(at_work.contains(before.id), then == DatabaseTime::now);
    for (const Job& each : {before, since}) {
      Job over = job(each.id);
      over.state = JobState::done;
      core_->jobs.put(over);
    }
  }
}

TEST_F(JobsAfterAStart, WhatGoesOnForWantOfAWordIsNotAskedForOnceTheDatabaseIsKnownToBeOfNow) {
  DatabaseTime time = DatabaseTime::presumed;
  int asked = 0;
  runner_ = std::make_unique<JobRunner>(
      *core_, [](const Job&) { return true; },
      [&] {
        ++asked;
        return time;
      });
  runner_->turn();
  time = DatabaseTime::now;
  runner_->turn();
  const int then = asked;
  time = DatabaseTime::past;
  runner_->turn();
  EXPECT_EQ(asked, then);
  EXPECT_FALSE(job(mine_.id).finished());
}

using namespace std::chrono_literals;

/// The partner, as the runner's thread for it meets it.
class Hearer {
 public:
  JobRunner::Tell tell() {
    return [this](const Job& job) {
      std::unique_lock lock(mutex_);
      ++asked_;
      if (silent_) changed_.wait_for(lock, 3s, [this] { return !silent_; });
      if (!silent_ && !away_) heard_[job.id] = job.state;
      return !silent_ && !away_;
    };
  }
  void is_silent(bool silent) {
    const std::lock_guard lock(mutex_);
    silent_ = silent;
    changed_.notify_all();
  }
  void is_away(bool away) {
    const std::lock_guard lock(mutex_);
    away_ = away;
  }
  [[nodiscard]] bool has_heard_of(const Uuid& id) {
    const std::lock_guard lock(mutex_);
    return heard_.contains(id);
  }
  [[nodiscard]] bool heard_that_it_ended(const Uuid& id) {
    const std::lock_guard lock(mutex_);
    return heard_.contains(id) && heard_[id] == JobState::done;
  }
  [[nodiscard]] int asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool silent_ = false, away_ = false;
  int asked_ = 0;
  std::map<Uuid, JobState> heard_;
};

template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return condition();
}

class JobsAndThePartner : public JobTest {
 protected:
  void SetUp() override {
    open_core();
    make_pair();
    runner_ = std::make_unique<JobRunner>(*core_, partner_.tell());
    runner_->teach("short", [](Job& job) { return finish(job, "Done."); });
    runner_->start();
  }
  void TearDown() override {
    partner_.is_silent(false);
    runner_.reset();
  }
  Uuid submit() {
    const Job job = make_job(*core_, "short", "work", "Works.");
    runner_->submit(job);
    return job.id;
  }
  Hearer partner_;
};

TEST_F(JobsAndThePartner, APartnerThatAnswersNobodyHoldsUpNeitherStepsNorRequests) {
  partner_.is_silent(true);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Uuid> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back(submit());
  for (const auto& id : jobs) EXPECT_TRUE(comes_true([&] { return job(id).finished(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s) << "each was waited for";
  partner_.is_silent(false);
  for (const auto& id : jobs) EXPECT_TRUE(comes_true([&] { return partner_.heard_that_it_ended(id); }));
}

TEST_F(JobsAndThePartner, WhoAskedForAJobFindsItOnThePartnerToo) {
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(partner_.has_heard_of(submit())) << i;
}

TEST_F(JobsAndThePartner, OneThatIsBackIsToldAgainBeforeWhoAskedThroughItIsAnswered) {
  partner_.is_away(true);
  const Uuid missed = submit();
  EXPECT_TRUE(comes_true([&] { return job(missed).finished() && partner_.asked() > 0; }));
  EXPECT_FALSE(partner_.has_heard_of(missed));
  partner_.is_away(false);
  runner_->partner_is_there();  // it has passed a request on
  EXPECT_TRUE(partner_.has_heard_of(submit()));
  EXPECT_TRUE(comes_true([&] { return partner_.heard_that_it_ended(missed); }));
}

class JobsThatComeFirst : public JobTest {
 protected:
  void SetUp() override {
    open_core();
    make_pair();
    runner_->teach("slow", [this](Job& job) {
      taken_.push_back(job.message);
      if (const auto once = std::exchange(during_slow_, {})) once();
      return StepResult::again_later;
    });
    runner_->teach_first("order", [this](Job& job) {
      taken_.push_back(job.message);
      return finish(job, job.message);
    });
  }
  Job named(const char* kind, const char* name, std::int64_t created_ms) {
    Job job = make_job(*core_, kind, "work", name);
    job.created_ms = created_ms;
    return job;
  }
  std::vector<std::string> taken_;
  std::function<void()> during_slow_;
};

TEST_F(JobsThatComeFirst, AnOrderWaitsForNoOlderJob) {
  runner_->submit(named("slow", "slow 1", 1));
  runner_->submit(named("order", "order", 2));
  runner_->turn();
  EXPECT_EQ(taken_, (std::vector<std::string>{"order", "slow 1"}));
}

TEST_F(JobsThatComeFirst, OneThatComesDuringAStepIsTheNext) {
  runner_->submit(named("slow", "slow 1", 1));
  runner_->submit(named("slow", "slow 2", 2));
  during_slow_ = [this] { runner_->submit(named("order", "order", 3)); };
  runner_->turn();
  EXPECT_EQ(taken_, (std::vector<std::string>{"slow 1", "order", "slow 2"}));
}

}  // namespace
}  // namespace lockstep::mgmt
