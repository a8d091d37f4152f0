#pragma once
// What the blocks of a simulated volume hold: zeroes, or the stamp of the one operation that wrote them. Every byte of
// a block follows from its stamp, so that a torn, misplaced or mixed block is seen.
#include <cstdint>
#include <span>

namespace lockstep::simulation {

constexpr std::size_t kBlock = 512;                     ///< bytes, the volume's block size
using Value = std::uint32_t;                            ///< the operation that wrote a block; 0: zeroes
constexpr Value kGarbage = 0xffffffffu;                 ///< bytes that no operation ever wrote there
constexpr std::uint64_t kAnyBlock = ~std::uint64_t{0};  ///< a WRITE SAME's stamp names no block

void write_stamp(std::span<std::byte> block, Value value, std::uint64_t lba);
/// The value of the block that was read at `lba`.
[[nodiscard]] Value read_stamp(std::span<const std::byte> block, std::uint64_t lba);

}  // namespace lockstep::simulation
