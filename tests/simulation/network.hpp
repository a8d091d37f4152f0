#pragma once
// The wires between the two nodes: each direction may be cut on its own, or lose what is large.
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
  /// [from]: bytes that arrive in one piece, as where the frames of two nodes are larger than what is between them
  /// passes; 0: any number. What is larger is sent again and again by its transport, and all that follows stands
  /// behind.
  std::array<std::size_t, 2> largest{};

  [[nodiscard]] bool carries_from(engine::NodeSide from) const { return open[static_cast<std::size_t>(from)]; }
  [[nodiscard]] bool loses(engine::NodeSide from, std::size_t bytes) const {
    const std::size_t limit = largest[static_cast<std::size_t>(from)];
    return limit != 0 && bytes > limit;
  }
  [[nodiscard]] bool whole() const { return open[0] && open[1]; }
};

}  // namespace lockstep::simulation
