#include "tests/simulation/stamp.hpp"

#include <cstring>

namespace lockstep::simulation {

namespace {
constexpr std::size_t kWords = kBlock / 8;
std::uint64_t filler(std::uint64_t value, std::uint64_t lba) {
  return (value * 0x9e3779b97f4a7c15u) ^ (lba + 0x517cc1b727220a95u);
}
}  // namespace

void write_stamp(std::span<std::byte> block, Value value, std::uint64_t lba) {
  std::uint64_t words[kWords];
  words[0] = value;
  words[1] = lba;
  const std::uint64_t fill = filler(value, lba);
  for (std::size_t i = 2; i < kWords; ++i) words[i] = fill + i;
  std::memcpy(block.data(), words, kBlock);
}

Value read_stamp(std::span<const std::byte> block, std::uint64_t lba) {
  std::uint64_t words[kWords];
  std::memcpy(words, block.data(), kBlock);
  if (words[0] == 0) {
    std::uint64_t any = 0;
    for (const std::uint64_t word : words) any |= word;
    return any == 0 ? 0 : kGarbage;
  }
  if (words[0] >= kGarbage || (words[1] != lba && words[1] != kAnyBlock)) return kGarbage;
  const std::uint64_t fill = filler(words[0], words[1]);
  std::uint64_t differs = 0;
  for (std::size_t i = 2; i < kWords; ++i) differs |= words[i] ^ (fill + i);
  return differs == 0 ? static_cast<Value>(words[0]) : kGarbage;
}

}  // namespace lockstep::simulation
