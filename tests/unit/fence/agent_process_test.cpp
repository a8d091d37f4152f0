// Real processes: what they get, what comes of them, and that nothing of them stays.
#include "mgmt/fence/agent_process.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using How = AgentEnd::How;

class Agent : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    folder_ = std::filesystem::temp_directory_path() / ("lockstep-agent-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string script(const std::string& body) const {
    const std::string path = folder_ / "agent";
    std::ofstream(path) << "#!/bin/sh\n" << body;
    ::chmod(path.c_str(), 0755);
    return path;
  }
  AgentEnd run(const std::string& body, std::chrono::milliseconds limit = 20s, int caller = -1) const {
    return run_agent(script(body), "ip=1\naction=off\n", limit, caller);
  }
  /// Of the process that wrote its number there.
  [[nodiscard]] bool is_gone(const char* file) const {
    pid_t pid = 0;
    std::ifstream(folder_ / file) >> pid;
    EXPECT_GT(pid, 0);
    for (int i = 0; i < 200; ++i) {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string number, name, state;
      if (!(stat >> number >> name >> state) || state == "Z") return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  std::filesystem::path folder_;
};

TEST_F(Agent, GetsItsInputAndGivesItsStatusAndBothOutputs) {
  const AgentEnd end = run("cat; echo to the log >&2; exit 2");
  EXPECT_TRUE(end.exited_with(2));
  EXPECT_NE(end.output.find("ip=1\naction=off\n"), std::string::npos);
  EXPECT_NE(end.output.find("to the log"), std::string::npos);
}

TEST_F(Agent, HasNoSecretInItsArgumentsOrItsEnvironment) {
  const AgentEnd end = run("tr '\\0' ' ' </proc/$$/cmdline; env");
  EXPECT_EQ(end.output.find("ip="), std::string::npos);
  EXPECT_NE(end.output.find("PATH="), std::string::npos);
  EXPECT_EQ(end.output.find("HOME="), std::string::npos);
}

TEST_F(Agent, MayEndWithoutReadingItsInput) {
  const AgentEnd end = run_agent(script("exit 0"), std::string(1 << 20, 'x'), 20s, -1);
  EXPECT_TRUE(end.exited_with(0));
}

TEST_F(Agent, IsKilledAtItsLimitWithItsChildren) {
  const auto began = std::chrono::steady_clock::now();
  const AgentEnd end = run("sleep 300 & echo $! >" + (folder_ / "child").string() + "; echo begun; sleep 300", 500ms);
  EXPECT_EQ(end.how, How::timed_out);
  EXPECT_EQ(end.output, "begun\n");
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
  EXPECT_TRUE(is_gone("child"));
}

TEST_F(Agent, LeavesNoChildBehindWhenItEnds) {
  const auto began = std::chrono::steady_clock::now();
  const AgentEnd end = run("sleep 300 & echo $! >" + (folder_ / "child").string() + "; exit 0");
  EXPECT_TRUE(end.exited_with(0));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s) << "the child holds its output open";
  EXPECT_TRUE(is_gone("child"));
}

TEST_F(Agent, IgnoringASignalHelpsNothing) {
  const AgentEnd end = run("trap '' TERM INT HUP; while :; do sleep 1; done", 500ms);
  EXPECT_EQ(end.how, How::timed_out);
}

TEST_F(Agent, IsCalledOffWhenWhoeverAskedIsGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::thread hangs_up([&] {
    std::this_thread::sleep_for(300ms);
    ::close(ends[1]);
  });
  const AgentEnd end = run("echo $$ >" + (folder_ / "child").string() + "; sleep 300", 20s, ends[0]);
  hangs_up.join();
  ::close(ends[0]);
  EXPECT_EQ(end.how, How::called_off);
  EXPECT_TRUE(is_gone("child"));
}

TEST_F(Agent, ThatIsNotThereOrWasKilledIsToldApart) {
  const AgentEnd none = run_agent("/nonexistent/agent", "", 1s, -1);
  EXPECT_EQ(none.how, How::not_begun);
  EXPECT_EQ(none.status, ENOENT);
  const AgentEnd killed = run("kill -KILL $$");
  EXPECT_EQ(killed.how, How::signalled);
  EXPECT_EQ(killed.status, SIGKILL);
}

TEST_F(Agent, SaysMoreThanIsKept) {
  const AgentEnd end = run("head -c 1000000 /dev/zero | tr '\\0' x; echo end");
  EXPECT_TRUE(end.exited_with(0));
  EXPECT_LE(end.output.size(), 65536u);
  EXPECT_TRUE(end.output.ends_with("xend\n"));
}

}  // namespace
}  // namespace lockstep::mgmt
