#pragma once
// One HTTP/1.1 POST over a connection of its own, with a deadline over all of it. No TLS. Of a name's addresses each is
// tried in turn, until one takes the connection.
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::replication {

constexpr std::size_t kMaxHttpReply = std::size_t{64} << 10;  ///< bytes of body; more is an error

struct HttpEndpoint {
  std::string host;  ///< name or address, without the brackets of IPv6
  std::string port;
  /// From "http://host:port"; an error says what was expected.
  [[nodiscard]] static engine::Result<HttpEndpoint> parse(std::string_view url);
  [[nodiscard]] std::string to_string() const;
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

struct HttpFailure {
  bool sent = false;  ///< true: the other side may have seen the request
  bool timed_out = false;
  std::string message;
};

using HttpCallback = engine::Callback<std::expected<HttpReply, HttpFailure>>;

/// `done` runs once on the reactor, never from inside the call.
void http_post(engine::Reactor& reactor, const HttpEndpoint& endpoint, std::string_view path, std::string body,
               engine::Duration deadline, HttpCallback done);

}  // namespace lockstep::replication
