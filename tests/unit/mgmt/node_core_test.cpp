// Who may begin what both nodes decide over.
#include "mgmt/control/node_core.hpp"

#include <gtest/gtest.h>

#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using NodeCoreTest = test::JobTest;

TEST_F(NodeCoreTest, OnlyTheNodeThatOrdersForBothBeginsWhatBothDecideOver) {
  open_core();
  EXPECT_TRUE(core_->check_orders_for_both()) << "in no pair there is nobody to agree with";
  make_pair();
  EXPECT_TRUE(core_->check_orders_for_both());
  edit([](Configuration& c) { std::swap(c.nodes[0].side, c.nodes[1].side); });
  EXPECT_FALSE(core_->check_orders_for_both()) << "side A orders";
  ASSERT_TRUE(core_->revisions.force(NodeSide::b, "Alone"));
  EXPECT_TRUE(core_->orders_changes());
  EXPECT_FALSE(core_->check_orders_for_both()) << "what it alone has decided, and not for long";
}

}  // namespace
}  // namespace lockstep::mgmt
