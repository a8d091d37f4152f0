#include "mgmt/log/log.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
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

void start_log(const std::string& program, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<QueueSink>());
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  logger->set_pattern(journal ? "%l: %v" : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
  write_the_rest_at_a_crash();
}

void flush_log() {
  if (const QueueSink* sink = sink_in_use) (void)sink->writer.drain(kFlushPatience);
}

void log(LogLevel level, const std::string& text) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::debug("{}", text);
    case LogLevel::info:
      return spdlog::info("{}", text);
    case LogLevel::warning:
      return spdlog::warn("{}", text);
    case LogLevel::error:
      return spdlog::error("{}", text);
  }
}

}  // namespace lockstep::mgmt
