// Any bytes as a message or a replica's state: refused, or read such that writing it again gives the same bytes. Only
// what a later version may add to the flags of a state, and this one ignores, is not written again.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/base/crc32c.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/replica_state.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::replication;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = decode(bytes)) {
    const auto again = encode(*message);
    assert(std::ranges::equal(again, bytes));
  }
  if (const auto state = decode_state(bytes)) {
    constexpr std::size_t ignorable_flags = 6, checksum = 4;
    const auto written = encode_state(*state);
    assert(written.size() == bytes.size());
    const std::span<const std::byte> again(written);
    const auto body = [](auto s) { return s.subspan(ignorable_flags + 1, s.size() - ignorable_flags - 1 - checksum); };
    assert(std::ranges::equal(again.first(ignorable_flags), bytes.first(ignorable_flags)));
    assert(std::ranges::equal(body(again), body(bytes)));
  }
  return 0;
}

// Both formats end in the CRC32C of all that stands before it; without it nothing behind the check would be reached.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 == 0 || size < 8) return size;
  if (seed % 2 == 0 && max_size >= lockstep::replication::kMessageBytes) {
    constexpr auto exact = lockstep::replication::kMessageBytes;
    if (size < exact) std::memset(data + size, 0, exact - size);
    size = exact;
  }
  const auto crc = lockstep::engine::crc32c(std::as_bytes(std::span(data, size - 4)));
  for (int i = 0; i < 4; ++i) data[size - 4 + i] = std::uint8_t(crc >> (24 - 8 * i));
  return size;
}
