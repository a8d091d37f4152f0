// A node leaves its pair: when that is refused, what the job does in which order, and that a node which ends at any
// step of it goes on to one of two ends: the pair as it was, or a node that is alone and one that is out.
#include "tests/unit/mgmt/leaving_pair.hpp"

namespace lockstep::mgmt::leaving {
namespace {

TEST_F(LeaveJobsTest, CopiesLeaveAndAreLetGoBeforeItIsDecided) {
  const Configuration before = configuration();
  EXPECT_EQ(leave(false, "").error().kind, RefusalKind::confirmation_needed);
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  EXPECT_FALSE(leave()) << "a job is at work";
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(others_.orders, (std::vector<std::string>{"leave", "retire", "release", "forget http://10.0.0.10:2379"}));
  expect_out(before);
  restart();
  expect_out(before);
}

TEST_F(LeaveJobsTest, AnotherJobThatBeginsWhileBothNodesAreAskedComesFirst) {
  const Job other = make_job(*core_, kReplaceKind, "make", "");
  others_.while_asked = [&] { core_->jobs.put(other); };
  const auto refused = leave();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict) << refused.error().detail;
}

TEST_F(LeaveJobsTest, WhateverEndsWherever_TheJobGoesOnToOneOfTwoEnds) {
  const std::filesystem::path kept = folder_->path() / "kept";
  const Configuration before = configuration();
  core_.reset();
  std::filesystem::copy(folder_->path() / "mgmt", kept, std::filesystem::copy_options::recursive);
  for (int steps = 0; steps < 12; ++steps) {
    jobs_.reset();
    runner_.reset();
    core_.reset();
    std::filesystem::remove_all(folder_->path() / "mgmt");
    std::filesystem::remove_all(folder_->path() / "volumes");
    std::filesystem::copy(kept, folder_->path() / "mgmt", std::filesystem::copy_options::recursive);
    others_ = {};
    open_core();
    start();
    const auto begun = leave();
    ASSERT_TRUE(begun) << begun.error().detail;
    others_.b_away = true;  // nothing moves but what needs nobody
    turns(steps % 3);
    others_.b_away = false;
    turns(steps / 3);
    others_.b_away = steps % 2 == 0;
    restart();
    turns(2);
    others_.b_away = false;
    restart();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << steps << ": " << job(begun->id).message;
    expect_out(before);
  }
}

TEST_F(LeaveJobsTest, ARestartBetweenTheDecisionAndItsNoteDecidesNothingAnew) {
  const Configuration before = configuration();
  others_.b_forgets = false;
  const auto begun = leave();
  ASSERT_TRUE(begun);
  turns();
  Job at = job(begun->id);
  ASSERT_EQ(at.step, "release") << at.message;
  at.step = "decide";  // as it was stored last
  core_->jobs.put(at);
  const auto head = core_->revisions.state().head;
  restart();
  others_.b_forgets = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(core_->revisions.state().head, head);
  expect_out(before);
}

TEST_F(LeaveJobsTest, ANodeThatDoesNotServeAloneInTimeKeepsItsPartner) {
  patience_ = std::chrono::seconds(0);
  restart();
  const Configuration before = configuration();
  others_.never_alone = true;
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).error->detail.find("Nothing was changed"), std::string::npos);
  EXPECT_EQ(others_.orders.back(), "put back");
  expect_as_before(before);
}

/// The link is cut, and an operator has forced B: each has what the other lacks.
TEST_F(LeaveJobsTest, ANodeThatServesAVolumeAloneIsNotLetGoWithWhatItHas) {
  others_.left = others_.b_alone = true;
  const auto begun = leave();
  ASSERT_FALSE(begun) << "its copies would be deleted";
  EXPECT_NE(begun.error().detail.find("volume give-up vm1"), std::string::npos) << begun.error().detail;
}

/// It left, and A went away; B was forced; the job goes on when A is back.
TEST_F(LeaveJobsTest, ANodeThatWasForcedOnTheWayKeepsItsCopiesAndGoesOnServing) {
  for (const char* step : {"leave", "retire"}) {
    others_ = {};
    const Configuration before = configuration();
    const auto begun = leave();
    ASSERT_TRUE(begun) << begun.error().detail;
    Job at = job(begun->id);
    at.step = step;
    core_->jobs.put(at);
    others_.left = others_.b_alone = true;
    restart();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed) << step;
    EXPECT_NE(job(begun->id).message.find("volume give-up vm1"), std::string::npos) << job(begun->id).message;
    EXPECT_TRUE(others_.orders.empty()) << step << ": " << others_.orders.front();
    expect_as_before(before);
  }
}

/// A's disk fails while the copies leave: B alone has the volume.
TEST_F(LeaveJobsTest, TheWayBackTakesNoCopyOutOfServiceThatAloneServes) {
  patience_ = std::chrono::seconds(0);
  restart();
  const Configuration before = configuration();
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.a_failed = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(std::ranges::count(others_.orders, "retire"), 0) << "nobody would serve it";
  EXPECT_NE(job(begun->id).message.find("restarted"), std::string::npos) << job(begun->id).message;
  expect_as_before(before);
}

TEST_F(LeaveJobsTest, AChangeThatOneNodeLacksIsWaitedForBeforeItIsDecided) {
  const Configuration before = configuration();
  others_.b_has_more = true;
  const auto begun = leave();
  ASSERT_TRUE(begun);
  turns();
  EXPECT_EQ(job(begun->id).step, "decide");
  EXPECT_EQ(configuration().nodes.size(), 2U);
  others_.b_has_more = false;
  turns();
  expect_out(before);
}

TEST_F(LeaveJobsTest, ItIsRefusedWhileTheVolumesAreNotWhole) {
  others_.b_away = true;
  const auto away = leave();
  ASSERT_FALSE(away);
  EXPECT_NE(away.error().detail.find("--lost"), std::string::npos) << away.error().detail;
  others_.b_away = false;
  EXPECT_FALSE(jobs_->leave({.side = kA, .lost = false, .confirm = "node-a"})) << "who stays decides";
  Volume v = configuration().volumes.front();
  const Configuration c = configuration();
  CopyView stays{&c.nodes[0], *look(kA)}, leaves{&c.nodes[1], *look(kB)};
  EXPECT_FALSE(why_not_left(stays, leaves, v));
  EXPECT_TRUE(why_not_alone(stays, v)) << "the other one is a member";
  for (const char* state : {"syncing_target", "failed", "left", "suspended", "split_brain", "waiting"}) {
    stays.report.status->volumes.front().state = state;
    EXPECT_TRUE(why_not_left(stays, leaves, v)) << state;
    EXPECT_TRUE(why_not_alone(stays, v)) << state;
  }
  stays = {&c.nodes[0], *look(kA)};
  v.lifecycle = Lifecycle::creating;
  EXPECT_TRUE(why_not_left(stays, leaves, v));
}

TEST_F(LeaveJobsTest, OneThatIsLostIsLetGoByWhoeverServesAlone) {
  const Configuration before = configuration();
  others_.b_away = true;
  EXPECT_FALSE(leave(true)) << "it answers somebody";
  others_.b_answers_with_a_pair = false;
  const auto not_alone = leave(true);
  ASSERT_FALSE(not_alone) << "it may have what this node lacks";
  EXPECT_NE(not_alone.error().detail.find("force-solo vm1 --node node-a"), std::string::npos);
  others_.left = true;  // the arbiter let it go on
  EXPECT_EQ(leave(true, "").error().kind, RefusalKind::confirmation_needed);
  const auto begun = leave(true);
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(others_.orders, std::vector<std::string>{"forget http://10.0.0.10:2379"});
  EXPECT_GT(core_->revisions.state().head.n, 40) << "beyond whatever the lost node may have decided";
  expect_out(before);
}

/// Nobody is there to give it up.
TEST_F(LeaveJobsTest, OneThatIsLostInASplitIsLetGoWithItsChanges) {
  const Configuration before = configuration();
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  others_.split = true;
  EXPECT_FALSE(leave(true)) << "A's copy is no copy of its own alone";
  others_.left = true;
  const auto asked = leave(true);
  ASSERT_FALSE(asked) << "its changes go, too";
  EXPECT_EQ(asked.error().kind, RefusalKind::confirmation_needed);
  EXPECT_NE(
      asked.error().detail.find("Lost with node-b is what it has written alone, since both copies went on, of: vm1."),
      std::string::npos)
      << asked.error().detail;
  const auto begun = leave(true, "node-b without its changes");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  expect_out(before);
}

/// Nothing could be forced: its disk is broken, or not mounted.
TEST_F(LeaveJobsTest, OneThatIsLostIsLetGoAlsoWhereTheCopyHereIsOfNoUseAndThatCopyStays) {
  const Configuration before = configuration();
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  for (bool Others::*broken : {&Others::a_failed, &Others::a_missing}) {
    others_.a_failed = others_.a_missing = false;
    others_.*broken = true;
    const auto asked = leave(true);
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().kind, RefusalKind::confirmation_needed) << asked.error().detail;
    EXPECT_NE(asked.error().detail.find("goes on alone with 0 volumes"), std::string::npos) << asked.error().detail;
    EXPECT_NE(asked.error().detail.find("No copy that can be used is left of: vm1."), std::string::npos)
        << asked.error().detail;
    EXPECT_NE(asked.error().detail.find("Send `node-b without its changes`"), std::string::npos)
        << asked.error().detail;
  }
  const auto begun = leave(true, "node-b without its changes");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  expect_out(before);
  EXPECT_EQ(configuration().volumes.front().lifecycle, Lifecycle::ready) << "a disk may be mounted after all";
}

TEST_F(LeaveJobsTest, OneThatIsLostWhileTheArbiterIsChangedLeavesNoChangeBehindThatNobodyCanEnd) {
  const auto let_go = [](Configuration& c) -> Outcome<void> {
    c.pair->arbiter.changing = true;
    return {};
  };
  ASSERT_TRUE(core_->revisions.change("The witness is being changed", let_go, nullptr));
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  others_.left = true;
  const auto begun = leave(true);
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_FALSE(configuration().pair->arbiter.changing) << "it could not make a volume any more";
  EXPECT_TRUE(configuration().pair->arbiter.witness);
}

TEST_F(LeaveJobsTest, AJobThatWaitsForALostNodeGivesWayToOneThatLetsItGo) {
  const Configuration before = configuration();
  const auto first = leave();
  ASSERT_TRUE(first);
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  turns(2);
  others_.left = true;
  const auto second = leave(true);
  ASSERT_TRUE(second) << second.error().detail;
  turns();
  EXPECT_EQ(job(first->id).state, JobState::failed);
  EXPECT_EQ(job(second->id).state, JobState::done) << job(second->id).message;
  expect_out(before);
}

TEST_F(LeaveJobsTest, AMachineThatTookTheLeavingOnesPlaceKeepsItsCopies) {
  for (const char* step : {"leave", "retire", "detach", "decide"}) {
    others_ = {};
    const auto begun = leave(false, configuration().nodes[1].name);
    ASSERT_TRUE(begun) << begun.error().detail;
    replace_b(*begun, step);
    others_.left = true;
    const Configuration before = configuration();
    restart();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed) << step;
    EXPECT_NE(job(begun->id).message.find("Another machine took the place"), std::string::npos) << step;
    EXPECT_TRUE(others_.orders.empty()) << step << ": " << others_.orders.front();
    expect_as_before(before);
  }
}

TEST_F(LeaveJobsTest, TheWitnesssRecordsAreThoseOfTheMachineThatHasJoinedSince) {
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  replace_b(*begun, "forget");
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_NE(job(begun->id).message.find("node-c has joined"), std::string::npos) << job(begun->id).message;
  EXPECT_TRUE(others_.orders.empty()) << others_.orders.front();
}

TEST_F(LeaveJobsTest, AVolumeThatOnlyTheLostNodeHasIsNamedAndGoesWithIt) {
  edit([](Configuration& c) {
    Volume with_a_copy = ready_volume();
    with_a_copy.name = "vm2";
    with_a_copy.lun = 4;
    c.volumes.push_back(with_a_copy);
    c.volumes[0].copy(kA) = {.number = 1, .folder = "", .retired = true, .unmade = true};
  });
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  others_.left = true;
  const auto asked = leave(true, "");
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, RefusalKind::confirmation_needed) << asked.error().detail;
  EXPECT_NE(asked.error().detail.find("Lost with node-b, since this node has no copy of it yet: vm1."),
            std::string::npos)
      << asked.error().detail;
  const auto begun = leave(true);
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  ASSERT_EQ(configuration().volumes.size(), 2U);
  for (const auto& volume : configuration().volumes)
    EXPECT_EQ(volume.lifecycle, volume.name == "vm1" ? Lifecycle::deleting : Lifecycle::ready) << volume.name;
}

}  // namespace
}  // namespace lockstep::mgmt::leaving
