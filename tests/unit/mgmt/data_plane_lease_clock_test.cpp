#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "mgmt/data_plane/lease_clock.hpp"

namespace lockstep::data_plane {
namespace {

bool told_by(const std::string& text) {
  const std::string path =
      testing::TempDir() + "cpuinfo-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed());
  std::ofstream(path) << text;
  const bool virtual_one = is_virtual_machine(path);
  std::remove(path.c_str());
  return virtual_one;
}

TEST(LeaseClock, AVirtualMachineIsKnownByTheHypervisorFlagOfItsProcessors) {
  EXPECT_TRUE(told_by("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs\t:\n"));
  EXPECT_TRUE(told_by("flags\t\t: fpu hypervisor"));
  EXPECT_FALSE(told_by("flags\t\t: fpu vme lahf_lm\nmodel name\t: hypervisor of the year\n"));
  EXPECT_FALSE(told_by(""));
  EXPECT_FALSE(is_virtual_machine("/nonexistent"));
}

TEST(LeaseClock, ABootIsKnownByTheKernelsNumberOfIt) {
  EXPECT_NE(this_boot(), 0u);
  EXPECT_EQ(this_boot(), this_boot());
  EXPECT_EQ(this_boot("/nonexistent"), 0u);
  EXPECT_EQ(this_boot("/proc/version"), 0u);
}

TEST(LeaseClock, TheOptionDecidesWhereItIsNotLeftToTheMachine) {
  EXPECT_TRUE(asks_partner("partner"));
  EXPECT_FALSE(asks_partner("boottime"));
}

}  // namespace
}  // namespace lockstep::data_plane
