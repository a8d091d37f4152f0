// Runs another program to its end.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/local_host.hpp"

extern char** environ;

namespace lockstep::cli::setup {
namespace {

constexpr std::size_t kMostOutput = 64u << 10;
constexpr int kLookMs = 50;

/// False at the end of output.
bool take(int pipe, std::string& output) {
  std::array<char, 4096> piece{};
  const auto size = ::read(pipe, piece.data(), piece.size());
  if (size < 0) return errno == EINTR;
  output.append(piece.data(), std::min(kMostOutput - output.size(), static_cast<std::size_t>(size)));
  return size > 0;
}

/// The end is that of the program itself: what it started may go on and keep the pipe open.
Finished to_its_end(pid_t child, int pipe) {
  Finished finished;
  int status = 0;
  for (bool open = true, ended = false; !ended;) {
    pollfd wait{pipe, POLLIN, 0};
    const pid_t waited = ::waitpid(child, &status, open ? WNOHANG : 0);
    ended = waited == child || (waited < 0 && errno != EINTR);
    while (open && ::poll(&wait, 1, ended ? 0 : kLookMs) > 0) open = take(pipe, finished.output);
  }
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return finished;
}

}  // namespace

Outcome<Finished> run_program(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Exit::refused, fmt::format("No pipe can be made: {}.", std::strerror(errno)));
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writing.close();
  if (failed != 0)
    return fail(Exit::refused, fmt::format("{} can't be run: {}.", words.front(), std::strerror(failed)));
  return to_its_end(child, reading.get());
}

}  // namespace lockstep::cli::setup
