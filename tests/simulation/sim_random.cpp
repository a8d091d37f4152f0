#include "tests/simulation/sim_random.hpp"

#include <bit>

namespace lockstep::simulation {

SimRandom::SimRandom(std::uint64_t seed) {
  for (auto& word : state_) {
    seed += 0x9e3779b97f4a7c15u;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
}

std::uint64_t SimRandom::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t SimRandom::below(std::uint64_t bound) {
  if (bound == 0) return 0;
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
}

std::uint64_t SimRandom::between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

bool SimRandom::chance(std::uint32_t parts) { return below(1'000'000) < parts; }

std::uint64_t SimRandom::skewed(std::uint64_t low, std::uint64_t high) {
  const std::uint64_t span = high - low;
  const std::uint64_t draw = next();
  const unsigned shift = (draw & 15) == 0 ? 0 : ((draw & 15) < 4 ? 3 : 6);
  return low + below((span >> shift) + 1);
}

SimRandom SimRandom::split() { return SimRandom(next()); }

}  // namespace lockstep::simulation
