#pragma once
// The metadata area byte by byte; format.md tells it in words with an example. Everything is in blocks of 4096 bytes
// with one header; the checksum is verified before anything else is believed.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/base/byte_order.hpp"
#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "engine/metadata/knowledge.hpp"

namespace lockstep::engine::layout {

constexpr std::size_t kBlock = 4096;  ///< bytes
constexpr std::uint16_t kVersion = 1;
constexpr std::uint16_t kMovedVersion = 2;                     ///< of a superblock that says where the state stands
constexpr std::uint16_t kKeyedVersion = 3;                     ///< … or has a key, or both
constexpr std::uint16_t kLearntVersion = 2;                    ///< of an epoch record with knowledge behind it
constexpr std::uint64_t kSuperblockAt = 0;                     ///< bytes; two slots
constexpr std::uint64_t kEpochAt = 2 * kBlock;                 ///< bytes; two slots
constexpr std::uint64_t kMapAt = 4 * kBlock;                   ///< bytes
constexpr std::uint64_t kMaxVolume = std::uint64_t{64} << 40;  ///< bytes
constexpr std::uint32_t kMinRegion = 4096;                     ///< bytes
constexpr std::uint32_t kMaxRegion = std::uint32_t{64} << 20;  ///< bytes
constexpr std::size_t kStateSlot = 16 * kBlock;                ///< bytes; a header block and room for the state
constexpr std::size_t kMaxState = kStateSlot - kBlock;
constexpr std::uint64_t kStateBytes = 2 * kStateSlot;  ///< bytes behind the dirty map, where the store has room
constexpr std::size_t kMaxName = 63, kMaxSerial = 32, kMaxAddress = 255;

using Block = std::span<std::byte, kBlock>;
using ConstBlock = std::span<const std::byte, kBlock>;
using WireUuid = std::array<std::uint8_t, 16>;

struct Header {
  Be32 checksum;  ///< CRC32C of bytes 4 to 4095
  std::array<char, 8> magic;
  Be16 version;
  Be16 length;      ///< of the block: 4096
  Be64 index;       ///< slot 0 or 1; of a map block its number
  Be64 generation;  ///< counts up with each write of a slot pair, and with each write to the map
  WireUuid pair;
  WireUuid volume;
  WireUuid area;  ///< the id of the epoch that the area was laid out with: tells leftovers of an earlier area
  std::uint8_t owner;
  std::array<std::uint8_t, 15> reserved;
};
static_assert(sizeof(Header) == 96 && WireStruct<Header>);

constexpr std::size_t kPayload = kBlock - sizeof(Header);

struct Superblock {
  Be64 size;
  Be32 block_size;
  Be32 region_size;
  Be64 map_offset;
  Be64 map_blocks;
  Be16 name_length;
  Be16 serial_length;
  std::array<std::uint8_t, 4> reserved0;
  std::array<char, 64> name;
  std::array<char, 32> serial;
  Be64 state_offset;  ///< zero, as always in version 1: the state stands right behind the map
  WireUuid node_key;  ///< version 3
  std::array<std::byte, SealedKey::kSize> key;
  std::array<std::uint8_t, 3768> reserved1;
};
static_assert(sizeof(Superblock) == kPayload && WireStruct<Superblock>);

/// What the replica has learnt; all zero in version 1, and not all zero in version 2.
struct Learnt {
  Be64 generation;
  Be64 partner_generation;
  Be64 witness_cluster;
  Be64 witness_repairs;
  Be64 witness_revision;  ///< below 2^63
  Be64 record_number;
  WireUuid record_epoch;
  std::uint8_t record_members;  ///< 0: no record of the witness's was ever seen
  std::array<std::uint8_t, 7> reserved;
};
static_assert(sizeof(Learnt) == 72 && WireStruct<Learnt>);

struct Epoch {
  Be64 number;
  WireUuid id;
  Be64 size;
  std::uint8_t members;
  std::uint8_t sequencer;
  std::uint8_t arbiter_kind;
  std::uint8_t preferred;
  Be16 ancestor_count;
  Be16 address_length;
  std::array<std::uint8_t, 24> reserved0;
  std::array<WireUuid, EpochRecord::kMaxAncestors> ancestors;
  std::array<char, 256> address;
  Learnt learnt;
  std::array<std::uint8_t, 1560> reserved1;
};
static_assert(sizeof(Epoch) == kPayload && WireStruct<Epoch>);
static_assert(sizeof(Header) + offsetof(Epoch, learnt) == 2464);

constexpr std::size_t kWordsPerBlock = kPayload / 8;
constexpr std::uint64_t kRegionsPerBlock = kWordsPerBlock * 64;
struct Map {
  std::array<Be64, kWordsPerBlock> words;  ///< region r in bit r % 64 of word r / 64 of its block
};
static_assert(sizeof(Map) == kPayload && WireStruct<Map> && kRegionsPerBlock == 32000);

/// The first block of a state slot; the state follows in the next block, zeros behind it up to a whole block.
struct State {
  Be32 length;    ///< bytes of state, at most kMaxState
  Be32 checksum;  ///< CRC32C of them
  std::array<std::uint8_t, 3992> reserved;
};
static_assert(sizeof(State) == kPayload && WireStruct<State>);

enum class Kind : std::uint8_t { superblock, epoch, map, state };

/// What every block of one area carries.
struct Key {
  Uuid pair, volume, area;
  NodeSide owner = NodeSide::a;
  bool operator==(const Key&) const = default;
};

/// Why a block was not accepted. `damaged`: its checksum fails, as after a torn write, and nothing in it is believed.
/// Otherwise it is whole and yet wrong here, which no crash explains.
struct Refusal {
  bool damaged = false;
  Errc code = Errc::corrupt;
  std::string reason;  ///< continues "superblock slot 0 ..."
};
template <class T>
using Checked = std::expected<T, Refusal>;

struct Sealed {
  Key key;
  std::uint64_t generation = 0;
};

/// Puts the header around a payload that is already in the block.
void seal(Block block, Kind kind, const Key& key, std::uint64_t index, std::uint64_t generation,
          std::uint16_t version = kVersion);
/// A superblock, whole: payload and header of the version that it needs.
void seal_superblock(Block block, const VolumeIdentity& identity, const Key& key, std::uint64_t slot,
                     std::uint64_t generation);
/// An epoch record with what was learnt, whole: payload and header of the version that it needs.
void seal_record(Block block, const ReplicaRecord& record, const Key& key, std::uint64_t slot,
                 std::uint64_t generation);
/// Verifies checksum, magic, version, length, index and reserved bytes, in this order.
[[nodiscard]] Checked<Sealed> unseal(ConstBlock block, Kind kind, std::uint64_t index);
/// Foreign (pair, volume, owner) or stale (area) unless the keys are equal.
[[nodiscard]] Checked<void> check_key(const Key& found, const Key& expected);

/// Whether the values may be written at all; the sentence says what is wrong with them.
[[nodiscard]] Result<void> check(const VolumeIdentity& identity);
[[nodiscard]] Result<void> check(const EpochRecord& epoch);
[[nodiscard]] Result<void> check(const Knowledge& knowledge);

void encode(Block block, const VolumeIdentity& identity);
void encode(Block block, const ReplicaRecord& record);
/// Puts `state` (at most kMaxState bytes) behind the slot's first block and describes it there.
void encode_state(Block first, std::span<std::byte, kMaxState> room, std::span<const std::byte> state);
/// How many bytes of `room` are the state, once the first block's header was accepted. `damaged` when they are not what
/// the first block says, as after a torn write.
[[nodiscard]] Checked<std::size_t> decode_state(ConstBlock first, std::span<const std::byte> room);
/// Whole blocks that a state of so many bytes takes, with the first.
[[nodiscard]] constexpr std::size_t state_blocks(std::size_t bytes) { return 1 + (bytes + kBlock - 1) / kBlock; }
/// The payload of a block whose header was accepted. Every field is checked; reserved bytes are zero.
[[nodiscard]] Checked<VolumeIdentity> decode_identity(ConstBlock block, const Key& key);
[[nodiscard]] Checked<ReplicaRecord> decode_record(ConstBlock block);

/// 0 when size or region size is not acceptable.
[[nodiscard]] std::uint64_t region_count(std::uint64_t volume_size, std::uint32_t region_size);
[[nodiscard]] constexpr std::uint64_t map_blocks(std::uint64_t regions) {
  return (regions + kRegionsPerBlock - 1) / kRegionsPerBlock;
}

}  // namespace lockstep::engine::layout
