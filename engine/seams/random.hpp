#pragma once
// Randomness as the cores see it: the system's generator in production, a seeded one under the simulator.
#include <cstdint>

#include "engine/base/uuid.hpp"

namespace lockstep::engine {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
  /// A random (version 4) UUID.
  Uuid uuid();
};

}  // namespace lockstep::engine
