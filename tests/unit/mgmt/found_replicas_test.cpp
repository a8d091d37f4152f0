// What is read of the replicas in a folder, and what is made of files that are damaged, or are none.
#include "mgmt/control/found_replicas.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/mgmt/replica_files.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using test::ReplicaOnDisk;
using ::testing::HasSubstr;

class FoundReplicas : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  ReplicaOnDisk replica_ = ReplicaOnDisk::of(random_uuid(), "vm1");

  /// The only one.
  FoundReplica read() {
    const auto all = replicas_read(folder_.path());
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? FoundReplica{} : all.front();
  }
  std::string metadata() const { return replica_.files(folder_.path()).metadata; }
  void change(std::size_t at) {
    std::fstream file(metadata(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char was = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(was ^ 1));
  }
};

TEST_F(FoundReplicas, SayWhatTheirMetadataSays) {
  replica_.identity.key = engine::SealedKey{random_uuid(), {}};
  replica_.write(folder_.path());
  const FoundReplica found = read();
  EXPECT_EQ(found.left_alone, "");
  EXPECT_EQ(found.volume, replica_.identity.volume);
  EXPECT_EQ(found.identity, replica_.identity);
  EXPECT_EQ(found.epoch, replica_.epoch);
  EXPECT_EQ(found.bytes, 1 << 20);
}

TEST_F(FoundReplicas, AreReadFromTheSlotThatIsLeftAndNothingIsMended) {
  replica_.write(folder_.path());
  change(100);
  change(2 * engine::layout::kBlock + 100);
  const auto before = read_file(metadata());
  EXPECT_EQ(read().identity, replica_.identity);
  EXPECT_EQ(*read_file(metadata()), *before);
}

TEST_F(FoundReplicas, WithTheSameByteOfBothSlotsChangedAreLeftAlone) {
  constexpr std::size_t kBlock = engine::layout::kBlock;
  for (const std::size_t first : {std::size_t{0}, 2 * kBlock})
    for (std::size_t at = 0; at < kBlock; at += 61) {
      replica_.write(folder_.path());
      change(first + at);
      change(first + kBlock + at);
      const FoundReplica found = read();
      EXPECT_FALSE(found.identity) << at;
      EXPECT_THAT(found.left_alone, HasSubstr("is left: slot 0")) << at;
    }
}

TEST_F(FoundReplicas, CutShortAnywhereAreLeftAlone) {
  for (const std::size_t length : {0, 1, 4096, 3 * 4096, 4 * 4096 - 1}) {
    replica_.write(folder_.path());
    std::filesystem::resize_file(metadata(), length);
    EXPECT_THAT(read().left_alone, HasSubstr("is cut short")) << length;
  }
  replica_.write(folder_.path());
  std::filesystem::resize_file(replica_.files(folder_.path()).data, 4096);
  EXPECT_EQ(read().left_alone, "Its data is cut short: it has 4096 bytes of 1048576.");
  std::filesystem::remove(replica_.files(folder_.path()).data);
  EXPECT_EQ(read().left_alone, "Its data is missing.");
}

TEST_F(FoundReplicas, UnderAnotherVolumesNameAreLeftAlone) {
  replica_.write(folder_.path());
  ReplicaOnDisk other = ReplicaOnDisk::of(replica_.identity.pair, "vm2");
  const auto from = replica_.files(folder_.path()), to = other.files(folder_.path());
  std::filesystem::rename(from.metadata, to.metadata);
  std::filesystem::rename(from.data, to.data);
  EXPECT_THAT(read().left_alone, HasSubstr("belongs to volume " + replica_.identity.volume.to_string()));
}

TEST_F(FoundReplicas, WhoseSlotsAreOfDifferentOwnersAreLeftAlone) {
  replica_.write(folder_.path());
  std::string of_a = *read_file(metadata());
  replica_.owned_by(NodeSide::b).write(folder_.path());
  std::string mixed = *read_file(metadata());
  mixed.replace(0, engine::layout::kBlock, of_a, 0, engine::layout::kBlock);
  std::ofstream(metadata(), std::ios::binary) << mixed;
  EXPECT_THAT(read().left_alone, HasSubstr("belongs to node B's replica"));
}

TEST_F(FoundReplicas, ThatNoVolumeCanBeAreLeftAloneWithWhy) {
  for (const char* serial : {"", "two words", "\x1b[2J", "\xff"}) {
    ReplicaOnDisk bad = replica_;
    bad.identity.serial = serial;
    bad.write(folder_.path());
    EXPECT_EQ(read().left_alone, "Its serial is not one that a volume has.") << serial;
  }
  ReplicaOnDisk bad = replica_;
  bad.epoch.size = 512;
  bad.write(folder_.path());
  EXPECT_EQ(read().left_alone, "Its size is not one that a volume has.");
  bad = replica_;
  bad.identity.pair = {};
  bad.write(folder_.path());
  EXPECT_EQ(read().left_alone, "Its pair has no id.");
}

TEST_F(FoundReplicas, ThatAreLinksOrFoldersOrPipesAreNotOpened) {
  replica_.write(folder_.path());
  const std::string elsewhere = folder_.path() / "elsewhere";
  std::filesystem::rename(metadata(), elsewhere);
  std::filesystem::create_symlink(elsewhere, metadata());
  EXPECT_THAT(read().left_alone, HasSubstr("can't be opened"));
  std::filesystem::remove(metadata());
  std::filesystem::create_directory(metadata());
  EXPECT_THAT(read().left_alone, HasSubstr("is not a file that Lockstep made"));
  std::filesystem::remove(metadata());
  ASSERT_EQ(::mkfifo(metadata().c_str(), 0600), 0);
  EXPECT_THAT(read().left_alone, HasSubstr("is not a file that Lockstep made"));
}

TEST_F(FoundReplicas, AreKnownByTheirNamesAndNumbers) {
  const std::string id = replica_.identity.volume.to_string();
  std::string upper = id;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const std::string& name : {id, id + ".2", id + ".17", id + ".1", id + ".02", id + ".", id + ".x", id + ".2x",
                                  id + "2", id + ".99999999999999999999", upper, std::string("x")})
    std::ofstream(folder_.path() / (name + ".meta")) << name;
  std::vector<std::int64_t> copies;
  for (const auto& found : replicas_named(folder_.path())) copies.push_back(found.copy);
  EXPECT_EQ(copies, (std::vector<std::int64_t>{1, 2, 17}));
  EXPECT_TRUE(replicas_named(folder_.path() / "nowhere").empty());
}

}  // namespace
}  // namespace lockstep::mgmt
