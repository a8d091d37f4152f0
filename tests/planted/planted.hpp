#pragma once
// Which of the planted changes is in force. Only the copy of the sources that tests/planted/run makes sees this.
#include <cstdlib>
#include <string_view>

namespace planted {

inline const std::string_view chosen = [] {
  const char* name = std::getenv("LOCKSTEP_PLANTED");
  return std::string_view(name == nullptr ? "" : name);
}();

[[nodiscard]] inline bool is(std::string_view name) { return chosen == name; }

}  // namespace planted
