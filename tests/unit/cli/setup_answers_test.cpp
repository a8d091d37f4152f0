// What set-up is told: options first, then the file, then what the machine has; and who is asked for the rest.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/setup_host.hpp"
#include "ui-api/cli/setup/answers.hpp"

namespace lockstep::cli::setup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct SetupAnswers : testing::Test {
  Options options;
  Present present;
  std::vector<Interface> interfaces = ImaginedHost().has;
  std::istringstream typed;
  std::ostringstream shown;

  SetupAnswers() {
    options.portals = {"10.0.0.11"};
    options.link = "10.0.1.11";
    options.management = "10.0.0.11";
  }

  Outcome<Answers> given(bool terminal = false) {
    Questions questions(typed, shown, terminal, options.yes);
    return answers_for(options, present, interfaces, questions);
  }
  void is_refused(const std::string& words) {
    const auto answers = given();
    ASSERT_FALSE(answers.has_value());
    EXPECT_EQ(answers.error().exit, Exit::usage);
    EXPECT_THAT(answers.error().message, HasSubstr(words));
  }
};

TEST_F(SetupAnswers, GetThePortThatIsUsedForEach) {
  options.portals = {"10.0.0.11", "fd00::11", "[fd00::12]:3270"};
  const auto answers = given();
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_THAT(answers->portals, ElementsAre("10.0.0.11:3260", "[fd00::11]:3260", "[fd00::12]:3270"));
  EXPECT_EQ(answers->link, "10.0.1.11:3261");
  EXPECT_EQ(answers->management, "10.0.0.11:8443");
}

TEST_F(SetupAnswers, ThatAreMissingAreNamedWhereNobodyCanBeAsked) {
  options.link.clear();
  is_refused("--link-address. Found is 10.0.1.11:3261: --yes takes what is found.");
}

TEST_F(SetupAnswers, AreTakenFromTheMachineAfterYesTheLinkFromAnotherInterface) {
  options = {};
  options.yes = true;
  const auto answers = given();
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_THAT(answers->portals, ElementsAre("10.0.0.11:3260"));
  EXPECT_EQ(answers->link, "10.0.1.11:3261");
  EXPECT_EQ(answers->management, "10.0.0.11:8443");
}

TEST_F(SetupAnswers, AreTakenFromTheFileBeforeTheMachine) {
  options = {};
  options.yes = true;
  present.portals = {"10.0.2.11:3260"};
  present.link = "10.0.3.11:4000";
  const auto answers = given();
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_THAT(answers->portals, ElementsAre("10.0.2.11:3260"));
  EXPECT_EQ(answers->link, "10.0.3.11:4000");
}

TEST_F(SetupAnswers, AreAskedForAtATerminalAgainAfterAMistakeWithEnterForWhatIsFound) {
  options = {};
  typed.str("10.0.0.300\n10.0.0.11, 10.0.0.12:3270\n\n\n\n");
  const auto answers = given(true);
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_THAT(answers->portals, ElementsAre("10.0.0.11:3260", "10.0.0.12:3270"));
  EXPECT_EQ(answers->link, "10.0.1.11:3261");
  EXPECT_THAT(shown.str(), HasSubstr("10.0.0.300: Must be a numeric address"));
  EXPECT_THAT(shown.str(), HasSubstr("[10.0.1.11:3261]"));
}

TEST_F(SetupAnswers, EndWithAnErrorAtTheEndOfInputAndAfterFiveMistakes) {
  options = {};
  EXPECT_FALSE(given(true).has_value());
  typed = std::istringstream("x\nx\nx\nx\nx\n10.0.0.11\n");
  EXPECT_FALSE(given(true).has_value());
}

TEST_F(SetupAnswers, ThatNoHostCouldUseAreRefused) {
  options.portals = {"0.0.0.0:3260"};
  is_refused("Must be the one address");
  options.portals = {"storage.example.com"};
  is_refused("--portal storage.example.com");
  options.portals = std::vector<std::string>(9, "10.0.0.11");
  is_refused("1 to 8 addresses");
  options.portals = {"10.0.0.11"};
  options.node_name = "a b";
  is_refused("--node-name");
}

TEST_F(SetupAnswers, DoNotTakeAFolderThatTheDaemonsDoNotSeeOrThatIsTheSystems) {
  for (const char* folder :
       {"/", "srv", "/srv/", "/srv", "/var", "/etc/lockstep", "/usr/share/x", "/home/me/disk", "/tmp/x", "/dev/sdb",
        "/srv/a b", "/srv/a%b", "/srv/$x", "/srv/\"x", "/srv/../etc", "/srv/a\nb", "/srv/.."}) {
    options.volume_folder = folder;
    is_refused("--volume-folder");
  }
  options.volume_folder = "/srv/lockstep";
  EXPECT_TRUE(given().has_value());
}

}  // namespace
}  // namespace lockstep::cli::setup
