#include "ui-api/cli/size.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";
constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 63) - 1;

std::string_view without_spaces(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

/// "", "B", "K", "KiB", "KB" ...: what one of it is in bytes.
std::optional<std::uint64_t> unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 1;
  const auto prefix = kPrefixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
  if (prefix == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  const bool binary = rest.empty() || rest == "iB" || rest == "ib" || rest == "i";
  if (!binary && rest != "B" && rest != "b") return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= prefix; ++i) bytes *= binary ? 1024 : 1000;
  return bytes;
}

std::unexpected<Failure> not_a_size(std::string_view text) {
  return fail(Exit::usage, fmt::format("\"{}\" is not a size. Write it like 10GiB, 1.5TiB or 512MiB.", text));
}

}  // namespace

Outcome<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view all = without_spaces(text);
  const std::size_t digits = std::min(all.find_first_not_of("0123456789"), all.size());
  std::size_t end = digits;
  if (end < all.size() && all[end] == '.') end = std::min(all.find_first_not_of("0123456789", end + 1), all.size());
  const bool has_fraction = end > digits;
  if (digits == 0 || digits > 19 || (has_fraction && (end - digits < 2 || end - digits > 10))) return not_a_size(text);
  const auto unit = unit_bytes(without_spaces(all.substr(end)));
  if (!unit) return not_a_size(text);

  // Exact: value = whole.fraction as an integer over a power of ten, in 128 bits.
  unsigned __int128 value = 0;
  unsigned __int128 scale = 1;
  for (const char c : all.substr(0, end)) {
    if (c == '.') continue;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  for (std::size_t i = digits + 1; i < end; ++i) scale *= 10;
  if (value > (static_cast<unsigned __int128>(kMaxBytes) * scale) / *unit) {
    return fail(Exit::usage, fmt::format("\"{}\" is too large.", text));
  }
  value *= *unit;
  if (value % scale != 0) return fail(Exit::usage, fmt::format("\"{}\" is not a whole number of bytes.", text));
  return static_cast<std::uint64_t>(value / scale);
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, kUnits[unit]);
}

Outcome<std::uint64_t> parse_duration(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000;  // of any unit
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, text.data() + text.size());
  const std::uint64_t seconds = unit.empty() || unit == "s"    ? 1
                                : unit == "m" || unit == "min" ? 60
                                : unit == "h"                  ? 3600
                                : unit == "d"                  ? 86400
                                                               : 0;
  if (error != std::errc{} || seconds == 0 || count > kMost)
    return fail(Exit::usage, fmt::format("\"{}\" is no time. Write it like 90s, 15m, 1h or 7d; 0 is at once.", text));
  return count * seconds;
}

Outcome<std::uint64_t> parse_milliseconds(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  const bool ms = text.ends_with("ms");
  const std::string_view number = text.substr(0, text.size() - std::min<std::size_t>(text.size(), ms ? 2 : 1));
  const std::size_t dot = number.find('.');
  const std::string_view fraction = dot == number.npos ? "" : number.substr(dot + 1);
  const std::string digits = std::string(number.substr(0, dot)) + std::string(fraction);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool reads = error == std::errc{} && end == digits.data() + digits.size() && value <= kMost;
  if (!reads || !(ms || text.ends_with('s')) || fraction.size() > 3 || (dot != number.npos && (ms || fraction.empty())))
    return fail(Exit::usage, fmt::format("\"{}\" is no time. Write it like 1500ms, 1.5s or 2s.", text));
  for (std::size_t i = ms ? 3 : fraction.size(); i < 3; ++i) value *= 10;
  return value;
}

std::string format_duration(std::uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds % 86400 / 3600);
}

}  // namespace lockstep::cli
