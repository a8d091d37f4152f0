#pragma once
// One request to the server, and the stream of events. Real: HTTPS (https.hpp). Tests bring their own.
#include <functional>
#include <optional>
#include <string>

#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli {

struct Request {
  std::string method;
  std::string target;               ///< path and query
  std::optional<std::string> body;  ///< JSON
};

struct Response {
  unsigned status = 0;
  std::string content_type;
  std::string body;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Exit::unreachable when there was no answer; a refusal is an answer.
  [[nodiscard]] virtual Outcome<Response> send(const Request& request) = 0;
  /// GETs `target` and hands over the body as it comes, until `on_data` returns false or the stream ends (then ok).
  /// A status other than 200 comes back as a Response with the whole body.
  [[nodiscard]] virtual Outcome<std::optional<Response>> stream(
      const std::string& target, const std::string& last_event_id,
      const std::function<bool(std::string_view)>& on_data) = 0;
};

}  // namespace lockstep::cli
