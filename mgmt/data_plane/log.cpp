#include "mgmt/data_plane/log.hpp"

#include <cstdlib>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace lockstep::mgmt {

void start_log(std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>("lockstepd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  logger->set_pattern(journal ? "%l: %v" : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->set_level(level == "debug"     ? spdlog::level::debug
                    : level == "warning" ? spdlog::level::warn
                    : level == "error"   ? spdlog::level::err
                                         : spdlog::level::info);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
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
