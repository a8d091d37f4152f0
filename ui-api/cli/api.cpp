#include "ui-api/cli/api.hpp"

#include <fmt/format.h>

#include "ui-api/cli/problem.hpp"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMaxLine = 1u << 20;

Outcome<json> parse(const Response& response) {
  if (response.body.empty()) return json();
  json body = json::parse(response.body, nullptr, false);
  if (!body.is_discarded()) return body;
  return fail(Exit::unreachable, "The server's answer is not JSON. Is it a Lockstep node?");
}

}  // namespace

Outcome<json> Api::call(const char* method, const std::string& path, const json* body) {
  Request request{method, "/api/v1" + path, std::nullopt};
  if (body != nullptr) request.body = body->dump();
  const auto response = transport_.send(request);
  if (!response) return std::unexpected(response.error());
  if (response->status >= 300) return std::unexpected(failure_of(*response));
  return parse(*response);
}

Outcome<json> Api::list(const std::string& path) {
  auto body = get(path);
  if (!body) return body;
  const auto items = body->find("items");
  if (!body->is_object() || items == body->end() || !items->is_array()) {
    return fail(Exit::unreachable, "The server's answer is not a list. Is it a Lockstep node?");
  }
  return std::move(*items);
}

Outcome<void> Api::follow(const std::string& last_event_id, const std::function<bool(const StreamEvent&)>& on_event) {
  EventParser parser;
  const auto refused = transport_.stream("/api/v1/events/stream", last_event_id,
                                         [&](std::string_view data) { return parser.feed(data, on_event); });
  if (!refused) return std::unexpected(refused.error());
  if (*refused) return std::unexpected(failure_of(**refused));
  return {};
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

bool EventParser::feed(std::string_view data, const std::function<bool(const StreamEvent&)>& on_event) {
  for (std::size_t end = data.find('\n'); end != std::string_view::npos; end = data.find('\n')) {
    rest_ += data.substr(0, end);
    data.remove_prefix(end + 1);
    if (rest_.ends_with('\r')) rest_.pop_back();
    const std::string whole = std::exchange(rest_, {});
    if (!line(whole, on_event)) return false;
  }
  rest_ += data;
  return rest_.size() <= kMaxLine;
}

bool EventParser::line(std::string_view text, const std::function<bool(const StreamEvent&)>& on_event) {
  if (text.empty()) {
    StreamEvent event = std::exchange(event_, {});
    const std::string data = std::exchange(data_, {});
    if (data.empty()) return true;
    event.data = json::parse(data, nullptr, false);
    return event.data.is_discarded() || on_event(event);
  }
  const std::size_t colon = text.find(':');
  const std::string_view field = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") event_.name = value;
  if (field == "id") event_.id = value;
  if (field == "data" && data_.size() + value.size() <= kMaxLine) data_ += value;
  return true;
}

std::string text(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::uint64_t number(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}

bool flag(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_boolean() && value.get<bool>();
}

const json& part(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

}  // namespace lockstep::cli
