// What is read of golden trees.
#include <gtest/gtest.h>

#include "tests/unit/rdma/golden_trees.hpp"

namespace lockstep::rdma::test {
namespace {

TEST(FabricView, AMachineWithoutRdmaHasNothing) {
  const Tree tree("sys/class/net/eth0\n  mtu 1500\n");
  EXPECT_TRUE(tree.view().ports.empty());
  EXPECT_EQ(tree.view().port_of("eth0"), nullptr);
}

TEST(FabricView, ReadsAPortsStateRateAndGidsInUse) {
  const auto view = Tree(kRxe).view();
  ASSERT_EQ(view.ports.size(), 1U);
  const PortView& port = view.ports[0];
  EXPECT_EQ(port.device, "rxe0");
  EXPECT_EQ(port.number, 1U);
  EXPECT_EQ(port.link, LinkKind::roce);
  EXPECT_TRUE(port.active());
  EXPECT_EQ(port.physical_state, "LinkUp");
  EXPECT_EQ(port.megabits, 2500U);
  EXPECT_EQ(port.lanes, 1U);
  ASSERT_EQ(port.gids.size(), 2U) << "the third entry is not in use";
  EXPECT_EQ(port.gids[1].gid, gid_of("10.9.0.1"));
  EXPECT_TRUE(port.gids[1].v2);
  EXPECT_EQ(port.gids[1].interface, "eth1");
}

TEST(FabricView, ReadsBothKindsOfCounters) {
  const auto view = Tree(kMlx5Roce).view();
  const auto& counters = view.ports[0].counters;
  EXPECT_EQ(counters.at("port_rcv_packets"), 81234567U);
  EXPECT_EQ(counters.at("packet_seq_err"), 20U);
  EXPECT_FALSE(counters.contains("lifespan")) << "which is a setting";
  EXPECT_FALSE(Tree(kMlx5InfiniBand).view().ports[0].counters.contains("VL15_dropped")) << "which is not told";
}

TEST(FabricView, FindsThePortBelowAnInterface) {
  const auto roce = Tree(kMlx5Roce).view();
  ASSERT_NE(roce.port_of("ens1f0np0"), nullptr);
  EXPECT_EQ(roce.port_of("ens1f0np0")->device, "mlx5_0");
  EXPECT_EQ(roce.port_of("ens1f1np1")->device, "mlx5_1");
  EXPECT_EQ(roce.port_of("ens2"), nullptr);
  EXPECT_EQ(roce.interface("ens2")->megabits, 100000U);
  EXPECT_EQ(roce.interface("ens1f1np1")->megabits, 0U) << "which is not known";
  const auto infiniband = Tree(kMlx5InfiniBand).view();
  ASSERT_NE(infiniband.port_of("ibs1"), nullptr) << "by the GID in its hardware address";
  EXPECT_EQ(infiniband.port_of("ibs1")->link, LinkKind::infiniband);
  EXPECT_EQ(infiniband.port_of("ibs1")->megabits, 100000U);
}

TEST(FabricView, KnowsSoftRoce) {
  EXPECT_TRUE(Tree(kRxe).view().ports[0].is_software);
  EXPECT_FALSE(Tree(kMlx5Roce).view().ports[0].is_software);
}

FlowControl named(const std::string& interface) {
  return {PriorityFlowControl{8, static_cast<std::uint8_t>(interface == "ens1f0np0" ? 8 : 0)}, true};
}

TEST(FabricView, AsksForTheFlowControlOfInterfacesThatRoceGoesOver) {
  const auto view = Tree(kMlx5Roce).view(named);
  EXPECT_EQ(view.interface("ens1f0np0")->flow_control.pfc, (PriorityFlowControl{8, 8}));
  EXPECT_EQ(view.interface("ens1f0np0")->flow_control.pause, true);
  EXPECT_FALSE(view.interface("ens2")->flow_control.pfc) << "no RDMA device is on it";
  EXPECT_FALSE(Tree(kMlx5InfiniBand).view(named).interface("ibs1")->flow_control.pfc);
  EXPECT_FALSE(Tree(kIrdmaIwarp).view(named).interface("ens3f0")->flow_control.pfc);
}

TEST(FabricView, ReadsForWhichPrioritiesECNIsHeededWhereTheDriverTells) {
  const Tree tree(kMlx5Roce);
  EXPECT_FALSE(tree.view().interface("ens1f0np0")->ecn);
  for (const char* priority : {"0", "1", "2", "3", "4", "5", "6", "7"}) {
    const std::string on = std::string(priority) == "3" ? "1" : "0";
    tree.set(std::string("sys/class/net/ens1f0np0/ecn/roce_np/enable/") + priority, on);
    tree.set(std::string("sys/class/net/ens1f0np0/ecn/roce_rp/enable/") + priority, on);
  }
  tree.set("sys/class/net/ens1f0np0/ecn/roce_np/enable/5", "1");
  const auto ecn = tree.view().interface("ens1f0np0")->ecn;
  ASSERT_TRUE(ecn);
  EXPECT_EQ(ecn->tells, 0x28);
  EXPECT_EQ(ecn->heeds, 0x08);
  EXPECT_EQ(ecn->enabled(), 0x08U);
}

TEST(FabricView, KnowsAnIwarpDeviceByItsNodeType) {
  const auto view = Tree(kIrdmaIwarp).view();
  ASSERT_EQ(view.ports.size(), 1U);
  EXPECT_EQ(view.ports[0].link, LinkKind::iwarp);
  EXPECT_EQ(view.port_of("ens3f0"), view.ports.data());
}

TEST(FabricView, AnAddressIsAGidOfIpv6OrMapped) {
  EXPECT_EQ(gid_of("10.9.0.1"), gid_of("::ffff:10.9.0.1"));
  EXPECT_EQ(gid_of("fd00::1"), gid_of("fd00:0000:0000:0000:0000:0000:0000:0001"));
  EXPECT_FALSE(gid_of("node-a"));
}

TEST(FabricView, FilesThatMakeNoSenseAreLeftOut) {
  const Tree tree(kMlx5InfiniBand);
  tree.set("sys/class/infiniband/mlx5_0/ports/1/rate", "");
  tree.set("sys/class/infiniband/mlx5_0/ports/1/gids/0", "nonsense");
  tree.set("sys/class/net/ibs1/address", "zz:00:10:28:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:12:34:zz");
  const auto view = tree.view();
  ASSERT_EQ(view.ports.size(), 1U);
  EXPECT_EQ(view.ports[0].megabits, 0U);
  EXPECT_TRUE(view.ports[0].gids.empty());
  EXPECT_EQ(view.port_of("ibs1"), nullptr);
}

}  // namespace
}  // namespace lockstep::rdma::test
