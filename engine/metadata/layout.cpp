#include "engine/metadata/layout.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "engine/base/copy_bytes.hpp"
#include "engine/base/crc32c.hpp"

namespace lockstep::engine::layout {
namespace {

constexpr std::array<std::string_view, 4> kMagics = {"LSTEPSUP", "LSTEPEPO", "LSTEPMAP", "LSTEPSTA"};

template <class T>
T payload_of(ConstBlock block) {
  T out;
  std::memcpy(&out, block.data() + sizeof(Header), sizeof out);
  return out;
}

template <class T>
void put_payload(Block block, const T& payload) {
  static_assert(sizeof payload == kPayload);
  std::memcpy(block.data() + sizeof(Header), &payload, sizeof payload);
}

std::unexpected<Refusal> refuse(Errc code, std::string reason) {
  return std::unexpected(Refusal{false, code, std::move(reason)});
}

template <class Range>
bool all_zero(const Range& range) {
  return std::ranges::all_of(range, [](auto c) { return c == decltype(c){}; });
}

/// A text field: `length` bytes of it, zeros behind.
template <std::size_t N>
std::optional<std::string> text_of(const std::array<char, N>& field, std::size_t length, std::size_t most) {
  if (length > most) return std::nullopt;
  if (!all_zero(std::span(field).subspan(length))) return std::nullopt;
  return std::string(field.data(), length);
}

std::string hex(std::uint32_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(8, '0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = kDigits[value >> (28 - 4 * i) & 15];
  return out;
}

constexpr std::uint16_t newest_version(Kind kind) {
  return kind == Kind::superblock ? kKeyedVersion : kind == Kind::epoch ? kLearntVersion : kVersion;
}

}  // namespace

void seal(Block block, Kind kind, const Key& key, std::uint64_t index, std::uint64_t generation,
          std::uint16_t version) {
  Header header{};
  std::ranges::copy(kMagics[static_cast<std::size_t>(kind)], header.magic.begin());
  header.version = version;
  header.length = kBlock;
  header.index = index;
  header.generation = generation;
  header.pair = key.pair.bytes;
  header.volume = key.volume.bytes;
  header.area = key.area.bytes;
  header.owner = static_cast<std::uint8_t>(key.owner);
  std::memcpy(block.data(), &header, sizeof header);
  store_be<std::uint32_t>(block.data(), crc32c(block.subspan(4)));
}

void seal_superblock(Block block, const VolumeIdentity& identity, const Key& key, std::uint64_t slot,
                     std::uint64_t generation) {
  encode(block, identity);
  const std::uint16_t version = identity.key ? kKeyedVersion : identity.state_at != 0 ? kMovedVersion : kVersion;
  seal(block, Kind::superblock, key, slot, generation, version);
}

void seal_record(Block block, const ReplicaRecord& record, const Key& key, std::uint64_t slot,
                 std::uint64_t generation) {
  encode(block, record);
  seal(block, Kind::epoch, key, slot, generation, record.knowledge == Knowledge{} ? kVersion : kLearntVersion);
}

Checked<Sealed> unseal(ConstBlock block, Kind kind, std::uint64_t index) {
  const std::uint32_t stored = load_be<std::uint32_t>(block.data());
  if (const std::uint32_t actual = crc32c(block.subspan(4)); stored != actual) {
    if (all_zero(block)) return std::unexpected(Refusal{true, Errc::corrupt, "is blank"});
    return std::unexpected(Refusal{
        true, Errc::corrupt, "is torn or damaged: its checksum is " + hex(stored) + ", its bytes give " + hex(actual)});
  }
  Header header;
  std::memcpy(&header, block.data(), sizeof header);
  const std::string_view magic(header.magic.data(), header.magic.size());
  if (magic != kMagics[static_cast<std::size_t>(kind)]) {
    if (std::ranges::find(kMagics, magic) == kMagics.end()) return refuse(Errc::corrupt, "is not Lockstep metadata");
    return refuse(Errc::corrupt, "holds a block of another kind (" + std::string(magic) + ")");
  }
  const std::uint16_t newest = newest_version(kind);
  if (header.version == 0 || header.version > newest) {
    return refuse(Errc::wrong_version, "has format version " + std::to_string(header.version.value()) +
                                           "; this program knows version " + std::to_string(newest));
  }
  if (header.length != kBlock) return refuse(Errc::corrupt, "declares a wrong length");
  if (header.index != index) {
    return refuse(Errc::corrupt, "is misplaced: it was written as number " + std::to_string(header.index.value()));
  }
  if (header.owner > 1 || !all_zero(header.reserved)) {
    return refuse(Errc::corrupt, "has a header that makes no sense");
  }
  return Sealed{{{header.pair}, {header.volume}, {header.area}, NodeSide{header.owner}}, header.generation};
}

Checked<void> check_key(const Key& found, const Key& expected) {
  if (found.volume != expected.volume) {
    return refuse(Errc::foreign,
                  "belongs to volume " + found.volume.to_string() + ", not to volume " + expected.volume.to_string());
  }
  if (found.pair != expected.pair) {
    return refuse(Errc::foreign,
                  "belongs to pair " + found.pair.to_string() + ", not to pair " + expected.pair.to_string());
  }
  if (found.owner != expected.owner) {
    return refuse(Errc::foreign, std::string("belongs to node ") + (found.owner == NodeSide::a ? "A" : "B") +
                                     "'s replica of the volume, not to this node's");
  }
  if (found.area != expected.area) {
    return refuse(Errc::stale, "is left over from an earlier metadata area of the same volume");
  }
  return {};
}

std::uint64_t region_count(std::uint64_t volume_size, std::uint32_t region_size) {
  if (volume_size == 0 || volume_size > kMaxVolume) return 0;
  if (!std::has_single_bit(region_size) || region_size < kMinRegion || region_size > kMaxRegion) return 0;
  return (volume_size + region_size - 1) / region_size;
}

Result<void> check(const VolumeIdentity& v) {
  if (v.block_size != 512 && v.block_size != 4096) {
    return fail(Errc::refused, "The block size must be 512 or 4096 bytes, not " + std::to_string(v.block_size) + ".");
  }
  if (v.size == 0 || v.size > kMaxVolume || v.size % v.block_size != 0) {
    return fail(Errc::refused, "The volume's size must be a multiple of its block size and at most 64 TiB, not " +
                                   std::to_string(v.size) + " bytes.");
  }
  if (region_count(v.size, v.region_size) == 0) {
    return fail(Errc::refused, "The region size must be a power of two from 4 KiB to 64 MiB, not " +
                                   std::to_string(v.region_size) + " bytes.");
  }
  if (v.name.size() > kMaxName) return fail(Errc::refused, "The volume's name is longer than 63 bytes.");
  if (v.serial.size() > kMaxSerial) return fail(Errc::refused, "The volume's serial is longer than 32 bytes.");
  return {};
}

Result<void> check(const EpochRecord& e) {
  if (e.number == 0) return fail(Errc::refused, "An epoch's number must not be zero.");
  if (e.id.is_nil()) return fail(Errc::refused, "An epoch's id must not be nil.");
  if (e.members.bits == 0 || e.members.bits > 3) return fail(Errc::refused, "An epoch must have one or two members.");
  if (!e.members.contains(e.sequencer)) return fail(Errc::refused, "An epoch's sequencer must be one of its members.");
  if (e.size == 0 || e.size > kMaxVolume) return fail(Errc::refused, "An epoch's volume size must be at most 64 TiB.");
  if (e.ancestors.size() > EpochRecord::kMaxAncestors) {
    return fail(Errc::refused, "An epoch record holds at most 128 ancestors.");
  }
  const auto kind = static_cast<unsigned>(e.arbiter.kind);
  if (kind < 1 || kind > 3) return fail(Errc::refused, "The kind of arbiter is unknown.");
  if (e.arbiter.address.size() > kMaxAddress) {
    return fail(Errc::refused, "The arbiter's address is longer than 255 bytes.");
  }
  return {};
}

Result<void> check(const Knowledge& k) {
  if (k.witness_revision < 0) return fail(Errc::refused, "A revision of the witness must not be negative.");
  if (k.witness_cluster == 0 && (k.witness_revision != 0 || k.record_seen())) {
    return fail(Errc::refused, "What was learnt of a witness must name its cluster.");
  }
  if (k.record_members.bits > 3) return fail(Errc::refused, "A witness's record must have one or two members.");
  if (!k.record_seen() && (k.record_number != 0 || !k.record_epoch.is_nil())) {
    return fail(Errc::refused, "A witness's record without members must be empty.");
  }
  return {};
}

void encode(Block block, const VolumeIdentity& v) {
  Superblock out{};
  out.size = v.size;
  out.block_size = v.block_size;
  out.region_size = v.region_size;
  out.map_offset = kMapAt;
  out.map_blocks = map_blocks(region_count(v.size, v.region_size));
  out.state_offset = v.state_at;
  out.name_length = static_cast<std::uint16_t>(v.name.size());
  out.serial_length = static_cast<std::uint16_t>(v.serial.size());
  std::ranges::copy(v.name, out.name.begin());
  std::ranges::copy(v.serial, out.serial.begin());
  if (v.key) {
    out.node_key = v.key->node_key.bytes;
    out.key = v.key->bytes;
  }
  put_payload(block, out);
}

namespace {
Learnt learnt_of(const Knowledge& k) {
  Learnt out{};
  out.generation = k.generation;
  out.partner_generation = k.partner_generation;
  out.witness_cluster = k.witness_cluster;
  out.witness_repairs = k.witness_repairs;
  out.witness_revision = static_cast<std::uint64_t>(k.witness_revision);
  out.record_number = k.record_number;
  out.record_epoch = k.record_epoch.bytes;
  out.record_members = k.record_members.bits;
  return out;
}

Knowledge knowledge_of(const Learnt& in) {
  return {in.generation,
          in.partner_generation,
          in.witness_cluster,
          in.witness_repairs,
          static_cast<std::int64_t>(in.witness_revision.value()),
          {in.record_members},
          in.record_number,
          {in.record_epoch}};
}
}  // namespace

void encode(Block block, const ReplicaRecord& record) {
  const EpochRecord& e = record.epoch;
  Epoch out{};
  out.number = e.number;
  out.id = e.id.bytes;
  out.size = e.size;
  out.members = e.members.bits;
  out.sequencer = static_cast<std::uint8_t>(e.sequencer);
  out.arbiter_kind = static_cast<std::uint8_t>(e.arbiter.kind);
  out.preferred = static_cast<std::uint8_t>(e.arbiter.preferred);
  out.ancestor_count = static_cast<std::uint16_t>(e.ancestors.size());
  out.address_length = static_cast<std::uint16_t>(e.arbiter.address.size());
  std::ranges::transform(e.ancestors, out.ancestors.begin(), &Uuid::bytes);
  std::ranges::copy(e.arbiter.address, out.address.begin());
  out.learnt = learnt_of(record.knowledge);
  put_payload(block, out);
}

void encode_state(Block first, std::span<std::byte, kMaxState> room, std::span<const std::byte> state) {
  State out{};
  out.length = static_cast<std::uint32_t>(state.size());
  out.checksum = crc32c(state);
  put_payload(first, out);
  copy_bytes(state, room);
  std::ranges::fill(room.subspan(state.size()), std::byte{0});
}

Checked<std::size_t> decode_state(ConstBlock first, std::span<const std::byte> room) {
  const auto in = payload_of<State>(first);
  if (in.length > kMaxState || in.length > room.size() || !all_zero(in.reserved)) {
    return refuse(Errc::corrupt, "has fields that make no sense");
  }
  const std::uint32_t actual = crc32c(room.first(in.length));
  if (actual != in.checksum) {
    return std::unexpected(
        Refusal{true, Errc::corrupt,
                "is torn or damaged: its state's checksum is " + hex(in.checksum) + ", the bytes give " + hex(actual)});
  }
  return in.length;
}

Checked<VolumeIdentity> decode_identity(ConstBlock block, const Key& key) {
  const auto in = payload_of<Superblock>(block);
  const auto name = text_of(in.name, in.name_length, kMaxName);
  const auto serial = text_of(in.serial, in.serial_length, kMaxSerial);
  if (!name || !serial || !all_zero(in.reserved0) || !all_zero(in.reserved1)) {
    return refuse(Errc::corrupt, "has fields that make no sense");
  }
  VolumeIdentity v{key.pair, key.volume, key.owner, *name, *serial, in.size, in.block_size, in.region_size};
  if (const auto good = check(v); !good) return refuse(Errc::corrupt, "cannot be: " + good.error().message);
  const auto version = load_be<std::uint16_t>(block.data() + offsetof(Header, version));
  if (version == kKeyedVersion) {
    v.key = SealedKey{{in.node_key}, in.key};
  } else if (!all_zero(in.node_key) || !all_zero(in.key)) {
    return refuse(Errc::corrupt, "has fields that make no sense");
  }
  v.state_at = in.state_offset;
  const bool moved = version == kKeyedVersion ? v.state_at != 0 : version == kMovedVersion;
  const std::uint64_t map_end = kMapAt + map_blocks(region_count(v.size, v.region_size)) * kBlock;
  if (moved != (v.state_at != 0) ||
      (moved && (v.state_at < map_end || v.state_at > kMaxVolume || v.state_at % kBlock != 0))) {
    return refuse(Errc::corrupt, "says that the unit's state stands where it can't");
  }
  if (in.map_offset != kMapAt || in.map_blocks != map_blocks(region_count(v.size, v.region_size))) {
    return refuse(Errc::corrupt, "describes a dirty map that does not fit its volume");
  }
  return v;
}

Checked<ReplicaRecord> decode_record(ConstBlock block) {
  const auto in = payload_of<Epoch>(block);
  const auto address = text_of(in.address, in.address_length, kMaxAddress);
  const std::size_t count = in.ancestor_count;
  if (!address || count > EpochRecord::kMaxAncestors || in.sequencer > 1 || in.preferred > 1 ||
      !all_zero(in.reserved0) || !all_zero(in.learnt.reserved) || !all_zero(in.reserved1) ||
      !all_zero(std::as_bytes(std::span(in.ancestors).subspan(count)))) {
    return refuse(Errc::corrupt, "has fields that make no sense");
  }
  EpochRecord e;
  e.number = in.number;
  e.id = {in.id};
  for (const WireUuid& ancestor : std::span(in.ancestors).first(count)) e.ancestors.push_back({ancestor});
  e.members = {in.members};
  e.sequencer = NodeSide{in.sequencer};
  e.size = in.size;
  e.arbiter = {ArbiterKind{in.arbiter_kind}, NodeSide{in.preferred}, *address};
  if (const auto good = check(e); !good) return refuse(Errc::corrupt, "cannot be: " + good.error().message);
  const Knowledge k = knowledge_of(in.learnt);
  const auto version = load_be<std::uint16_t>(block.data() + offsetof(Header, version));
  if ((version == kLearntVersion) != (k != Knowledge{})) return refuse(Errc::corrupt, "has fields that make no sense");
  if (const auto good = check(k); !good) return refuse(Errc::corrupt, "cannot be: " + good.error().message);
  return ReplicaRecord{std::move(e), k};
}

}  // namespace lockstep::engine::layout
