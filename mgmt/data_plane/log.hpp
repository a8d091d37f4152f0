#pragma once
// The daemon's log: one line a message to standard error, where the journal reads it.
#include <string>
#include <string_view>

namespace lockstep::mgmt {

enum class LogLevel : unsigned char { debug, info, warning, error };

/// "debug", "info", "warning" or "error". Lines carry the time unless the journal adds its own.
void start_log(std::string_view level);
void log(LogLevel level, const std::string& text);

inline void log_info(const std::string& text) { log(LogLevel::info, text); }
inline void log_warning(const std::string& text) { log(LogLevel::warning, text); }
inline void log_error(const std::string& text) { log(LogLevel::error, text); }
inline void log_debug(const std::string& text) { log(LogLevel::debug, text); }

}  // namespace lockstep::mgmt
