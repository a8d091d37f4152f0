#include "ui-api/cli/setup/toml_edit.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace lockstep::cli::setup {
namespace {

/// Where a place that the parser names (line and column from 1, columns of code points) is in the text.
std::size_t offset_of(std::string_view text, const toml::source_position& place) {
  std::size_t at = 0;
  for (toml::source_index line = 1; line < place.line && at < text.size(); ++line) {
    const auto end = text.find('\n', at);
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  for (toml::source_index column = 1; column < place.column && at < text.size(); ++column) do {
      ++at;
    } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

/// Where a line begins that follows the comment "#key = ...".
std::optional<std::size_t> below_comment(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    const auto strip = [&line] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    strip();
    if (line.starts_with('#')) {
      line.remove_prefix(1);
      strip();
      const bool named = line.starts_with(key);
      if (named) line.remove_prefix(key.size());
      strip();
      if (named && line.starts_with('=')) return std::min(end + 1, text.size());
    }
    at = end + 1;
  }
  return std::nullopt;
}

void put(std::string& text, const toml::table& table, const Setting& setting) {
  if (const toml::node* node = table.get(setting.key)) {
    const auto& region = node->source();
    const std::size_t begin = offset_of(text, region.begin), end = offset_of(text, region.end);
    if (begin <= end) text.replace(begin, end - begin, setting.value);
    return;
  }
  const auto below = below_comment(text, setting.key);
  const std::size_t at = below.value_or(text.size());
  const bool in_a_line = at > 0 && text[at - 1] != '\n';
  text.insert(at, fmt::format("{}{} = {}\n", in_a_line ? "\n" : "", setting.key, setting.value));
}

/// The values of `wanted` in `table`, too.
toml::table together(toml::table table, const toml::table& wanted) {
  for (const auto& [key, value] : wanted)
    value.visit([&](const auto& node) { table.insert_or_assign(key.str(), node); });
  return table;
}

}  // namespace

Outcome<std::string> with_settings(const std::string& before, const std::vector<Setting>& settings) {
  try {
    const toml::table original = toml::parse(before);
    toml::table wanted;
    std::string text = before;
    for (const Setting& setting : settings) {
      const toml::table one = toml::parse(fmt::format("{} = {}\n", setting.key, setting.value));
      const toml::table now = toml::parse(text);
      wanted = together(std::move(wanted), one);
      if (together(now, one) != now) put(text, now, setting);
    }
    if (toml::parse(text) == together(original, wanted)) return text;
  } catch (const toml::parse_error& e) {
    return fail(Exit::refused, fmt::format("It is not TOML: line {}: {}.", e.source().begin.line, e.description()));
  }
  return fail(Exit::refused, "It can't be changed without changing something else in it. Change it by hand.");
}

}  // namespace lockstep::cli::setup
