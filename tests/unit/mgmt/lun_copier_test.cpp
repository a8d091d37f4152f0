// What is copied from an array, and what an array does that ends a copy for good.
#include "mgmt/control/lun_copier.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "mgmt/control/validation.hpp"
#include "tests/unit/mgmt/foreign_array.hpp"

namespace lockstep::mgmt {
namespace {

using test::ForeignArray;

constexpr std::uint8_t kTestUnitReady = 0x00, kRead = 0x88, kReadCapacity = 0x9E;
constexpr ForeignArray::Failure kNoSuchUnit{.key = 0x05, .code = 0x2500};

ForeignArray::Bytes noise() {
  ForeignArray::Bytes bytes(128 << 10);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(1 + i % 251);
  return bytes;
}

/// An array, and a new volume that is another one.
class LunCopierTest : public ::testing::Test {
 protected:
  /// A run of the copy, from its beginning to its end.
  CopyProgress copy(const std::string& identity = "") {
    CopyPlan plan;
    plan.identity = identity;
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

/// An array that starts listens before its targets, units and accounts are there.
TEST_F(LunCopierTest, AnArrayThatDoesNotHaveItsUnitYetIsWaitedFor) {
  for (const std::uint16_t refusal : {0x0201, 0x0202, 0x0203}) {
    SCOPED_TRACE("login status " + std::to_string(refusal));
    array_.set({.bytes = noise(), .login_refusal = refusal});
    const CopyProgress run = copy();
    ASSERT_TRUE(run.fault);
    EXPECT_TRUE(run.fault->passing) << run.fault->sentence;
  }
  for (const std::uint8_t opcode : {kTestUnitReady, kReadCapacity}) {
    array_.set({.bytes = noise(), .failures = {{opcode, kNoSuchUnit}}});
    const CopyProgress run = copy();
    ASSERT_TRUE(run.fault);
    EXPECT_TRUE(run.fault->passing) << run.fault->sentence;
    EXPECT_NE(run.fault->sentence.find("no disk at LUN 0"), std::string::npos) << run.fault->sentence;
  }
  array_.set({.bytes = noise()});
  EXPECT_FALSE(copy().fault);
}

TEST_F(LunCopierTest, AUnitThatIsTakenAwayOrReservedWhileItIsReadIsWaitedFor) {
  constexpr ForeignArray::Failure kReserved{.status = 0x18}, kChanged{.key = 0x05, .code = 0x3F0E};
  for (const auto& failure : {kNoSuchUnit, kReserved, kChanged}) {
    array_.set({.bytes = noise(), .failures = {{kRead, failure}}});
    const CopyProgress run = copy();
    ASSERT_TRUE(run.fault);
    EXPECT_TRUE(run.fault->passing) << run.fault->sentence;
  }
}

TEST_F(LunCopierTest, ABlockThatCannotBeReadOrAnotherSizeEndTheCopyForGood) {
  constexpr ForeignArray::Failure kBadBlock{.key = 0x03, .code = 0x1100};
  array_.set({.bytes = noise(), .failures = {{kRead, kBadBlock}}});
  const CopyProgress bad = copy();
  ASSERT_TRUE(bad.fault);
  EXPECT_FALSE(bad.fault->passing) << bad.fault->sentence;
  array_.set({.bytes = ForeignArray::Bytes(2 * noise().size())});
  const CopyProgress larger = copy();
  ASSERT_TRUE(larger.fault);
  EXPECT_FALSE(larger.fault->passing) << larger.fault->sentence;
}

TEST_F(LunCopierTest, AnotherUnitOfTheSameSizeIsNotTakenForTheSource) {
  const auto named = [](std::uint8_t last) {
    return ForeignArray::Unit{.bytes = noise(), .designators = {1, 3, 0, 8, 0x60, 1, 2, 3, 4, 5, 6, last}};
  };
  array_.set(named(7));
  EXPECT_FALSE(copy("naa.6001020304050607").fault);
  array_.set(named(8));
  const CopyProgress other = copy("naa.6001020304050607");
  ASSERT_TRUE(other.fault);
  EXPECT_FALSE(other.fault->passing);
  EXPECT_NE(other.fault->sentence.find("another unit now (naa.6001020304050608)"), std::string::npos)
      << other.fault->sentence;
  EXPECT_FALSE(copy("").fault) << "it was not looked at when the import began";
  array_.set({.bytes = noise(), .serial = "  ABC1 "});
  EXPECT_FALSE(copy("serial ABC1").fault);
  array_.set({.bytes = noise()});
  EXPECT_TRUE(copy("serial ABC1").fault);
}

/// The bytes of some of them are no number of 64 bits.
TEST(LunSession, IsNotOpenedWithAUnitThatIsLargerThanAVolumeCanBe) {
  constexpr std::uint64_t kMost = static_cast<std::uint64_t>(kMaxVolumeSize) / ForeignArray::kBlock;
  constexpr std::uint64_t kWraps = (std::uint64_t{1} << 55) - 1;
  const std::atomic<bool> goes_on(false);
  for (const std::uint64_t last : {kMost, kWraps, kWraps + 1, ~std::uint64_t{1}}) {
    const ForeignArray array({.bytes = ForeignArray::Bytes(512), .last_block = last});
    const auto session = LunSession::open(array.address("The source"), goes_on);
    ASSERT_FALSE(session) << last;
    EXPECT_NE(session.error().sentence.find("larger than 64 TiB"), std::string::npos) << session.error().sentence;
  }
  const ForeignArray array({.bytes = ForeignArray::Bytes(512), .last_block = kMost - 1});
  EXPECT_TRUE(LunSession::open(array.address("The source"), goes_on));
}

}  // namespace
}  // namespace lockstep::mgmt
