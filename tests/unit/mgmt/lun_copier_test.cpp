// What is copied from an array, and what an array does that ends a copy for good.
#include "mgmt/control/lun_copier.hpp"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/mgmt/foreign_array.hpp"

namespace lockstep::mgmt {
namespace {

using test::ForeignArray;

ForeignArray::Bytes noise() {
  ForeignArray::Bytes bytes(128 << 10);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(1 + i % 251);
  return bytes;
}

/// An array, and a new volume that is another one.
class LunCopierTest : public ::testing::Test {
 protected:
  /// A run of the copy, from its beginning to its end.
  CopyProgress copy() {
    CopyPlan plan;
    plan.from = array_.address("The source");
    plan.to = volume_.address("The new volume");
    plan.size = noise().size();
    plan.block_size = ForeignArray::kBlock;
    LunCopier copier(plan);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!copier.progress().ended && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(copier.progress().ended);
    return copier.progress();
  }

  ForeignArray array_{{.bytes = noise()}};
  ForeignArray volume_{{.bytes = ForeignArray::Bytes(noise().size())}};
};

/// SBC-4: 0 is mapped or unknown, 1 deallocated, 2 anchored, 3 mapped, 4 unknown; the rest is reserved.
TEST_F(LunCopierTest, OnlyWhatTheArrayCallsDeallocatedOrAnchoredIsLeftOut) {
  for (const std::uint8_t status : {0, 1, 2, 3, 4, 5, 15}) {
    SCOPED_TRACE("provisioning status " + std::to_string(status));
    array_.set({.bytes = noise(), .provisioning = status});
    volume_.set({.bytes = ForeignArray::Bytes(noise().size())});
    const CopyProgress run = copy();
    EXPECT_FALSE(run.fault) << run.fault->sentence;
    EXPECT_EQ(run.position, noise().size());
    EXPECT_EQ(volume_.get().bytes == noise(), status != 1 && status != 2);
  }
}

}  // namespace
}  // namespace lockstep::mgmt
