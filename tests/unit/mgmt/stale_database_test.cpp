// What tells that a node's database is of the past, and what is said of it then.
#include "mgmt/control/stale_database.hpp"

#include <gtest/gtest.h>

#include "tests/unit/mgmt/viewed_pair.hpp"

namespace lockstep::mgmt {
namespace {

TEST(JudgeTime, BothNodesMayBeSetBackSoThatTheirAgreementSaysNothingAgainstLockstepd) {
  TimeSigns signs{.by_copy = DatabaseTime::now, .agreed = true};
  EXPECT_EQ(judge_time(signs), DatabaseTime::unknown) << "lockstepd was not heard yet";
  signs.lockstepd_is_later = true;
  EXPECT_EQ(judge_time(signs), DatabaseTime::past);
  signs.lockstepd_is_later = false;
  EXPECT_EQ(judge_time(signs), DatabaseTime::now);
  signs.lockstepd_is_later.reset();
  signs.may_hear = false;
  EXPECT_EQ(judge_time(signs), DatabaseTime::presumed) << "its jobs don't wait for ever";
}

TEST(JudgeTime, APartnerThatIsSilentForTooLongIsBelievedLater) {
  TimeSigns signs{.by_copy = DatabaseTime::now, .lockstepd_is_later = false};
  EXPECT_EQ(judge_time(signs), DatabaseTime::unknown);
  signs.may_hear = false;
  EXPECT_EQ(judge_time(signs), DatabaseTime::presumed);
  signs.lacks_decided = true;
  EXPECT_EQ(judge_time(signs), DatabaseTime::past);
}

TEST(JudgeTime, AnOrdererThatThePartnerBroughtUpToDateWasSetBack) {
  EXPECT_EQ(judge_time({.by_copy = DatabaseTime::now, .agreed = true, .lacks_decided = true}), DatabaseTime::past);
}

TEST(JudgeTime, ACopyThatIsNewerSaysItAloneAndOneThatDoesNotAnswerIsWaitedFor) {
  EXPECT_EQ(judge_time({.by_copy = DatabaseTime::past, .agreed = true, .lockstepd_is_later = false}),
            DatabaseTime::past);
  EXPECT_EQ(judge_time({.lockstepd_is_later = false, .may_hear = false}), DatabaseTime::unknown);
  EXPECT_EQ(judge_time({.agreed = true, .lockstepd_is_later = false}), DatabaseTime::now);
}

TEST(JudgeTime, OneNodeAloneHearsLockstepdAndNoPairHearsNobody) {
  TimeSigns signs{.by_copy = DatabaseTime::now, .has_partner = false};
  EXPECT_EQ(judge_time(signs), DatabaseTime::unknown);
  signs.lockstepd_is_later = false;
  EXPECT_EQ(judge_time(signs), DatabaseTime::now);
  EXPECT_EQ(judge_time({.in_pair = false}), DatabaseTime::now);
}

TEST(Health, ADatabaseThatWasSetBackIsToldWithTheWayToTheCopyThatIsNot) {
  Pairs p;
  p.view.revision.head.n = 10;
  p.view.save_problem = "/v/configuration.saved holds revision 20, this node's database only 10.";
  EXPECT_NE(p.health().problems.at(0).advice.find("written again"), std::string::npos);
  p.view.newer_copy = 20;
  ASSERT_EQ(p.health().problems.size(), 1U);
  EXPECT_NE(p.health().summary.find("it has revision 10"), std::string::npos) << p.health().summary;
  EXPECT_NE(p.health().problems[0].advice.find("lockstep pair recover"), std::string::npos);
  EXPECT_EQ(p.health().problems[0].advice.find("written again"), std::string::npos) << "it never is";
}

TEST(Health, OfASetBackDatabaseNothingIsPromisedThatAPartnerRefuses) {
  Pairs p;
  p.view.newer_copy = 20;
  EXPECT_NE(p.health().problems.at(0).advice.find("brings it up to date by itself"), std::string::npos);
  p.view.nodes[1].trouble = PartnerTrouble::other_certificate;
  const auto told = p.health().problems;
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].advice.find("by itself"), std::string::npos) << told[0].advice;
  EXPECT_NE(told[0].advice.find("lockstep node replace"), std::string::npos) << told[0].advice;
}

TEST(Health, ALockstepdThatIsHeldBackIsToldWithTheWaysOut) {
  Pairs p;
  p.view.nodes[0].report.problems = {{kHeldBack, "lockstepd is told nothing."}};
  const auto told = p.health().problems;
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].message, "On node-a: lockstepd is told nothing.");
  EXPECT_NE(told[0].advice.find("lockstep pair recover"), std::string::npos) << told[0].advice;
  EXPECT_LT(told[0].advice.find("stop lockstep-mgmtd on node-a"), told[0].advice.find("lockstep node replace a"))
      << "it is refused while that node's management has the pair";
  EXPECT_EQ(told[0].advice.find(" here"), std::string::npos) << "both nodes tell it";
}

}  // namespace
}  // namespace lockstep::mgmt
