#pragma once
// What subscribers of the control socket are told, and where it goes.
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/uuid.hpp"

namespace lockstep::data_plane {

struct Event {
  std::string kind;  ///< one of docs/developer/rpc.md
  std::optional<engine::Uuid> volume;
  std::string from;
  std::string to;
  std::string message;      ///< a sentence for a person
  std::uint64_t times = 1;  ///< how often it happened; the last time as the message says
};

class EventSink {
 public:
  /// Any thread.
  virtual void publish(Event event) = 0;

 protected:
  ~EventSink() = default;
};

[[nodiscard]] nlohmann::json to_json(const Event& event);  ///< with the time of the call
/// Milliseconds since 1970.
[[nodiscard]] std::int64_t wall_clock_ms();

}  // namespace lockstep::data_plane
