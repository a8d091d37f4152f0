#pragma once
// The REST API as the commands use it: JSON in, JSON out, refusals as Failure.
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ui-api/cli/transport.hpp"

namespace lockstep::cli {

using nlohmann::json;

struct StreamEvent {
  std::string name;
  std::string id;
  json data;
};

class Api {
 public:
  explicit Api(Transport& transport) : transport_(transport) {}

  /// `path` is below /api/v1. Null for an answer without a body.
  [[nodiscard]] Outcome<json> get(const std::string& path) { return call("GET", path, nullptr); }
  [[nodiscard]] Outcome<json> post(const std::string& path, const json& body) { return call("POST", path, &body); }
  [[nodiscard]] Outcome<json> patch(const std::string& path, const json& body) { return call("PATCH", path, &body); }
  [[nodiscard]] Outcome<json> put(const std::string& path, const json& body) { return call("PUT", path, &body); }
  [[nodiscard]] Outcome<json> remove(const std::string& path) { return call("DELETE", path, nullptr); }
  /// The `items` of a list.
  [[nodiscard]] Outcome<json> list(const std::string& path);

  /// Until `on_event` returns false or the server ends the stream.
  [[nodiscard]] Outcome<void> follow(const std::string& last_event_id,
                                     const std::function<bool(const StreamEvent&)>& on_event);

 private:
  Outcome<json> call(const char* method, const std::string& path, const json* body);
  Transport& transport_;
};

/// For use in a path or a query (RFC 3986 2.3).
[[nodiscard]] std::string percent_encode(std::string_view text);

/// Cuts server-sent events out of a stream that comes in pieces of any size.
class EventParser {
 public:
  /// Calls `on_event` for each event completed by `data`; false as soon as it returns false.
  [[nodiscard]] bool feed(std::string_view data, const std::function<bool(const StreamEvent&)>& on_event);

 private:
  bool line(std::string_view text, const std::function<bool(const StreamEvent&)>& on_event);
  std::string rest_;  // an unfinished line; at most kMaxLine
  StreamEvent event_;
  std::string data_;
};

// What a field holds, or a neutral value: the server may be newer or older than this command.
[[nodiscard]] std::string text(const json& object, const char* key);
[[nodiscard]] std::uint64_t number(const json& object, const char* key);
[[nodiscard]] bool flag(const json& object, const char* key);
[[nodiscard]] const json& part(const json& object, const char* key);

}  // namespace lockstep::cli
