#pragma once
// The witness's record of a volume as bytes, the value of its key in etcd. Big-endian:
//
//    offset  bytes  field
//         0      4  magic "LSWR"
//         4      2  version, 2
//         6      2  length of the whole, 128
//         8     16  pair
//        24     16  volume
//        40      8  epoch number
//        48     16  epoch id
//        64      1  members: 1 = A, 2 = B, 3 = both
//        65      1  who wrote it: 1 = A, 2 = B
//        66      6  zero
//        72      8  writes of this key since it was made, this one included
//        80      8  generation of A's replica
//        88      8  generation of B's replica
//        96     32  HMAC-SHA256 of bytes 0..95 with the pair's key
//
// The seal is verified before any other field is believed. Who can write to etcd, and has not the pair's key, can put
// back a record that one of the nodes wrote before: then etcd has counted more writes than the record says.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

constexpr std::size_t kWitnessValueSize = 128;
using WitnessValue = std::array<std::byte, kWitnessValueSize>;
/// What both nodes of a pair have, and nobody else.
using WitnessSeal = std::array<std::byte, 32>;

/// One volume's record within its pair.
struct WitnessSlot {
  engine::Uuid pair;
  engine::Uuid volume;
  WitnessSeal seal{};
  engine::NodeSide author = engine::NodeSide::a;  ///< this node
};

struct SealedRecord {
  WitnessRecord record;
  engine::NodeSide author = engine::NodeSide::a;
  std::int64_t writes = 0;
  bool operator==(const SealedRecord&) const = default;
};

/// From the secrets of the link between the two nodes, in any order. Without any, the seal keeps nobody out.
[[nodiscard]] WitnessSeal witness_seal(const engine::Uuid& pair, std::string_view secret, std::string_view other);

/// "/lockstep/<pair>/volume/<volume>"
[[nodiscard]] std::string witness_key(const engine::Uuid& pair, const engine::Uuid& volume);
[[nodiscard]] WitnessValue encode_witness_value(const WitnessSlot& slot, const WitnessRecord& record,
                                                std::int64_t writes);
/// Errc::refused: not sealed with the pair's key; corrupt, wrong_version, or foreign: of another pair or volume.
[[nodiscard]] engine::IoResult<SealedRecord> decode_witness_value(std::span<const std::byte> bytes,
                                                                  const WitnessSlot& slot);

}  // namespace lockstep::replication
