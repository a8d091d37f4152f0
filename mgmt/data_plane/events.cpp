#include "mgmt/data_plane/events.hpp"

#include <chrono>

#include <nlohmann/json.hpp>

namespace lockstep::data_plane {

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

nlohmann::json to_json(const Event& event) {
  nlohmann::json told = {{"time_ms", wall_clock_ms()}, {"kind", event.kind}, {"message", event.message}};
  if (event.volume) told["volume"] = event.volume->to_string();
  if (event.times > 1) told["times"] = event.times;
  if (!event.from.empty()) told["from"] = event.from;
  if (!event.to.empty()) told["to"] = event.to;
  return told;
}

}  // namespace lockstep::data_plane
