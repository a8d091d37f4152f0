#pragma once
// Why a connection is lost, where no error of the system's says it well enough.
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "engine/base/result.hpp"

namespace lockstep::rdma {

enum class RdmaErrc : std::uint8_t {
  memory_not_pinned = 1,  ///< a limit forbids it
  too_many_arenas,
  iwarp_reads,      ///< they would open our memory to the peer
  too_many_work,    ///< the device has no queues of that length
  no_windows,       ///< the device has none, or not as many as were wanted
  no_reads,         ///< the peer grants none, and one was asked for
  not_registered,   ///< memory that is in no arena
  address_changed,  ///< the device's
  port_down,        ///< the device's port
  device_removed,
  flushed,           ///< given back, because the queue pair had ended
  length,            ///< a message longer than its receive
  remote_access,     ///< the peer's device refused the key or the range
  remote_invalid,    ///< the peer's device takes the request for malformed
  remote_operation,  ///< the peer's device could not do it
  local_protection,  ///< our device refused the memory
  local_operation,   ///< our device could not do it
  no_answer,         ///< retransmissions are used up
  no_receive,        ///< the peer never had a receive
  other_status,
};

[[nodiscard]] const std::error_category& rdma_category() noexcept;
[[nodiscard]] std::error_code make_error_code(RdmaErrc e) noexcept;

/// Of an ibv_wc_status that is not success.
[[nodiscard]] std::error_code status_error(int status) noexcept;
/// Of the connection manager's event status: 0 or more are reasons of its own, what is negative is the system's.
[[nodiscard]] std::error_code event_error(int status, std::errc otherwise) noexcept;
[[nodiscard]] std::error_code system_error(int error_number) noexcept;

}  // namespace lockstep::rdma

template <>
struct std::is_error_code_enum<lockstep::rdma::RdmaErrc> : std::true_type {};
