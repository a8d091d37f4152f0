#pragma once
// Errors as values. The data path uses std::error_code alone; where a person will read the reason, Error carries a
// sentence that says what is wrong and what to do.
#include <expected>
#include <functional>
#include <string>
#include <system_error>

namespace lockstep::engine {

enum class Errc {
  ok = 0,
  out_of_range,        ///< beyond the end of the store or volume
  misaligned,          ///< not a multiple of the block size
  io_error,            ///< the store failed the operation; it had no effect that may be relied on
  no_space,            ///< the store is full (thin provisioning)
  not_serving,         ///< this replica may not answer now: not a member, no lease, suspended
  unknown_outcome,     ///< the request may or may not have been carried out: ask again, never assume
  refused,             ///< the other side understood and said no
  stale,               ///< belongs to an epoch, incarnation or session that is over
  aborted,             ///< dropped on request before it had any effect
  miscompare,          ///< COMPARE AND WRITE, VERIFY: data differs
  corrupt,             ///< bytes that fail their checksum or make no sense
  foreign,             ///< well-formed, but belongs to another pair, volume or node
  wrong_version,       ///< well-formed, of a version this program does not know
  resource_exhausted,  ///< a named bound was reached
  timed_out,
  reservation_conflict,  ///< a reservation of another nexus forbids it
  write_protected,
  not_ready,  ///< no medium, or it is being sanitized
};

[[nodiscard]] const std::error_category& error_category() noexcept;
[[nodiscard]] std::error_code make_error_code(Errc e) noexcept;

struct Error {
  std::error_code code;
  std::string message;  ///< a whole sentence for a person
};

template <class T>
using Result = std::expected<T, Error>;  // control path
template <class T>
using IoResult = std::expected<T, std::error_code>;  // data path

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message) {
  return std::unexpected(Error{make_error_code(code), std::move(message)});
}

/// Called exactly once, on the reactor that started the operation. A lambda that captures up to two pointers is held
/// without allocation.
template <class... Args>
using Callback = std::move_only_function<void(Args...)>;
using IoCallback = Callback<std::error_code>;

}  // namespace lockstep::engine

template <>
struct std::is_error_code_enum<lockstep::engine::Errc> : std::true_type {};
