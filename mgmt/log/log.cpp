#include "mgmt/log/log.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mgmt/log/log_writer.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::chrono::milliseconds kFlushPatience{500};

struct Log {
  LogLevel least;  ///< lower ones are not written
  bool to_journal;
  LogWriter writer{STDERR_FILENO};
};

/// Null before start_log() and once the process has left main(). The handler of a signal reaches nothing else.
std::atomic<Log*> log_in_use = nullptr;

struct EndOfLog {
  void operator()(const Log* log) const {
    log_in_use = nullptr;
    delete log;
  }
};
std::unique_ptr<Log, EndOfLog> kept_log;

LogLevel level_from(std::string_view word) {
  if (word == "error") return LogLevel::error;
  if (word == "warning") return LogLevel::warning;
  return word == "info" ? LogLevel::info : LogLevel::debug;
}

const char* to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "";
}

// sd-daemon(3): the journal takes the number of a level in angle brackets off a line and files the line under it.
const char* journal_level(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "<3>";
    case LogLevel::warning:
      return "<4>";
    case LogLevel::info:
      return "<6>";
    case LogLevel::debug:
      return "<7>";
  }
  return "";
}

std::string time_of_day() {
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  (void)::localtime_r(&now.tv_sec, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} ", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1'000'000);
}

void on_crash(int signal) {
  if (const Log* log = log_in_use) log->writer.drain_in_signal_handler();
  (void)std::raise(signal);  // the default action: the handler was removed when it was called
}

// A sanitizer's own handlers stay.
void write_the_rest_at_a_crash() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    now.sa_handler = on_crash;
    now.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    (void)::sigaction(signal, &now, nullptr);
  }
}

}  // namespace

bool error_is_journal() {
  // systemd.exec(5): device and inode of the stream; a child whose standard error goes elsewhere has the variable, too.
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat error {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &error) == 0 &&
         fmt::format("{}:{}", error.st_dev, error.st_ino) == stream;
}

void say_refusal(const std::string& program, const std::string& reason) {
  const char* level = error_is_journal() ? journal_level(LogLevel::error) : "";
  std::fprintf(stderr, "%s%s: %s\n", level, program.c_str(), reason.c_str());
}

void start_log(std::string_view level) {
  kept_log.reset(new Log{level_from(level), error_is_journal()});
  log_in_use = kept_log.get();
  write_the_rest_at_a_crash();
}

void flush_log() {
  if (Log* log = log_in_use) (void)log->writer.drain(kFlushPatience);
}

void log(LogLevel level, const std::string& text) {
  Log* log = log_in_use;
  if (!log || level < log->least) return;
  const std::string beginning = log->to_journal ? journal_level(level) : time_of_day();
  log->writer.put(fmt::format("{}{}: {}\n", beginning, to_string(level), text));
}

}  // namespace lockstep::mgmt
