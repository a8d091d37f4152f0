#include "ui-api/cli/settings.hpp"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::cli {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("lockstep-cli-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    environment_["LOCKSTEP_CONFIG"] = file("none.toml", "");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Outcome<Settings> resolve() {
    return resolve_settings(options_, [this](const char* name) -> std::optional<std::string> {
      const auto it = environment_.find(name);
      if (it == environment_.end()) return std::nullopt;
      return it->second;
    });
  }

  std::filesystem::path folder_;
  GlobalOptions options_;
  std::map<std::string, std::string> environment_;
};

TEST_F(SettingsTest, OptionsComeBeforeTheEnvironmentAndThatBeforeTheFile) {
  options_.config = file("cli.toml", "server = 'https://file'\ntoken_file = '" + file("token", "from-file\n") + "'\n");
  EXPECT_EQ(resolve()->server.host, "file");
  EXPECT_EQ(resolve()->token, "from-file");
  environment_["LOCKSTEP_SERVER"] = "https://environment";
  environment_["LOCKSTEP_TOKEN"] = "from-environment";
  EXPECT_EQ(resolve()->server.host, "environment");
  EXPECT_EQ(resolve()->token, "from-environment");
  options_.server = "https://option:1";
  options_.token = "from-option";
  EXPECT_EQ(resolve()->server, (Url{true, "option", "1"}));
  EXPECT_EQ(resolve()->token, "from-option");
}

TEST_F(SettingsTest, AConfigurationFileThatMakesNoSenseIsNamedWithItsFault) {
  options_.token = "t";
  const std::pair<const char*, const char*> cases[] = {
      {"colour = 'red'", "colour"}, {"server = 7", "server"}, {"server = ", "line 1"}};
  for (const auto& [text, named] : cases) {
    options_.config = file("cli.toml", text);
    const auto settings = resolve();
    ASSERT_FALSE(settings.has_value()) << text;
    EXPECT_EQ(settings.error().exit, Exit::usage);
    EXPECT_NE(settings.error().message.find("cli.toml"), std::string::npos) << settings.error().message;
    EXPECT_NE(settings.error().message.find(named), std::string::npos) << settings.error().message;
  }
}

TEST_F(SettingsTest, AConfigurationFileThatWasNamedMustExist) {
  options_.token = "t";
  options_.config = (folder_ / "missing.toml").string();
  EXPECT_FALSE(resolve().has_value());
}

TEST_F(SettingsTest, ATokenFileThatCannotBeReadIsAnErrorNotAnEmptyToken) {
  options_.token_file = (folder_ / "missing").string();
  EXPECT_FALSE(resolve().has_value());
  options_.token_file = file("empty", "\n");
  EXPECT_FALSE(resolve().has_value());
}

TEST_F(SettingsTest, TrustGivenByOptionReplacesThatOfTheFile) {
  options_.token = "t";
  options_.server = "https://node-a";
  options_.config = file("cli.toml", "fingerprint = '" + std::string(64, 'a') + "'\n");
  EXPECT_EQ(resolve()->trust.fingerprint, std::string(64, 'a'));
  options_.ca = "/some/ca.crt";
  EXPECT_EQ(resolve()->trust.fingerprint, "");
  EXPECT_EQ(resolve()->trust.ca_file, "/some/ca.crt");
  options_.insecure = true;
  EXPECT_TRUE(resolve()->trust.insecure);
}

TEST(ParseUrl, HostAndPortInEveryForm) {
  EXPECT_EQ(parse_url("https://node-a").value(), (Url{true, "node-a", "8443"}));
  EXPECT_EQ(parse_url("https://node-a:9000/").value(), (Url{true, "node-a", "9000"}));
  EXPECT_EQ(parse_url("node-a:9000").value(), (Url{true, "node-a", "9000"}));
  EXPECT_EQ(parse_url("https://[fd00::11]:9000").value(), (Url{true, "fd00::11", "9000"}));
  EXPECT_EQ(parse_url("https://[fd00::11]").value(), (Url{true, "fd00::11", "8443"}));
}

TEST(ParseUrl, TheTokenIsNeverSentInTheClearToAnotherMachine) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8080").value(), (Url{false, "127.0.0.1", "8080"}));
  EXPECT_EQ(parse_url("http://localhost").value(), (Url{false, "localhost", "8080"}));
  EXPECT_EQ(parse_url("http://[::1]:80").value(), (Url{false, "::1", "80"}));
  EXPECT_FALSE(parse_url("http://node-a:8080").has_value());
  EXPECT_FALSE(parse_url("http://10.0.0.1").has_value());
  EXPECT_FALSE(parse_url("http://127.evil.example").has_value());
}

TEST(ParseUrl, AnythingElseIsRefused) {
  for (const char* wrong : {"", "https://", "https://:8443", "ftp://node-a", "https://a:b", "https://a:99999",
                            "https://a:", "https://a/path", "https://user@a", "https://[::1", "https://[::1]8443"}) {
    EXPECT_FALSE(parse_url(wrong).has_value()) << wrong;
  }
}

TEST(ParseFingerprint, ColonsAndCaseDoNotMatterLengthAndDigitsDo) {
  std::string colons = "sha256:";
  for (int i = 0; i < 32; ++i) colons += i == 0 ? "AB" : ":AB";
  std::string plain;
  for (int i = 0; i < 32; ++i) plain += "ab";
  EXPECT_EQ(parse_fingerprint(colons).value(), plain);
  EXPECT_FALSE(parse_fingerprint(plain.substr(2)).has_value());
  EXPECT_FALSE(parse_fingerprint(plain.substr(1) + "g").has_value());
  EXPECT_FALSE(parse_fingerprint("").has_value());
}

}  // namespace
}  // namespace lockstep::cli
