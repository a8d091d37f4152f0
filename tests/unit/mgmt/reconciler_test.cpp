// What lockstepd is told again, and what is said of one that can't, or is gone.
#include "mgmt/control/reconciler.hpp"

#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

class Reconciling : public ManagementTest {};

TEST_F(Reconciling, TellsLockstepdAgainAfterItsRestart) {
  make_volume();
  node_->turns();
  const auto before = plane_.count("node.apply");
  node_->turns(3);
  EXPECT_EQ(plane_.count("node.apply"), before) << "nothing changed, so nothing is to be told";
  plane_.restart("p2");
  node_->reconciler.turn();
  EXPECT_EQ(plane_.count("node.apply"), before + 1);
  EXPECT_EQ(plane_.applied["volumes"].size(), 1u);
}

TEST_F(Reconciling, ReportsWhatLockstepdCouldNotDo) {
  make_volume();
  node_->turns();
  plane_.problem = "The file is gone.";
  plane_.restart("p2");
  node_->reconciler.turn();
  ASSERT_EQ(node_->reconciler.report().problems.size(), 1u);
  EXPECT_EQ(node_->reconciler.report().problems[0].message, "The file is gone.");
  const auto events = node_->core->events.list(std::nullopt, 1);
  EXPECT_EQ(events.at(0).kind, "apply.problem");
}

TEST_F(Reconciling, LockstepdThatStopsIsAnEvent) {
  node_->reconciler.turn();
  plane_.away = true;
  node_->reconciler.turn();
  EXPECT_FALSE(node_->reconciler.report().running);
  EXPECT_EQ(node_->core->events.list(std::nullopt, 1).at(0).kind, "lockstepd.stopped");
}

/// lockstepd goes on by later orders than the database has, which was put back from a backup.
class SetBack : public ManagementTest {
 protected:
  void SetUp() override {
    ManagementTest::SetUp();
    make_volume();
    node_->turns();
    plane_.applied["revision"] = 20;
    before_ = plane_.count("node.apply");
  }
  Reconciler begun_anew() {
    return {plane_, node_->core->events, [this] { return wanted_; }, [] { return std::optional(NodeSide::a); }};
  }
  [[nodiscard]] std::ptrdiff_t told() const { return plane_.count("node.apply") - before_; }

  WantedState wanted_{.revision = 2, .parameters = R"({"revision": 2, "volumes": []})"};

 private:
  std::ptrdiff_t before_ = 0;
};

TEST_F(SetBack, TakesNothingFromALockstepdThatHasLaterOrders) {
  auto anew = begun_anew();
  anew.turn();
  EXPECT_EQ(told(), 0);
  ASSERT_EQ(anew.report().problems.size(), 1u);
  EXPECT_NE(anew.report().problems[0].message.find("of revision 20"), std::string::npos);
  wanted_.revision = 21;  // by changes that were made on the old configuration
  anew.turn();
  EXPECT_EQ(told(), 0) << "it is as old as before";
}

TEST_F(SetBack, IsKnownWhileThePartnerIsWaitedFor) {
  wanted_.may_wait = true;
  auto anew = begun_anew();
  anew.turn();
  EXPECT_EQ(told(), 0);
  EXPECT_TRUE(anew.holds_back());
}

TEST_F(SetBack, TellsItWhatBothNodesAgreeOn) {
  auto anew = begun_anew();
  anew.turn();
  EXPECT_TRUE(anew.holds_back());
  wanted_.is_agreed = true;
  anew.turn();
  EXPECT_FALSE(anew.holds_back());
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(anew.report().problems.empty());
}

/// The operator's way where the partner is gone for good: lockstepd is restarted.
TEST_F(SetBack, TellsALockstepdThatWasToldNothingAtOnce) {
  auto anew = begun_anew();
  anew.turn();
  plane_.restart("p2");
  anew.turn();
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(anew.report().problems.empty());
}

TEST_F(SetBack, TellsALockstepdThatHasNothingToLose) {
  plane_.applied["volumes"] = nlohmann::json::array();
  auto anew = begun_anew();
  anew.turn();
  EXPECT_EQ(told(), 1);
}

}  // namespace
}  // namespace lockstep::mgmt
