// lockstep-mgmtd's configuration file: what is not honoured is never passed over in silence.
#include "mgmt/control/mgmtd_config.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

engine::Result<MgmtdConfig> read_text(const std::string& text) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "mgmtd.toml";
  std::ofstream(file) << text;
  return read_mgmtd_config(file);
}

std::string refusal_of(const std::string& text) {
  const auto read = read_text(text);
  return read ? "it is read" : read.error().message;
}

TEST(MgmtdConfigFile, WithASettingThatThereIsNotIsRefusedByItsNameAndLine) {
  EXPECT_THAT(refusal_of("listen = \"127.0.0.1:8443\"\nlease_ms = 1500\n"),
              HasSubstr("line 2: there is no setting lease_ms"));
  EXPECT_THAT(refusal_of("[pair]\nname = \"x\"\n"), HasSubstr("there is no setting pair"));
  EXPECT_THAT(refusal_of("portal = [\"10.0.0.1:3260\"]\n"), HasSubstr("line 1: there is no setting portal"));
}

TEST(MgmtdConfigFile, WithAValueThatCannotBeUsedIsRefusedByItsName) {
  EXPECT_THAT(refusal_of("portals = \"10.0.0.1:3260\"\n"), HasSubstr("line 1: portals must be a list"));
  EXPECT_THAT(refusal_of("portals = [\"here\"]\n"), HasSubstr("portals must be a numeric address"));
  EXPECT_THAT(refusal_of("link_address = \"node-a\"\n"), HasSubstr("link_address must be a numeric address"));
  EXPECT_THAT(refusal_of("node_name = 7\n"), HasSubstr("node_name must be a string"));
  EXPECT_THAT(refusal_of("create_patience_seconds = 0\n"), HasSubstr("create_patience_seconds must be"));
  EXPECT_THAT(refusal_of("log_level = \"loud\"\n"), HasSubstr("log_level must be"));
}

TEST(MgmtdConfigFile, SaysWhichOfItsSettingsAreNotInForceInThePair) {
  const auto config = read_text(
      "node_name = \"node-a\"\nportals = [\"10.0.0.1:3260\"]\nlink_address = \"10.0.1.1:3261\"\nlisten = "
      "\"10.0.0.1:8443\"\n");
  ASSERT_TRUE(config) << config.error().message;
  Node node;
  node.name = "node-a";
  node.portals = {"10.0.0.1:3260"};
  node.link_address = "10.0.1.1:3261";
  node.management_address = "10.0.0.9:8443";
  EXPECT_THAT(not_in_force(*config, node), IsEmpty()) << "management_address does not stand in the file";
  node.portals = {"10.0.0.1:3260", "10.0.2.1:3260"};
  node.link_address = "10.0.1.7:3261";
  const auto differ = not_in_force(*config, node);
  ASSERT_EQ(differ.size(), 2u);
  EXPECT_THAT(differ[0].sentence,
              HasSubstr("portals = 10.0.0.1:3260, which is not in force: the pair has 10.0.0.1:3260, 10.0.2.1:3260"));
  EXPECT_THAT(differ[0].advice, HasSubstr("lockstep node set a --portal 10.0.0.1:3260"));
  EXPECT_THAT(differ[1].sentence,
              HasSubstr("link_address = 10.0.1.1:3261, which is not in force: the pair has 10.0.1.7:3261"));
  EXPECT_THAT(differ[1].advice, HasSubstr("lockstep node set a --link-address 10.0.1.1:3261"));
}

TEST(MgmtdConfigFile, IsReadAgainWhenItWasChangedSoThatWhatDiffersIsOfNow) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "mgmtd.toml";
  const auto write = [&](const std::string& text) {
    static int seconds = 0;
    std::ofstream(file) << text;
    std::filesystem::last_write_time(file,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++seconds));
  };
  Node node;
  node.link_address = "10.0.1.7:3261";
  write("link_address = \"10.0.1.1:3261\"\n");
  FileWatch watch(file);
  EXPECT_EQ(watch.differences(node).size(), 1u);
  write("link_address = \"10.0.1.7:3261\"\n");
  EXPECT_THAT(watch.differences(node), IsEmpty());
  write("nonsense = 1\n");
  ASSERT_EQ(watch.differences(node).size(), 1u);
  EXPECT_THAT(watch.differences(node)[0].sentence, HasSubstr("there is no setting nonsense"));
}

}  // namespace
}  // namespace lockstep::mgmt
