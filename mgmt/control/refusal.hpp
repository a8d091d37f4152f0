#pragma once
// Why management did not do what was asked: a value that becomes a problem document (RFC 9457) at the REST border and
// a failed job's sentence elsewhere. Every sentence says what is wrong and what to do.
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::mgmt {

/// The problem types of ui-api/openapi/lockstep.yaml, in its order.
enum class RefusalKind {
  malformed,
  unauthorized,
  forbidden,
  not_found,
  method_not_allowed,
  conflict,
  confirmation_needed,
  no_pair,
  too_large,
  unsupported_media_type,
  invalid,
  too_many,
  internal,
  not_current,      ///< the partner is away, so the configuration can't be changed here and now
  data_plane_away,  ///< lockstepd does not answer
};

struct FieldProblem {
  std::string pointer;  ///< JSON pointer (RFC 6901) into the request's body, or "?name" of a query parameter
  std::string detail;
};

struct Refusal {
  RefusalKind kind = RefusalKind::internal;
  std::string detail;  ///< whole sentences for a person
  std::vector<FieldProblem> fields;
  bool perhaps_done = false;       ///< not_current: the partner was asked, and did not answer
  bool partner_away = false;       ///< not_current: because the partner did not answer
  bool other_certificate = false;  ///< not_current: somebody answers there, but not with the partner's certificate
  bool answered = false;           ///< the other node said so itself
};

template <class T>
using Outcome = std::expected<T, Refusal>;

[[nodiscard]] inline std::unexpected<Refusal> refuse(RefusalKind kind, std::string detail,
                                                     std::vector<FieldProblem> fields = {}) {
  return std::unexpected(Refusal{kind, std::move(detail), std::move(fields)});
}

/// The type's last part ("not-current"), the HTTP status, and the title that all of its kind share.
struct RefusalDescription {
  const char* name;
  int status;
  const char* title;
};
[[nodiscard]] const RefusalDescription& describe(RefusalKind kind);
[[nodiscard]] RefusalKind refusal_kind_of(std::string_view name);  ///< internal, when the name is not known

}  // namespace lockstep::mgmt
