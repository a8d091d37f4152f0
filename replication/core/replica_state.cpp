#include "replication/core/replica_state.hpp"

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"

namespace lockstep::replication {
namespace {
using engine::ArbiterKind;
using engine::Errc;
using engine::NodeSide;
using engine::Uuid;

constexpr std::uint32_t kStateMagic = 0x4C535354;  // "LSST"
constexpr std::uint16_t kStateVersion = 1;
constexpr std::uint16_t kRunning = 1, kAble = 2, kServing = 4, kChanging = 8, kForwarding = 0x0100,
                        kOnlyFailedOperations = 0x0200;
// Three bits; of a value that is not known, as of none, nothing follows.
constexpr std::uint16_t kWish = 0x1C00;
constexpr unsigned kWishShift = 10;
constexpr std::uint16_t kKnown = 0x000F, kIgnorable = 0xFF00;
constexpr std::size_t kMaxAddress = 255;

void put_uuid(engine::ByteWriter& out, const Uuid& id) { out.bytes(std::as_bytes(std::span(id.bytes))); }
Uuid get_uuid(engine::ByteReader& in) {
  Uuid id;
  in.copy(std::as_writable_bytes(std::span(id.bytes)));
  return id;
}
bool is_side(std::uint8_t v) { return v <= 1; }
bool is_kind(std::uint8_t v) { return v >= 1 && v <= 3; }
ArbiterWish wish_from(std::uint16_t flags) {
  const unsigned wish = (flags & kWish) >> kWishShift;
  return wish > static_cast<unsigned>(ArbiterWish::fence) ? ArbiterWish::none : static_cast<ArbiterWish>(wish);
}
}  // namespace

std::vector<std::byte> encode_state(const ReplicaState& s) {
  std::vector<std::byte> bytes(kMaxStateBytes);
  engine::ByteWriter out(bytes);
  const auto& r = s.record;
  out.be32(kStateMagic);
  out.be16(kStateVersion);
  out.be16(static_cast<std::uint16_t>((s.running ? kRunning : 0) | (s.able ? kAble : 0) | (s.serving ? kServing : 0) |
                                      (s.changing ? kChanging : 0) | (s.forwarding ? kForwarding : 0) |
                                      (s.only_failed_operations ? kOnlyFailedOperations : 0) |
                                      static_cast<unsigned>(s.wish) << kWishShift));
  out.u8(static_cast<std::uint8_t>(s.side));
  out.u8(r.members.bits);
  out.u8(static_cast<std::uint8_t>(r.sequencer));
  out.u8(static_cast<std::uint8_t>(r.arbiter.kind));
  out.u8(static_cast<std::uint8_t>(r.arbiter.preferred));
  out.u8(static_cast<std::uint8_t>(std::min(r.arbiter.address.size(), kMaxAddress)));
  out.be16(static_cast<std::uint16_t>(r.ancestors.size()));
  out.be64(s.attempted);
  out.be64(r.number);
  put_uuid(out, r.id);
  out.be64(r.size);
  out.bytes(std::as_bytes(std::span(r.arbiter.address)).first(std::min(r.arbiter.address.size(), kMaxAddress)));
  for (const Uuid& id : r.ancestors) put_uuid(out, id);
  out.be32(engine::crc32c(out.written()));
  bytes.resize(out.size());
  return bytes;
}

engine::IoResult<ReplicaState> decode_state(std::span<const std::byte> bytes) {
  const auto corrupt = std::unexpected(make_error_code(Errc::corrupt));
  if (bytes.size() < 12 || bytes.size() > kMaxStateBytes) return corrupt;
  if (engine::load_be<std::uint32_t>(bytes.last(4).data()) != engine::crc32c(bytes.first(bytes.size() - 4))) {
    return corrupt;
  }
  engine::ByteReader in(bytes.first(bytes.size() - 4));
  if (in.be32() != kStateMagic) return corrupt;
  if (in.be16() != kStateVersion) return std::unexpected(make_error_code(Errc::wrong_version));
  const std::uint16_t flags = in.be16();
  const std::uint8_t side = in.u8(), members = in.u8(), sequencer = in.u8(), kind = in.u8(), preferred = in.u8();
  const std::uint8_t address = in.u8();
  const std::uint16_t ancestors = in.be16();
  if ((flags & ~(kKnown | kIgnorable)) || !is_side(side) || !is_side(sequencer) || !is_side(preferred) ||
      !is_kind(kind))
    return corrupt;
  if (members == 0 || members > 3 || ancestors > engine::EpochRecord::kMaxAncestors) return corrupt;
  ReplicaState s;
  s.running = flags & kRunning;
  s.able = flags & kAble;
  s.serving = flags & kServing;
  s.changing = flags & kChanging;
  s.forwarding = flags & kForwarding;
  s.only_failed_operations = flags & kOnlyFailedOperations;
  s.wish = wish_from(flags);
  s.side = static_cast<NodeSide>(side);
  s.record.members = {members};
  s.record.sequencer = static_cast<NodeSide>(sequencer);
  s.record.arbiter.kind = static_cast<ArbiterKind>(kind);
  s.record.arbiter.preferred = static_cast<NodeSide>(preferred);
  s.attempted = in.be64();
  s.record.number = in.be64();
  s.record.id = get_uuid(in);
  s.record.size = in.be64();
  const auto text = in.bytes(address);
  s.record.arbiter.address.assign(reinterpret_cast<const char*>(text.data()), text.size());
  for (unsigned i = 0; i < ancestors; ++i) s.record.ancestors.push_back(get_uuid(in));
  if (!in.finished() || !s.record.members.contains(s.record.sequencer)) return corrupt;
  return s;
}

}  // namespace lockstep::replication
