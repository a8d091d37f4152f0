#pragma once
// A connection to an HTTP/1.1 server that is kept open for many POSTs, one after the other, plain or TLS. Of a name's
// addresses each is tried in turn, until one takes the connection.
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

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

struct HttpFailure {
  bool sent = false;     ///< true: the other side may have seen the request
  bool reached = false;  ///< true: somebody took the connection
  bool timed_out = false;
  bool broken = false;  ///< true: it was reached, and the connection broke without a word
  bool kept = false;    ///< true: the connection had answered before; that of an idle one may have ended at any time
  std::string message;
};

using HttpCallback = engine::Callback<std::expected<HttpReply, HttpFailure>>;

/// On one reactor. Callbacks never run from inside the call; letting go of it closes nothing: close() does.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  /// `opened` gets null, or why it was not opened within `limit`. `tls` is there when the endpoint's `tls` is.
  [[nodiscard]] static std::shared_ptr<HttpConnection> open(engine::Reactor& reactor, HttpEndpoint endpoint,
                                                            std::shared_ptr<TlsClient> tls, engine::Duration limit,
                                                            engine::Callback<const HttpFailure*> opened);
  /// While idle(). `authorization` is the header's value; empty: without one. It has no time limit: close() ends it.
  virtual void post(std::string_view path, std::string body, const std::string& authorization, HttpCallback done) = 0;
  /// Runs once when an idle connection ends by itself.
  virtual void when_ended(engine::Callback<> ended) = 0;
  /// Open, and owes no answer.
  [[nodiscard]] virtual bool idle() const = 0;
  [[nodiscard]] virtual bool opening() const = 0;
  [[nodiscard]] virtual bool closed() const = 0;
  /// Nobody is told any more.
  virtual void close() = 0;
};

}  // namespace lockstep::replication
