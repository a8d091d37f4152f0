#pragma once
// The dirty map in memory: one bit a region, and how many are set in each map block.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/metadata/layout.hpp"

namespace lockstep::engine {

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
  /// True when the bit changed.
  bool set(std::uint64_t region);
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
