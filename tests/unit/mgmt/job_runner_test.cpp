// Which unfinished jobs are gone on with after a start.
#include "mgmt/control/job_runner.hpp"

#include <set>

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
  runner_.reset();
  runner_ = std::make_unique<JobRunner>(
      *core_, [](const Job&) { return true; }, [&time] { return time; });
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
  runner_ = std::make_unique<JobRunner>(
      *core_, [](const Job&) { return true; }, [&time] { return time; });
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

}  // namespace
}  // namespace lockstep::mgmt
