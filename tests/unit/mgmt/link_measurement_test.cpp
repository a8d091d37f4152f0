// What stands out of a path's measurement, and what is said of it.
#include "mgmt/control/link_measurement.hpp"

#include <gtest/gtest.h>

#include "mgmt/control/network_interface.hpp"

namespace lockstep::mgmt {
namespace {

std::vector<SizeMeasured> good() {
  return {{64, 3000, 50, 60, 90, 10'000'000}, {1 << 20, 200, 900, 1000, 1500, 1'150'000'000}};
}
NetworkInterface with(std::uint64_t mtu, std::uint64_t megabits) {
  return {.name = "eth1", .addresses = {}, .mtu = mtu, .megabits = megabits};
}
NetworkInterface ten_gigabits() { return with(9000, 10'000); }
LinkPathStatus path() {
  LinkPathStatus status;
  status.segments_out = 100'000;
  status.path_mtu = 9000;
  return status;
}

TEST(LinkMeasurement, OfAGoodPathSaysNothing) {
  EXPECT_TRUE(findings_of(good(), path(), ten_gigabits()).empty());
  EXPECT_TRUE(findings_of(good(), {}, {}).empty()) << "nothing is said of what is not known";
  EXPECT_TRUE(findings_of({}, path(), ten_gigabits()).empty());
}

std::string only_finding(const std::vector<SizeMeasured>& sizes, const LinkPathStatus& status,
                         const NetworkInterface& here) {
  const auto all = findings_of(sizes, status, here);
  return all.size() == 1 ? all.front() : "there are " + std::to_string(all.size());
}

TEST(LinkMeasurement, TellsOfSlowAndOfUnsteadyRoundTrips) {
  auto sizes = good();
  sizes[0].median_us = 3'210;
  sizes[0].p99_us = 4'000;
  EXPECT_TRUE(only_finding(sizes, path(), ten_gigabits()).starts_with("A round trip takes 3.21 ms"));
  sizes = good();
  sizes[0].p99_us = 25'000;
  EXPECT_TRUE(only_finding(sizes, path(), ten_gigabits()).starts_with("One round trip in a hundred takes 25.00 ms"));
}

TEST(LinkMeasurement, TellsOfPacketsThatHadToBeSentAgain) {
  auto status = path();
  status.segments_sent_again = 99;
  EXPECT_TRUE(findings_of(good(), status, ten_gigabits()).empty());
  status.segments_sent_again = 100;
  EXPECT_TRUE(only_finding(good(), status, ten_gigabits()).starts_with("100 of 100000 packets"));
}

TEST(LinkMeasurement, TellsOfPacketSizesThatDoNotFit) {
  auto status = path();
  status.path_mtu = 1500;
  EXPECT_TRUE(only_finding(good(), status, ten_gigabits()).starts_with("eth1 here takes packets of 9000 bytes"));
  EXPECT_TRUE(only_finding(good(), status, with(1500, 10'000)).starts_with("eth1 here has an MTU of 1500"));
  EXPECT_TRUE(findings_of(good(), status, with(1500, 1'000)).empty()) << "it is not worth the trouble";
}

TEST(LinkMeasurement, TellsOfBandwidthThatIsNotThere) {
  auto sizes = good();
  sizes[1].bytes_a_second = 600'000'000;
  EXPECT_TRUE(only_finding(sizes, path(), ten_gigabits()).starts_with("4800 Mb/s get through of the 10000 Mb/s"));
}

TEST(LinkMeasurement, OverRdmaTellsOfTimeAndSpeedAndOfWhatWasFoundOfTheMachine) {
  EXPECT_TRUE(findings_over_rdma({good()}, ten_gigabits(), {}).empty());
  auto sizes = good();
  sizes[0].median_us = 1'500;
  sizes[1].bytes_a_second = 100'000'000;
  const auto told =
      findings_over_rdma({sizes}, ten_gigabits(), {{"mtu", "advice", "The MTU is small.", "Set it to 4096."}});
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(told[0].starts_with("A round trip takes 1.50 ms")) << told[0];
  EXPECT_TRUE(told[1].starts_with("800 Mb/s get through of the 10000 Mb/s")) << told[1];
  EXPECT_EQ(told[2], "The MTU is small. Set it to 4096.");
}

TEST(LinkMeasurement, OverRdmaTellsThatWhatWasMeasuredWasCopied) {
  const auto told = findings_over_rdma({good(), true}, ten_gigabits(), {});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].starts_with("This node had no memory left that the network card knows")) << told[0];
}

TEST(LinkMeasurement, IsReadAsLockstepdSendsItAndNotOtherwise) {
  const auto measured = link_measured_from(
      R"({"sizes": [{"bytes": 64, "round_trips": 3, "least_us": 1.5, "median_us": 2, "p99_us": 3, "bytes_a_second": 7}]})");
  ASSERT_TRUE(measured);
  EXPECT_EQ(*measured, (LinkMeasured{{{64, 3, 1.5, 2, 3, 7}}, false}));
  EXPECT_TRUE(link_measured_from(R"({"sizes": [], "copied": true})")->copied);
  for (const char* wrong :
       {"", "{", "{}", R"({"sizes": 7})", R"({"sizes": [], "copied": 7})", R"({"sizes": [{}]})",
        R"({"sizes": [{"bytes": "x", "round_trips": 3, "least_us": 1, "median_us": 2, "p99_us": 3}]})"})
    EXPECT_FALSE(link_measured_from(wrong)) << wrong;
}

TEST(NetworkInterface, IsFoundByAnAddressOfThisMachines) {
  const auto loopback = interface_of("127.0.0.1");
  ASSERT_TRUE(loopback);
  EXPECT_EQ(loopback->name, "lo");
  EXPECT_GT(loopback->mtu, 1000u);
  EXPECT_EQ(loopback->megabits, 0u);
  EXPECT_FALSE(interface_of("192.0.2.1"));
  EXPECT_FALSE(interface_of(""));
}

}  // namespace
}  // namespace lockstep::mgmt
