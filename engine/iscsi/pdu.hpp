#pragma once
// The 48-byte basic header segments of RFC 7143 chapter 11, byte for byte. Copy them from and to the wire with
// header_as() and bytes_of(); every field is big-endian and unaligned by type, so nothing is ever swapped by hand.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/byte_order.hpp"
#include "engine/iscsi/opcodes.hpp"

namespace lockstep::iscsi {

using engine::Be16;
using engine::Be24;
using engine::Be32;
using engine::Be64;
using std::uint8_t;

constexpr std::size_t kBhsSize = 48;
constexpr std::size_t kMaxAhs =
    264;  ///< bytes: an extended CDB of 244 bytes beyond the first 16, and a bidi read length
constexpr std::size_t kDigestSize = 4;
constexpr std::uint16_t kIscsiPort = 3260;

using Bhs = std::array<std::byte, kBhsSize>;
template <std::size_t N>
using Reserved = std::array<uint8_t, N>;
using Isid = std::array<uint8_t, 6>;

struct AnyHeader {
  uint8_t opcode;  ///< with the I bit
  uint8_t flags;
  std::array<uint8_t, 2> specific;
  uint8_t ahs_words;  ///< TotalAHSLength, four-byte words
  Be24 data_length;   ///< bytes, without padding
  Be64 lun;
  Be32 task_tag;
  std::array<uint8_t, 28> rest;
};

struct ScsiCommandHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, expected_length, cmd_sn, exp_stat_sn;
  std::array<uint8_t, 16> cdb;
};

struct ScsiResponseHeader {
  uint8_t opcode, flags, response, status, ahs_words;
  Be24 data_length;
  Reserved<8> reserved;
  Be32 task_tag, snack_tag, stat_sn, exp_cmd_sn, max_cmd_sn, exp_data_sn, bidi_residual, residual;
};

struct TaskManagementRequestHeader {
  uint8_t opcode, function;  ///< F bit in the function's top bit
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, referenced_tag, cmd_sn, exp_stat_sn, ref_cmd_sn, exp_data_sn;
  Reserved<8> reserved2;
};

struct TaskManagementResponseHeader {
  uint8_t opcode, flags, response;
  Reserved<1> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Reserved<8> reserved2;
  Be32 task_tag;
  Reserved<4> reserved3;
  Be32 stat_sn, exp_cmd_sn, max_cmd_sn;
  Reserved<12> reserved4;
};

struct DataOutHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag;
  Reserved<4> reserved2;
  Be32 exp_stat_sn;
  Reserved<4> reserved3;
  Be32 data_sn, buffer_offset;
  Reserved<4> reserved4;
};

struct DataInHeader {
  uint8_t opcode, flags;
  Reserved<1> reserved;
  uint8_t status, ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn, data_sn, buffer_offset, residual;
};

struct R2tHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn, r2t_sn, buffer_offset, desired_length;
};

struct AsyncMessageHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag;  ///< kReservedTag
  Reserved<4> reserved2;
  Be32 stat_sn, exp_cmd_sn, max_cmd_sn;
  uint8_t event, vendor_code;
  Be16 parameter1, parameter2, parameter3;
  Reserved<4> reserved3;
};

struct TextRequestHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, cmd_sn, exp_stat_sn;
  Reserved<16> reserved2;
};

struct TextResponseHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn;
  Reserved<12> reserved2;
};

struct LoginRequestHeader {
  uint8_t opcode, flags;  ///< T, C, CSG in bits 3-2, NSG in bits 1-0
  uint8_t version_max, version_min, ahs_words;
  Be24 data_length;
  Isid isid;
  Be16 tsih;
  Be32 task_tag;
  Be16 cid;
  Reserved<2> reserved;
  Be32 cmd_sn, exp_stat_sn;
  Reserved<16> reserved2;
};

struct LoginResponseHeader {
  uint8_t opcode, flags, version_max, version_active, ahs_words;
  Be24 data_length;
  Isid isid;
  Be16 tsih;
  Be32 task_tag;
  Reserved<4> reserved;
  Be32 stat_sn, exp_cmd_sn, max_cmd_sn;
  Be16 status;  ///< LoginStatus
  Reserved<10> reserved2;
};

struct LogoutRequestHeader {
  uint8_t opcode, reason;  ///< F bit in the reason's top bit
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Reserved<8> reserved2;
  Be32 task_tag;
  Be16 cid;
  Reserved<2> reserved3;
  Be32 cmd_sn, exp_stat_sn;
  Reserved<16> reserved4;
};

struct LogoutResponseHeader {
  uint8_t opcode, flags, response;
  Reserved<1> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Reserved<8> reserved2;
  Be32 task_tag;
  Reserved<4> reserved3;
  Be32 stat_sn, exp_cmd_sn, max_cmd_sn;
  Reserved<4> reserved4;
  Be16 time2wait, time2retain;
  Reserved<4> reserved5;
};

struct SnackRequestHeader {
  uint8_t opcode, type;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag;
  Reserved<4> reserved2;
  Be32 exp_stat_sn;
  Reserved<8> reserved3;
  Be32 begin_run, run_length;
};

struct RejectHeader {
  uint8_t opcode, flags, reason;
  Reserved<1> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Reserved<8> reserved2;
  Be32 task_tag;  ///< kReservedTag
  Reserved<4> reserved3;
  Be32 stat_sn, exp_cmd_sn, max_cmd_sn, data_sn;
  Reserved<8> reserved4;
};

struct NopOutHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, cmd_sn, exp_stat_sn;
  Reserved<16> reserved2;
};

struct NopInHeader {
  uint8_t opcode, flags;
  Reserved<2> reserved;
  uint8_t ahs_words;
  Be24 data_length;
  Be64 lun;
  Be32 task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn;
  Reserved<12> reserved2;
};

template <class T>
concept Header = engine::WireStruct<T> && sizeof(T) == kBhsSize;

static_assert(Header<AnyHeader> && Header<ScsiCommandHeader> && Header<ScsiResponseHeader>);
static_assert(Header<TaskManagementRequestHeader> && Header<TaskManagementResponseHeader>);
static_assert(Header<DataOutHeader> && Header<DataInHeader> && Header<R2tHeader> && Header<AsyncMessageHeader>);
static_assert(Header<TextRequestHeader> && Header<TextResponseHeader>);
static_assert(Header<LoginRequestHeader> && Header<LoginResponseHeader>);
static_assert(Header<LogoutRequestHeader> && Header<LogoutResponseHeader>);
static_assert(Header<SnackRequestHeader> && Header<RejectHeader> && Header<NopOutHeader> && Header<NopInHeader>);
static_assert(offsetof(ScsiCommandHeader, cdb) == 32 && offsetof(ScsiResponseHeader, residual) == 44);
static_assert(offsetof(TaskManagementRequestHeader, ref_cmd_sn) == 32 && offsetof(DataOutHeader, data_sn) == 36);
static_assert(offsetof(TaskManagementResponseHeader, stat_sn) == 24 && offsetof(DataInHeader, residual) == 44);
static_assert(offsetof(R2tHeader, desired_length) == 44 && offsetof(AsyncMessageHeader, parameter1) == 38);
static_assert(offsetof(TextRequestHeader, cmd_sn) == 24 && offsetof(TextResponseHeader, stat_sn) == 24);
static_assert(offsetof(LoginRequestHeader, tsih) == 14 && offsetof(LoginRequestHeader, cmd_sn) == 24);
static_assert(offsetof(LoginResponseHeader, status) == 36 && offsetof(LogoutRequestHeader, cid) == 20);
static_assert(offsetof(LogoutResponseHeader, time2wait) == 40 && offsetof(SnackRequestHeader, begin_run) == 40);
static_assert(offsetof(RejectHeader, data_sn) == 36 && offsetof(NopOutHeader, cmd_sn) == 24);
static_assert(offsetof(NopInHeader, max_cmd_sn) == 32);

template <Header T>
[[nodiscard]] inline T header_as(const Bhs& bytes) {
  return std::bit_cast<T>(bytes);
}
template <Header T>
[[nodiscard]] inline Bhs bytes_of(const T& header) {
  return std::bit_cast<Bhs>(header);
}
/// A header of that opcode with everything else zero.
template <Header T>
[[nodiscard]] inline T make_header(Opcode opcode, std::uint8_t flags = 0) {
  AnyHeader any{};
  any.opcode = static_cast<std::uint8_t>(opcode);
  any.flags = flags;
  return std::bit_cast<T>(any);
}

[[nodiscard]] inline Opcode opcode_of(std::uint8_t first_byte) { return static_cast<Opcode>(first_byte & kOpcodeMask); }
/// Segments are padded with zeros to four bytes; lengths never count the padding.
[[nodiscard]] constexpr std::size_t padding_of(std::size_t length) { return (4 - length % 4) % 4; }

}  // namespace lockstep::iscsi
