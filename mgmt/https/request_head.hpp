#pragma once
// Where a request ends must be beyond doubt: what one side takes for the body, the other must not take for the next
// request. Checked over the bytes of the head, before the parser sees them, since it forgives what is checked here.
#include <optional>
#include <string_view>

namespace lockstep::https {

/// Why a request is refused and its connection closed.
struct HeadFault {
  unsigned status;       ///< 400, or 501 for a transfer coding that is not known
  std::string_view why;  ///< a whole sentence
};

/// `head`: a request line and field lines, with the empty line behind them (RFC 9112 2.2, 3.2, 5.1, 5.2, 6.1-6.3).
[[nodiscard]] std::optional<HeadFault> fault_in_head(std::string_view head);

/// The length of the head that `received` begins with, its empty line included; nothing while that is not there.
[[nodiscard]] std::optional<std::size_t> head_length(std::string_view received);

}  // namespace lockstep::https
