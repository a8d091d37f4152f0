#pragma once
// The wires between the two nodes: each direction may be cut on its own.
#include <array>
#include <cstddef>

#include "engine/metadata/identity.hpp"

namespace lockstep::simulation {

struct Network {
  std::array<bool, 2> open{true, true};  ///< [from]: packets from that node arrive

  [[nodiscard]] bool carries_from(engine::NodeSide from) const { return open[static_cast<std::size_t>(from)]; }
  [[nodiscard]] bool whole() const { return open[0] && open[1]; }
};

}  // namespace lockstep::simulation
