// The log's lines meet a descriptor that nobody reads, or reads late: whoever logs never waits, memory is bounded, and
// what was lost is said.
#include "mgmt/log/log_writer.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  std::array<int, 2> ends{};
  Pipe() {
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    EXPECT_GT(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  [[nodiscard]] int reader() const { return ends[0]; }
  [[nodiscard]] int writer() const { return ends[1]; }
  void close_reader() { close(ends[0]); }
  void close_writer() { close(ends[1]); }
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  // Until `last` is among the lines, or the end.
  [[nodiscard]] std::vector<std::string> lines_until(const std::string& last) const {
    std::string text;
    std::array<char, 4096> piece{};
    while (text.find(last + "\n") == std::string::npos) {
      const ssize_t n = ::read(reader(), piece.data(), piece.size());
      if (n <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(n));
    }
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
};

std::size_t lost_as_said(const std::vector<std::string>& lines) {
  std::size_t lost = 0;
  for (const auto& line : lines)
    if (line.find(" lines of this log were lost") != std::string::npos) lost += std::stoul(line);
  return lost;
}

TEST(Log, WhoeverLogsNeverWaitsForAReaderAndHearsHowManyLinesWereLost) {
  constexpr std::size_t kLines = 20'000;
  Pipe pipe;
  LogWriter writer(pipe.writer(), {.lines = 100, .line_bytes = 100});
  auto logging = std::async(std::launch::async, [&] {
    for (std::size_t i = 0; i < kLines; ++i) writer.put("line " + std::to_string(i) + "\n");
  });
  ASSERT_EQ(logging.wait_for(10s), std::future_status::ready) << "logging waits for a reader that never comes";
  EXPECT_FALSE(writer.drain(0ms)) << "the pipe took all of it: the test shows nothing";
  const auto lines = pipe.lines_until("line " + std::to_string(kLines - 1));
  EXPECT_EQ(lines.back(), "line " + std::to_string(kLines - 1)) << "the newest are kept";
  const std::size_t lost = lost_as_said(lines);
  EXPECT_GT(lost, kLines - 1000) << "no more than the bound waited";
  const auto written = std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("line "); });
  EXPECT_EQ(static_cast<std::size_t>(written) + lost, kLines) << "every line was written or counted";
}

TEST(Log, EndsThoughNobodyReads) {
  static Pipe pipe;  // its thread writes there for as long as the process lasts: no other test may have that descriptor
  auto ending = std::async(std::launch::async, [&] {
    LogWriter writer(pipe.writer());
    for (int i = 0; i < 1000; ++i) writer.put("a line that is long enough to fill the pipe soon\n");
  });
  EXPECT_EQ(ending.wait_for(10s), std::future_status::ready);
}

TEST(Log, OutlivesItsReader) {
  Pipe pipe;
  LogWriter writer(pipe.writer());
  pipe.close_reader();
  writer.put("to nobody\n");
  EXPECT_TRUE(writer.drain(10s));
}

TEST(Log, OneMessageIsOneLineWhateverAStrangerPutIntoIt) {
  Pipe pipe;
  LogWriter writer(pipe.writer(), {.lines = 10, .line_bytes = 40});
  writer.put("iqn.x\nerror: forged \x1b[31m\n");
  writer.put(std::string(100'000, 'x') + "\n");
  writer.put("end\n");
  const auto lines = pipe.lines_until("end");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "iqn.x?error: forged ?[31m");
  EXPECT_EQ(lines[1], std::string(36, 'x') + "...");
}

// What main() does, in a process of its own.
void die_after_logging(int descriptor, int lines) {
  ::dup2(descriptor, STDERR_FILENO);
  start_log("program", "info");
  for (int i = 0; i < lines; ++i) log_info("line " + std::to_string(i));
  std::abort();
}

TEST(Log, WhatWasLoggedBeforeACrashIsWritten) {
  Pipe pipe;
  const pid_t child = ::fork();
  if (child == 0) die_after_logging(pipe.writer(), 30);
  pipe.close_writer();
  const auto lines = pipe.lines_until("nothing");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.back().find("line 29"), std::string::npos) << lines.back();
}

// What a daemon says into the pipe when systemd says that the journal's stream is `stream`.
std::vector<std::string> said_to(const Pipe& pipe, int stream) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe.writer(), STDERR_FILENO);
    struct stat info {};
    ::fstat(stream, &info);
    ::setenv("JOURNAL_STREAM", (std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)).c_str(), 1);
    say_refusal("program", "There is no file.");
    start_log("program", "debug");
    log_debug("one");
    log_info("two");
    log_warning("three");
    log_error("four");
    flush_log();
    std::_Exit(0);
  }
  auto lines = pipe.lines_until("error: four");
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return lines;
}

TEST(Log, TheJournalIsToldTheLevelOfEachLine) {
  const Pipe pipe;
  EXPECT_EQ(said_to(pipe, pipe.writer()),
            (std::vector<std::string>{"<3>program: There is no file.", "<7>debug: one", "<6>info: two",
                                      "<4>warning: three", "<3>error: four"}));
}

TEST(Log, WhoeverElseReadsIsToldTheTime) {
  const Pipe pipe;
  const Pipe of_the_journal;
  const auto lines = said_to(pipe, of_the_journal.writer());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "program: There is no file.");
  EXPECT_TRUE(lines[3].starts_with("20") && lines[3].ends_with(" warning: three")) << lines[3];
}

TEST(Log, ACrashIsOneThoughNobodyReads) {
  Pipe pipe;
  const pid_t child = ::fork();
  if (child == 0) die_after_logging(pipe.writer(), 5000);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

}  // namespace
}  // namespace lockstep::mgmt
