#include "mgmt/log/log.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mgmt/log/log_writer.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::chrono::milliseconds kFlushPatience{500};

class QueueSink;
// The handler of a signal reaches nothing else.
std::atomic<const QueueSink*> sink_in_use = nullptr;

class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  QueueSink() { sink_in_use = this; }
  ~QueueSink() override { sink_in_use = nullptr; }
  mutable LogWriter writer{STDERR_FILENO};

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer.put({line.data(), line.size()});
  }
  // The sink's mutex is held: whoever logs meanwhile would wait, too. flush_log() does it.
  void flush_() override {}
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// sd-daemon(3): the journal takes the number of a level in angle brackets off a line and files the line under it.
const char* journal_level(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err:
      return "<3>";
    case spdlog::level::warn:
      return "<4>";
    case spdlog::level::info:
      return "<6>";
    default:
      return "<7>";
  }
}

class JournalLevel final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    const std::string_view level = journal_level(message.level);
    line.append(level.data(), level.data() + level.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<JournalLevel>();
  }
};

std::unique_ptr<spdlog::formatter> line_format(bool journal) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<JournalLevel>('*').set_pattern(journal ? "%*%l: %v" : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  return format;
}

void on_crash(int signal) {
  if (const QueueSink* sink = sink_in_use) sink->writer.drain_in_signal_handler();
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
  const char* level = error_is_journal() ? journal_level(spdlog::level::err) : "";
  std::fprintf(stderr, "%s%s: %s\n", level, program.c_str(), reason.c_str());
}

void start_log(const std::string& program, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<QueueSink>());
  logger->set_formatter(line_format(error_is_journal()));
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
  write_the_rest_at_a_crash();
}

void flush_log() {
  if (const QueueSink* sink = sink_in_use) (void)sink->writer.drain(kFlushPatience);
}

void log(LogLevel level, const std::string& text) { spdlog::log(spdlog_level(level), text); }

}  // namespace lockstep::mgmt
