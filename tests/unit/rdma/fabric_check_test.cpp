// What is found, and where nothing is.
#include "engine/rdma/check/fabric_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rdma/golden_trees.hpp"

namespace lockstep::rdma::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

/// Hosts use RDMA there.
FabricUse portal_on(const std::string& interface, const std::string& address = "10.9.0.1") {
  FabricUse use;
  use.addresses = {{address, interface, false}};
  use.hosts_use = true;
  return use;
}

std::vector<Finding> found(const FabricView& view, const FabricUse& use) {
  FabricCheck check;
  return check.look(view, use, {});
}

auto is(Severity severity, const char* id, const char* part_of_its_message) {
  return AllOf(Field("severity", &Finding::severity, severity), Field("id", &Finding::id, id),
               Field("message", &Finding::message, HasSubstr(part_of_its_message)),
               Field("advice", &Finding::advice, testing::Not(IsEmpty())));
}

constexpr const char* kOfMlx5 = "sys/class/infiniband/mlx5_0/ports/1";

TEST(FabricCheck, FindsNothingWhereThereIsNoRdmaAndNobodyAsksForIt) {
  const Tree tree("sys/class/net/eth0\n  mtu 1500\n");
  auto use = portal_on("eth0");
  use.why_none = "There is no RDMA device.";
  use.pinning = {.limit = 0, .before = 0, .each_device = 1 << 30};
  EXPECT_THAT(found(tree.view(), use), IsEmpty());
}

TEST(FabricCheck, FindsNothingWhereAllIsWell) {
  EXPECT_THAT(found(Tree(kRxe).view(), portal_on("eth1")), IsEmpty()) << "the rate that rxe tells is not the card's";
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), portal_on("ens1f0np0")), IsEmpty());
  EXPECT_THAT(found(Tree(kMlx5InfiniBand).view(), portal_on("ibs1")), IsEmpty())
      << "the interface's MTU is not that of RDMA on InfiniBand";
}

TEST(FabricCheck, FindsNothingOnDevicesThatNoAddressIsOn) {
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), portal_on("ens2")), IsEmpty());
  auto use = portal_on("ens2");
  use.why_none = "The module is missing.";
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), use), IsEmpty());
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), portal_on("")), IsEmpty()) << "of an address that no interface has";
}

TEST(FabricCheck, NothingIsToldOfADeviceThatNothingWentOverUnlessRdmaIsAskedFor) {
  auto use = portal_on("ens1f1np1", "10.9.1.1");
  use.hosts_use = false;
  use.link_uses = true;
  const auto view = Tree(kMlx5Roce).view();
  EXPECT_THAT(found(view, use), IsEmpty()) << "the link's use is not the portal's";
  use.addresses[0].of_link = true;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::warning, "port_down", "the link's 10.9.1.1")));
  use.link_uses = false;
  EXPECT_THAT(found(view, use), IsEmpty());
  use.asked = true;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::warning, "port_down", "the link's 10.9.1.1")));
}

TEST(FabricCheck, ASmallMtuIsNothingToANodeThatDoesNotUseRdma) {
  const Tree tree(kIrdmaRoce);
  tree.set("sys/class/net/ens3f0/mtu", "1500");
  auto use = portal_on("ens3f0");
  use.hosts_use = false;
  EXPECT_THAT(found(tree.view(), use), IsEmpty());
}

TEST(FabricCheck, ALinkOverTcpIsToldWhereRdmaIsAskedFor) {
  const auto told = link_without_rdma(true, "Nobody answers.");
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, is(Severity::advice, "link_over_tcp", "The link goes over TCP: Nobody answers."));
  EXPECT_FALSE(link_without_rdma(false, "Nobody answers."));
  EXPECT_FALSE(link_without_rdma(true, "")) << "it is over RDMA";
}

TEST(FabricCheck, ThatThereIsNoDeviceIsWrongWhereOneIsAskedFor) {
  auto use = portal_on("eth0");
  use.asked = true;
  EXPECT_THAT(found({}, use), ElementsAre(is(Severity::warning, "no_device", "no RDMA device")));
}

TEST(FabricCheck, ADeviceThatIsNotUsedIsToldWithTheReasonWhereRdmaIsAskedFor) {
  auto use = portal_on("eth1");
  use.why_none = "The module rdma_ucm is not loaded.";
  use.hosts_use = false;
  EXPECT_THAT(found(Tree(kRxe).view(), use), IsEmpty());
  use.asked = true;
  EXPECT_THAT(found(Tree(kRxe).view(), use), ElementsAre(is(Severity::warning, "not_used", "RDMA (rxe0/1)")));
  EXPECT_THAT(found(Tree(kRxe).view(), use)[0].message, testing::EndsWith("The module rdma_ucm is not loaded."));
}

TEST(FabricCheck, ADeviceThatCameAfterTheStartIsToldWithoutContradiction) {
  auto use = portal_on("eth1");
  use.asked = true;
  use.why_none = "There is no RDMA device on this node.";
  EXPECT_THAT(found(Tree(kRxe).view(), use),
              ElementsAre(is(Severity::warning, "not_used",
                             "What it found when it started: There is no RDMA device on this node.")));
}

TEST(FabricCheck, AnAddressBesideTheDevicesIsToldWhereRdmaIsAskedFor) {
  auto use = portal_on("ens2", "10.1.0.1");
  use.asked = true;
  const auto view = Tree(kMlx5Roce).view();
  EXPECT_THAT(found(view, use),
              ElementsAre(is(Severity::warning, "address_elsewhere", "The portal 10.1.0.1 is on ens2")));
  use.addresses.push_back({"10.9.0.1", "ens1f0np0", true});
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::advice, "address_elsewhere", "10.1.0.1")))
      << "another one is on a device: this may be meant so";
}

TEST(FabricCheck, APortThatIsNotActiveIsNamedWithItsState) {
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), portal_on("ens1f1np1", "10.9.1.1")),
              ElementsAre(is(Severity::warning, "port_down",
                             "mlx5_1/1 below the portal 10.9.1.1 on ens1f1np1 is not active: it is DOWN, Disabled.")));
}

TEST(FabricCheck, AnInfiniBandPortWithoutASubnetManagerIsToldSo) {
  const Tree tree(kMlx5InfiniBand);
  tree.set(std::filesystem::path(kOfMlx5) / "state", "2: INIT");
  const auto findings = found(tree.view(), portal_on("ibs1"));
  ASSERT_THAT(findings, ElementsAre(is(Severity::warning, "port_down", "INIT, LinkUp")));
  EXPECT_THAT(findings[0].advice, HasSubstr("subnet manager"));
}

TEST(FabricCheck, AnInfiniBandCableWithOneLaneIsTold) {
  const Tree tree(kMlx5InfiniBand);
  tree.set(std::filesystem::path(kOfMlx5) / "rate", "25 Gb/sec (1X EDR)");
  EXPECT_THAT(found(tree.view(), portal_on("ibs1")), ElementsAre(is(Severity::advice, "one_lane", "25 Gb/s")));
}

TEST(FabricCheck, AnAddressWithoutAGidIsTold) {
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), portal_on("ens1f0np0", "10.9.0.77")),
              ElementsAre(is(Severity::warning, "no_gid", "mlx5_0/1 has no GID for the portal 10.9.0.77")));
}

TEST(FabricCheck, RoceV1AloneIsTold) {
  const Tree tree(kMlx5Roce);
  tree.set(std::filesystem::path(kOfMlx5) / "gid_attrs/types/3", "IB/RoCE v1");
  EXPECT_THAT(found(tree.view(), portal_on("ens1f0np0")),
              ElementsAre(is(Severity::advice, "roce_v1", "RoCE v1 alone")));
}

TEST(FabricCheck, AnMtuThatCutsPacketsShortIsTold) {
  const auto mtu = [](const char* bytes) {
    const Tree tree(kIrdmaRoce);
    tree.set("sys/class/net/ens3f0/mtu", bytes);
    return found(tree.view(), portal_on("ens3f0"));
  };
  EXPECT_THAT(mtu("1500"), ElementsAre(is(Severity::advice, "small_mtu", "packets of 1024 bytes")));
  EXPECT_THAT(mtu("2144"), ElementsAre(is(Severity::advice, "small_mtu", "packets of 2048 bytes")));
  EXPECT_THAT(mtu("4191"), ElementsAre(is(Severity::advice, "small_mtu", "packets of 2048 bytes")));
  EXPECT_THAT(mtu("4192"), IsEmpty());
}

TEST(FabricCheck, AnAddressOnIwarpIsToldWhereRdmaIsAskedFor) {
  auto use = portal_on("ens3f0");
  const auto view = Tree(kIrdmaIwarp).view();
  EXPECT_THAT(found(view, use), IsEmpty());
  use.asked = true;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::advice, "iwarp", "does not use: all goes over TCP")));
  use.addresses[0].of_link = true;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::advice, "iwarp", "the link's")));
}

TEST(FabricCheck, MemoryThatMayNotBePinnedIsTold) {
  auto use = portal_on("ens1f0np0");
  use.pinning = {.limit = 512U << 20, .before = 256U << 20, .each_device = 256U << 20};
  const auto view = Tree(kMlx5Roce).view();
  EXPECT_THAT(found(view, use), IsEmpty());
  use.pinning.each_device += 1 << 20;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::warning, "memory_not_pinned", "513 MiB")));
  use.hosts_use = false;
  EXPECT_THAT(found(view, use), ElementsAre(is(Severity::advice, "memory_not_pinned", "513 MiB")));
  use.pinning.limit.reset();
  EXPECT_THAT(found(view, use), IsEmpty()) << "there is no limit";
}

TEST(FabricCheck, MemoryOfTheLinkCountsWhereThereIsAPartner) {
  auto use = portal_on("ens1f0np0");
  use.pinning = {.limit = 512U << 20, .before = 0, .each_device = 256U << 20, .each_device_of_link = 257U << 20};
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), use), IsEmpty());
  use.has_partner = true;
  EXPECT_THAT(found(Tree(kMlx5Roce).view(), use), ElementsAre(is(Severity::warning, "memory_not_pinned", "513 MiB")));
}

TEST(FabricCheck, RdmaThatIsSlowerThanAnotherWayOfTheLinkIsTold) {
  FabricUse use;
  use.addresses = {{"10.1.0.1", "ens2", true}, {"10.9.0.1", "ens1f0np0", true}};
  use.link_uses = true;
  const auto view = Tree(kMlx5Roce).view();
  EXPECT_THAT(found(view, use),
              ElementsAre(is(Severity::advice, "slower_than_tcp",
                             "The link's 10.9.0.1 is on RDMA with 25 Gb/s, and the link's 10.1.0.1 on ens2")));
  use.addresses[0].of_link = false;
  EXPECT_THAT(found(view, use), IsEmpty()) << "a portal's speed says nothing of the link";
}

TEST(FabricCheck, WhatIsWrongComesBeforeWhatCouldBeBetter) {
  const Tree tree(kMlx5Roce);
  tree.set("sys/class/net/ens1f0np0/mtu", "1500");
  auto use = portal_on("ens1f0np0");
  use.addresses.push_back({"10.9.1.1", "ens1f1np1", true});
  use.link_uses = true;
  EXPECT_THAT(found(tree.view(), use), ElementsAre(is(Severity::warning, "port_down", "mlx5_1"),
                                                   is(Severity::advice, "small_mtu", "ens1f0np0")));
}

/// Looks again and again, with counters that grow.
struct AWatchedPort : testing::Test {
  Tree tree{kMlx5Roce};
  FabricUse use = portal_on("ens1f0np0");
  FabricCheck check;
  engine::TimePoint now{1h};

  std::vector<Finding> look() { return check.look(tree.view(), use, now); }
  void count(const char* name, std::uint64_t value) {
    tree.set(std::filesystem::path(kOfMlx5) / "hw_counters" / name, std::to_string(value));
  }
  std::vector<Finding> look_after(engine::Duration later) {
    now = now + later;
    return look();
  }
};

TEST_F(AWatchedPort, WhatWasCountedBeforeSaysNothing) {
  count("packet_seq_err", 1'000'000);
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_THAT(look_after(1min), IsEmpty());
}

TEST_F(AWatchedPort, LossIsToldByHowMuchGrewInAMinute) {
  (void)look();
  count("packet_seq_err", 20 + 59);
  EXPECT_THAT(look_after(1min), IsEmpty()) << "a little";
  count("packet_seq_err", 20 + 59 + 680);
  count("local_ack_timeout_err", 4 + 100);
  (void)look_after(2min);
  count("packet_seq_err", 20 + 59 + 2 * 680);
  const auto findings = look_after(2min);
  ASSERT_THAT(findings, ElementsAre(is(Severity::warning, "packets_lost", "packet_seq_err grew by 340")));
  EXPECT_THAT(findings[0].advice, HasSubstr("No packet has come marked (ECN)"));
}

TEST_F(AWatchedPort, LossAtOneLookAloneIsNotTold) {
  (void)look();
  count("packet_seq_err", 5000);
  EXPECT_THAT(look_after(1min), IsEmpty());
  EXPECT_THAT(look_after(1min), IsEmpty());
  count("packet_seq_err", 10000);
  EXPECT_THAT(look_after(1min), IsEmpty()) << "it was not the look before";
}

TEST_F(AWatchedPort, AsManyPacketsBehindALostOneAsUsualAreNoLoss) {
  (void)look();
  for (const int turn : {1, 2, 3}) {
    count("out_of_sequence", 12 + 250 * 50 * static_cast<std::uint64_t>(turn));
    EXPECT_THAT(look_after(1min), IsEmpty()) << "fifty losses in a minute";
  }
}

TEST_F(AWatchedPort, APartnerThatLosesItsPowerIsNoLossOfPackets) {
  (void)look();
  for (const std::uint64_t turn : {1, 2, 3}) {
    count("local_ack_timeout_err", 4 + 64 * turn);
    EXPECT_THAT(look_after(1min), IsEmpty());
  }
}

TEST_F(AWatchedPort, LossWhereTheSwitchMarksPacketsIsNotPutDownToThat) {
  count("np_ecn_marked_roce_packets", 12);
  (void)look();
  count("out_of_sequence", 12 + 20'000);
  (void)look_after(1min);
  count("out_of_sequence", 12 + 40'000);
  EXPECT_THAT(look_after(1min).at(0).advice, testing::Not(HasSubstr("No packet has come marked")));
}

TEST_F(AWatchedPort, WhatWasFoundIsToldForTenMinutes) {
  (void)look();
  count("packet_seq_err", 1000);
  (void)look_after(1min);
  count("packet_seq_err", 2000);
  EXPECT_EQ(look_after(1min).size(), 1U);
  EXPECT_EQ(look_after(10min).size(), 1U);
  EXPECT_THAT(look_after(1s), IsEmpty());
}

TEST_F(AWatchedPort, MessagesWithoutAReceiveAreAdviceAndToldSooner) {
  (void)look();
  count("out_of_buffer", 10);
  EXPECT_THAT(look_after(1min), ElementsAre(is(Severity::advice, "no_receive", "out_of_buffer grew by 10")));
}

TEST_F(AWatchedPort, ACounterThatBeganAnewIsNotTold) {
  count("packet_seq_err", 5000);
  (void)look();
  count("packet_seq_err", 3);
  EXPECT_THAT(look_after(1min), IsEmpty());
}

TEST_F(AWatchedPort, LooksThatFollowTooSoonAreNotCompared) {
  (void)look();
  count("packet_seq_err", 20 + 50);
  EXPECT_THAT(look_after(1s), IsEmpty()) << "50 in a second would be 3000 in a minute";
  EXPECT_THAT(look_after(59s), IsEmpty());
}

TEST_F(AWatchedPort, APortThatNoAddressIsOnIsNotTold) {
  use = portal_on("ens2");
  (void)look();
  count("packet_seq_err", 5000);
  EXPECT_THAT(look_after(1min), IsEmpty());
}

TEST_F(AWatchedPort, IsNotToldOfWhatOtherProgramsLoseThere) {
  use.hosts_use = false;
  (void)look();
  for (const int turn : {1, 2, 3}) {
    count("packet_seq_err", 5000U * static_cast<unsigned>(turn));
    count("out_of_buffer", 5000U * static_cast<unsigned>(turn));
    EXPECT_THAT(look_after(1min), IsEmpty());
  }
}

TEST_F(AWatchedPort, EachFindingIsOfItsPort) {
  (void)look();
  count("out_of_buffer", 10);
  EXPECT_EQ(look_after(1min).at(0).subject, "mlx5_0/1");
}

/// A port of InfiniBand, whose standard counters are small and stop at their ends.
struct AnInfiniBandPort : testing::Test {
  Tree tree{kMlx5InfiniBand};
  FabricCheck check;
  engine::TimePoint now{1h};

  void count(const char* name, std::uint64_t value) {
    tree.set(std::filesystem::path(kOfMlx5) / "counters" / name, std::to_string(value));
  }
  std::vector<Finding> look_after_a_minute() {
    now = now + 61s;  // looks are a minute apart, and take a moment themselves
    return check.look(tree.view(), portal_on("ibs1"), now);
  }
};

TEST_F(AnInfiniBandPort, CountersOfFewBitsAreToldOfLittle) {
  for (const auto& [name, value] :
       {std::pair("local_link_integrity_errors", 1U), std::pair("excessive_buffer_overrun_errors", 1U),
        std::pair("link_error_recovery", 3U)}) {
    check = FabricCheck();
    count(name, 0);
    EXPECT_THAT(look_after_a_minute(), IsEmpty());
    count(name, value);
    EXPECT_THAT(look_after_a_minute(), ElementsAre(is(Severity::warning, "damaged", name)));
  }
}

TEST_F(AnInfiniBandPort, ACounterAtItsEndIsToldOf) {
  for (const auto& [name, end] :
       {std::pair("symbol_error", 65535U), std::pair("port_rcv_errors", 65535U), std::pair("link_error_recovery", 255U),
        std::pair("local_link_integrity_errors", 15U), std::pair("excessive_buffer_overrun_errors", 15U)}) {
    check = FabricCheck();
    count(name, end);
    EXPECT_THAT(look_after_a_minute(), ElementsAre(is(Severity::advice, "counter_full", name)));
    EXPECT_THAT(look_after_a_minute(), ElementsAre(is(Severity::advice, "counter_full", name)));
    count(name, 0);
  }
}

TEST(FabricGrowth, PacketsThatTcpSendsAgainAreUsualOnIwarp) {
  const Tree tree(kIrdmaIwarp);
  auto use = portal_on("ens3f0");
  FabricCheck check;
  (void)check.look(tree.view(), use, {});
  for (const int minute : {1, 2, 3}) {
    tree.set("sys/class/infiniband/irdma0/ports/1/hw_counters/tcpRetransSegs", std::to_string(50'000 * minute));
    EXPECT_THAT(check.look(tree.view(), use, {std::chrono::minutes(minute)}), IsEmpty());
  }
}

TEST(FabricGrowth, EachDriversNamesAreKnown) {
  struct Case {
    const char* machine;
    const char* interface;
    const char* counter;
    const char* id;
  };
  for (const auto& c :
       {Case{kRxe, "eth1", "sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "packets_lost"},
        Case{kRxe, "eth1", "sys/class/infiniband/rxe0/ports/1/hw_counters/send_rnr_err", "no_receive"},
        Case{kIrdmaRoce, "ens3f0", "sys/class/infiniband/irdma0/ports/1/hw_counters/tcpRetransSegs", "packets_lost"},
        Case{kMlx5InfiniBand, "ibs1", "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "damaged"}}) {
    const Tree tree(c.machine);
    tree.set("sys/class/net/ens3f0/mtu", "9000");
    FabricCheck check;
    (void)check.look(tree.view(), portal_on(c.interface), {});
    tree.set(c.counter, "20000");
    (void)check.look(tree.view(), portal_on(c.interface), {1min});
    tree.set(c.counter, "40000");
    const auto findings = check.look(tree.view(), portal_on(c.interface), {2min});
    ASSERT_EQ(findings.size(), 1U) << c.counter;
    EXPECT_EQ(findings[0].id, c.id);
  }
}

}  // namespace
}  // namespace lockstep::rdma::test
