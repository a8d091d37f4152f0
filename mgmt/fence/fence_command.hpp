#pragma once
// What powering the partner off takes, and when it counts as done: the agent's `off` exits with 0, and its `status`,
// asked afterwards, says that the machine is off. Decides; runs nothing by itself.
#include <chrono>
#include <functional>
#include <string>

#include "mgmt/fence/agent_process.hpp"
#include "mgmt/fence/fence_settings.hpp"

namespace lockstep::mgmt {

struct FenceAnswer {
  enum class Power : std::uint8_t { unknown, on, off };
  bool done = false;  ///< `off`: the machine is off; `status`: the device answered
  Power power = Power::unknown;
  std::string problem;  ///< a sentence; empty when done
};
[[nodiscard]] std::string to_json_text(const FenceAnswer& answer);

/// What the decision needs of the world; a test's, or the agent and the clock.
class FenceWorld {
 public:
  virtual ~FenceWorld() = default;
  [[nodiscard]] virtual AgentEnd run(const std::string& action, std::chrono::milliseconds limit) = 0;
  /// False: whoever asked is gone.
  [[nodiscard]] virtual bool wait(std::chrono::milliseconds time) = 0;
  [[nodiscard]] virtual std::chrono::milliseconds now() = 0;  ///< since an arbitrary origin
};

[[nodiscard]] FenceAnswer power_off(const FenceSettings& settings, FenceWorld& world);
[[nodiscard]] FenceAnswer look_at_power(const FenceSettings& settings, FenceWorld& world);

}  // namespace lockstep::mgmt
