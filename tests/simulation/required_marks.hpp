#pragma once
// The rare branches of the mirror that a batch of 10,000 seeds must have gone through; without these it proves little.
#include <array>

namespace lockstep::simulation {

inline constexpr std::array<const char*, 0> kRequiredMarks{};

}  // namespace lockstep::simulation
