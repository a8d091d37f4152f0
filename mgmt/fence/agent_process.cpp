#include "mgmt/fence/agent_process.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxOutput = 64 << 10;
/// For a killed process to be gone; one in the kernel's hands may take its time, and is left to systemd.
constexpr std::chrono::seconds kGone{2};

class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(File&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  File& operator=(File&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~File() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  File read, write;
};

Pipe make_pipe() {
  std::array<int, 2> fds{-1, -1};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return {File(), File()};
  return {File(fds[0]), File(fds[1])};
}

/// In a group of its own, with nothing open but what it is given. 0 or an errno.
int spawn(const std::string& program, int in, int out, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_adddup2(&files, in, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_adddup2(&files, out, 2);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string path = program, search = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale = "LC_ALL=C.UTF-8";
  std::array<char*, 2> arguments{path.data(), nullptr};
  std::array<char*, 3> environment{search.data(), locale.data(), nullptr};
  const int error = ::posix_spawn(&pid, program.c_str(), &files, &how, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  return error;
}

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

/// One run, from its beginning to its end.
class Run {
 public:
  Run(pid_t pid, File in, File out, std::string input, int caller)
      : pid_(pid),
        watch_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
        in_(std::move(in)),
        out_(std::move(out)),
        input_(std::move(input)),
        caller_(caller) {
    ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(out_.get(), F_SETFL, O_NONBLOCK);
  }

  AgentEnd to_its_end(std::chrono::milliseconds limit) {
    AgentEnd end;
    const auto over = Clock::now() + limit;
    while (true) {
      const Seen seen = look(over);
      if (seen == Seen::ended) break;
      if (seen == Seen::nothing && Clock::now() < over) continue;
      if (seen == Seen::nothing || seen == Seen::caller_gone) {
        end.how = seen == Seen::nothing ? AgentEnd::How::timed_out : AgentEnd::How::called_off;
        ::kill(-pid_, SIGKILL);
        const auto gone = Clock::now() + kGone;
        caller_ = -1;
        while (look(gone) == Seen::nothing && Clock::now() < gone) {
        }
        reap(nullptr);
        end.output = std::move(output_);
        return end;
      }
    }
    read_output();
    // Before it is reaped: until then the number of its group is nobody else's.
    ::kill(-pid_, SIGKILL);
    reap(&end);
    end.output = std::move(output_);
    return end;
  }

 private:
  enum class Seen : std::uint8_t { nothing, ended, caller_gone };

  Seen look(Clock::time_point until) {
    std::array<pollfd, 4> fds{pollfd{watch_.get(), POLLIN, 0}, pollfd{out_.get(), POLLIN, 0},
                              pollfd{input_.empty() ? -1 : in_.get(), POLLOUT, 0}, pollfd{caller_, POLLRDHUP, 0}};
    if (::poll(fds.data(), fds.size(), milliseconds_until(until)) <= 0) return Seen::nothing;
    if (fds[1].revents != 0) read_output();
    if (fds[2].revents != 0) write_input();
    if (fds[0].revents != 0) return Seen::ended;
    return fds[3].revents != 0 ? Seen::caller_gone : Seen::nothing;
  }

  void read_output() {
    std::array<char, 4096> chunk{};
    ssize_t got = 0;
    while ((got = ::read(out_.get(), chunk.data(), chunk.size())) > 0) {
      output_.append(chunk.data(), static_cast<std::size_t>(got));
      if (output_.size() > kMaxOutput) output_.erase(0, output_.size() - kMaxOutput);
    }
    if (got == 0) out_.close();
  }

  void write_input() {
    const ssize_t sent = ::write(in_.get(), input_.data(), input_.size());
    if (sent > 0) input_.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) input_.clear();  // it reads no more
    if (input_.empty()) in_.close();
  }

  void reap(AgentEnd* end) const {
    siginfo_t info{};
    const int wait = end ? 0 : WNOHANG;
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | wait) != 0 || !end) return;
    end->how = info.si_code == CLD_EXITED ? AgentEnd::How::exited : AgentEnd::How::signalled;
    end->status = info.si_status;
  }

  pid_t pid_;
  File watch_, in_, out_;
  std::string input_, output_;
  int caller_;
};

}  // namespace

AgentEnd run_agent(const std::string& program, const std::string& input, std::chrono::milliseconds limit, int caller) {
  Pipe in = make_pipe(), out = make_pipe();
  pid_t pid = 0;
  const bool piped = in.read.get() >= 0 && out.read.get() >= 0;
  const int error = piped ? spawn(program, in.read.get(), out.write.get(), pid) : errno;
  if (error != 0) return {AgentEnd::How::not_begun, error, {}};
  in.read.close();
  out.write.close();
  return Run(pid, std::move(in.write), std::move(out.read), input, caller).to_its_end(limit);
}

bool wait_with(int caller, std::chrono::milliseconds time) {
  pollfd watched{caller, POLLRDHUP, 0};
  const auto over = Clock::now() + time;
  while (Clock::now() < over)
    if (::poll(&watched, 1, milliseconds_until(over)) > 0) return false;
  return true;
}

}  // namespace lockstep::mgmt
