#pragma once
// Which command powers the partner off: /etc/lockstep/fence.toml, which only root writes.
//
//     agent = "/usr/sbin/fence_ipmilan"
//     limit = 30
//     [options]
//     ip = "10.0.9.2"
//     password = "…"
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.hpp"

namespace lockstep::mgmt {

struct FenceSettings {
  std::string agent;               ///< a program that speaks as those of fence-agents do
  std::chrono::seconds limit{30};  ///< for all of it: power off, and see that it is off
  std::chrono::seconds delay{0};   ///< before the partner is powered off, so that the two don't do it to one another
  /// As the agent gets them, besides `action`. They hold secrets.
  std::vector<std::pair<std::string, std::string>> options;
};

/// Errors name the file, the line and what was expected.
[[nodiscard]] engine::Result<FenceSettings> parse_fence_settings(std::string_view text, const std::string& name);
/// Refused, too, where others than its owner may change it, or others than its owner and group may read it.
[[nodiscard]] engine::Result<FenceSettings> load_fence_settings(const std::string& path);

/// What the agent reads on its standard input.
[[nodiscard]] std::string agent_input(const FenceSettings& settings, std::string_view action);
/// What an agent wrote, fit for an event: one line without control characters, the last of it where it is long, and
/// without the values of options whose names speak of a secret.
[[nodiscard]] std::string fit_to_show(std::string text, const FenceSettings& settings);

}  // namespace lockstep::mgmt
