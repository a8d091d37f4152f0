#include "engine/runtime/system_random.hpp"

#include <cassert>

#include <sys/random.h>

namespace lockstep::engine {

std::uint64_t SystemRandom::next() {
  if (left_ == 0) {
    const ssize_t got = getrandom(ahead_.data(), sizeof ahead_, 0);
    assert(got == static_cast<ssize_t>(sizeof ahead_));  // up to 256 bytes are never cut short: getrandom(2)
    left_ = ahead_.size();
  }
  const std::uint64_t value = ahead_[--left_];
  ahead_[left_] = 0;  // what was given out is not kept
  return value;
}

}  // namespace lockstep::engine
