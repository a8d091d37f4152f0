// mgmtd.toml is at each moment the file as it was or the whole new one, and nothing is left beside it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/cli/setup_host.hpp"
#include "ui-api/cli/setup/config_file.hpp"

namespace lockstep::cli::setup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct SetupConfigFile : testing::Test {
  fs::path folder;
  ImaginedHost host;

  SetupConfigFile() {
    std::string name = (fs::temp_directory_path() / "lockstep-config-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    host.where.configuration = (folder / "mgmtd.toml").string();
    host.where.mgmtd = "/the/daemon";
  }
  ~SetupConfigFile() override { fs::remove_all(folder); }

  Present has(const std::string& text, mode_t mode = 0640) {
    std::ofstream(host.where.configuration) << text;
    ::chmod(host.where.configuration.c_str(), mode);
    Present present;
    present.there = true;
    present.text = text;
    return present;
  }
  std::string held(const std::string& name = "mgmtd.toml") const {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  mode_t mode(const std::string& name = "mgmtd.toml") const {
    struct stat now {};
    return ::stat((folder / name).c_str(), &now) == 0 ? now.st_mode & 07777 : 0;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename().string());
    return all;
  }
};

TEST_F(SetupConfigFile, IsReplacedAfterTheDaemonReadTheNewOneAndKeptAsItWas) {
  ConfigFile file(host, has("old"));
  ASSERT_TRUE(file.replace("new"));
  EXPECT_EQ(held(), "new");
  EXPECT_EQ(held("mgmtd.toml.before-setup"), "old");
  EXPECT_EQ(names(), (std::set<std::string>{"mgmtd.toml", "mgmtd.toml.before-setup"}));
  ASSERT_EQ(host.programs_run.size(), 1U);
  EXPECT_THAT(host.programs_run[0], ElementsAre("/the/daemon", "--check", "--config", HasSubstr("mgmtd.toml.")));
}

TEST_F(SetupConfigFile, IsReadByNobodyWhoCouldNotReadItBefore) {
  ConfigFile file(host, has("old", 0600));
  ASSERT_TRUE(file.replace("new"));
  EXPECT_EQ(mode(), 0600U);
  EXPECT_EQ(mode("mgmtd.toml.before-setup"), 0600U);
}

TEST_F(SetupConfigFile, StaysAsItIsWhenTheDaemonCouldNotUseTheNewOne) {
  host.program_ends = {1, "line 3: \x1b[2Jno such setting\n"};
  ConfigFile file(host, has("old"));
  const auto replaced = file.replace("new");
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().exit, Exit::refused);
  EXPECT_THAT(replaced.error().message, HasSubstr("no such setting"));
  EXPECT_EQ(replaced.error().message.find('\x1b'), std::string::npos);
  EXPECT_EQ(held(), "old");
  EXPECT_EQ(names(), std::set<std::string>{"mgmtd.toml"});
}

TEST_F(SetupConfigFile, IsPutBackAsItWasOrTakenAwayWhereThereWasNone) {
  ConfigFile file(host, has("old"));
  ASSERT_TRUE(file.replace("new") && file.put_back());
  EXPECT_EQ(held(), "old");
  EXPECT_EQ(mode(), 0640U);
  fs::remove(host.where.configuration);
  ConfigFile none(host, Present{});
  ASSERT_TRUE(none.replace("new") && none.put_back());
  EXPECT_FALSE(fs::exists(host.where.configuration));
}

TEST_F(SetupConfigFile, IsWrittenPastWhatACutOffSetupOrAStrangerLeftInItsPlace) {
  std::ofstream(folder / "target") << "precious";
  fs::create_symlink(folder / "target", folder / "mgmtd.toml.new-by-setup");
  ConfigFile file(host, has("old"));
  ASSERT_TRUE(file.replace("new"));
  EXPECT_EQ(held(), "new");
  EXPECT_EQ(held("target"), "precious");
  EXPECT_FALSE(fs::is_symlink(host.where.configuration));
}

TEST_F(SetupConfigFile, ThatCannotBeWrittenSaysWhy) {
  host.where.configuration = (folder / "none" / "mgmtd.toml").string();
  ConfigFile file(host, Present{});
  const auto replaced = file.replace("new");
  ASSERT_FALSE(replaced);
  EXPECT_THAT(replaced.error().message, HasSubstr("No such file or directory"));
}

TEST_F(SetupConfigFile, KeepsWhatElseStandsInIt) {
  Present present;
  present.text = "# mine\nlisten = \"0.0.0.0:8443\"\nlink_address = \"10.9.9.9:1\" # why\n";
  const auto text = text_with(present, {{"10.0.0.11:3260"}, "10.0.1.11:3261", "10.0.0.11:8443", "", ""});
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("# mine\nlisten = \"0.0.0.0:8443\"\nlink_address = \"10.0.1.11:3261\" # why\n"));
  EXPECT_THAT(*text, HasSubstr("portals = [\"10.0.0.11:3260\"]\n"));
  EXPECT_EQ(text->find("node_name"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::setup
