// What is said of flow control (PFC, pause frames) and of heeding jams (ECN): of RoCE v2 alone, as advice, and of the
// link only when packets got lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/rdma/check/fabric_check.hpp"
#include "tests/unit/rdma/golden_trees.hpp"

namespace lockstep::rdma::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct FlowControlFindings : testing::Test {
  FabricView view = Tree(kMlx5Roce).view();
  FabricUse use{.addresses = {{"10.9.0.1", "ens1f0np0", false}},
                .hosts_use = true,
                .link_uses = true,
                .why_none = {},
                .pinning = {}};

  InterfaceView& interface() {
    return *std::ranges::find(view.interfaces, use.addresses[0].interface, &InterfaceView::name);
  }
  PortView& port() { return view.ports[0]; }
  std::vector<std::string> found() {
    std::vector<std::string> ids;
    FabricCheck check;
    for (const Finding& finding : check.look(view, use, {})) {
      EXPECT_EQ(finding.severity, Severity::advice);
      EXPECT_FALSE(finding.advice.empty());
      ids.push_back(finding.id);
      last = finding;
    }
    return ids;
  }
  Finding last;
  const std::vector<std::string> nothing, no_flow_control{"no_flow_control"}, no_ecn{"no_ecn"};
};

TEST_F(FlowControlFindings, NothingIsSaidWhereNothingCanBeRead) {
  interface().flow_control = {};
  EXPECT_EQ(found(), nothing);
  interface().flow_control = {{}, false};
  EXPECT_EQ(found(), nothing);
  interface().flow_control = {PriorityFlowControl{0, 0}, false};
  EXPECT_EQ(found(), nothing) << "the port has no such thing";
}

TEST_F(FlowControlFindings, APortalWithNeitherIsToldWhatToTurnOn) {
  interface().flow_control = {PriorityFlowControl{8, 0}, false};
  EXPECT_EQ(found(), no_flow_control);
  EXPECT_THAT(last.message, HasSubstr("ens1f0np0 with the portal 10.9.0.1 has neither"));
  EXPECT_THAT(last.advice, AllOf(HasSubstr("PFC"), HasSubstr("ethtool -A ens1f0np0"), HasSubstr("nothing has to be")));
  interface().flow_control.pause.reset();
  EXPECT_EQ(found(), no_flow_control) << "pause frames that can't be read";
}

TEST_F(FlowControlFindings, AnyOfThemIsEnough) {
  interface().flow_control = {PriorityFlowControl{8, 0}, true};
  EXPECT_EQ(found(), nothing) << "pause frames";
  interface().flow_control = {PriorityFlowControl{8, 0x08}, false};
  EXPECT_EQ(found(), nothing) << "PFC for a priority";
  interface().flow_control = {PriorityFlowControl{8, 0}, false};
  interface().ecn = {0x08, 0x08};
  EXPECT_EQ(found(), nothing) << "ECN";
  interface().ecn.reset();
  port().counters["np_ecn_marked_roce_packets"] = 1;
  EXPECT_EQ(found(), nothing) << "a switch that marks, and a device that counts it";
}

TEST_F(FlowControlFindings, TheLinkNeedsNoneOfItOnACable) {
  use.addresses[0].of_link = true;
  interface().flow_control = {PriorityFlowControl{8, 0}, false};
  interface().ecn = {0, 0};
  EXPECT_EQ(found(), nothing);
}

TEST_F(FlowControlFindings, NothingIsSaidOfOtherFabrics) {
  for (PortView& each : view.ports)
    for (GidView& gid : each.gids) gid.v2 = false;
  interface().flow_control = {PriorityFlowControl{8, 0}, false};
  EXPECT_EQ(found(), std::vector<std::string>{"roce_v1"});
  for (const auto& [tree, name] :
       {std::pair(kMlx5InfiniBand, "ibs1"), std::pair(kIrdmaIwarp, "ens3f0"), std::pair(kRxe, "eth1")}) {
    view = Tree(tree).view([](const std::string&) { return FlowControl{PriorityFlowControl{8, 0}, false}; });
    use.addresses[0].interface = name;
    interface().flow_control = {PriorityFlowControl{8, 0}, false};
    EXPECT_EQ(found(), nothing) << name;
  }
}

TEST_F(FlowControlFindings, PfcWithoutEcnIsToldWithItsPriorities) {
  interface().flow_control = {PriorityFlowControl{8, 0x18}, false};
  interface().ecn = {0x08, 0xff};
  EXPECT_EQ(found(), no_ecn);
  EXPECT_THAT(last.message, AllOf(HasSubstr("(PFC) for priority 4,"), Not(HasSubstr("3"))));
  EXPECT_THAT(last.advice, HasSubstr("/sys/class/net/ens1f0np0/ecn"));
  interface().ecn = {0, 0};
  EXPECT_EQ(found(), no_ecn);
  EXPECT_THAT(last.message, HasSubstr("priorities 3, 4"));
  interface().ecn = {0x18, 0x18};
  EXPECT_EQ(found(), nothing);
}

TEST_F(FlowControlFindings, WherePacketsGetLostItIsSaidWhatIsOn) {
  use.addresses[0].of_link = true;
  const auto advice = [&] {
    FabricCheck check;
    std::vector<Finding> findings;
    for (const int minute : {0, 1, 2}) {
      port().counters["packet_seq_err"] = 10'000U * static_cast<unsigned>(minute);
      findings = check.look(view, use, {std::chrono::minutes(minute)});
    }
    const auto lost = std::ranges::find(findings, "packets_lost", &Finding::id);
    EXPECT_NE(lost, findings.end());
    return lost == findings.end() ? "" : lost->advice;
  };
  EXPECT_THAT(advice(), Not(HasSubstr("ens1f0np0"))) << "nothing is known";
  interface().flow_control = {PriorityFlowControl{8, 0}, false};
  interface().ecn = {0, 0};
  EXPECT_THAT(advice(), HasSubstr("PFC is on for no priority of ens1f0np0. Pause frames are off there"));
  EXPECT_THAT(advice(), HasSubstr("ECN is off there"));
  interface().flow_control = {PriorityFlowControl{8, 0x08}, true};
  EXPECT_THAT(advice(), AllOf(HasSubstr("PFC is on for priority 3 of ens1f0np0: look whether"),
                              Not(HasSubstr("Pause frames are off"))));
}

TEST_F(FlowControlFindings, ACounterAtItsEndIsSetBackByPerfqueryOnInfiniBandAlone) {
  port().counters["symbol_error"] = 65535;
  EXPECT_EQ(found(), std::vector<std::string>{"counter_full"});
  EXPECT_THAT(last.advice, AllOf(Not(HasSubstr("perfquery")), HasSubstr("ethtool -S ens1f0np0")));
  view = Tree(kMlx5InfiniBand).view();
  port().counters["symbol_error"] = 65535;
  use.addresses[0].interface = "ibs1";
  EXPECT_EQ(found(), std::vector<std::string>{"counter_full"});
  EXPECT_THAT(last.advice, HasSubstr("perfquery -R"));
}

TEST_F(FlowControlFindings, CountersOfServedPortsAreToldByTheirKind) {
  view.ports[0].counters = {{"out_of_sequence", 12},
                            {"rnr_nak_retry_err", 0},
                            {"symbol_error", 3},
                            {"link_downed", 9},
                            {"np_ecn_marked_roce_packets", 4}};
  use.addresses.push_back({"10.9.0.7", "ens1f0np0", true});
  EXPECT_THAT(counters_of(view, use),
              testing::ElementsAre(PortCounter{"mlx5_0", 1, "packets_lost", "out_of_sequence", 12},
                                   PortCounter{"mlx5_0", 1, "no_receive", "rnr_nak_retry_err", 0},
                                   PortCounter{"mlx5_0", 1, "damaged", "symbol_error", 3},
                                   PortCounter{"mlx5_0", 1, "marked", "np_ecn_marked_roce_packets", 4}))
      << "each once, and of no port that no address is on";
}

}  // namespace
}  // namespace lockstep::rdma::test
