#pragma once
// Copies of data. std::ranges::copy() takes constant bytes one at a time with g++ 12.
#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>

namespace lockstep::engine {

/// To the beginning of `to`, which has the room and is other memory.
inline void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  assert(from.size() <= to.size());
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace lockstep::engine
