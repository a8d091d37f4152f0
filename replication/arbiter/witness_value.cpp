#include "replication/arbiter/witness_value.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;

constexpr std::uint32_t kMagic = 0x4C535752;  // "LSWR"
constexpr std::uint16_t kVersion = 1;

struct Layout {
  engine::Be32 magic;
  engine::Be16 version;
  engine::Be16 length;
  std::array<std::uint8_t, 16> pair;
  std::array<std::uint8_t, 16> volume;
  engine::Be64 number;
  std::array<std::uint8_t, 16> epoch;
  std::uint8_t members;
  std::array<std::uint8_t, 11> reserved;
  engine::Be32 checksum;
};
static_assert(sizeof(Layout) == kWitnessValueSize);
static_assert(engine::WireStruct<Layout>);

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  return engine::crc32c(bytes.first(kWitnessValueSize - sizeof(engine::Be32)));
}

}  // namespace

std::string witness_key(const engine::Uuid& pair, const engine::Uuid& volume) {
  return "/lockstep/" + pair.to_string() + "/volume/" + volume.to_string();
}

WitnessValue encode_witness_value(const engine::Uuid& pair, const engine::Uuid& volume, const WitnessRecord& record) {
  Layout layout{};
  layout.magic = kMagic;
  layout.version = kVersion;
  layout.length = kWitnessValueSize;
  layout.pair = pair.bytes;
  layout.volume = volume.bytes;
  layout.number = record.number;
  layout.epoch = record.epoch.bytes;
  layout.members = record.members.bits;
  layout.checksum = checksum_of(std::as_bytes(std::span(&layout, 1)));
  return std::bit_cast<WitnessValue>(layout);
}

engine::IoResult<WitnessRecord> decode_witness_value(std::span<const std::byte> bytes, const engine::Uuid& pair,
                                                     const engine::Uuid& volume) {
  const auto refuse = [](Errc code) { return std::unexpected(make_error_code(code)); };
  if (bytes.size() != kWitnessValueSize) return refuse(Errc::corrupt);
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.magic != kMagic || layout.checksum != checksum_of(bytes)) return refuse(Errc::corrupt);
  if (layout.version != kVersion) return refuse(Errc::wrong_version);
  if (layout.length != kWitnessValueSize) return refuse(Errc::corrupt);
  if (layout.pair != pair.bytes || layout.volume != volume.bytes) return refuse(Errc::foreign);
  if (layout.members < 1 || layout.members > 3) return refuse(Errc::corrupt);
  if (std::ranges::any_of(layout.reserved, [](std::uint8_t b) { return b != 0; })) return refuse(Errc::corrupt);
  return WitnessRecord{layout.number, engine::Uuid{layout.epoch}, engine::MemberSet{layout.members}};
}

}  // namespace lockstep::replication
