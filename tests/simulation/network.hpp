#pragma once
// The wires between the two nodes: each direction may be cut on its own.
#include <array>
#include <cstddef>

#include "engine/metadata/identity.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

/// Of that node's thread, of which shard k has the k-th.
[[nodiscard]] constexpr Owner owner_of(engine::NodeSide side, unsigned thread) {
  const bool first = thread == 0;
  if (side == engine::NodeSide::a) return first ? Owner::node_a : Owner::second_of_a;
  return first ? Owner::node_b : Owner::second_of_b;
}

struct Network {
  std::array<bool, 2> open{true, true};  ///< [from]: packets from that node arrive

  [[nodiscard]] bool carries_from(engine::NodeSide from) const { return open[static_cast<std::size_t>(from)]; }
  [[nodiscard]] bool whole() const { return open[0] && open[1]; }
};

}  // namespace lockstep::simulation
