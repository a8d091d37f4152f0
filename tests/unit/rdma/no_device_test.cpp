#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/fabric.hpp"

namespace lockstep::rdma {
namespace {

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(RealFabric, AMachineWithoutRdmaGetsASentenceAndNoThread) {
  const auto before = threads();
  const auto fabric = open_fabric();
  if (fabric) GTEST_SKIP() << "this machine has RDMA devices";
  EXPECT_TRUE(fabric.error().code);
  EXPECT_NE(fabric.error().message.find("There is no RDMA device"), std::string::npos) << fabric.error().message;
  EXPECT_EQ(threads(), before);
}

TEST(RdmaErrors, MemoryThatMayNotBePinnedNamesTheSettingOfTheUnit) {
  EXPECT_NE(make_error_code(RdmaErrc::memory_not_pinned).message().find("LimitMEMLOCK"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::rdma
