#include "mgmt/log/log_writer.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include <boost/circular_buffer.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

using std::chrono::milliseconds;

constexpr int kPollMs = 50;
constexpr milliseconds kPatienceAtEnd{200};
constexpr int kCrashTurns = 100;
constexpr timespec kCrashTurn{0, 1'000'000};

// A socket (the journal's) may block in spite of poll(); send() can be told not to.
ssize_t write_some(int descriptor, std::string_view text) {
  const ssize_t sent = ::send(descriptor, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == ENOTSOCK ? ::write(descriptor, text.data(), text.size()) : sent;
}

std::string printable(std::string_view line, std::size_t most) {
  const bool ended = line.ends_with('\n');
  if (ended) line.remove_suffix(1);
  constexpr std::string_view kCut = "...";
  std::string text(line.substr(0, most - kCut.size() - 1));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  if (text.size() < line.size()) text += kCut;
  return text + '\n';
}

}  // namespace

struct LogWriter::State {
  State(int fd, LogBounds bounds) : descriptor(fd), line_bytes(bounds.line_bytes), lines(bounds.lines) {}

  const int descriptor;
  const std::size_t line_bytes;
  std::mutex mutex;
  std::condition_variable wake, written;
  boost::circular_buffer<std::string> lines;
  std::uint64_t lost = 0;                   // and not said yet
  std::atomic<std::uint64_t> under_way{0};  // put and neither written nor lost
  std::atomic<bool> stuck{false};           // the descriptor takes nothing at the moment
  std::atomic<bool> ending{false};

  void write(std::string_view text);
  void run();
};

// Gives up only at the end, or when nobody can ever read it.
void LogWriter::State::write(std::string_view text) {
  while (!text.empty()) {
    pollfd ready{descriptor, POLLOUT, 0};
    if (::poll(&ready, 1, kPollMs) == 0 || (ready.revents & POLLOUT) == 0) {
      if ((ready.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 || ending) return;
      stuck = true;
      continue;
    }
    stuck = false;
    const ssize_t taken = write_some(descriptor, text);
    if (taken > 0) {
      text.remove_prefix(static_cast<std::size_t>(taken));
    } else if (errno != EAGAIN && errno != EINTR) {
      return;
    }
  }
}

void LogWriter::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return !lines.empty() || ending; });
    if (lines.empty()) return;
    std::string line = std::move(lines.front());
    lines.pop_front();
    const std::uint64_t gone = std::exchange(lost, 0);
    lock.unlock();
    if (gone != 0) write(std::to_string(gone) + " lines of this log were lost: they were not read in time.\n");
    write(line);
    lock.lock();
    --under_way;
    written.notify_all();
  }
}

LogWriter::LogWriter(int descriptor, LogBounds bounds) {
  bounds.line_bytes = std::min<std::size_t>(bounds.line_bytes, PIPE_BUF);
  state_ = std::make_shared<State>(descriptor, bounds);
  // Signals are for the threads that wait for them; a SIGPIPE is told by write(), too.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  (void)drain(kPatienceAtEnd);
  const std::lock_guard lock(state_->mutex);
  state_->ending = true;
  state_->wake.notify_all();
}

void LogWriter::put(std::string_view line) noexcept {
  State& s = *state_;
  std::string text;
  try {
    text = printable(line, s.line_bytes);
  } catch (...) {  // out of memory; an empty line says at least that there was one
  }
  {
    const std::lock_guard lock(s.mutex);
    if (s.lines.full()) {
      ++s.lost;
    } else {
      ++s.under_way;
    }
    s.lines.push_back(std::move(text));
  }
  s.wake.notify_one();
}

bool LogWriter::drain(milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  return state_->written.wait_for(lock, patience, [this] { return state_->under_way == 0; });
}

void LogWriter::drain_in_signal_handler() const noexcept {
  for (int i = 0; i < kCrashTurns && state_->under_way != 0 && !state_->stuck; ++i) ::nanosleep(&kCrashTurn, nullptr);
}

}  // namespace lockstep::mgmt
