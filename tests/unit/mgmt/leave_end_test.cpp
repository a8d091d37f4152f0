// What becomes of who left, of what it could not be told, and of a pair that ends as a whole.
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/volume_service.hpp"
#include "tests/unit/mgmt/leaving_pair.hpp"

namespace lockstep::mgmt::leaving {
namespace {

TEST_F(LeaveJobsTest, WhatCouldNotBeToldIsSaid) {
  patience_ = std::chrono::seconds(0);
  others_.left = true;
  restart();
  others_.b_forgets = false;
  others_.forget_fails = true;
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  const Job done = job(begun->id);
  EXPECT_EQ(done.state, JobState::done) << done.message;
  EXPECT_NE(done.message.find("pair leave b` there"), std::string::npos) << done.message;
  EXPECT_NE(done.message.find("etcdctl del --prefix /lockstep/"), std::string::npos) << done.message;
}

// ---- the node that is out ----

TEST_F(LeaveJobsTest, ANodeWhoseCopiesAreInServiceDoesNotForgetItsPair) {
  const Uuid pair = configuration().pair->id;
  EXPECT_FALSE(jobs_->on_release(pair, false)) << "only the partner may say so";
  EXPECT_FALSE(jobs_->on_release(pair, true)) << "a copy is in service";
  turns();
  EXPECT_TRUE(configuration().pair);
  EXPECT_TRUE(jobs_->on_release(random_uuid(), false)) << "it is in no such pair";
}

TEST_F(LeaveJobsTest, ANodeThatIsOutForgetsItsPairWhereverItEnds) {
  const Uuid pair = configuration().pair->id;
  const auto tokens = configuration().tokens;
  const auto retired = core_->revisions.change(
      "Retired",
      [](Configuration& c) -> Outcome<void> {
        c.volumes.front().copy(kA).retired = true;
        return {};
      },
      nullptr);
  ASSERT_TRUE(retired);
  ASSERT_TRUE(core_->saved_file.exists());
  EXPECT_EQ(jobs_->on_release(pair, true).error().kind, RefusalKind::not_current) << "it is under way";
  for (int i = 0; i < 6; ++i) {
    runner_->turn();
    restart();
  }
  EXPECT_TRUE(jobs_->on_release(pair, false)) << "it is done";
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(configuration().tokens, tokens) << "nobody is locked out";
  EXPECT_FALSE(core_->saved_file.exists()) << "nor is it there to be recovered";
  EXPECT_FALSE(core_->forgets_pair());
  EXPECT_EQ(std::ranges::count(others_.orders, "discard"), 1);
  EXPECT_EQ(others_.orders.front(), "end lockstepd") << "a lockstepd takes a pair once";
}

TEST_F(LeaveJobsTest, WhatThePartnerSaysOfAPairThatWasLeftMeanwhileKeepsTheNodeFromNothing) {
  const Uuid pair = configuration().pair->id;
  EXPECT_TRUE(core_->note_standing(pair, true));
  EXPECT_FALSE(core_->note_standing(pair, true)) << "it is known";
  EXPECT_FALSE(core_->note_standing(pair, false));
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0) << "it is the partner again";
  core_->revisions.commit_new_epoch({random_uuid(), core_->revisions.state().head.n + 1, random_uuid()},
                                    "Left the pair", {});
  EXPECT_FALSE(core_->note_standing(pair, true)) << "it was asked before, and answered after";
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0);
  const auto another = core_->change("Another pair", [](Configuration& c) -> Outcome<void> {
    c.pair = Pair{};
    c.pair->id = random_uuid();
    return {};
  });
  EXPECT_TRUE(another) << another.error().detail;
  EXPECT_FALSE(core_->note_standing(pair, true)) << "nor does it count for another pair";
}

TEST_F(LeaveJobsTest, AMachineThatIsKnownToBeOutForgetsThePairWhenItIsToldTo) {
  const auto ask = [this](const std::string& confirm) {
    return jobs_->leave({.side = kA, .lost = false, .confirm = confirm});
  };
  EXPECT_EQ(ask("node-a").error().kind, RefusalKind::conflict) << "it is in the pair";
  core_->replaced.set_replaced_here(true);
  EXPECT_FALSE(leave()) << "it has no say over the other one";
  EXPECT_EQ(ask("node-a").error().kind, RefusalKind::conflict) << "its lockstepd serves: perhaps it is alone in that";
  others_.restarted = true;
  EXPECT_EQ(ask("").error().kind, RefusalKind::confirmation_needed);
  const auto begun = ask("node-a");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0);
}

// ---- the end of the pair ----

TEST_F(LeaveJobsTest, APairWithVolumesEndsOnlyWhenTheyAreToBeDeleted) {
  const auto kept = jobs_->dissolve({.delete_volumes = false, .confirm = "pair1"});
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().detail.find("--delete-volumes"), std::string::npos);
  EXPECT_EQ(jobs_->dissolve({.delete_volumes = true, .confirm = "node-b"}).error().kind,
            RefusalKind::confirmation_needed);
  runner_->teach("volume.delete", [this](Job& job) {
    EXPECT_EQ(configuration().volume(*job.volume)->lifecycle, Lifecycle::deleting);
    const auto gone = core_->revisions.change(
        "Gone",
        [&](Configuration& c) -> Outcome<void> {
          std::erase_if(c.volumes, [&](const Volume& v) { return v.id == *job.volume; });
          return {};
        },
        nullptr);
    EXPECT_TRUE(gone);
    return finish(job, "Deleted.");
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(others_.orders, (std::vector<std::string>{"release", "forget http://10.0.0.10:2379", "end lockstepd"}));
}

TEST_F(LeaveJobsTest, AVolumeThatIsMadeWhileADissolutionWaitsIsNotDeletedWithThePair) {
  for (const bool with_volume : {false, true}) {
    if (!with_volume) edit([](Configuration& c) { c.volumes.clear(); });
    const auto begun = jobs_->dissolve({.delete_volumes = with_volume, .confirm = "pair1"});
    ASSERT_TRUE(begun) << begun.error().detail;
    others_.b_away = true;
    turns(2);
    edit([&](Configuration& c) {
      c.volumes.push_back(ready_volume());
      c.volumes.back().name = with_volume ? "vm3" : "vm2";
      c.volumes.back().lun = with_volume ? 5 : 4;
      c.volumes.back().serial = c.volumes.back().name;
    });
    others_.b_away = false;
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed);
    EXPECT_NE(job(begun->id).message.find(with_volume ? "vm3 was made since" : "vm2 was made since"), std::string::npos)
        << job(begun->id).message;
    EXPECT_EQ(configuration().nodes.size(), 2U);
    ASSERT_FALSE(configuration().volumes.empty());
    for (const auto& v : configuration().volumes) EXPECT_EQ(v.lifecycle, Lifecycle::ready) << v.name;
  }
}

TEST_F(LeaveJobsTest, ADissolutionIsTakenBackUntilTheFirstVolumeIsMarked) {
  runner_->teach("volume.delete", [](Job&) { return StepResult::again_later; });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.b_away = true;
  turns(2);
  const auto cancelled = cancel_job(*core_, begun->id);
  ASSERT_TRUE(cancelled) << cancelled.error().detail;
  others_.b_away = false;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(configuration().volumes.at(0).lifecycle, Lifecycle::ready);
  const auto again = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(again) << again.error().detail;
  turns(2);
  ASSERT_EQ(configuration().volumes.at(0).lifecycle, Lifecycle::deleting);
  EXPECT_FALSE(cancel_job(*core_, again->id));
}

TEST_F(LeaveJobsTest, ADissolutionThatIsCancelledAsItsVolumesAreMarkedDoesNotSayThatTheyAreKept) {
  bool deletes = false;
  runner_->teach("volume.delete", [&](Job& job) {
    if (!deletes) return StepResult::again_later;
    edit([](Configuration& c) { c.volumes.clear(); });
    return finish(job, "Deleted.");
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.meanwhile = [&] { EXPECT_TRUE(cancel_job(*core_, begun->id)); };
  turns(1);
  others_.meanwhile = {};
  deletes = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).message.find("were being deleted by then"), std::string::npos) << job(begun->id).message;
  EXPECT_EQ(configuration().nodes.size(), 2U) << "that much is taken back";
}

/// It goes on when it is back, and would not hear of it.
TEST_F(LeaveJobsTest, AJobOfANodeThatIsAwayIsNotSaidToBeCancelled) {
  Job theirs = make_job(*core_, kReplaceKind, "make", "Makes a new copy.");
  theirs.runner = configuration().nodes[1].id;
  core_->jobs.put(theirs);
  EXPECT_FALSE(cancel_job(*core_, theirs.id));
  EXPECT_FALSE(is_cancelled(*core_, theirs));
}

TEST_F(LeaveJobsTest, ADissolutionWhoseVolumesAreGoneIsNotTakenBack) {
  runner_->teach("volume.delete", [&](Job& job) {
    edit([](Configuration& c) { c.volumes.clear(); });
    return finish(job, "Deleted.");
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.b_has_more = true;
  turns(6);
  ASSERT_EQ(job(begun->id).step, "decide") << job(begun->id).message;
  EXPECT_FALSE(cancel_job(*core_, begun->id));
}

TEST_F(LeaveJobsTest, ADissolutionDeletesEachVolumeOnceThoughTheClockIsSetBack) {
  runner_->teach("volume.delete", [](Job&) { return StepResult::again_later; });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  Job of_later = job(begun->id);
  of_later.created_ms += 3'600'000;
  core_->jobs.put(of_later);
  turns(10);
  const auto jobs = core_->jobs.newest(100);
  EXPECT_EQ(std::ranges::count(jobs, "volume.delete", &Job::kind), 1);
  EXPECT_EQ(configuration().volumes.at(0).lifecycle, Lifecycle::deleting);
}

TEST_F(LeaveJobsTest, NoVolumeIsMadeWhileThePairIsBeingDissolved) {
  VolumeService volumes(*core_, *runner_, []() -> Outcome<void> { return {}; });
  ASSERT_TRUE(jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"}));
  const auto made = volumes.create({.name = "vm2", .size = 1 << 30, .access = {}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().detail.find("being dissolved"), std::string::npos) << made.error().detail;
}

TEST_F(LeaveJobsTest, APairIsNotDissolvedWhenAVolumeCannotBeDeleted) {
  runner_->teach("volume.delete", [this](Job& job) {
    return fail(*core_, job, {RefusalKind::conflict, "Its disk hangs.", {}});
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).message.find("Its disk hangs."), std::string::npos) << job(begun->id).message;
  EXPECT_EQ(configuration().nodes.size(), 2U);
}

TEST_F(LeaveJobsTest, ADissolutionThatWaitsForALostNodeGivesWayToOneThatKeepsTheVolumes) {
  const Configuration before = configuration();
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  turns(2);
  others_.left = true;
  const auto let_go = leave(true);
  ASSERT_TRUE(let_go) << let_go.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).message.find("the volumes are kept"), std::string::npos) << job(begun->id).message;
  EXPECT_EQ(job(let_go->id).state, JobState::done) << job(let_go->id).message;
  expect_out(before);
  EXPECT_EQ(configuration().volumes.at(0).lifecycle, Lifecycle::ready);
}

TEST_F(LeaveJobsTest, WhatADissolutionHadBegunToDeleteIsNamedBeforeTheLostNodeIsLetGo) {
  runner_->teach("volume.delete", [](Job&) { return StepResult::again_later; });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  turns(2);
  ASSERT_EQ(configuration().volumes.at(0).lifecycle, Lifecycle::deleting);
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  const auto asked = leave(true, "");
  ASSERT_FALSE(asked);
  EXPECT_NE(asked.error().detail.find("Being deleted already, and not kept: vm1."), std::string::npos)
      << asked.error().detail;
  ASSERT_TRUE(leave(true));
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).message.find("deleted all the same"), std::string::npos) << job(begun->id).message;
  EXPECT_EQ(configuration().nodes.size(), 1U);
  EXPECT_TRUE(configuration().pair);
}

TEST_F(LeaveJobsTest, APairInWhichAnotherMachineTookAPlaceIsNotDissolvedByAnEarlierWord) {
  for (const char* step : {"delete", "decide", "release", "forget"}) {
    const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
    ASSERT_TRUE(begun) << begun.error().detail;
    replace_b(*begun, step);
    const Configuration before = configuration();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed) << step;
    EXPECT_NE(job(begun->id).message.find("Another machine took the place"), std::string::npos) << step;
    EXPECT_TRUE(others_.orders.empty()) << step << ": " << others_.orders.front();
    expect_as_before(before);
  }
}

TEST_F(LeaveJobsTest, ADissolutionIsNotBegunWhileTheNodesAgree) {
  ASSERT_TRUE(core_->revisions.force(kA, "Alone"));
  const auto refused = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("agreeing on the configuration"), std::string::npos) << refused.error().detail;
}

}  // namespace
}  // namespace lockstep::mgmt::leaving
