#pragma once
// The statuses of a work request that failed (InfiniBand Architecture volume 1, 11.6.2), as they are counted. One that
// was given back because its queue pair had ended before has none: nothing went wrong with it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

namespace lockstep::rdma {

enum class Status : std::uint8_t {
  length,
  remote_access,
  remote_invalid,
  remote_operation,
  local_protection,
  local_operation,
  no_answer,   ///< retransmissions are used up
  no_receive,  ///< the peer never had a receive (RNR)
  other,
};

/// By status: what a figure of each is called.
constexpr std::array kStatusNames{"length",           "remote_access",    "remote_invalid",
                                  "remote_operation", "local_protection", "local_operation",
                                  "no_answer",        "no_receive",       "other"};
constexpr std::size_t kStatuses = kStatusNames.size();

/// Of what a completion, or the end of a connection, says; nothing: no work request failed.
[[nodiscard]] std::optional<Status> status_of(std::error_code error) noexcept;

}  // namespace lockstep::rdma
