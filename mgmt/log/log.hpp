#pragma once
// A daemon's log: one line a message to standard error, where the journal reads it. Logging never waits for whoever
// reads: lines wait in a queue of bounded size, and what does not fit is counted and said (log_writer.hpp).
#include <string>
#include <string_view>

namespace lockstep::mgmt {

enum class LogLevel : unsigned char { debug, info, warning, error };

/// Whether standard error is the journal's (systemd.exec(5), JOURNAL_STREAM).
[[nodiscard]] bool error_is_journal();
/// Says on standard error why `program` does not start; to the journal as an error. Needs no log.
void say_refusal(const std::string& program, const std::string& reason);
/// "trace", "debug", "info", "warning" or "error"; before this nothing is logged. Lines carry the time unless the
/// journal adds its own, and then their level in the journal's form. What was logged before a crash is written, as far
/// as it is taken in a tenth of a second. For main(), once.
void start_log(std::string_view level);
/// Waits a moment for the lines to be written. Before the process ends.
void flush_log();
/// Any thread.
void log(LogLevel level, const std::string& text);

inline void log_info(const std::string& text) { log(LogLevel::info, text); }
inline void log_warning(const std::string& text) { log(LogLevel::warning, text); }
inline void log_error(const std::string& text) { log(LogLevel::error, text); }
inline void log_debug(const std::string& text) { log(LogLevel::debug, text); }

}  // namespace lockstep::mgmt
