#include "engine/metadata/dirty_map.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace lockstep::engine {

using layout::kRegionsPerBlock;
using layout::kWordsPerBlock;

DirtyMap::DirtyMap(std::uint64_t volume_size, std::uint32_t region_size)
    : regions_(layout::region_count(volume_size, region_size)),
      region_size_(region_size),
      words_((regions_ + 63) / 64),
      block_counts_(layout::map_blocks(regions_)) {
  assert(regions_ > 0);
}

void DirtyMap::grow(std::uint64_t volume_size) {
  const std::uint64_t regions = layout::region_count(volume_size, region_size_);
  assert(regions >= regions_);
  regions_ = regions;
  words_.resize((regions_ + 63) / 64);
  block_counts_.resize(layout::map_blocks(regions_));
}

std::uint64_t DirtyMap::end_of(std::uint64_t block) const { return std::min(regions_, (block + 1) * kRegionsPerBlock); }

void DirtyMap::set(std::uint64_t first, std::uint64_t last) {
  for_each_word(first, last, [this](std::uint64_t word, std::uint64_t bits) {
    set_word(word, bits);
    return true;
  });
}

void DirtyMap::set_word(std::size_t word, std::uint64_t bits) {
  const auto fresh = static_cast<std::uint32_t>(std::popcount(bits & ~words_[word]));
  words_[word] |= bits;
  block_counts_[block_of(word * 64)] += fresh;
  count_ += fresh;
}

bool DirtyMap::clear(std::uint64_t region) {
  if (!test(region)) return false;
  words_[region / 64] &= ~(std::uint64_t{1} << (region % 64));
  --block_counts_[block_of(region)];
  --count_;
  return true;
}

void DirtyMap::set_block(std::uint64_t block) {
  const std::uint64_t first = first_of(block), end = end_of(block);
  std::fill(words_.begin() + static_cast<std::ptrdiff_t>(first / 64),
            words_.begin() + static_cast<std::ptrdiff_t>(end / 64), ~std::uint64_t{0});
  if (end % 64 != 0) words_[end / 64] = (std::uint64_t{1} << (end % 64)) - 1;
  count_ += end - first - block_counts_[block];
  block_counts_[block] = static_cast<std::uint32_t>(end - first);
}

std::optional<std::uint64_t> DirtyMap::next(std::uint64_t from) const {
  while (from < regions_) {
    if (block_counts_[block_of(from)] == 0) {
      from = (block_of(from) + 1) * kRegionsPerBlock;
      continue;
    }
    const std::uint64_t rest = words_[from / 64] >> (from % 64);
    if (rest != 0) return from + static_cast<unsigned>(std::countr_zero(rest));
    from = (from / 64 + 1) * 64;
  }
  return std::nullopt;
}

std::span<const std::uint64_t> DirtyMap::words_of(std::uint64_t block) const {
  const std::size_t first = block * kWordsPerBlock;
  return std::span(words_).subspan(first, std::min(kWordsPerBlock, words_.size() - first));
}

bool DirtyMap::load(std::uint64_t block, layout::ConstBlock from) {
  layout::Map map;
  std::memcpy(&map, from.data() + sizeof(layout::Header), sizeof map);
  const std::uint64_t bits = end_of(block) - first_of(block);
  for (std::uint64_t word = bits / 64; word < kWordsPerBlock; ++word) {
    const std::uint64_t beyond = word == bits / 64 ? ~std::uint64_t{0} << (bits % 64) : ~std::uint64_t{0};
    if (map.words[word] & beyond) return false;
  }
  std::uint32_t set_bits = 0;
  const std::size_t first = block * kWordsPerBlock;
  for (std::size_t i = 0; i < words_of(block).size(); ++i) {
    words_[first + i] = map.words[i];
    set_bits += static_cast<std::uint32_t>(std::popcount(words_[first + i]));
  }
  count_ += set_bits;
  count_ -= block_counts_[block];
  block_counts_[block] = set_bits;
  return true;
}

void DirtyMap::store(std::uint64_t block, layout::Block into) const {
  layout::Map map{};
  std::ranges::copy(words_of(block), map.words.begin());
  std::memcpy(into.data() + sizeof(layout::Header), &map, sizeof map);
}

}  // namespace lockstep::engine
