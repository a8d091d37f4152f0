#include "engine/scsi/transport_id.hpp"

#include <algorithm>
#include <string_view>

namespace lockstep::scsi {
namespace {

constexpr std::uint8_t kIscsi = 0x05;
constexpr std::uint8_t kWithIsid = 0x40;  // format code 01b
constexpr std::string_view kSeparator = ",i,0x";
constexpr std::size_t kIsidDigits = 12;
constexpr std::size_t kMinNameField = 20;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<unsigned> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

/// Cuts ",i,0x" and the digits off `name`, into `nexus`.
bool split_isid(std::string& name, NexusKey& nexus) {
  const std::size_t at = name.find(kSeparator);
  if (at == std::string::npos) return false;
  const std::string_view digits = std::string_view(name).substr(at + kSeparator.size());
  if (digits.size() != kIsidDigits) return false;
  for (std::size_t i = 0; i < nexus.isid.size(); ++i) {
    const auto high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
    if (!high || !low) return false;
    nexus.isid[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  name.resize(at);
  return true;
}

std::size_t text_size(const NexusKey& nexus) {
  return nexus.initiator.size() + (nexus.any_isid ? 0 : kSeparator.size() + kIsidDigits);
}

std::size_t field_size(const NexusKey& nexus) {  // at least one NUL, in steps of four
  return std::max(kMinNameField, (text_size(nexus) / 4 + 1) * 4);
}

}  // namespace

std::optional<TransportId> read_transport_id(std::span<const std::byte> bytes) {
  engine::ByteReader in(bytes);
  const std::uint8_t first = in.u8();
  in.u8();
  const std::size_t size = in.be16();
  const auto field = in.bytes(size);
  if (!in.ok() || size < kMinNameField || size % 4 != 0) return std::nullopt;
  if (first != kIscsi && first != (kWithIsid | kIscsi)) return std::nullopt;
  const std::string_view padded(reinterpret_cast<const char*>(field.data()), field.size());
  const std::size_t end = padded.find('\0');
  if (end == std::string_view::npos || padded.find_first_not_of('\0', end) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string name(padded.substr(0, end));
  std::ranges::transform(name, name.begin(), lower);
  TransportId id{.nexus = {}, .size = 4 + size};
  id.nexus.any_isid = first == kIscsi;
  if (!id.nexus.any_isid && !split_isid(name, id.nexus)) return std::nullopt;
  if (name.empty() || name.size() > kMaxInitiatorName) return std::nullopt;
  id.nexus.initiator = std::move(name);
  return id;
}

std::size_t transport_id_size(const NexusKey& nexus) { return 4 + field_size(nexus); }

void write_transport_id(engine::ByteWriter& out, const NexusKey& nexus) {
  const std::size_t size = field_size(nexus);
  out.u8(static_cast<std::uint8_t>((nexus.any_isid ? 0 : kWithIsid) | kIscsi));
  out.u8(0);
  out.be16(static_cast<std::uint16_t>(size));
  const auto text = [&](std::string_view s) { out.bytes(std::as_bytes(std::span(s))); };
  text(nexus.initiator);
  if (!nexus.any_isid) {
    text(kSeparator);
    for (const std::uint8_t byte : nexus.isid) {
      out.u8(static_cast<std::uint8_t>("0123456789abcdef"[byte >> 4]));
      out.u8(static_cast<std::uint8_t>("0123456789abcdef"[byte & 15]));
    }
  }
  out.zeros(size - text_size(nexus));
}

}  // namespace lockstep::scsi
