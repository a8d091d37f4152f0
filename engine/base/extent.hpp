#pragma once
// A run of bytes of a volume or store. Offsets and lengths in bytes; the volume's block size divides both.
#include <cstdint>

namespace lockstep::engine {

struct Extent {
  std::uint64_t offset = 0;  ///< bytes
  std::uint64_t length = 0;  ///< bytes

  bool operator==(const Extent&) const = default;
  /// Only for extents already checked against a size: does not wrap.
  [[nodiscard]] std::uint64_t end() const { return offset + length; }
  [[nodiscard]] bool empty() const { return length == 0; }
  [[nodiscard]] bool overlaps(const Extent& o) const { return offset < o.end() && o.offset < end(); }
  [[nodiscard]] bool contains(const Extent& o) const { return offset <= o.offset && o.end() <= end(); }
  /// True when the extent lies within [0, size) without its end wrapping.
  [[nodiscard]] bool fits(std::uint64_t size) const { return length <= size && offset <= size - length; }
};

}  // namespace lockstep::engine
