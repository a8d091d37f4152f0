// The file that says what powers the partner off.
#include "mgmt/fence/fence_settings.hpp"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

constexpr const char* kWhole = R"(
agent = "/usr/sbin/fence_ipmilan"
limit = 40
delay = 5
[options]
ip = "10.0.9.2"
username = "lockstep"
password = "geheim"
lanplus = true
privlvl = "operator"
power_wait = 4
)";

TEST(FenceSettings, AreReadAndGivenToTheAgentAsLines) {
  const auto s = parse_fence_settings(kWhole, "fence.toml");
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->agent, "/usr/sbin/fence_ipmilan");
  EXPECT_EQ(s->limit.count(), 40);
  EXPECT_EQ(s->delay.count(), 5);
  const std::string input = agent_input(*s, "off");
  for (const char* line : {"ip=10.0.9.2\n", "password=geheim\n", "lanplus=1\n", "power_wait=4\n"})
    EXPECT_NE(input.find(line), std::string::npos) << line;
  EXPECT_TRUE(input.ends_with("\naction=off\n"));
}

std::string complaint(const std::string& text) {
  const auto s = parse_fence_settings(text, "fence.toml");
  return s ? "" : s.error().message;
}

TEST(FenceSettings, SayWhatIsWrongAndWhere) {
  EXPECT_NE(complaint("").find("agent"), std::string::npos);
  EXPECT_NE(complaint("agent = \"fence_ipmilan\"\n").find("line 1"), std::string::npos);
  EXPECT_NE(complaint("agent = \"/x\"\nlimit = 0\n").find("line 2"), std::string::npos);
  EXPECT_NE(complaint("agent = \"/x\"\nlimit = 601\n"), "");
  EXPECT_NE(complaint("agent = \"/x\"\ndelay = 61\n"), "");
  EXPECT_NE(complaint("agent = \"/x\"\ntimeout = 3\n").find("timeout"), std::string::npos);
  EXPECT_NE(complaint("agent = \"/x\"\n[options]\naction = \"on\"\n").find("action"), std::string::npos);
  EXPECT_NE(complaint("agent = \"/x\"\n[options]\nip = \"a\\naction=on\"\n"), "");
  EXPECT_NE(complaint("agent = \"/x\"\n[options]\n\"ip=1\" = \"a\"\n"), "");
  EXPECT_NE(complaint("agent = \"/x\"\n[options]\nip = [1]\n"), "");
}

TEST(FenceSettings, ALineThatIsNotTomlIsNotQuoted) {
  const std::string said = complaint("agent = \"/x\"\n[options]\npassword = geheim\n");
  EXPECT_NE(said.find("line 3"), std::string::npos);
  EXPECT_EQ(said.find("geheim"), std::string::npos);
}

TEST(FenceSettings, AFileThatOthersMayReadOrChangeIsRefused) {
  std::string path = "/tmp/lockstep-fence-XXXXXX";
  ::close(::mkstemp(path.data()));
  std::ofstream(path) << kWhole;
  for (const auto& [mode, good] : {std::pair{0600, true}, {0640, true}, {0400, true}, {0644, false}, {0660, false}}) {
    ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(load_fence_settings(path).has_value(), good) << std::oct << mode;
  }
  ::unlink(path.c_str());
  EXPECT_NE(load_fence_settings(path).error().message.find("No such file"), std::string::npos);
}

TEST(FenceSettings, WhatAnAgentSaysIsShownWithoutItsSecrets) {
  const auto s = parse_fence_settings(kWhole, "fence.toml");
  EXPECT_EQ(fit_to_show("login lockstep/geheim failed\n\x1b[1mno\n\n", *s), "login lockstep/*** failed [1mno");
  const std::string longer = fit_to_show(std::string(5000, 'x') + "end", *s);
  EXPECT_LT(longer.size(), 1100u);
  EXPECT_TRUE(longer.ends_with("xend"));
}

}  // namespace
}  // namespace lockstep::mgmt
