#include "engine/iser/format.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace lockstep::iser {
namespace {

constexpr std::array<char, kProtectedPrivateSize - kPrivateSize> kProtected{'L', 'S', 'T', 'P', 1};

class FaultCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "iSER"; }
  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<Fault>(code)) {
      case Fault::too_short:
        return "a message is shorter than its headers";
      case Fault::not_control:
        return "a message is no iSCSI PDU";
      case Fault::length:
        return "a message has another length than its PDU says";
      case Fault::no_place:
        return "a command names no memory for its data";
      case Fault::unexpected_data:
        return "data came that nobody reads";
      case Fault::long_answer:
        return "an answer would be longer than any may be";
      case Fault::no_memory:
        return "too many sessions go over RDMA already";
      case Fault::over_share:
        return "too many sessions over RDMA go to its address already";
      case Fault::damaged:
        return "what came was changed on the way";
      case Fault::unprotected:
        return "the program there knows no encryption over RDMA";
    }
    return "a message makes no sense";
  }
};

}  // namespace

const std::error_category& fault_category() noexcept {
  static const FaultCategory category;
  return category;
}

std::error_code make_error_code(Fault fault) noexcept { return {static_cast<int>(fault), fault_category()}; }

engine::IoResult<Message> read_message(std::span<const std::byte> first, std::size_t bytes) {
  if (first.size() < kHeadersSize || bytes < kHeadersSize) return std::unexpected(make_error_code(Fault::too_short));
  const auto layout = engine::layout_of<HeaderLayout>(first);
  if ((layout.flags & kOpcodeMask) != kControl) return std::unexpected(make_error_code(Fault::not_control));
  Message message;
  if (layout.flags & kWriteValid) message.tagged.write = {layout.write_address, layout.write_key};
  if (layout.flags & kReadValid) message.tagged.read = {layout.read_address, layout.read_key};
  message.header = engine::layout_of<iscsi::Bhs>(first.subspan(kHeaderSize));
  const auto any = iscsi::header_as<iscsi::AnyHeader>(message.header);
  message.ahs = std::size_t{any.ahs_words} * 4;
  message.data = any.data_length;
  const std::size_t whole = kHeadersSize + message.ahs + message.data;
  if (bytes < whole || bytes > whole + iscsi::padding_of(message.data)) {
    return std::unexpected(make_error_code(Fault::length));
  }
  return message;
}

void write_header(const Tagged& tagged, std::span<std::byte> into) {
  HeaderLayout layout{};
  layout.flags = kControl;
  if (tagged.write) {
    layout.flags |= kWriteValid;
    layout.write_key = tagged.write->key;
    layout.write_address = tagged.write->address;
  }
  if (tagged.read) {
    layout.flags |= kReadValid;
    layout.read_key = tagged.read->key;
    layout.read_address = tagged.read->address;
  }
  const auto bytes = std::as_bytes(std::span(&layout, 1));
  std::copy(bytes.begin(), bytes.end(), into.begin());
}

bool takes_invalidation(std::span<const std::byte> data) {
  return data.size() >= kPrivateSize && (data[0] & std::byte{kNoInvalidate}) == std::byte{0};
}

std::array<std::byte, kPrivateSize> private_data(bool invalidates) {
  const auto flags = static_cast<std::uint8_t>(kNoZeroBased | (invalidates ? 0 : kNoInvalidate));
  return {std::byte{flags}};
}

bool wants_protection(std::span<const std::byte> private_data) {
  return private_data.size() >= kProtectedPrivateSize &&
         std::ranges::equal(private_data.subspan(kPrivateSize, kProtected.size()),
                            std::as_bytes(std::span(kProtected)));
}

std::array<std::byte, kProtectedPrivateSize> protected_private_data(bool invalidates) {
  std::array<std::byte, kProtectedPrivateSize> data{};
  std::ranges::copy(private_data(invalidates), data.begin());
  std::ranges::copy(std::as_bytes(std::span(kProtected)), data.begin() + kPrivateSize);
  return data;
}

void write_protection(const PayloadSeal& seal, std::span<std::byte, kProtectionSize> into) {
  ProtectionLayout layout{};
  layout.payload_number = seal.number;
  layout.payload_tag = seal.tag;
  std::ranges::copy(std::as_bytes(std::span(&layout, 1)), into.begin());
}

PayloadSeal read_protection(std::span<const std::byte, kProtectionSize> bytes) {
  const auto layout = engine::layout_of<ProtectionLayout>(bytes);
  return {layout.payload_number, layout.payload_tag};
}

}  // namespace lockstep::iser
