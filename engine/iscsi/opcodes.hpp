#pragma once
// Numbers of RFC 7143 that PDUs carry: opcodes, flags, reasons, responses.
#include <cstddef>
#include <cstdint>

namespace lockstep::iscsi {

enum class Opcode : std::uint8_t {  // RFC 7143 11.2.1.2
  nop_out = 0x00,
  scsi_command = 0x01,
  task_management_request = 0x02,
  login_request = 0x03,
  text_request = 0x04,
  scsi_data_out = 0x05,
  logout_request = 0x06,
  snack_request = 0x10,
  nop_in = 0x20,
  scsi_response = 0x21,
  task_management_response = 0x22,
  login_response = 0x23,
  text_response = 0x24,
  scsi_data_in = 0x25,
  logout_response = 0x26,
  r2t = 0x31,
  async_message = 0x32,
  reject = 0x3F,
};

constexpr std::uint8_t kOpcodeMask = 0x3F;
constexpr std::uint8_t kImmediate = 0x40;  ///< I bit of a request's first byte

constexpr std::uint8_t kFinal = 0x80;     ///< F
constexpr std::uint8_t kContinue = 0x40;  ///< C of text and login
constexpr std::uint8_t kTransit = 0x80;   ///< T of login
constexpr std::uint8_t kRead = 0x40;      ///< R of SCSI Command
constexpr std::uint8_t kWrite = 0x20;     ///< W of SCSI Command
constexpr std::uint8_t kAttributeMask = 0x07;

constexpr std::uint8_t kBidiOverflow = 0x10;   ///< o of SCSI Response
constexpr std::uint8_t kBidiUnderflow = 0x08;  ///< u of SCSI Response
constexpr std::uint8_t kOverflow = 0x04;       ///< O of SCSI Response and Data-In
constexpr std::uint8_t kUnderflow = 0x02;      ///< U of SCSI Response and Data-In
constexpr std::uint8_t kDataInStatus = 0x01;   ///< S of Data-In: the status is in here
constexpr std::uint8_t kAcknowledge = 0x40;    ///< A of Data-In, never set at ERL 0

constexpr std::uint32_t kReservedTag = 0xFFFFFFFF;  ///< no task; no transfer tag

enum class RejectReason : std::uint8_t {  // RFC 7143 11.17.1
  data_digest_error = 0x02,
  snack_reject = 0x03,
  protocol_error = 0x04,
  command_not_supported = 0x05,
  immediate_command_reject = 0x06,
  task_in_progress = 0x07,
  invalid_data_ack = 0x08,
  invalid_pdu_field = 0x09,
  long_operation_reject = 0x0A,
  waiting_for_logout = 0x0C,
};

enum class LogoutReason : std::uint8_t { close_session = 0, close_connection = 1, remove_connection = 2 };
enum class LogoutResult : std::uint8_t {  // RFC 7143 11.15.1
  closed = 0,
  cid_not_found = 1,
  recovery_not_supported = 2,
  cleanup_failed = 3,
};

enum class TaskManagementResult : std::uint8_t {  // RFC 7143 11.6.1
  complete = 0,
  task_does_not_exist = 1,
  lun_does_not_exist = 2,
  task_still_allegiant = 3,
  reassignment_not_supported = 4,
  not_supported = 5,
  authorization_failed = 6,
  rejected = 255,
};

enum class AsyncEvent : std::uint8_t {  // RFC 7143 11.9.1
  scsi_event = 0,
  logout_request = 1,
  connection_dropped = 2,
  all_connections_dropped = 3,
  negotiation_request = 4,
};

enum class ScsiResponseCode : std::uint8_t { completed = 0, target_failure = 1 };

/// Login status, class in the upper and detail in the lower byte (RFC 7143 11.13.5).
enum class LoginStatus : std::uint16_t {
  success = 0x0000,
  moved_temporarily = 0x0101,
  moved_permanently = 0x0102,
  initiator_error = 0x0200,
  authentication_failure = 0x0201,
  authorization_failure = 0x0202,
  not_found = 0x0203,
  target_removed = 0x0204,
  unsupported_version = 0x0205,
  too_many_connections = 0x0206,
  missing_parameter = 0x0207,
  cannot_include_in_session = 0x0208,
  session_type_not_supported = 0x0209,
  session_does_not_exist = 0x020A,
  invalid_request = 0x020B,
  target_error = 0x0300,
  service_unavailable = 0x0301,
  out_of_resources = 0x0302,
};

enum class Stage : std::uint8_t { security = 0, operational = 1, full_feature = 3 };
/// NSG of a login PDU, from its flags (RFC 7143 11.12.3).
[[nodiscard]] constexpr Stage next_stage(std::uint8_t flags) { return static_cast<Stage>(flags & 3); }

}  // namespace lockstep::iscsi
