// A volume that is attached, made, lengthened or deleted on a disk that may hang: what waits for it, and what does not.
#include "tests/unit/mgmt/data_plane_hanging_disks.hpp"

namespace lockstep::data_plane {
namespace {

using namespace hanging;

TEST_F(DetachTest, ADiskThatHangsAsItsVolumeIsAttachedHoldsUpThatOneOnly) {
  start(300ms);
  ASSERT_EQ(made(1) + made(2) + made(3), "");
  hold_opening(1);
  EXPECT_EQ(applied({1, 2}), "volume vm1;");
  EXPECT_TRUE(serves(2));
  EXPECT_EQ(applied({1, 2, 3}), "volume vm1;") << "it is not asked again meanwhile";
  EXPECT_TRUE(serves(3));
  EXPECT_TRUE(is_opening(1));
  release_opening(1);
  EXPECT_TRUE(eventually([&] { return applied({1, 2, 3}).empty(); }));
  EXPECT_TRUE(serves(1));
}

/// Its copy may have been changed, or be another one, by the time that it comes.
TEST_F(DetachTest, AnAttachThatComesTooLateIsUndone) {
  start(300ms);
  ASSERT_EQ(made(1) + made(2), "");
  hold_opening(1);
  EXPECT_EQ(applied({1}), "volume vm1;");
  auto deletion = asked_to_remove(1);
  EXPECT_EQ(applied({2}), "") << "a request for that disk holds up nothing either";
  EXPECT_NE(deletion.wait_for(0s), std::future_status::ready) << "not while it is open";
  release_opening(1);
  ASSERT_EQ(deletion.wait_for(kSoon), std::future_status::ready);
  const auto outcome = deletion.get();
  EXPECT_TRUE(outcome) << outcome.error().message;
  EXPECT_FALSE(std::filesystem::exists(path(1, ".data")));
  EXPECT_TRUE(serves(2));
}

TEST_F(DetachTest, AStopDoesNotWaitForADiskThatHangsAsItsVolumeIsAttached) {
  start(300ms);
  ASSERT_EQ(made(1), "");
  hold_opening(1);
  EXPECT_EQ(applied({1}), "volume vm1;");
  EXPECT_TRUE(shut_down());
  EXPECT_TRUE(on_home<bool>([&] { return node_->is_owed(); }));
  release_opening(1);
}

/// While it is held, whoever makes a file durable stands still.
class HeldFiles {
 public:
  ~HeldFiles() { release(); }
  void hold() { held_ = true; }
  void release() {
    held_ = false;
    held_.notify_all();
  }
  [[nodiscard]] bool keeps_somebody() const { return standing_ > 0; }

 private:
  std::atomic<bool> held_ = false;
  std::atomic<int> standing_ = 0;
  test::FileCallHook hook_{[this](const char* call) {
    if (std::string_view(call) != "fsync") return;
    ++standing_;
    held_.wait(true);
    --standing_;
  }};
};

TEST_F(DetachTest, ADiskThatHangsAsAReplicaIsMadeHoldsUpNothingElse) {
  start(300ms);
  ASSERT_EQ(made(2), "");
  HeldFiles files;
  files.hold();
  auto first = asked_to_make(1);
  ASSERT_TRUE(eventually([&] { return files.keeps_somebody(); }));
  EXPECT_EQ(applied({2}), "");
  EXPECT_TRUE(serves(2));
  auto again = asked_to_make(1);
  EXPECT_EQ(applied({1, 2}), "volume vm1;") << "it is not there yet";
  EXPECT_NE(first.wait_for(0s), std::future_status::ready);
  files.release();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(again.get()) << "it is there already";
  EXPECT_EQ(applied({1, 2}), "");
  EXPECT_TRUE(serves(1));
}

TEST_F(DetachTest, ADiskThatHangsAsAVolumeIsLengthenedHoldsUpNothingElse) {
  may_hold_ = false;
  start(300ms);
  ASSERT_EQ(made(1) + made(2), "");
  ASSERT_EQ(applied({1}), "");
  ASSERT_TRUE(serves(1));
  HeldFiles files;
  files.hold();
  auto grown = asked_to_grow(1);
  ASSERT_TRUE(eventually([&] { return files.keeps_somebody(); }));
  EXPECT_EQ(applied({1, 2}), "");
  EXPECT_TRUE(serves(2));
  EXPECT_EQ(applied({2}), "") << "it can be detached";
  EXPECT_EQ(applied({1, 2}), "volume vm1;") << "and not attached while its files change";
  EXPECT_NE(grown.wait_for(0s), std::future_status::ready);
  files.release();
  ASSERT_EQ(grown.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(eventually([&] { return applied({1, 2}).empty(); }));
  EXPECT_TRUE(asked_to_grow(1).get());
}

TEST_F(DetachTest, ADiskThatHangsAsTheMetadataTakesTheLongerFilesHoldsUpNothingElse) {
  holds_metadata_ = true;
  start(300ms);
  ASSERT_EQ(made(1) + made(2), "");
  ASSERT_EQ(applied({1}), "");
  ASSERT_TRUE(serves(1));
  hold(1);
  auto grown = asked_to_grow(1);
  ASSERT_TRUE(eventually([&] { return owes(1); }));
  EXPECT_EQ(applied({1, 2}), "");
  EXPECT_TRUE(serves(2));
  auto made_later = asked_to_make(3);
  ASSERT_EQ(made_later.wait_for(kSoon), std::future_status::ready);
  EXPECT_NE(grown.wait_for(0s), std::future_status::ready) << "it waits for its disk";
  EXPECT_EQ(applied({2}), "volume vm1;") << "its metadata is at work still";
  EXPECT_EQ(applied({1, 2}), "volume vm1;");
  release(1);
  ASSERT_EQ(grown.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(eventually([&] { return applied({1, 2}).empty(); }));
  EXPECT_TRUE(asked_to_grow(1).get());
  EXPECT_TRUE(serves(1));
}

/// The files are at work still: the process may not wait for them, nor be taken apart.
TEST_F(DetachTest, AStopWaitsForFilesThatAreLengthened) {
  may_hold_ = false;
  start(60s);
  ASSERT_EQ(made(1), "");
  ASSERT_EQ(applied({1}), "");
  HeldFiles files;
  files.hold();
  auto grown = asked_to_grow(1);
  ASSERT_TRUE(eventually([&] { return files.keeps_somebody(); }));
  std::atomic<bool> stopped = false;
  workers_.front()->reactor.post([&] { node_->shutdown([&] { stopped = true; }); });
  std::this_thread::sleep_for(Node::kRetireGrace + Node::kLeavePatience);
  EXPECT_FALSE(stopped);
  EXPECT_TRUE(on_home<bool>([&] { return node_->is_owed(); }));
  files.release();
  EXPECT_TRUE(eventually([&] { return stopped.load(); }));
  set_stopped();
}

}  // namespace
}  // namespace lockstep::data_plane
