#include "mgmt/fence/fence_command.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::mgmt {
namespace {

using std::chrono::milliseconds;
using Power = FenceAnswer::Power;

// Of an agent's `status` (fence-agents' API).
constexpr int kIsOn = 0, kIsOff = 2;
constexpr milliseconds kLookAgain{1000};
/// A person may wait for it, and so may lockstep-mgmtd.
constexpr milliseconds kLookLimit{20000};

std::string how_it_ended(const AgentEnd& end, const FenceSettings& settings) {
  std::string text;
  switch (end.how) {
    case AgentEnd::How::exited:
      text = fmt::format("exited with {}", end.status);
      break;
    case AgentEnd::How::signalled:
      text = fmt::format("was ended by signal {}", end.status);
      break;
    case AgentEnd::How::timed_out:
      text = "did not end within its limit and was killed";
      break;
    case AgentEnd::How::called_off:
      return "was called off";
    case AgentEnd::How::not_begun:
      return fmt::format("could not be run: {}", std::strerror(end.status));
  }
  const std::string said = fit_to_show(end.output, settings);
  return said.empty() ? text + " and said nothing" : text + " and said: " + said;
}

FenceAnswer failed(const FenceSettings& settings, const std::string& action, const AgentEnd& end) {
  return {false, Power::unknown, fmt::format("{} ({}) {}.", settings.agent, action, how_it_ended(end, settings))};
}

}  // namespace

FenceAnswer look_at_power(const FenceSettings& settings, FenceWorld& world) {
  const AgentEnd end = world.run("status", std::min<milliseconds>(settings.limit, kLookLimit));
  if (end.exited_with(kIsOn)) return {true, Power::on, {}};
  if (end.exited_with(kIsOff)) return {true, Power::off, {}};
  return failed(settings, "status", end);
}

FenceAnswer power_off(const FenceSettings& settings, FenceWorld& world) {
  if (!world.wait(settings.delay)) return {false, Power::unknown, "It was called off during its delay."};
  const milliseconds over = world.now() + settings.limit;
  const AgentEnd off = world.run("off", settings.limit);
  if (!off.exited_with(0)) return failed(settings, "off", off);
  // Its own word is not enough. A machine may take a moment to be off.
  while (true) {
    const milliseconds left = over - world.now();
    if (left <= milliseconds(0)) break;
    const AgentEnd look = world.run("status", left);
    if (look.exited_with(kIsOff)) return {true, Power::off, {}};
    if (!look.exited_with(kIsOn)) return failed(settings, "status, after off", look);
    if (!world.wait(std::min(kLookAgain, std::max(over - world.now(), milliseconds(0)))))
      return {false, Power::on, "It was called off."};
  }
  return {false, Power::on,
          fmt::format("{} (off) exited with 0, and the machine's status still is on when the limit of {} s is over.",
                      settings.agent, settings.limit.count())};
}

std::string to_json_text(const FenceAnswer& answer) {
  const char* power = answer.power == Power::on ? "on" : answer.power == Power::off ? "off" : "unknown";
  const nlohmann::json line{{"done", answer.done}, {"power", power}, {"problem", answer.problem}};
  return line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::mgmt
