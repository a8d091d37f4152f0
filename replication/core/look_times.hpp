#pragma once
// When a node looks at the witness, so that all its volumes look at once: what they want to read at one moment is one
// request. Each period of a clock has one such moment, the same for all volumes of a node; other pairs have others, and
// the two nodes of a pair are half a period apart. Pure.
#include "engine/metadata/identity.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

class LookTimes {
 public:
  LookTimes(const engine::Uuid& pair, engine::NodeSide side) : pair_(pair), side_(side) {}

  /// The first moment after `now`: at most one period later.
  [[nodiscard]] engine::TimePoint after(engine::TimePoint now, engine::Duration period) const;

 private:
  engine::Uuid pair_;
  engine::NodeSide side_;
};

}  // namespace lockstep::replication
