#pragma once
// One HTTP/1.1 POST over a connection of its own, plain or TLS, with a deadline over all of it. Of a name's addresses
// each is tried in turn, until one takes the connection.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/http_endpoint.hpp"

namespace lockstep::replication {

class TlsClient;

constexpr std::size_t kMaxHttpReply = std::size_t{64} << 10;  ///< bytes of body; more is an error

struct HttpRequest {
  HttpEndpoint endpoint;
  std::string_view path;  ///< outlives the call of http_post() only
  std::string body;
  std::string authorization;       ///< the header's value; empty: without one
  std::shared_ptr<TlsClient> tls;  ///< there when the endpoint's `tls` is
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

struct HttpFailure {
  bool sent = false;     ///< true: the other side may have seen the request
  bool reached = false;  ///< true: somebody took the connection
  bool timed_out = false;
  std::string message;
};

using HttpCallback = engine::Callback<std::expected<HttpReply, HttpFailure>>;

/// `done` runs once on the reactor, never from inside the call.
void http_post(engine::Reactor& reactor, HttpRequest request, engine::Duration deadline, HttpCallback done);

}  // namespace lockstep::replication
