// Management on a file system without a free byte, as thin volumes beside it leave one: it starts, lockstepd learns its
// configuration, and a change is stored or refused.
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "mgmt/control/credentials_change.hpp"
#include "mgmt/control/initiator_service.hpp"
#include "mgmt/control/lapse_watch.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/token_service.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

namespace fs = std::filesystem;

class FullDiskTest : public ManagementTest {
 protected:
  static constexpr const char* kHost = "iqn.1993-08.org.debian:01:host1";
  void SetUp() override {
    if (::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=4m") != 0) GTEST_SKIP() << "may not mount";
    ManagementTest::SetUp();
    make_volume();
    node_->turns();
    ASSERT_EQ(plane_.applied["volumes"].size(), 1u);
  }
  void TearDown() override {
    node_.reset();
    ::umount2(folder_.path().c_str(), MNT_DETACH);
  }

  void stop() { node_.reset(); }
  /// What is on the disk is what was there when it ran.
  void kill() {
    const fs::path data = folder_.path() / "mgmt", then = folder_.path() / "then";
    fs::copy(data, then, fs::copy_options::recursive);
    stop();
    fs::remove_all(data);
    fs::rename(then, data);
  }
  void fill() {
    const int file = ::open(ballast_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string block(4096, 'x');
    while (::write(file, block.data(), block.size()) > 0) {
    }
    ::close(file);
    ASSERT_EQ(fs::space(folder_.path()).free, 0u);
  }
  void make_space() { fs::remove(ballast_); }
  void change_secret() {
    InitiatorService initiators(*node_->core);
    ASSERT_TRUE(initiators.create({kHost, Chap{"u1", "secret-one-0001"}, {}, 1}));
    ASSERT_TRUE(initiators.change_credentials({kHost, {"", "secret-new-0001"}, {}, std::chrono::seconds(3600)}));
  }
  [[nodiscard]] auto old_secret() const { return node_->core->configuration()->initiator(kHost)->old; }

  void start_and_tell_lockstepd() {
    ASSERT_NO_THROW(restart());
    plane_.restart("p2");
    node_->turns();
    ASSERT_TRUE(plane_.applied.is_object()) << "lockstepd was told nothing";
    EXPECT_EQ(plane_.applied["volumes"].size(), 1u);
  }
  /// Why a second volume can't be made.
  std::string refused() {
    const auto made = node_->volumes.create({.name = "vm2", .size = 1 << 30, .access = {}});
    return made ? "it was made" : made.error().detail;
  }
  /// Why the first one can't be renamed.
  std::string rename_refused() {
    try {
      VolumeChange change;
      change.name = "vm3";
      const auto renamed = node_->volumes.change(node_->core->configuration()->volumes.at(0).id, change);
      return renamed ? "it was renamed" : renamed.error().detail;
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  const fs::path ballast_ = folder_.path() / "ballast";
};

TEST_F(FullDiskTest, AStoppedOneStartsAndTellsLockstepdItsConfiguration) {
  stop();
  fill();
  start_and_tell_lockstepd();
}

TEST_F(FullDiskTest, AKilledOneStartsAndTellsLockstepdItsConfiguration) {
  kill();
  fill();
  start_and_tell_lockstepd();
}

TEST_F(FullDiskTest, AVolumeIsNotBegunWhereItsEndCouldNotBeRecorded) {
  fill();
  fs::resize_file(ballast_, fs::file_size(ballast_) - (512 << 10));
  const std::string why = refused();
  EXPECT_NE(why.find("Less than 1 MiB"), std::string::npos) << why;
  EXPECT_EQ(node_->core->configuration()->volumes.size(), 1u);
  make_space();
  EXPECT_EQ(refused(), "it was made");
}

TEST_F(FullDiskTest, AChangeThatFindsNoSpaceIsRefusedWithWhatToDoAndNothingIsChanged) {
  fill();
  const std::string why = rename_refused();
  EXPECT_NE(why.find("no space"), std::string::npos) << why;
  EXPECT_NE(why.find("mgmt.db"), std::string::npos) << why;
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).name, "vm1");
  EXPECT_EQ(node_->core->jobs.unfinished().size(), 0u);
  make_space();
  make_volume("vm2");
  node_->turns();
  EXPECT_EQ(plane_.applied["volumes"].size(), 2u);
}

TEST_F(FullDiskTest, IsToldBeforeAChangeIsRefusedAndNoMoreOnceThereIsSpace) {
  EXPECT_EQ(node_->core->database().trouble(), "");
  fill();
  EXPECT_NE(node_->core->database().trouble().find("mgmt.db: changes of the configuration are refused"),
            std::string::npos)
      << node_->core->database().trouble();
  rename_refused();
  make_space();
  make_volume("vm2");
  EXPECT_EQ(node_->core->database().trouble(), "");
}

/// What is seen to each second, such as the file of the first token, is seen to by the same loop.
TEST_F(FullDiskTest, ASecretWhoseTimeIsOverWaitsForSpaceAndHoldsNothingElseUp) {
  change_secret();
  const std::int64_t over = old_secret()->until_ms;
  LapseWatch watch(*node_->core);
  watch.turn(over - 1);
  fill();
  EXPECT_NO_THROW(watch.turn(over));
  EXPECT_TRUE(old_secret());
  make_space();
  watch.turn(over + 1'000);
  EXPECT_TRUE(old_secret()) << "it is not tried each second";
  watch.turn(over + 10'000);
  EXPECT_FALSE(old_secret());
}

TEST_F(FullDiskTest, ASecretThatWaitsIsForgottenThoughTheClockWasAheadWhenItCouldNotBe) {
  change_secret();
  const std::int64_t over = old_secret()->until_ms;
  LapseWatch watch(*node_->core);
  fill();
  watch.turn(over + 3'600'000'000);
  ASSERT_TRUE(old_secret());
  make_space();
  watch.turn(over);
  EXPECT_FALSE(old_secret());
}

TEST_F(FullDiskTest, WhoHasATokenIsLetIn) {
  const fs::path file = folder_.path() / "mgmt/admin.token";
  ASSERT_TRUE(TokenService(*node_->core).ensure_token_file(file));
  const std::string secret = read_file(file).value().substr(0, 47);  // "lst_", 256 bits in base64url
  fill();
  EXPECT_TRUE(TokenService(*node_->core).authenticate(secret));
}

}  // namespace
}  // namespace lockstep::mgmt
