#include "engine/base/crc32c.hpp"

#include <algorithm>

#include <isa-l/crc.h>

namespace lockstep::engine {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  // ISA-L works on the bare remainder, complements nothing, and counts bytes in an int.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::uint32_t remainder = ~previous;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    auto* at = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    remainder = crc32_iscsi(at, static_cast<int>(part.size()), remainder);
    bytes = bytes.subspan(part.size());
  }
  return ~remainder;
}

}  // namespace lockstep::engine
