#include "replication/arbiter/witness_value.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "engine/base/byte_order.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using engine::NodeSide;

constexpr std::uint32_t kRecordMagic = 0x4C535752;  // "LSWR"
constexpr std::uint16_t kRecordVersion = 2;

struct RecordLayout {
  engine::Be32 magic;
  engine::Be16 version;
  engine::Be16 length;
  std::array<std::uint8_t, 16> pair;
  std::array<std::uint8_t, 16> volume;
  engine::Be64 number;
  std::array<std::uint8_t, 16> epoch;
  std::uint8_t members;
  std::uint8_t author;
  std::array<std::uint8_t, 6> reserved;
  engine::Be64 writes;
  std::array<engine::Be64, 2> generations;
  std::array<std::uint8_t, 32> seal;
};
static_assert(sizeof(RecordLayout) == kWitnessValueSize);
static_assert(engine::WireStruct<RecordLayout>);
using Mac = std::array<std::uint8_t, 32>;
constexpr std::size_t kSealed = kWitnessValueSize - sizeof(Mac);

Mac mac_of(std::span<const std::byte> key, std::span<const std::byte> bytes) {
  Mac mac{};
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), mac.data(), &size);
  assert(done != nullptr && size == mac.size());
  return mac;
}

std::uint8_t number_of(NodeSide side) { return engine::MemberSet::only(side).bits; }
}  // namespace

WitnessSeal witness_seal(const engine::Uuid& pair, std::string_view secret, std::string_view other) {
  std::string key(std::min(secret, other));
  key.push_back('\0');
  key += std::max(secret, other);
  const std::string purpose = "lockstep witness record, pair " + pair.to_string();
  return std::bit_cast<WitnessSeal>(mac_of(std::as_bytes(std::span(key)), std::as_bytes(std::span(purpose))));
}

std::string witness_key(const engine::Uuid& pair, const engine::Uuid& volume) {
  return "/lockstep/" + pair.to_string() + "/volume/" + volume.to_string();
}

WitnessValue encode_witness_value(const WitnessSlot& slot, const WitnessRecord& record, std::int64_t writes) {
  RecordLayout layout{};
  layout.magic = kRecordMagic;
  layout.version = kRecordVersion;
  layout.length = kWitnessValueSize;
  layout.pair = slot.pair.bytes;
  layout.volume = slot.volume.bytes;
  layout.number = record.number;
  layout.epoch = record.epoch.bytes;
  layout.members = record.members.bits;
  layout.author = number_of(slot.author);
  layout.writes = static_cast<std::uint64_t>(writes);
  for (std::size_t i = 0; i < record.generations.size(); ++i) layout.generations[i] = record.generations[i];
  layout.seal = mac_of(slot.seal, std::as_bytes(std::span(&layout, 1)).first(kSealed));
  return std::bit_cast<WitnessValue>(layout);
}

engine::IoResult<SealedRecord> decode_witness_value(std::span<const std::byte> bytes, const WitnessSlot& slot) {
  const auto refuse = [](Errc code) { return std::unexpected(make_error_code(code)); };
  if (bytes.size() < 8) return refuse(Errc::corrupt);
  if (engine::load_be<std::uint32_t>(bytes.data()) != kRecordMagic) return refuse(Errc::corrupt);
  if (engine::load_be<std::uint16_t>(bytes.data() + 4) != kRecordVersion) return refuse(Errc::wrong_version);
  if (bytes.size() != kWitnessValueSize) return refuse(Errc::corrupt);
  RecordLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  const Mac mac = mac_of(slot.seal, bytes.first(kSealed));
  if (CRYPTO_memcmp(mac.data(), layout.seal.data(), mac.size()) != 0) return refuse(Errc::refused);
  if (layout.length != kWitnessValueSize) return refuse(Errc::corrupt);
  if (layout.pair != slot.pair.bytes || layout.volume != slot.volume.bytes) return refuse(Errc::foreign);
  if (layout.members < 1 || layout.members > 3 || layout.author < 1 || layout.author > 2) return refuse(Errc::corrupt);
  if (std::ranges::any_of(layout.reserved, [](std::uint8_t b) { return b != 0; })) return refuse(Errc::corrupt);
  const std::uint64_t writes = layout.writes;
  if (writes < 1 || writes > INT64_MAX) return refuse(Errc::corrupt);
  return SealedRecord{{layout.number,
                       engine::Uuid{layout.epoch},
                       engine::MemberSet{layout.members},
                       {layout.generations[0], layout.generations[1]}},
                      layout.author == number_of(NodeSide::a) ? NodeSide::a : NodeSide::b,
                      static_cast<std::int64_t>(writes)};
}

}  // namespace lockstep::replication
