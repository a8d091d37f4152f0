#include "engine/iscsi/ahs.hpp"

#include <cassert>
#include <cstring>

namespace lockstep::iscsi {
namespace {

// Each segment: two bytes of length (of what follows the type), one of type, then as many bytes, padded to four.
enum class AhsType : std::uint8_t { extended_cdb = 1, bidi_read_length = 2 };
constexpr std::size_t kPrefix = 3;  // length and type
constexpr std::size_t kBidiLength = 5;

}  // namespace

std::optional<AdditionalHeaders> parse_ahs(std::span<const std::byte> bytes) {
  AdditionalHeaders out;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    const std::size_t length = engine::load_be<std::uint16_t>(bytes.data());
    const std::size_t whole = kPrefix + length;
    if (length == 0 || whole > bytes.size()) return std::nullopt;
    const auto type = static_cast<AhsType>(bytes[2]);
    if (type == AhsType::extended_cdb) {
      const std::size_t cdb = length - 1;  // after one reserved byte
      if (cdb == 0 || cdb > kMaxExtendedCdb || !out.extended_cdb.empty()) return std::nullopt;
      out.extended_cdb = bytes.subspan(4, cdb);
    } else if (type == AhsType::bidi_read_length) {
      if (length != kBidiLength || out.bidi_read_length) return std::nullopt;
      out.bidi_read_length = engine::load_be<std::uint32_t>(bytes.data() + 4);
    }
    const std::size_t padded = whole + padding_of(whole);
    if (padded > bytes.size()) return std::nullopt;
    bytes = bytes.subspan(padded);
  }
  return out;
}

std::size_t write_ahs(const AdditionalHeaders& ahs, std::span<std::byte> into) {
  assert(ahs.extended_cdb.size() <= kMaxExtendedCdb);
  engine::ByteWriter out(into);
  if (!ahs.extended_cdb.empty()) {
    out.be16(static_cast<std::uint16_t>(1 + ahs.extended_cdb.size()));
    out.u8(static_cast<std::uint8_t>(AhsType::extended_cdb));
    out.u8(0);
    out.bytes(ahs.extended_cdb);
    out.zeros(padding_of(ahs.extended_cdb.size()));
  }
  if (ahs.bidi_read_length) {
    out.be16(kBidiLength);
    out.u8(static_cast<std::uint8_t>(AhsType::bidi_read_length));
    out.u8(0);
    out.be32(*ahs.bidi_read_length);
  }
  assert(out.ok());
  return out.size();
}

}  // namespace lockstep::iscsi
