#pragma once
// What the two ends of a link session count by, and the paths that it uses. A link session is what Link shows as up
// from on_link_up() to on_link_down(): one way, over one or more paths. docs/developer/paths.md tells the whole.
#include <bit>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace lockstep::replication {

/// A count from 1 within one stream of a link session; 0: none. 64 bits: no stream lives to see the last one, so that
/// numbers never begin again.
template <class Tag>
struct Ordinal {
  std::uint64_t value = 0;
  [[nodiscard]] constexpr Ordinal next() const { return {value + 1}; }
  constexpr auto operator<=>(const Ordinal&) const = default;
};
/// Of a request, in the order in which the sender was given them.
using RequestNumber = Ordinal<struct RequestNumberTag>;
/// Of an answer, in the order in which the receiver gave them.
using AnswerNumber = Ordinal<struct AnswerNumberTag>;

constexpr std::size_t kMaxPaths = 8;  ///< of one way of the link

/// One of the paths that a node has configured or found. What is connected there changes; the place stays.
enum class PathSlot : std::uint8_t {};
[[nodiscard]] constexpr std::size_t index_of(PathSlot slot) { return static_cast<std::size_t>(slot); }

class PathSet {
 public:
  [[nodiscard]] bool contains(PathSlot slot) const { return (bits_ & bit(slot)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] int size() const { return std::popcount(bits_); }
  /// Not of an empty one.
  [[nodiscard]] PathSlot first() const { return static_cast<PathSlot>(std::countr_zero(bits_)); }
  void add(PathSlot slot) { bits_ |= bit(slot); }
  void remove(PathSlot slot) { bits_ &= static_cast<std::uint8_t>(~bit(slot)); }
  bool operator==(const PathSet&) const = default;

 private:
  static std::uint8_t bit(PathSlot slot) {
    assert(index_of(slot) < kMaxPaths);
    return static_cast<std::uint8_t>(1U << index_of(slot));
  }
  std::uint8_t bits_ = 0;
};

}  // namespace lockstep::replication
