#include "ui-api/rest/fields.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace lockstep::ui_api {
namespace {

using mgmt::RefusalKind;
using nlohmann::json;

std::string escaped(std::string name) {  // RFC 6901 3
  std::string out;
  for (const char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

bool is_json(std::string_view content_type) {
  const auto type = content_type.substr(0, content_type.find(';'));
  const std::string_view wanted = "application/json";
  const auto end = type.find_last_not_of(' ');
  return std::ranges::equal(type.substr(0, end == std::string_view::npos ? 0 : end + 1), wanted,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace

Fields::Fields(const json& value, std::string pointer, Problems& problems)
    : value_(&value), pointer_(std::move(pointer)), problems_(&problems) {
  if (!value.is_object()) {
    problems.push_back({pointer_, "Must be an object."});
    value_ = nullptr;
  }
}

void Fields::complain(const std::string& name, std::string detail) {
  problems_->push_back({pointer_ + "/" + escaped(name), std::move(detail)});
}

const json* Fields::find(const char* name, Presence presence) {
  known_.insert(name);
  if (!value_) return nullptr;
  const auto found = value_->find(name);
  if (found != value_->end()) return &*found;
  if (presence == Presence::required) complain(name, "Is required.");
  return nullptr;
}

bool Fields::is_there(const char* name) { return find(name, Presence::optional) != nullptr; }

bool Fields::is_null(const char* name) {
  const json* field = find(name, Presence::optional);
  return field && field->is_null();
}

std::optional<std::string> Fields::text(const char* name, Presence presence) {
  const json* field = find(name, presence);
  if (!field) return std::nullopt;
  if (field->is_string()) return field->get<std::string>();
  complain(name, "Must be a string.");
  return std::nullopt;
}

std::optional<std::string> Fields::one_of(const char* name, Presence presence,
                                          std::initializer_list<std::string_view> allowed) {
  const auto value = text(name, presence);
  if (!value || std::ranges::find(allowed, *value) != allowed.end()) return value;
  std::string list;
  for (const auto& word : allowed) list += (list.empty() ? "" : ", ") + std::string(word);
  complain(name, fmt::format("Must be one of: {}.", list));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(const char* name, Presence presence, std::int64_t least,
                                            std::int64_t most) {
  const json* field = find(name, presence);
  if (!field) return std::nullopt;
  const bool fits = field->is_number_integer() &&
                    !(field->is_number_unsigned() && field->get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!field->is_number_integer()) {
    complain(name, "Must be an integer.");
  } else if (!fits || field->get<std::int64_t>() < least || field->get<std::int64_t>() > most) {
    complain(name, fmt::format("Must be from {} to {}.", least, most));
  } else {
    return field->get<std::int64_t>();
  }
  return std::nullopt;
}

std::optional<bool> Fields::flag(const char* name, Presence presence) {
  const json* field = find(name, presence);
  if (!field) return std::nullopt;
  if (field->is_boolean()) return field->get<bool>();
  complain(name, "Must be true or false.");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(const char* name, Presence presence) {
  const json* field = find(name, presence);
  if (!field) return std::nullopt;
  if (!field->is_array()) {
    complain(name, "Must be a list of strings.");
    return std::nullopt;
  }
  std::vector<std::string> list;
  for (std::size_t i = 0; i < field->size(); ++i) {
    if ((*field)[i].is_string())
      list.push_back((*field)[i].get<std::string>());
    else
      problems_->push_back({fmt::format("{}/{}/{}", pointer_, name, i), "Must be a string."});
  }
  return list;
}

std::optional<Fields> Fields::object(const char* name, Presence presence) {
  const json* field = find(name, presence);
  if (!field) return std::nullopt;
  return Fields(*field, pointer_ + "/" + name, *problems_);
}

void Fields::nothing_else() {
  if (!value_) return;
  for (const auto& [name, value] : value_->items())
    if (!known_.contains(name)) complain(name, "There is no such field.");
}

mgmt::Outcome<json> body_of(const Request& request) {
  if (!is_json(request.content_type))
    return mgmt::refuse(RefusalKind::unsupported_media_type, "Send the body as application/json.");
  try {
    return json::parse(request.body);
  } catch (const json::parse_error& e) {
    return mgmt::refuse(RefusalKind::malformed, fmt::format("The body is not JSON: there is an error at byte {} of {}.",
                                                            e.byte, request.body.size()));
  }
}

mgmt::Outcome<void> accept(Problems problems) {
  if (problems.empty()) return {};
  return mgmt::refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
}

mgmt::Outcome<std::string> confirm_of(const Request& request) {
  const auto body = body_of(request);
  if (!body) return std::unexpected(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  auto confirm = fields.text("confirm", Presence::optional).value_or("");
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return std::unexpected(good.error());
  return confirm;
}

mgmt::Outcome<std::optional<std::int64_t>> query_integer(const Request& request, const char* name, std::int64_t least,
                                                         std::int64_t most) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return std::nullopt;
  std::int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, value);
  if (error == std::errc() && at == end && value >= least && value <= most) return value;
  return mgmt::refuse(RefusalKind::malformed, fmt::format("The parameter {} is not what it should be.", name),
                      {{fmt::format("?{}", name), fmt::format("Must be an integer from {} to {}.", least, most)}});
}

}  // namespace lockstep::ui_api
