// When the partner counts as powered off.
#include "mgmt/fence/fence_command.hpp"

#include <cerrno>
#include <deque>

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using How = AgentEnd::How;
using Power = FenceAnswer::Power;

struct Played final : FenceWorld {
  struct Step {
    AgentEnd end;
    std::chrono::milliseconds takes{100};
  };
  std::deque<Step> steps;
  std::vector<std::string> run_so_far;
  std::chrono::milliseconds time{0};
  bool caller_stays = true;

  AgentEnd run(const std::string& action, std::chrono::milliseconds limit) override {
    run_so_far.push_back(action);
    if (steps.empty()) return {How::exited, 1, "nothing was expected"};
    const Step step = steps.front();
    if (steps.size() > 1) steps.pop_front();
    time += std::min(step.takes, limit);
    if (step.takes > limit) return {How::timed_out, 0, ""};
    return step.end;
  }
  bool wait(std::chrono::milliseconds for_so_long) override {
    time += for_so_long;
    return caller_stays;
  }
  std::chrono::milliseconds now() override { return time; }
};

AgentEnd exits(int status, const std::string& said = "") { return {How::exited, status, said}; }

FenceSettings settings() {
  FenceSettings s;
  s.agent = "/usr/sbin/fence_x";
  s.limit = 30s;
  s.options = {{"password", "geheim"}};
  return s;
}

TEST(PowerOff, IsDoneWhenTheAgentSucceedsAndTheMachineIsSeenOff) {
  Played world;
  world.steps = {{exits(0)}, {exits(2)}};
  const FenceAnswer answer = power_off(settings(), world);
  EXPECT_TRUE(answer.done);
  EXPECT_EQ(answer.power, Power::off);
  EXPECT_EQ(answer.problem, "");
  EXPECT_EQ(world.run_so_far, (std::vector<std::string>{"off", "status"}));
}

TEST(PowerOff, IsNotDoneWhenTheAgentFails) {
  Played world;
  world.steps = {{exits(1, "Failed: password geheim refused\n")}};
  const FenceAnswer answer = power_off(settings(), world);
  EXPECT_FALSE(answer.done);
  EXPECT_EQ(answer.problem, "/usr/sbin/fence_x (off) exited with 1 and said: Failed: password *** refused.");
  EXPECT_EQ(world.run_so_far.size(), 1u);
}

/// It lies, or the machine is slow to go.
TEST(PowerOff, IsNotDoneWhileTheMachineIsSeenOn) {
  Played world;
  world.steps = {{exits(0)}, {exits(0)}};
  const FenceAnswer lie = power_off(settings(), world);
  EXPECT_FALSE(lie.done);
  EXPECT_EQ(lie.power, Power::on);
  EXPECT_LE(world.time, 31s);
  EXPECT_NE(lie.problem.find("still is on"), std::string::npos);

  Played slow;
  slow.steps = {{exits(0)}, {exits(0)}, {exits(0)}, {exits(2)}};
  EXPECT_TRUE(power_off(settings(), slow).done);
}

TEST(PowerOff, IsNotDoneWhenItsStatusIsNotKnown) {
  Played world;
  world.steps = {{exits(0)}, {exits(1)}};
  EXPECT_FALSE(power_off(settings(), world).done);
  Played hangs;
  hangs.steps = {{exits(0)}, {exits(2), 60s}};
  const FenceAnswer answer = power_off(settings(), hangs);
  EXPECT_FALSE(answer.done);
  EXPECT_LE(hangs.time, 30s);
}

TEST(PowerOff, IsNotDoneWhenTheAgentTookAllTheTimeThereWas) {
  Played world;
  world.steps = {{exits(0), 30s}, {exits(2)}};
  EXPECT_FALSE(power_off(settings(), world).done);
  Played hangs;
  hangs.steps = {{exits(0), 31s}};
  EXPECT_NE(power_off(settings(), hangs).problem.find("was killed"), std::string::npos);
}

TEST(PowerOff, IsNotBegunWhenItIsCalledOffDuringItsDelay) {
  Played world;
  world.caller_stays = false;
  FenceSettings delayed = settings();
  delayed.delay = 10s;
  EXPECT_FALSE(power_off(delayed, world).done);
  EXPECT_TRUE(world.run_so_far.empty());
}

TEST(LookAtPower, TellsOnAndOffAndWhatWentWrong) {
  Played world;
  world.steps = {{exits(0)}};
  EXPECT_EQ(look_at_power(settings(), world).power, Power::on);
  world.steps = {{exits(2)}};
  EXPECT_EQ(look_at_power(settings(), world).power, Power::off);
  world.steps = {{{How::not_begun, ENOENT, ""}}};
  const FenceAnswer answer = look_at_power(settings(), world);
  EXPECT_FALSE(answer.done);
  EXPECT_EQ(answer.problem, "/usr/sbin/fence_x (status) could not be run: No such file or directory.");
}

TEST(FenceAnswers, AreOneLineOfJson) {
  EXPECT_EQ(to_json_text({true, Power::off, ""}), R"({"done":true,"power":"off","problem":""})");
  EXPECT_EQ(to_json_text({false, Power::unknown, "a\nb"}), R"({"done":false,"power":"unknown","problem":"a\nb"})");
}

}  // namespace
}  // namespace lockstep::mgmt
