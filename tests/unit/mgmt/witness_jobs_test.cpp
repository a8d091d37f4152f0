// A pair in use gets another witness: when that is refused, and what the job does in which order.
#include "tests/unit/mgmt/witnessed_pair.hpp"

namespace lockstep::mgmt::witnessed {
namespace {

TEST_F(WitnessJobsTest, BothNodesLetGoOfTheOldOneBeforeEitherIsToldOfTheNewOne) {
  const auto begun = change();
  ASSERT_TRUE(begun) << begun.error().detail;
  EXPECT_FALSE(change()) << "a job is at work";
  turns();
  const Job done = job(begun->id);
  EXPECT_EQ(done.state, JobState::done) << done.message;
  EXPECT_EQ(plane_.told, (std::vector<std::string>{"a none", "b none", "a " + kNew, "b " + kNew}));
  EXPECT_EQ(plane_.nodes[0].knows, kNew);
  EXPECT_EQ(plane_.nodes[1].knows, kNew);
  EXPECT_EQ(plane_.records, std::set<std::string>{kNew}) << "the old one's are gone";
  EXPECT_NE(done.message.find("were removed"), std::string::npos) << done.message;
  EXPECT_EQ(done.parameters, "{}") << "nobody needs the secrets any more";
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kNew});
  EXPECT_FALSE(arbiter().changing);
}

TEST_F(WitnessJobsTest, ItWaitsForALockstepdThatWasNotToldAndIsNotDoneBeforeBothKnowTheNewOne) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  plane_.nodes[1].is_told = false;
  turns();
  EXPECT_EQ(job(begun->id).step, "stopped");
  EXPECT_EQ(job(begun->id).message, "lockstepd on node-b has yet to be told.");
  plane_.nodes[1].is_told = true;
  turn();
  plane_.nodes[1].is_told = false;
  turns();
  EXPECT_EQ(job(begun->id).step, "learn");
  EXPECT_EQ(plane_.nodes[0].knows, kNew);
  plane_.nodes[1].is_told = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
}

TEST_F(WitnessJobsTest, NothingIsBegunWhileANodeIsAwayOrAVolumeNotInSync) {
  const auto refused = [this](RefusalKind kind, const std::string& words) {
    const auto begun = change();
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind, kind);
    EXPECT_NE(begun.error().detail.find(words), std::string::npos) << begun.error().detail;
    EXPECT_NE(begun.error().detail.find("both nodes"), std::string::npos) << begun.error().detail;
    EXPECT_TRUE(core_->jobs.unfinished().empty());
    EXPECT_FALSE(arbiter().changing);
  };
  plane_.b_answers = false;
  refused(RefusalKind::not_current, "The partner cannot be reached.");
  plane_.b_answers = true;
  plane_.in_sync = false;
  refused(RefusalKind::conflict, "vm1 on node-a is suspended, not in sync.");
  plane_.nodes[1].runs = false;
  refused(RefusalKind::data_plane_away, "lockstepd does not answer.");
}

TEST_F(WitnessJobsTest, AWitnessThatCannotBeUsedIsRefusedEndpointByEndpoint) {
  plane_.dead = {kNew};
  const auto away = change();
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().kind, RefusalKind::invalid);
  ASSERT_EQ(away.error().fields.size(), 2u);
  EXPECT_EQ(away.error().fields[0].pointer, "/endpoints/0");
  EXPECT_EQ(away.error().fields[0].detail, "node-a: " + kNew + ": no route to it");
  EXPECT_EQ(away.error().fields[1].detail, "node-b: " + kNew + ": no route to it");
  const auto one_answers = jobs_->change({.endpoints = {kNew, kOld}});
  EXPECT_TRUE(one_answers) << one_answers.error().detail;
}

TEST_F(WitnessJobsTest, WhatIsWrongWithTheRequestIsNamed) {
  const auto plain = jobs_->change({.endpoints = {}, .ca = "x"});
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().fields.at(0).pointer, "/ca");
  const auto same = change(kOld);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().kind, RefusalKind::conflict);
}

TEST_F(WitnessJobsTest, ANodeThatDiesWhileNoneIsAskedBringsTheOldOneBackSoonSoThatTheOtherGoesOn) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();  // both have let go
  ASSERT_TRUE(arbiter().changing);
  plane_.nodes[1].runs = false;
  turns();
  EXPECT_FALSE(plane_.nodes[0].alone) << "nobody is asked";
  age(begun->id);
  turns();
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kOld});
  EXPECT_TRUE(plane_.nodes[0].alone) << "by the word of the old one";
  plane_.come_back();
  turns();
  const Job failed = job(begun->id);
  EXPECT_EQ(failed.state, JobState::failed) << failed.message;
  EXPECT_NE(failed.error->detail.find("as before"), std::string::npos) << failed.error->detail;
}

/// A node may be alone by the new one's word: the old one must not be asked.
TEST_F(WitnessJobsTest, AfterTheNewOneWasNamedTheOldOneComesBackOnlyInSync) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();
  turn();  // both ask the new one
  ASSERT_EQ(plane_.nodes[0].asks, kNew);
  plane_.nodes[1].runs = false;
  turns();
  ASSERT_TRUE(plane_.nodes[0].alone);
  age(begun->id);
  turns();
  EXPECT_EQ(plane_.nodes[0].asks, kNew) << "late, and all the same";
  (void)cancel_job(*core_, begun->id);
  turns();
  EXPECT_EQ(plane_.nodes[0].asks, kNew) << "cancelled, and all the same";
  plane_.come_back();
  turns();
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kOld}) << "now it is taken back";
  EXPECT_EQ(job(begun->id).state, JobState::failed);
}

TEST_F(WitnessJobsTest, ANewOneThatDiesIsGivenUpForTheOldOneByWayOfNone) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();
  plane_.dead = {kNew};
  turns();
  EXPECT_EQ(job(begun->id).step, "learn");
  EXPECT_NE(job(begun->id).message.find("0 of 1 volumes"), std::string::npos) << job(begun->id).message;
  patience_ = std::chrono::seconds(0);
  restart();
  turns(10);
  const Job failed = job(begun->id);
  EXPECT_EQ(failed.state, JobState::failed) << failed.message;
  EXPECT_NE(failed.error->detail.find("The new witness is not taken"), std::string::npos) << failed.error->detail;
  const std::vector<std::string> way{"a none", "b none", "a " + kNew, "b " + kNew,
                                     "a none", "b none", "a " + kOld, "b " + kOld};
  EXPECT_EQ(plane_.told, way);
  EXPECT_EQ(failed.parameters, "{}");
}

TEST_F(WitnessJobsTest, CancelledBeforeAnythingWasChangedItChangesNothing) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  ASSERT_TRUE(cancel_job(*core_, begun->id));
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).error->detail.find("was not changed"), std::string::npos);
  EXPECT_TRUE(plane_.told.empty());
}

TEST_F(WitnessJobsTest, RecordsStayWhereTheClusterIsTheSameOrCannotBeTold) {
  for (const std::string& cluster : {std::string("a1"), std::string()}) {
    begin();
    const auto begun = change();
    ASSERT_TRUE(begun);
    plane_.clusters[kNew] = cluster;
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
    EXPECT_TRUE(plane_.records.contains(kOld)) << job(begun->id).message;
  }
}

/// The old way to it answers no more: a password that was changed, for one.
TEST_F(WitnessJobsTest, RecordsStayWhereAnEndpointIsAskedStill) {
  const auto begun = jobs_->change({.endpoints = {kNew, kOld}});
  ASSERT_FALSE(begun) << "they are of two clusters";
  plane_.clusters[kNew] = plane_.clusters[kOld];
  const auto added = jobs_->change({.endpoints = {kNew, kOld}});
  ASSERT_TRUE(added) << added.error().detail;
  turn();
  plane_.dead = {kOld};
  turns();
  EXPECT_EQ(job(added->id).state, JobState::done) << job(added->id).message;
  EXPECT_NE(job(added->id).message.find("nothing is removed there"), std::string::npos) << job(added->id).message;
  EXPECT_EQ(job(added->id).message.find("etcdctl"), std::string::npos) << "they are in use";
}

TEST_F(WitnessJobsTest, AChangeWhoseJobIsLostIsGoneOnWithByAnother) {
  const auto lost = change();
  ASSERT_TRUE(lost);
  turn();
  ASSERT_TRUE(arbiter().changing);
  core_->jobs.erase(lost->id);
  const auto again = change(kOld);
  ASSERT_TRUE(again) << again.error().detail;
  turns();
  EXPECT_EQ(job(again->id).state, JobState::done) << job(again->id).message;
  EXPECT_EQ(plane_.nodes[0].asks, kOld);
  EXPECT_TRUE(plane_.records.contains(kOld)) << "it is the one in use";
}

/// Asking the new one may take seconds, and another operator, or the same one again, may want another one meanwhile.
TEST_F(WitnessJobsTest, OfTwoRequestsAtOnceOneIsRefused) {
  Outcome<Job> second;
  while_tried_ = [&] { second = change(kThird); };
  const auto first = change();
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_FALSE(first) << "both would go from the old one to theirs";
  EXPECT_EQ(core_->jobs.unfinished().size(), 1u);
  turns(10);
  EXPECT_EQ(job(second->id).state, JobState::done) << job(second->id).message;
  EXPECT_EQ(plane_.told, (std::vector<std::string>{"a none", "b none", "a " + kThird, "b " + kThird}));
}

TEST_F(WitnessJobsTest, ARequestThatWasOvertakenWhileItsWitnessWasAskedIsRefused) {
  while_tried_ = [&] {
    ASSERT_TRUE(change(kThird));
    turns(10);
  };
  const auto late = change();
  ASSERT_FALSE(late) << "what it would go back to is not in force any more";
  EXPECT_EQ(late.error().kind, RefusalKind::conflict);
  EXPECT_EQ(plane_.nodes[0].asks, kThird);
}

/// The database is one of earlier, in which the job is at some step still; its partner has the configuration of now.
TEST_F(WitnessJobsTest, AJobThatABackupBringsBackNamesNothingAndRemovesNothingThatIsInUse) {
  for (const std::string& now : {kThird, kOld})
    for (const char* step : {"stop", "stopped", "start", "learn", "clear"}) {
      if (now == kOld && std::string(step) == "stop") continue;  // it has not begun, and nobody has since
      SCOPED_TRACE(now + ", " + step);
      begin();
      const auto begun = change();
      ASSERT_TRUE(begun);
      Job old = job(begun->id);
      turns(10);
      ASSERT_EQ(job(begun->id).state, JobState::done);
      ASSERT_TRUE(change(now));
      turns(10);
      ASSERT_EQ(plane_.nodes[0].asks, now);
      plane_.told.clear();
      old.step = step;
      auto parameters = nlohmann::json::parse(old.parameters);
      parameters["named"] = step != std::string("stop");
      old.parameters = parameters.dump();
      core_->jobs.put(old);
      turns(10);
      EXPECT_EQ(job(begun->id).state, JobState::failed) << job(begun->id).message;
      EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{now});
      EXPECT_TRUE(plane_.told.empty()) << plane_.told.front();
      EXPECT_TRUE(plane_.records.contains(now));
      EXPECT_EQ(job(begun->id).parameters, "{}");
    }
}

TEST_F(WitnessJobsTest, AWitnessOnOneOfTheNodesIsRefused) {
  edit([](Configuration& c) {
    c.nodes[0].management_address = "10.0.0.11:8443";
    c.nodes[1].management_address = "10.0.0.2:8443";
  });
  plane_.turn();
  for (const auto& refused :
       {change(kNew), jobs_->change_arbiter({.witness = true, .endpoints = {kNew}, .access = {}})}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, RefusalKind::invalid) << refused.error().detail;
    ASSERT_EQ(refused.error().fields.size(), 1U);
    EXPECT_EQ(refused.error().fields[0].pointer, "/endpoints");
    EXPECT_NE(refused.error().fields[0].detail.find("on node-b"), std::string::npos)
        << refused.error().fields[0].detail;
  }
  EXPECT_TRUE(change(kThird));
}

}  // namespace
}  // namespace lockstep::mgmt::witnessed
