// Which windows of a connection are open: the part of the real provider that needs no device.
#include <array>
#include <set>

#include <gtest/gtest.h>

#include "engine/rdma/real/windows.hpp"

namespace lockstep::rdma {
namespace {

constexpr std::array<std::uint32_t, 3> kKeys = {0x100, 0x2ff, 0x90007};

TEST(WindowKeys, AreTheNextOfTheDevicesOwn) {
  Windows windows(kKeys);
  EXPECT_EQ(windows.open().key, 0x101u);
  const auto second = windows.open();
  EXPECT_EQ(second.key, 0x200u) << "the upper bits are the device's";
  EXPECT_EQ(second.place, 1u);
  EXPECT_EQ(windows.open().key, 0x90008u);
  EXPECT_FALSE(windows.may_open());
}

TEST(WindowKeys, AWindowThatThePeerInvalidatedIsFreeAtOnceAndUnderAnotherKey) {
  Windows windows(kKeys);
  (void)windows.open();
  const auto invalidated = windows.open();
  (void)windows.open();
  windows.invalidated(invalidated.key);
  ASSERT_TRUE(windows.may_open());
  const auto again = windows.open();
  EXPECT_EQ(again.place, invalidated.place);
  EXPECT_EQ(again.key, invalidated.key + 1);
}

TEST(WindowKeys, AWindowThatIsHiddenIsFreeWhenThatIsOver) {
  Windows windows(kKeys);
  const auto first = windows.open(), second = windows.open();
  (void)windows.open();
  EXPECT_TRUE(windows.hide(second.key));
  EXPECT_TRUE(windows.hide(first.key));
  EXPECT_FALSE(windows.may_open());
  windows.hidden();
  EXPECT_EQ(windows.open().place, second.place);
  EXPECT_FALSE(windows.may_open());
  windows.hidden();
  EXPECT_EQ(windows.open().place, first.place);
}

TEST(WindowKeys, AKeyOfNoOpenWindowIsNeitherHiddenNorInvalidated) {
  Windows windows(kKeys);
  EXPECT_FALSE(windows.hide(0x100)) << "never opened";
  const auto first = windows.open();
  (void)windows.open();
  (void)windows.open();
  EXPECT_FALSE(windows.hide(first.key + 1)) << "not any more, or not yet";
  EXPECT_FALSE(windows.hide(0x555500)) << "another's";
  windows.invalidated(first.key + 1);
  windows.invalidated(0);
  windows.invalidated(0xffffffff);
  EXPECT_FALSE(windows.may_open());
  EXPECT_TRUE(windows.hide(first.key));
  EXPECT_FALSE(windows.hide(first.key)) << "once";
  windows.invalidated(first.key);
  EXPECT_FALSE(windows.may_open()) << "its hide is still to come";
}

TEST(WindowKeys, AKeyComesAgainAsLateAsCanBe) {
  Windows windows(kKeys);
  std::set<std::uint32_t> seen;
  for (std::size_t opened = 0; opened < 256 * kKeys.size(); ++opened) {
    const auto window = windows.open();
    EXPECT_TRUE(seen.insert(window.key).second) << opened;
    windows.invalidated(window.key);
  }
  EXPECT_EQ(windows.open().key, 0x101u);
}

TEST(WindowKeys, AConnectionMayHaveNone) {
  Windows windows;
  EXPECT_FALSE(windows.may_open());
  EXPECT_FALSE(windows.hide(0x101));
}

}  // namespace
}  // namespace lockstep::rdma
