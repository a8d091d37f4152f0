#pragma once
// iSER's bytes (RFC 7145 §9) as Linux's initiator and target speak it: no Hello messages, and a word of private data
// when the connection is made. A message is one Send: this header, the iSCSI PDU's header, additional headers, data,
// padding.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>

#include "engine/iscsi/pdu.hpp"
#include "engine/rdma/verbs.hpp"

namespace lockstep::iser {

using iscsi::Be32;
using iscsi::Be64;

constexpr std::uint8_t kOpcodeMask = 0xF0;
constexpr std::uint8_t kControl = 0x10;     ///< an iSCSI control-type PDU
constexpr std::uint8_t kWriteValid = 0x08;  ///< WSV: the write fields stand for memory of the sender's
constexpr std::uint8_t kReadValid = 0x04;   ///< RSV

struct HeaderLayout {
  std::uint8_t flags;
  iscsi::Reserved<3> reserved;
  Be32 write_key;
  Be64 write_address;
  Be32 read_key;
  Be64 read_address;
};
constexpr std::size_t kHeaderSize = 28;
static_assert(sizeof(HeaderLayout) == kHeaderSize && engine::WireStruct<HeaderLayout>);

constexpr std::size_t kHeadersSize = kHeaderSize + iscsi::kBhsSize;  ///< bytes before additional headers and data

/// What a payload is opened by that was encrypted on its own.
struct PayloadSeal {
  std::uint64_t number = 0;  ///< 0: there is none
  std::array<std::byte, 16> tag{};
  bool operator==(const PayloadSeal&) const = default;
};

/// Memory of the sender's that a command moves its data from and to.
struct Tagged {
  std::optional<rdma::Remote> write;  ///< to be read by the target
  std::optional<rdma::Remote> read;   ///< to be written by the target
  PayloadSeal seal{};                 ///< of what is read, or was written, on a protected connection
  bool operator==(const Tagged&) const = default;
};

/// What stands before a message on a connection that is protected (protection.hpp), which all but the first tag is
/// encrypted with. Not iSER's: the link's alone.
struct ProtectionLayout {
  std::array<std::byte, 16> tag;          ///< of the message from here on
  Be64 payload_number;                    ///< of the payload that lies in tagged memory; 0: there is none
  std::array<std::byte, 16> payload_tag;  ///< its own
};
constexpr std::size_t kProtectionSize = 40;
static_assert(sizeof(ProtectionLayout) == kProtectionSize && engine::WireStruct<ProtectionLayout>);

/// What is wrong with a message: the connection ends for it.
enum class Fault : std::uint8_t {
  too_short = 1,    ///< less than the two headers
  not_control,      ///< a Hello, or an opcode that nobody has defined
  length,           ///< it has not as many bytes as its PDU says
  no_place,         ///< a command without memory for its data
  unexpected_data,  ///< a Data-Out PDU, which iSER has no use for
  long_answer,      ///< the initiator asked for more than fits into an answer
  no_memory,        ///< too many sessions over RDMA
  damaged,          ///< what is encrypted was changed on the way
  unprotected,      ///< the connection was to be encrypted, of which the target knows nothing
  over_share,       ///< too many sessions over RDMA from its address
};
[[nodiscard]] const std::error_category& fault_category() noexcept;
[[nodiscard]] std::error_code make_error_code(Fault fault) noexcept;

/// A message as it lies in memory: `first` has its first kHeadersSize bytes, `rest` what follows.
struct Message {
  Tagged tagged;
  iscsi::Bhs header{};
  std::size_t ahs = 0;   ///< bytes at the beginning of the rest,
  std::size_t data = 0;  ///< and after those
};
/// `bytes` came. Padding at the end may be there or not.
[[nodiscard]] engine::IoResult<Message> read_message(std::span<const std::byte> first, std::size_t bytes);

/// Of a control-type message. `into` has kHeaderSize bytes.
void write_header(const Tagged& tagged, std::span<std::byte> into);

// The word that each side tells the other when the connection is made.
constexpr std::uint8_t kNoZeroBased = 0x80;   ///< no zero-based addresses: always so
constexpr std::uint8_t kNoInvalidate = 0x40;  ///< no Send with Invalidate
constexpr std::size_t kPrivateSize = 4;
/// Whoever says nothing can't.
[[nodiscard]] bool takes_invalidation(std::span<const std::byte> private_data);
[[nodiscard]] std::array<std::byte, kPrivateSize> private_data(bool invalidates);

/// What a caller says behind that who wants the connection protected: "LSTP", and the version of that, 1. The target
/// says so, too, if it will be.
constexpr std::size_t kProtectedPrivateSize = kPrivateSize + 5;
[[nodiscard]] bool wants_protection(std::span<const std::byte> private_data);
[[nodiscard]] std::array<std::byte, kProtectedPrivateSize> protected_private_data(bool invalidates);

void write_protection(const PayloadSeal& seal, std::span<std::byte, kProtectionSize> into);
[[nodiscard]] PayloadSeal read_protection(std::span<const std::byte, kProtectionSize> bytes);

}  // namespace lockstep::iser

template <>
struct std::is_error_code_enum<lockstep::iser::Fault> : std::true_type {};
