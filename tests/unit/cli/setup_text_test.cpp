// What set-up writes for shells and into TOML files.
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include "ui-api/cli/setup/quoting.hpp"
#include "ui-api/cli/setup/toml_edit.hpp"

namespace lockstep::cli::setup {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kHostile{"",         "plain", "a b",      "it's",    "\"; reboot; \"", "$(reboot)",
                                        "`reboot`", "a\\",   "a\nb = 1", "\x1b[2J", "\x7f",           "#",
                                        "\"\"\"",   "-n",    "*",        "~",       "a;b|c&d<e>f"};

std::string as_a_shell_reads(const std::string& word) {
  const std::string command = "printf '%s.' " + word;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  if (pipe != nullptr) ::pclose(pipe);
  return out;
}

TEST(Quoting, GivesAShellBackTheVeryWord) {
  for (const std::string& text : kHostile) EXPECT_EQ(as_a_shell_reads(shell_word(text)), text + ".");
  EXPECT_EQ(shell_word("10.0.0.11:3261"), "10.0.0.11:3261");
}

TEST(Quoting, GivesTomlBackTheVeryValueOnOneLine) {
  for (const std::string& text : kHostile) {
    const std::string line = "a = " + toml_string(text) + "\nb = " + toml_list({text, "x"});
    const toml::table read = toml::parse(line);
    EXPECT_EQ(read["a"].value<std::string>(), text);
    EXPECT_EQ(read["b"][0].value<std::string>(), text);
    EXPECT_EQ(toml_string(text).find('\n'), std::string::npos);
  }
}

std::string changed(const std::string& before, const std::vector<Setting>& settings) {
  const auto after = with_settings(before, settings);
  EXPECT_TRUE(after.has_value()) << after.error().message;
  return after.value_or("");
}

TEST(TomlEdit, ChangesAValueInItsPlaceAndLeavesAllElse) {
  EXPECT_EQ(changed("# mine\nlink = 'old \"x\"'   # why\ncolour = \"blue\"\nlist = [1, # one\n  2]\n",
                    {{"link", "\"new\""}, {"list", "[3]"}}),
            "# mine\nlink = \"new\"   # why\ncolour = \"blue\"\nlist = [3]\n");
  EXPECT_EQ(changed("a = \"\xc3\xa4\xc3\xb6\" # \xc3\xbc\nb = 1 # \xc3\xa4\n", {{"a", "2"}, {"b", "3"}}),
            "a = 2 # \xc3\xbc\nb = 3 # \xc3\xa4\n");
}

TEST(TomlEdit, PutsANewSettingBelowItsCommentElseAtTheEnd) {
  EXPECT_EQ(changed("# Where.\n#link = \"x\"\n\n#linkage = 1\n", {{"link", "1"}}),
            "# Where.\n#link = \"x\"\nlink = 1\n\n#linkage = 1\n");
  EXPECT_EQ(changed("a = 1", {{"b", "2"}}), "a = 1\nb = 2\n");
  EXPECT_EQ(changed("", {{"b", "2"}}), "b = 2\n");
  EXPECT_EQ(changed("#b = 1", {{"b", "2"}}), "#b = 1\nb = 2\n");
}

TEST(TomlEdit, DoesNotTouchWhatHasTheValueAlready) {
  const std::string text = "link   =   'same'  \r\n[section]\nlink = 'another'\n";
  EXPECT_EQ(changed(text, {{"link", "\"same\""}}), text);
}

TEST(TomlEdit, RefusesWhatItWouldHaveToGuess) {
  const auto is_refused = [](const std::string& text, const char* why) {
    const auto after = with_settings(text, {{"link", "1"}});
    ASSERT_FALSE(after.has_value()) << *after;
    EXPECT_EQ(after.error().exit, Exit::refused);
    EXPECT_THAT(after.error().message, HasSubstr(why));
  };
  is_refused("link = 1\nlink = 2\n", "line 2");
  is_refused("[a]\n[a]\n", "line 2");
  is_refused("this is no TOML", "line 1");
  is_refused("a = \"\xff\"\n", "It is not TOML");
  is_refused("[section]\nother = 1\n", "by hand");             // at the end it would be the section's
  is_refused("[section]\n#link = 0\nother = 1\n", "by hand");  // below the comment, too
  is_refused("text = \"\"\"\n#link = 0\n\"\"\"\n", "by hand");
}

}  // namespace
}  // namespace lockstep::cli::setup
