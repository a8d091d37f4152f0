#pragma once
// The only source of chance in a simulated world: xoshiro256**, seeded by splitmix64. Streams are split off by name, so
// that one part drawing more numbers does not change what the others see.
#include <array>
#include <cstdint>

#include "engine/seams/random.hpp"

namespace lockstep::simulation {

class SimRandom final : public engine::Random {
 public:
  explicit SimRandom(std::uint64_t seed);

  std::uint64_t next() override;
  /// Uniform in [0, bound); 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high);
  /// True with a chance of `parts` in a million.
  bool chance(std::uint32_t parts);
  /// Small values often, values near `high` now and then: how delays are distributed in real life.
  std::uint64_t skewed(std::uint64_t low, std::uint64_t high);
  /// A stream of its own.
  [[nodiscard]] SimRandom split();

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace lockstep::simulation
