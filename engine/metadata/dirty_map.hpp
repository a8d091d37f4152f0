#pragma once
// The dirty map in memory: one bit a region, and how many are set in each map block.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/metadata/layout.hpp"

namespace lockstep::engine {

/// Calls `use(word, bits)` for each word of 64 regions that has some of [first, last], with their bits, until one gives
/// false; false then. A range of a whole volume is walked in one turn: by words it takes milliseconds.
template <class Use>
bool for_each_word(std::uint64_t first, std::uint64_t last, Use use) {
  for (std::uint64_t word = first / 64; word <= last / 64; ++word) {
    std::uint64_t bits = ~std::uint64_t{0};
    if (word == first / 64) bits &= ~std::uint64_t{0} << (first % 64);
    if (word == last / 64) bits &= ~std::uint64_t{0} >> (63 - last % 64);
    if (!use(word, bits)) return false;
  }
  return true;
}

class DirtyMap {
 public:
  DirtyMap(std::uint64_t volume_size, std::uint32_t region_size);

  /// Regions that are added are clear. Never smaller.
  void grow(std::uint64_t volume_size);
  [[nodiscard]] std::uint64_t regions() const { return regions_; }
  [[nodiscard]] std::uint64_t blocks() const { return block_counts_.size(); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint32_t region_size() const { return region_size_; }
  [[nodiscard]] static std::uint64_t block_of(std::uint64_t region) { return region / layout::kRegionsPerBlock; }
  /// The regions of one map block: [first, end).
  [[nodiscard]] std::uint64_t first_of(std::uint64_t block) const { return block * layout::kRegionsPerBlock; }
  [[nodiscard]] std::uint64_t end_of(std::uint64_t block) const;

  [[nodiscard]] bool test(std::uint64_t region) const { return words_[region / 64] >> (region % 64) & 1; }
  void set(std::uint64_t first, std::uint64_t last);
  /// True when the bit changed.
  bool clear(std::uint64_t region);
  /// Those of 64 regions whose bits are set in `bits`.
  void set_word(std::size_t word, std::uint64_t bits);
  void set_block(std::uint64_t block);
  [[nodiscard]] std::optional<std::uint64_t> next(std::uint64_t from) const;

  [[nodiscard]] const std::vector<std::uint64_t>& words() const { return words_; }
  /// The words that one map block carries; fewer in the last.
  [[nodiscard]] std::span<const std::uint64_t> words_of(std::uint64_t block) const;

  /// Takes over a map block's bits. False, and nothing changed, when bits beyond the last region are set.
  bool load(std::uint64_t block, layout::ConstBlock from);
  void store(std::uint64_t block, layout::Block into) const;

 private:
  std::uint64_t regions_;
  std::uint32_t region_size_;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> block_counts_;
};

}  // namespace lockstep::engine
