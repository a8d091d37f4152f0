// What a node keeps, in files, of replicas that left without their metadata.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string_view>

#include <gtest/gtest.h>

#include "mgmt/data_plane/left_record_files.hpp"
#include "tests/unit/mgmt/data_plane_file_calls.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Uuid;

Uuid volume_id(std::uint8_t n) {
  Uuid u;
  u.bytes[3] = n;
  return u;
}

engine::EpochRecord record_of_the_partner() {
  engine::EpochRecord r;
  r.number = 7;
  r.id = volume_id(70);
  r.members = engine::MemberSet::only(engine::NodeSide::b);
  r.sequencer = engine::NodeSide::b;
  r.size = 1 << 20;
  r.ancestors = {volume_id(60), volume_id(50)};
  return r;
}

class LeftRecords : public testing::Test {
 protected:
  LeftRecords() { reactor.start(); }

  std::error_code keep(LeftRecordFiles& files, const Uuid& volume) {
    std::promise<std::error_code> kept;
    reactor.post(
        [&] { files.keep(volume, record_of_the_partner(), [&](std::error_code error) { kept.set_value(error); }); });
    return kept.get_future().get();
  }
  [[nodiscard]] std::string path() const { return folder.path().string() + "/left/" + volume_id(1).to_string(); }

  test::TemporaryFolder folder;
  engine::Reactor reactor{engine::ReactorOptions{}};
};

TEST_F(LeftRecords, AreThereAfterARestart) {
  {
    LeftRecordFiles files(reactor, folder.path().string());
    EXPECT_EQ(files.kept(volume_id(1)).value(), std::nullopt);
    ASSERT_EQ(keep(files, volume_id(1)), std::error_code{});
  }
  LeftRecordFiles again(reactor, folder.path().string());
  const auto kept = again.kept(volume_id(1)).value();
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(*kept, record_of_the_partner());
  EXPECT_EQ(again.kept(volume_id(2)).value(), std::nullopt);
}

/// Else a power cut could take the folder, and all that is in it.
TEST_F(LeftRecords, AreDurableWithTheFolderTheyAreIn) {
  LeftRecordFiles files(reactor, folder.path().string());
  std::atomic<int> syncs = 0;
  const test::FileCallHook hook([&](const char* call) { syncs += std::string_view(call) == "fsync"; });
  ASSERT_EQ(keep(files, volume_id(1)), std::error_code{});
  EXPECT_EQ(syncs, 3) << "the folder that holds theirs, the file, theirs";
}

TEST_F(LeftRecords, AreGoneOnceForgotten) {
  {
    LeftRecordFiles files(reactor, folder.path().string());
    ASSERT_EQ(keep(files, volume_id(1)), std::error_code{});
    files.forget(volume_id(1));
    EXPECT_EQ(files.kept(volume_id(1)).value(), std::nullopt);
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(LeftRecords, ThatCannotBeReadAreAnErrorAndNotNone) {
  std::filesystem::create_directory(folder.path() / "left");
  std::ofstream(path()) << "what was this";
  LeftRecordFiles files(reactor, folder.path().string());
  const auto kept = files.kept(volume_id(1));
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(kept.error(), make_error_code(engine::Errc::corrupt));
}

TEST_F(LeftRecords, WhoseFolderCannotBeListedAreAnErrorAndNotNone) {
  std::ofstream(folder.path() / "left") << "a file where the folder should be";
  LeftRecordFiles files(reactor, folder.path().string());
  EXPECT_FALSE(files.kept(volume_id(1)).has_value());
}

TEST_F(LeftRecords, ThatCannotBeWrittenSaySo) {
  std::ofstream(folder.path() / "left") << "a file where the folder should be";
  LeftRecordFiles files(reactor, folder.path().string());
  EXPECT_EQ(keep(files, volume_id(1)), make_error_code(engine::Errc::io_error));
}

}  // namespace
}  // namespace lockstep::data_plane
