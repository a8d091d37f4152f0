#pragma once
// The system's words for its error numbers.
#include <string>
#include <system_error>

namespace lockstep::engine {

[[nodiscard]] inline std::string system_reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace lockstep::engine
