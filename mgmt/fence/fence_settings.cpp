#include "mgmt/fence/fence_settings.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <sys/stat.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace lockstep::mgmt {
namespace {

using engine::Errc;
using engine::fail;

constexpr std::size_t kMaxOptions = 64, kMaxText = 1024, kMaxShown = 1000;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_name(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, fits);
}

bool is_secret(std::string_view name) {
  constexpr std::array<std::string_view, 5> kWords{"pass", "secret", "token", "key", "community"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != name.npos; });
}

class Reader {
 public:
  Reader(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

  FenceSettings read() {
    FenceSettings s;
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (name == "agent") {
        s.agent = node.value<std::string>().value_or("");
        if (!node.is_string() || !s.agent.starts_with('/') || s.agent.size() > kMaxText)
          wrong(node, "\"agent\" must be the path of a program, from /");
      } else if (name == "limit") {
        s.limit = seconds(node, name, 1, 600);
      } else if (name == "delay") {
        s.delay = seconds(node, name, 0, 60);
      } else if (name == "options" && node.is_table()) {
        for (const auto& [option, value] : *node.as_table()) read_option(s, option.str(), value);
      } else {
        wrong(node, fmt::format("\"{}\" is not one of agent, limit, delay and the table options", name));
      }
    }
    if (s.agent.empty() && problem_.empty()) problem_ = file_ + ": \"agent\" is missing.";
    return s;
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::chrono::seconds seconds(const toml::node& node, std::string_view name, std::int64_t least, std::int64_t most) {
    const auto value = node.value<std::int64_t>();
    if (!node.is_integer() || *value < least || *value > most) {
      wrong(node, fmt::format("\"{}\" must be a whole number of seconds from {} to {}", name, least, most));
      return std::chrono::seconds(least);
    }
    return std::chrono::seconds(*value);
  }
  void read_option(FenceSettings& s, std::string_view name, const toml::node& node) {
    std::string value;
    if (node.is_string())
      value = *node.value<std::string>();
    else if (node.is_integer())
      value = std::to_string(*node.value<std::int64_t>());
    else if (node.is_boolean())
      value = *node.value<bool>() ? "1" : "0";
    else
      return wrong(node, fmt::format("the option \"{}\" must be a text, a whole number, true or false", name));
    if (!is_name(name)) return wrong(node, fmt::format("\"{}\" is no agent's option", name));
    if (name == "action")
      return wrong(node, "the option \"action\" is said by Lockstep: off to power off, status to look");
    if (value.size() > kMaxText || std::ranges::any_of(value, is_control))
      return wrong(node, fmt::format("the option \"{}\" must be one line of at most {} characters", name, kMaxText));
    if (s.options.size() == kMaxOptions) return wrong(node, fmt::format("there are more than {} options", kMaxOptions));
    s.options.emplace_back(name, value);
  }
  void wrong(const toml::node& node, const std::string& what) {
    if (problem_.empty()) problem_ = fmt::format("{}, line {}: {}.", file_, node.source().begin.line, what);
  }

  const toml::table& table_;
  const std::string& file_;
  std::string problem_;
};

void replace_all(std::string& text, const std::string& what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

}  // namespace

engine::Result<FenceSettings> parse_fence_settings(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  // What the parser says of it may quote it, and so a secret.
  if (!parsed)
    return fail(Errc::refused, fmt::format("{}, line {}: this is not TOML.", name, parsed.error().source().begin.line));
  Reader reader(parsed.table(), name);
  FenceSettings settings = reader.read();
  if (!reader.problem().empty()) return fail(Errc::refused, reader.problem());
  return settings;
}

engine::Result<FenceSettings> load_fence_settings(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0)
    return fail(Errc::io_error, fmt::format("Can't read {}: {}.", path, std::strerror(errno)));
  if ((found.st_mode & (S_IWGRP | S_IRWXO)) != 0)
    return fail(Errc::refused, fmt::format("{} holds secrets, and says what is run: chmod 600 {}", path, path));
  std::ifstream file(path);
  if (!file) return fail(Errc::io_error, fmt::format("Can't read {}: {}.", path, std::strerror(errno)));
  std::stringstream text;
  text << file.rdbuf();
  return parse_fence_settings(text.str(), path);
}

std::string agent_input(const FenceSettings& settings, std::string_view action) {
  std::string input;
  for (const auto& [name, value] : settings.options) input += fmt::format("{}={}\n", name, value);
  return input + fmt::format("action={}\n", action);
}

std::string fit_to_show(std::string text, const FenceSettings& settings) {
  for (const auto& [name, value] : settings.options)
    if (is_secret(name) && !value.empty()) replace_all(text, value, "***");
  std::string shown;
  for (const char c : text) {
    const bool plain = !is_control(c) && static_cast<unsigned char>(c) < 0x80;
    if (plain && c != ' ')
      shown += c;
    else if (!shown.empty() && shown.back() != ' ')
      shown += ' ';
  }
  while (!shown.empty() && shown.back() == ' ') shown.pop_back();
  return shown.size() <= kMaxShown ? shown : "... " + shown.substr(shown.size() - kMaxShown);
}

}  // namespace lockstep::mgmt
