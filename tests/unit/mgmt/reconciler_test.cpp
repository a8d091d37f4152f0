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

}  // namespace
}  // namespace lockstep::mgmt
