#pragma once
// Amounts of bytes as people write and read them.
#include <cstdint>
#include <string>
#include <string_view>

#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli {

/// "10GiB", "10 G", "1.5TiB", "512" (bytes), "10GB" (decimal). K, M, G, T, P alone are binary, as with most disk tools.
/// Exit::usage for anything else, for fractions of a byte and beyond 2^63 - 1.
[[nodiscard]] Outcome<std::uint64_t> parse_size(std::string_view text);

/// 10737418240 -> "10 GiB", 1610612736 -> "1.5 GiB"; three digits at most.
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// "90s", "15m", "1h", "7d", "0" -> seconds; a number alone is one of seconds. Exit::usage for anything else.
[[nodiscard]] Outcome<std::uint64_t> parse_duration(std::string_view text);

/// "1500ms", "1.5s", "2s" -> milliseconds. Exit::usage for anything else.
[[nodiscard]] Outcome<std::uint64_t> parse_milliseconds(std::string_view text);

/// 3725 -> "1 h 2 min".
[[nodiscard]] std::string format_duration(std::uint64_t seconds);

}  // namespace lockstep::cli
