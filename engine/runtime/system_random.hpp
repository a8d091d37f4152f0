#pragma once
// The system's random generator behind the seam.
#include <array>
#include <cstddef>

#include "engine/seams/random.hpp"

namespace lockstep::engine {

/// getrandom(2), drawn a few hundred bytes at a time. Good enough for secrets and challenges. Not thread-safe.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;

 private:
  std::array<std::uint64_t, 32> ahead_{};
  std::size_t left_ = 0;
};

}  // namespace lockstep::engine
