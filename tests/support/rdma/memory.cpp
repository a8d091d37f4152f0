#include "tests/support/rdma/memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::test::fabric {
namespace {

std::uint64_t hash_on(std::uint64_t hash, std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    hash = std::rotl((hash ^ word) * 0x9e3779b97f4a7c15u, 29);
  }
  for (; at < bytes.size(); ++at)
    hash = std::rotl((hash ^ std::to_integer<std::uint64_t>(bytes[at])) * 0xbf58476d1ce4e5b9u, 31);
  return hash;
}

/// No byte of it alone, so that two fillings are never alike.
void fill(std::span<std::byte> bytes, std::uint64_t word) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

}  // namespace

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.data() < other.data() + other.size() && other.data() < one.data() + one.size();
}

void scribble(std::span<std::byte> memory, Dice& dice) {
  const std::size_t from = dice.below(memory.size());
  const std::byte before = memory[from];
  fill(memory.subspan(from, 1 + dice.below(memory.size() - from)), dice.word());
  memory[from] = ~before;
}

Source::Source(std::span<const std::span<const std::byte>> pieces, bool is_inline) {
  for (const auto piece : pieces) {
    size_ += piece.size();
    if (is_inline) {
      copy_.insert(copy_.end(), piece.begin(), piece.end());
    } else if (!piece.empty()) {
      pieces_.push_back(piece);
    }
  }
  hash_ = hash();
}

void Source::read(std::size_t from, std::size_t bytes, std::vector<std::byte>& into) const {
  const auto append = [&](std::span<const std::byte> piece) {
    const std::size_t skipped = std::min(from, piece.size());
    const auto part = piece.subspan(skipped, std::min(bytes, piece.size() - skipped));
    into.insert(into.end(), part.begin(), part.end());
    from -= skipped;
    bytes -= part.size();
  };
  append(copy_);
  for (const auto piece : pieces_) append(piece);
}

bool Source::lies_in(std::span<const std::byte> memory) const {
  return std::ranges::any_of(pieces_, [&](auto piece) { return overlap(piece, memory); });
}

std::uint64_t Source::hash() const {
  std::uint64_t sum = 0;
  for (const auto piece : pieces_) sum = hash_on(sum, piece);
  return sum;
}

Target::Target(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t poison)
    : first_(first), second_(second) {
  fill(first_, poison);
  fill(second_, poison);
  hash_ = hash();
}

bool Target::lies_in(std::span<const std::byte> memory) const {
  return overlap(first_, memory) || overlap(second_, memory);
}

void Target::put(std::size_t at, std::span<const std::byte> bytes) {
  if (at < first_.size()) {
    const auto part = bytes.first(std::min(bytes.size(), first_.size() - at));
    std::ranges::copy(part, first_.begin() + static_cast<std::ptrdiff_t>(at));
    bytes = bytes.subspan(part.size());
    at += part.size();
  }
  if (!bytes.empty()) std::ranges::copy(bytes, second_.begin() + static_cast<std::ptrdiff_t>(at - first_.size()));
}

void Target::write(std::size_t at, std::span<const std::byte> bytes) {
  put(at, bytes);
  hash_ = hash();
}

void Target::spoil(Dice& dice) {
  if (size() == 0) return;
  const std::size_t from = dice.below(size());
  std::vector<std::byte> noise(1 + dice.below(size() - from));
  fill(noise, dice.word());
  noise[0] = ~(from < first_.size() ? first_[from] : second_[from - first_.size()]);
  write(from, noise);
}

std::uint64_t Target::hash() const { return hash_on(hash_on(0, first_), second_); }

}  // namespace lockstep::test::fabric
