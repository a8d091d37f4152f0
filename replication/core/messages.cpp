#include "replication/core/messages.hpp"

#include <cstring>
#include <optional>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"

namespace lockstep::replication {
namespace {
using engine::Be16;
using engine::Be32;
using engine::Be64;
using engine::Errc;
using engine::Uuid;

constexpr std::uint32_t kMagic = 0x4C534D52;  // "LSMR"
constexpr std::uint8_t kVersion = 2;

struct Layout {
  Be32 magic;
  std::uint8_t version;
  std::uint8_t type;
  std::uint8_t answer;
  std::uint8_t opcode;
  Be16 flags;
  Be16 status;
  Be32 payload;
  std::array<std::uint8_t, 16> volume;
  std::array<std::uint8_t, 16> epoch;
  Be64 number;
  std::array<std::uint8_t, 16> process;
  Be64 sequence;
  Be64 watermark;
  Be64 tag;
  Be64 lowest_tag;
  Be64 offset;
  Be64 length;
  Be64 stamp;
  Be64 nexus;
  std::array<std::uint8_t, 16> forwarder;
  std::array<std::uint8_t, 4> reserved;
  Be32 checksum;  ///< CRC32C of everything before it
};
static_assert(sizeof(Layout) == kMessageBytes && engine::WireStruct<Layout>);
static_assert(offsetof(Layout, volume) == 16 && offsetof(Layout, process) == 56 && offsetof(Layout, checksum) == 156);

std::uint32_t checksum_of(const Layout& layout) {
  return engine::crc32c(std::as_bytes(std::span(&layout, 1)).first(offsetof(Layout, checksum)));
}

bool in_range(const Layout& in) {
  constexpr auto last_opcode = static_cast<std::uint8_t>(engine::DiskOpcode::renew_key);
  constexpr auto last_status = static_cast<std::uint16_t>(Errc::not_ready);
  if (in.type == 0 || in.type > kLastMessageType || in.answer > 1 || in.opcode > last_opcode) return false;
  if ((in.flags & ~kKnownFlags) != 0 || in.status > last_status || in.payload > kMaxLinkPayload) return false;
  if (in.offset + in.length < in.offset) return false;
  const bool orders = in.type == static_cast<std::uint8_t>(MessageType::replicate) && in.answer == 0;
  const bool forwards = in.type == static_cast<std::uint8_t>(MessageType::forward);
  const bool refers = in.flags & kFlagByReference;
  if (refers && !orders && !(forwards && in.answer == 0)) return false;
  if ((in.flags & kFlagHalfDone) && !(forwards && in.answer == 1)) return false;
  if (orders && refers ? in.payload != 0 : in.forwarder != decltype(in.forwarder){}) return false;
  return in.reserved == decltype(in.reserved){};
}
}  // namespace

Errc to_errc(std::error_code code) {
  if (!code) return Errc::ok;
  return code.category() == engine::error_category() ? static_cast<Errc>(code.value()) : Errc::io_error;
}

MessageBytes encode(const Message& m) {
  Layout out{};
  out.magic = kMagic;
  out.version = kVersion;
  out.type = static_cast<std::uint8_t>(m.type);
  out.answer = m.answer;
  out.opcode = static_cast<std::uint8_t>(m.opcode);
  out.flags = m.flags;
  out.status = static_cast<std::uint16_t>(m.status);
  out.payload = m.payload;
  out.volume = m.volume.bytes;
  out.epoch = m.epoch.bytes;
  out.number = m.number;
  out.process = m.process.bytes;
  out.sequence = m.sequence;
  out.watermark = m.watermark;
  out.tag = m.tag;
  out.lowest_tag = m.lowest_tag;
  out.offset = m.extent.offset;
  out.length = m.extent.length;
  out.stamp = m.stamp;
  out.nexus = m.nexus;
  out.forwarder = m.forwarder.bytes;
  out.checksum = checksum_of(out);
  MessageBytes bytes;
  std::memcpy(bytes.data(), &out, sizeof out);
  return bytes;
}

namespace {

/// By its header alone, which nothing has checked.
std::optional<MessageType> type_of_request(std::span<const std::byte> header) {
  Layout in;
  if (header.size() != sizeof in) return std::nullopt;
  std::memcpy(&in, header.data(), sizeof in);
  const bool is_request = in.magic == kMagic && in.version == kVersion && in.answer == 0;
  return is_request ? std::optional(static_cast<MessageType>(in.type)) : std::nullopt;
}

}  // namespace

engine::IoResult<Message> decode(std::span<const std::byte> bytes) {
  Layout in;
  if (bytes.size() != sizeof in) return std::unexpected(make_error_code(Errc::corrupt));
  std::memcpy(&in, bytes.data(), sizeof in);
  if (in.checksum != checksum_of(in) || in.magic != kMagic) return std::unexpected(make_error_code(Errc::corrupt));
  if (in.version != kVersion) return std::unexpected(make_error_code(Errc::wrong_version));
  if (!in_range(in)) return std::unexpected(make_error_code(Errc::corrupt));
  Message m;
  m.type = static_cast<MessageType>(in.type);
  m.answer = in.answer != 0;
  m.opcode = static_cast<engine::DiskOpcode>(in.opcode);
  m.flags = in.flags;
  m.status = static_cast<Errc>(in.status.value());
  m.payload = in.payload;
  m.volume = Uuid{in.volume};
  m.epoch = Uuid{in.epoch};
  m.number = in.number;
  m.process = Uuid{in.process};
  m.sequence = in.sequence;
  m.watermark = in.watermark;
  m.tag = in.tag;
  m.lowest_tag = in.lowest_tag;
  m.extent = {in.offset, in.length};
  m.stamp = in.stamp;
  m.nexus = in.nexus;
  m.forwarder = Uuid{in.forwarder};
  return m;
}

bool is_heartbeat(std::span<const std::byte> header) { return type_of_request(header) == MessageType::heartbeat; }

bool moves_blocks(std::span<const std::byte> header) {
  switch (type_of_request(header).value_or(MessageType::hello)) {
    case MessageType::replicate:
    case MessageType::forward:
    case MessageType::copy:
    case MessageType::fetch:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::replication
