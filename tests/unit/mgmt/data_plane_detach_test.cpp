// A volume that is detached while its disk may hang: what waits for it, and what does not.
#include "tests/unit/mgmt/data_plane_hanging_disks.hpp"

namespace lockstep::data_plane {
namespace {

using namespace hanging;

TEST_F(DetachTest, AVolumeThatIsDetachedIsAttachedAgainOrDeletedAtOnce) {
  start(60s);
  ASSERT_EQ(made(1) + made(2), "");
  ASSERT_EQ(applied({1, 2}), "");
  ASSERT_TRUE(serves(1) && serves(2));
  EXPECT_EQ(applied({2}), "");
  EXPECT_EQ(applied({1, 2}), "");
  EXPECT_EQ(applied({}), "");
  EXPECT_EQ(removed(1) + removed(2), "");
}

TEST_F(DetachTest, ADiskThatHangsHoldsUpItsOwnVolumeOnly) {
  start(300ms);
  ASSERT_EQ(made(1) + made(2) + made(3), "");
  ASSERT_EQ(applied({1, 2}), "");
  ASSERT_TRUE(serves(1) && serves(2));
  hold(1);
  EXPECT_EQ(applied({2}), "volume vm1;");
  EXPECT_TRUE(owes(1));
  EXPECT_EQ(applied({2, 3}), "volume vm1;") << "another one is attached";
  EXPECT_TRUE(serves(3));
  EXPECT_EQ(applied({3}), "volume vm1;") << "another one is detached";
  EXPECT_EQ(removed(2), "");
  EXPECT_NE(removed(1).find("disk"), std::string::npos) << "not while the store is in use";
  EXPECT_NE(made(1).find("disk"), std::string::npos);
  EXPECT_EQ(applied({1, 3}), "volume vm1;");
  EXPECT_TRUE(owes(1)) << "nothing of it was freed";
  release(1);
  EXPECT_TRUE(eventually([&] { return applied({1, 3}).empty(); }));
  EXPECT_TRUE(serves(1));
}

/// Its session is not gone before the command is.
TEST_F(DetachTest, ACommandThatADiskKeepsHoldsUpItsOwnVolumeOnly) {
  start(300ms);
  ASSERT_EQ(made(1) + made(2), "");
  ASSERT_EQ(applied({1, 2}), "");
  ASSERT_TRUE(serves(1) && serves(2));
  Worker& elsewhere = *workers_.back();
  scsi::Nexus nexus;
  nexus.id = 1;
  nexus.initiator_name = "iqn.1994-05.com.example:one";
  const auto there = [&](auto act) {
    std::promise<void> over;
    elsewhere.reactor.post([&] { act(), over.set_value(); });
    over.get_future().get();
  };
  there([&] { elsewhere.device.on_nexus_opened(nexus); });
  const auto good = [&] {
    Read read(nexus, 1);
    there([&] { elsewhere.device.execute(read); });
    return eventually([&] { return read.done.load(); }) && read.status == scsi::Status::good;
  };
  ASSERT_TRUE(eventually(good)) << "after the unit attention";
  hold(1);
  Read kept(nexus, 1);
  there([&] { elsewhere.device.execute(kept); });
  ASSERT_TRUE(eventually([&] { return owes(1); }));
  EXPECT_EQ(applied({2}), "volume vm1;");
  EXPECT_EQ(applied({}), "volume vm1;");
  EXPECT_EQ(removed(2), "");
  EXPECT_FALSE(kept.done);
  release(1);
  EXPECT_TRUE(eventually([&] { return kept.done.load(); }));
  EXPECT_TRUE(eventually([&] { return applied({1}).empty(); }));
  there([&] { elsewhere.device.on_nexus_closed(nexus); });
}

TEST_F(DetachTest, AStopDoesNotWaitForADiskThatHangsAndSaysThatItIsOwed) {
  start(300ms);
  ASSERT_EQ(made(1), "");
  ASSERT_EQ(applied({1}), "");
  ASSERT_TRUE(serves(1));
  hold(1);
  EXPECT_EQ(applied({}), "volume vm1;");
  EXPECT_TRUE(shut_down());
  EXPECT_TRUE(on_home<bool>([&] { return node_->is_owed(); }));
  release(1);
}

}  // namespace
}  // namespace lockstep::data_plane
