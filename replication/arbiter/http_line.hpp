#pragma once
// The connections to one endpoint of the witness: kept open, so that a request costs one round trip, and opened beside
// one another, so that a lost packet of one does not hold up what is sent on another.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "replication/arbiter/http_connection.hpp"
#include "replication/arbiter/line_estimate.hpp"

namespace lockstep::replication {

/// Owned by one reactor. Destroying it drops what is outstanding without calling back.
class HttpLine {
 public:
  static constexpr std::size_t kMaxConnections = 8;
  /// To a witness near by: a handshake costs it more than a request, and a thousand pairs may ask at once.
  static constexpr std::size_t kMaxNear = 2;
  /// A handshake over a slow line takes two round trips, and each packet that is lost seconds more.
  static constexpr engine::Duration kOpenWithin = std::chrono::seconds(30);
  /// An older one is replaced, so that the certificate is looked at anew now and then.
  static constexpr engine::Duration kMaxAge = std::chrono::minutes(10);
  static constexpr engine::Duration kUnusedFor = std::chrono::seconds(30);

  HttpLine(engine::Reactor& reactor, HttpEndpoint endpoint, std::shared_ptr<TlsClient> tls);
  ~HttpLine();
  HttpLine(const HttpLine&) = delete;
  HttpLine& operator=(const HttpLine&) = delete;

  /// A connection that was open ended while nothing was asked: perhaps the endpoint is gone.
  void when_ended(engine::Callback<> ended) { ended_ = std::move(ended); }

  /// One try of a request, on the next connection that is idle, or else `beside` those that are busy on a new one.
  /// `done` runs once, never from inside the call, unless the try was forgotten before.
  using Try = std::uint64_t;
  Try post(std::string_view path, std::string body, std::string authorization, bool beside, HttpCallback done);
  /// Nobody waits for its answer any more. One that was not sent yet never is.
  void forget(Try which);
  /// It was written to a connection.
  [[nodiscard]] bool was_sent(Try which) const;

  /// Opens what is missing to so many idle connections and closes what was not used for long.
  void tend(std::size_t idle);

  [[nodiscard]] LineEstimate& estimate() { return estimate_; }
  [[nodiscard]] const HttpEndpoint& endpoint() const { return endpoint_; }

 private:
  struct Kept {
    std::shared_ptr<HttpConnection> connection;
    engine::TimePoint begun, used;
  };
  struct Waiting {
    Try id;
    std::string_view path;
    std::string body, authorization;
    bool beside;
    HttpCallback done;
  };
  struct Sent {
    Try id;
    const HttpConnection* on;
    HttpCallback done;  ///< null: forgotten
    engine::TimePoint at;
  };
  void pump();
  void open();
  void make_room();
  void drop(const Kept& kept);
  void send(Kept& on, Waiting what);
  void on_opened(const HttpConnection* connection, const HttpFailure* failure);
  void on_outcome(Try which, std::expected<HttpReply, HttpFailure> outcome);
  void sweep();
  [[nodiscard]] std::size_t count(bool (HttpConnection::*is)() const) const;

  engine::Reactor& reactor_;
  HttpEndpoint endpoint_;
  std::shared_ptr<TlsClient> tls_;
  LineEstimate estimate_;
  engine::Callback<> ended_;
  std::vector<Kept> kept_;
  std::deque<Waiting> waiting_;
  std::vector<Sent> sent_;
  Try last_try_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  ///< callbacks of connections hold it weakly
};

}  // namespace lockstep::replication
