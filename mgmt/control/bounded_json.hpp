#pragma once
// What JSON from the network costs before it is read: as a tree it takes many times the room of its text.
#include <cstddef>
#include <string_view>

namespace lockstep::mgmt {

struct JsonBounds {
  std::size_t values = 20'000;  ///< and names
  std::size_t depth = 16;
};

/// False: the text holds more values, or nests deeper. Text that is no JSON counts up to where it goes wrong.
[[nodiscard]] bool within_bounds(std::string_view text, JsonBounds bounds);

}  // namespace lockstep::mgmt
