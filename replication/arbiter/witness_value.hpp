#pragma once
// The witness's record of a volume as bytes, the value of its key in etcd. Big-endian:
//
//    offset  bytes  field
//         0      4  magic "LSWR"
//         4      2  version, 1
//         6      2  length of the whole, 80
//         8     16  pair
//        24     16  volume
//        40      8  epoch number
//        48     16  epoch id
//        64      1  members: 1 = A, 2 = B, 3 = both
//        65     11  zero
//        76      4  CRC32C of bytes 0..75
//
// The checksum is verified before any other field is believed.
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "engine/base/result.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

constexpr std::size_t kWitnessValueSize = 80;
using WitnessValue = std::array<std::byte, kWitnessValueSize>;

/// "/lockstep/<pair>/volume/<volume>"
[[nodiscard]] std::string witness_key(const engine::Uuid& pair, const engine::Uuid& volume);
[[nodiscard]] WitnessValue encode_witness_value(const engine::Uuid& pair, const engine::Uuid& volume,
                                                const WitnessRecord& record);
/// Errc::corrupt, wrong_version, or foreign: of another pair or volume.
[[nodiscard]] engine::IoResult<WitnessRecord> decode_witness_value(std::span<const std::byte> bytes,
                                                                   const engine::Uuid& pair,
                                                                   const engine::Uuid& volume);

}  // namespace lockstep::replication
