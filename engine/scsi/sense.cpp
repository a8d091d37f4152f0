#include "engine/scsi/sense.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include "engine/base/byte_order.hpp"

namespace lockstep::scsi {
namespace {

using engine::load_be;
using engine::store_be;

constexpr std::uint8_t kFixedCurrent = 0x70;
constexpr std::uint8_t kDescriptorCurrent = 0x72;
constexpr std::size_t kFixedSize = 18;
constexpr std::size_t kFixedSpecific = 15;  // offset of the sense key specific bytes
constexpr std::uint8_t kInformationDescriptor = 0x00;
constexpr std::uint8_t kSpecificDescriptor = 0x02;
constexpr std::uint8_t kValid = 0x80;

bool has_key_specific(const Sense& sense) { return sense.field || sense.progress; }

std::array<std::uint8_t, 3> key_specific(const Sense& sense) {
  std::array<std::uint8_t, 3> bytes{};
  if (sense.progress) {
    bytes[0] = kValid;
    store_be<std::uint16_t>(&bytes[1], *sense.progress);
    return bytes;
  }
  const FieldPointer& field = *sense.field;
  bytes[0] = kValid | (field.in_cdb ? 0x40 : 0x00);
  if (field.bit >= 0) bytes[0] |= static_cast<std::uint8_t>(0x08 | (field.bit & 0x07));
  store_be<std::uint16_t>(&bytes[1], field.byte);
  return bytes;
}

void read_specific(Sense& sense, const std::uint8_t* bytes) {
  if (!(bytes[0] & kValid)) return;
  if (sense.key == SenseKey::not_ready || sense.key == SenseKey::no_sense) {
    sense.progress = load_be<std::uint16_t>(bytes + 1);
  }
  if (sense.key != SenseKey::illegal_request) return;
  FieldPointer field;
  field.in_cdb = bytes[0] & 0x40;
  if (bytes[0] & 0x08) field.bit = static_cast<std::int8_t>(bytes[0] & 0x07);
  field.byte = load_be<std::uint16_t>(bytes + 1);
  sense.field = field;
}

std::size_t build_fixed(const Sense& sense, std::span<std::uint8_t> out) {
  std::fill_n(out.begin(), kFixedSize, std::uint8_t{0});
  out[0] = kFixedCurrent;
  out[2] = static_cast<std::uint8_t>(sense.key);
  out[7] = kFixedSize - 8;
  out[12] = sense.additional.code;
  out[13] = sense.additional.qualifier;
  if (sense.information && *sense.information <= std::numeric_limits<std::uint32_t>::max()) {
    out[0] |= kValid;
    store_be<std::uint32_t>(&out[3], static_cast<std::uint32_t>(*sense.information));
  }
  if (has_key_specific(sense)) std::ranges::copy(key_specific(sense), &out[kFixedSpecific]);
  return kFixedSize;
}

std::size_t build_descriptor(const Sense& sense, std::span<std::uint8_t> out) {
  std::fill_n(out.begin(), kMaxBuiltSense, std::uint8_t{0});
  out[0] = kDescriptorCurrent;
  out[1] = static_cast<std::uint8_t>(sense.key);
  out[2] = sense.additional.code;
  out[3] = sense.additional.qualifier;
  std::size_t at = 8;
  if (sense.information) {
    out[at] = kInformationDescriptor;
    out[at + 1] = 0x0A;
    out[at + 2] = kValid;
    store_be<std::uint64_t>(&out[at + 4], *sense.information);
    at += 12;
  }
  if (has_key_specific(sense)) {
    out[at] = kSpecificDescriptor;
    out[at + 1] = 0x06;
    std::ranges::copy(key_specific(sense), &out[at + 4]);
    at += 8;
  }
  out[7] = static_cast<std::uint8_t>(at - 8);
  return at;
}

std::optional<Sense> parse_fixed(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 14) return std::nullopt;
  Sense sense{.key = static_cast<SenseKey>(bytes[2] & 0x0F), .additional = {bytes[12], bytes[13]}};
  if (bytes[0] & kValid) sense.information = load_be<std::uint32_t>(&bytes[3]);
  if (bytes.size() >= kFixedSize) read_specific(sense, &bytes[kFixedSpecific]);
  return sense;
}

std::optional<Sense> parse_descriptor(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 8) return std::nullopt;
  Sense sense{.key = static_cast<SenseKey>(bytes[1] & 0x0F), .additional = {bytes[2], bytes[3]}};
  auto rest = bytes.subspan(8, std::min<std::size_t>(bytes[7], bytes.size() - 8));
  while (rest.size() >= 2) {
    const std::size_t size = std::size_t{2} + rest[1];
    if (size > rest.size()) break;
    if (rest[0] == kInformationDescriptor && size >= 12 && (rest[2] & kValid)) {
      sense.information = load_be<std::uint64_t>(&rest[4]);
    }
    if (rest[0] == kSpecificDescriptor && size >= 8) read_specific(sense, &rest[4]);
    rest = rest.subspan(size);
  }
  return sense;
}

}  // namespace

std::size_t build_sense(const Sense& sense, SenseFormat format, std::span<std::uint8_t> out) {
  assert(out.size() >= kMaxBuiltSense);
  return format == SenseFormat::fixed ? build_fixed(sense, out) : build_descriptor(sense, out);
}

std::optional<Sense> parse_sense(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return std::nullopt;
  switch (bytes[0] & 0x7F) {
    case kFixedCurrent:
      return parse_fixed(bytes);
    case kDescriptorCurrent:
      return parse_descriptor(bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::scsi
