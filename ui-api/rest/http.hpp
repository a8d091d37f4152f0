#pragma once
// A request and its response as the resources see them: plain values, no library's types.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ui-api/rest/doorkeeper.hpp"

namespace lockstep::ui_api {

struct Request {
  std::string method;                        ///< "GET"; HEAD arrives as GET
  std::string path;                          ///< as sent, without the query
  std::vector<std::string> segments;         ///< of the path, percent-decoded
  std::map<std::string, std::string> query;  ///< percent-decoded
  std::string body;
  std::string content_type;
  std::string authorization;
  std::string last_event_id;
  std::string if_none_match;
  std::string peer_fingerprint;  ///< of the client's certificate; only on connections between nodes
  bool between_nodes = false;    ///< the client asked for the peer API when it connected
  std::string nodes;             ///< mgmt::kNodesHeader's value; empty when it was not sent
};

/// A response without an end. Owned by its connection; poll() is called about four times a second, by one thread at a
/// time.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  /// What is to be sent now, perhaps empty; nothing when the response ends.
  virtual std::optional<std::string> poll() = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<ResponseStream> stream;  ///< follows `body` when set
};

/// What is decided by a request's header, before a byte of its body is read.
struct Admission {
  Standing standing = Standing::stranger;
  std::uint64_t body_bytes = 0;     ///< that its body may have
  std::optional<Response> refusal;  ///< then the body is not read
};

/// Called on worker threads, several at a time.
class Service {
 public:
  virtual ~Service() = default;
  /// `request` without its body.
  [[nodiscard]] virtual Admission admit(const Request& request) = 0;
  [[nodiscard]] virtual Response handle(const Request& request) = 0;
  /// Whether connections from this address are probably the partner's. Any thread; does not block.
  [[nodiscard]] virtual bool is_partners(const std::string& address) = 0;
};

/// Splits and decodes a request target into path, segments and query. False when it is malformed.
[[nodiscard]] bool parse_target(std::string_view target, Request& request);

}  // namespace lockstep::ui_api
