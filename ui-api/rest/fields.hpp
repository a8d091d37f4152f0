#pragma once
// Reads a request's JSON body field by field, and gathers every complaint: wrong type, missing, out of range, unknown.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "mgmt/control/refusal.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

using Problems = std::vector<mgmt::FieldProblem>;

enum class Presence : std::uint8_t { required, optional };

class Fields {
 public:
  /// `value` and `problems` outlive this. A value that is not an object is complained about.
  Fields(const nlohmann::json& value, std::string pointer, Problems& problems);

  std::optional<std::string> text(const char* name, Presence presence);
  std::optional<std::string> one_of(const char* name, Presence presence,
                                    std::initializer_list<std::string_view> allowed);
  std::optional<std::int64_t> integer(const char* name, Presence presence, std::int64_t least, std::int64_t most);
  std::optional<bool> flag(const char* name, Presence presence);
  std::optional<std::vector<std::string>> texts(const char* name, Presence presence);
  /// Reads an optional field of `value`'s type into it; without one it stays as it is.
  template <class T>
  void take(const char* name, T& value);
  /// Known, whatever its type.
  bool is_there(const char* name);
  /// The object of that name; nothing when it is not there.
  std::optional<Fields> object(const char* name, Presence presence);
  /// There, and null.
  bool is_null(const char* name);
  /// Complains about fields that nobody asked for. To be called last.
  void nothing_else();

 private:
  const nlohmann::json* find(const char* name, Presence presence);
  void complain(const std::string& name, std::string detail);
  const nlohmann::json* value_;
  std::string pointer_;
  Problems* problems_;
  std::set<std::string> known_;
};

template <class T>
void Fields::take(const char* name, T& value) {
  if constexpr (std::is_same_v<T, bool>)
    value = flag(name, Presence::optional).value_or(value);
  else if constexpr (std::is_same_v<T, std::string>)
    value = text(name, Presence::optional).value_or(value);
  else if constexpr (std::is_same_v<T, std::int64_t>)
    value = integer(name, Presence::optional, INT64_MIN, INT64_MAX).value_or(value);
  else
    value = texts(name, Presence::optional).value_or(value);
}

/// The body as JSON. Refusals: unsupported_media_type, malformed.
[[nodiscard]] mgmt::Outcome<nlohmann::json> body_of(const Request& request);
/// Nothing when there are no complaints.
[[nodiscard]] mgmt::Outcome<void> accept(Problems problems);

/// The text of the body's only field, `confirm`: what an operator says aloud. Empty when it is not there.
[[nodiscard]] mgmt::Outcome<std::string> confirm_of(const Request& request);

/// An integer of the query; `otherwise` when it is not there. Refusal malformed.
[[nodiscard]] mgmt::Outcome<std::optional<std::int64_t>> query_integer(const Request& request, const char* name,
                                                                       std::int64_t least, std::int64_t most);

}  // namespace lockstep::ui_api
