#include "replication/arbiter/http_connection.hpp"

#include <cassert>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "engine/runtime/reactor_asio.hpp"
#include "replication/arbiter/tls_client.hpp"

namespace lockstep::replication {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// Asio's own names are for any executor: each operation is then compiled for whichever it may be.
using Executor = asio::io_context::executor_type;
using Resolver = asio::ip::basic_resolver<tcp, Executor>;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Clock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;

class Connection final : public HttpConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(engine::Reactor& reactor, HttpEndpoint endpoint, std::shared_ptr<TlsClient> tls,
             engine::Callback<const HttpFailure*> opened)
      : endpoint_(std::move(endpoint)),
        tls_(endpoint_.tls ? std::move(tls) : nullptr),
        resolver_(engine::io_context(reactor)),
        socket_(engine::io_context(reactor)),
        timer_(engine::io_context(reactor)),
        share_(engine::io_context(reactor)),
        opened_(std::move(opened)) {
    assert(tls_ || !endpoint_.tls);
  }

  void start(engine::Duration limit) {
    timer_.expires_after(limit);
    timer_.async_wait([self = shared_from_this()](error_code e) {
      if (!e && self->state_ == State::opening) self->fail("no answer in time", true);
    });
    error_code not_numeric;
    const auto address = asio::ip::make_address(endpoint_.host, not_numeric);
    if (not_numeric) return resolve();
    unsigned port = 0;
    std::from_chars(endpoint_.port.data(), endpoint_.port.data() + endpoint_.port.size(), port);
    addresses_ = {tcp::endpoint(address, static_cast<std::uint16_t>(port))};
    connect();
  }

  void post(std::string_view path, std::string body, const std::string& authorization, HttpCallback done) override {
    assert(idle());
    state_ = State::busy;
    done_ = std::move(done);
    request_ = {};
    request_.method(http::verb::post);
    request_.version(11);
    request_.target(path);
    request_.set(http::field::host, endpoint_.to_string());
    request_.set(http::field::content_type, "application/json");
    if (!authorization.empty()) request_.set(http::field::authorization, authorization);
    request_.body() = std::move(body);
    request_.prepare_payload();
    secure_ ? write(*secure_) : write(socket_);
  }

  void when_ended(engine::Callback<> ended) override { ended_ = std::move(ended); }
  [[nodiscard]] bool idle() const override { return state_ == State::idle; }
  [[nodiscard]] bool opening() const override { return state_ == State::opening; }
  [[nodiscard]] bool closed() const override { return state_ == State::closed; }

  void close() override {
    opened_ = nullptr;
    done_ = nullptr;
    ended_ = nullptr;
    shut();
  }

 private:
  enum class State : std::uint8_t { opening, idle, busy, closed };

  // ---- opening ----

  void resolve() {
    resolver_.async_resolve(endpoint_.host, endpoint_.port,
                            [self = shared_from_this()](error_code e, const Resolver::results_type& found) {
                              if (self->closed()) return;
                              if (e) return self->fail(e.message());
                              for (const auto& entry : found) self->addresses_.push_back(entry.endpoint());
                              self->connect();
                            });
  }

  /// One address after the other, until one takes the connection.
  void connect() {
    if (tried_ + 1 < addresses_.size()) limit_to_its_share();
    socket_.async_connect(addresses_[tried_], [self = shared_from_this()](error_code e) {
      if (self->closed()) return;
      ++self->tried_;
      self->share_.cancel();
      if (!e && self->socket_.is_open()) return self->shake_hands();
      // Whoever resets a connection has taken it: that may be seen here or a moment later.
      self->reached_ = e == asio::error::connection_reset;
      if (self->tried_ == self->addresses_.size()) return self->fail(e);
      error_code ignored;
      self->socket_.close(ignored);
      self->connect();
    });
  }

  /// An address that never answers must not take the time of those behind it.
  void limit_to_its_share() {
    const auto left = timer_.expiry() - std::chrono::steady_clock::now();
    share_.expires_after(left / static_cast<int>(addresses_.size() - tried_));
    share_.async_wait([self = shared_from_this(), trying = tried_](error_code e) {
      if (e || self->closed() || self->tried_ != trying) return;
      error_code ignored;
      self->socket_.close(ignored);
    });
  }

  void shake_hands() {
    reached_ = true;
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    // A box on the way forgets connections on which nothing passes.
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    if (!tls_) return on_open();
    secure_.emplace(socket_, tls_->context());
    if (!TlsClient::expect(secure_->native_handle(), endpoint_.host))
      return fail("the host's name is not one that a certificate could have");
    secure_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](error_code e) {
      if (self->closed()) return;
      if (e) return self->fail(e);
      self->shaken_hands_ = true;
      self->on_open();
    });
  }

  void on_open() {
    state_ = State::idle;
    timer_.cancel();
    auto opened = std::exchange(opened_, nullptr);
    const auto keep = shared_from_this();
    if (opened) opened(nullptr);
    if (!closed()) read();
  }

  // ---- requests ----

  template <class Stream>
  void write(Stream& stream) {
    sent_ = writing_ = true;  // from here on nobody can say that it was not sent
    http::async_write(stream, request_, [self = shared_from_this()](error_code e, std::size_t) {
      self->writing_ = false;
      if (!self->closed() && e) self->fail(e);
    });
  }

  void read() { secure_ ? read(*secure_) : read(socket_); }

  /// All the time, so that the end of an idle connection is seen at once.
  template <class Stream>
  void read(Stream& stream) {
    parser_.emplace();
    parser_->body_limit(kMaxHttpReply);
    http::async_read(stream, buffer_, *parser_, [self = shared_from_this()](error_code e, std::size_t) {
      if (self->closed()) return;
      if (e || self->state_ != State::busy) return self->fail(e);
      self->on_reply();
    });
  }

  void on_reply() {
    HttpReply reply{parser_->get().result_int(), std::move(parser_->get().body())};
    answered_ = true;
    sent_ = false;
    const auto keep = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    // What stands behind the reply already was not asked for.
    if (parser_->keep_alive() && !writing_ && buffer_.size() == 0) {
      state_ = State::idle;
      read();
    } else {
      shut();
    }
    if (done) done(std::move(reply));
  }

  std::string trouble(error_code error) {
    if (secure_) return tls_->trouble(secure_->native_handle(), endpoint_.host, error, shaken_hands_);
    // etcd hangs up without a word when it waits for TLS.
    if (error == http::error::end_of_stream && !answered_)
      return "it broke the connection off without an answer; if etcd speaks TLS there, use https:// and give the pair "
             "its CA";
    return error ? error.message() : "it said something that was not asked for";
  }

  void fail(error_code e) {
    const bool broken = reached_ && (e == asio::error::connection_reset || e == asio::error::eof ||
                                     e == asio::error::broken_pipe || e == http::error::end_of_stream);
    fail(trouble(e), false, broken);
  }

  void fail(std::string message, bool timed_out = false, bool broken = false) {
    const HttpFailure failure{sent_, reached_, timed_out, broken, answered_, endpoint_.to_string() + ": " + message};
    auto opened = std::exchange(opened_, nullptr);
    auto done = std::exchange(done_, nullptr);
    auto ended = std::exchange(ended_, nullptr);
    if (!idle()) ended = nullptr;
    const auto keep = shared_from_this();
    shut();
    if (opened) opened(&failure);
    if (done) done(std::unexpected(failure));
    if (ended) ended();
  }

  void shut() {
    state_ = State::closed;
    timer_.cancel();
    share_.cancel();
    resolver_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

  HttpEndpoint endpoint_;
  std::shared_ptr<TlsClient> tls_;  ///< null: plain
  Resolver resolver_;
  Socket socket_;
  std::optional<asio::ssl::stream<Socket&>> secure_;  ///< on the socket, from the handshake on
  Timer timer_;
  Timer share_;  ///< of an address that is not the last
  std::vector<tcp::endpoint> addresses_;
  std::size_t tried_ = 0;  ///< of them
  State state_ = State::opening;
  engine::Callback<const HttpFailure*> opened_;
  HttpCallback done_;
  engine::Callback<> ended_;
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::string_body>> parser_;
  boost::beast::flat_buffer buffer_{kMaxHttpReply + 16384};
  bool reached_ = false;
  bool shaken_hands_ = false;
  bool sent_ = false;  ///< what is owed an answer
  bool writing_ = false;
  bool answered_ = false;  ///< ever
};

}  // namespace

std::shared_ptr<HttpConnection> HttpConnection::open(engine::Reactor& reactor, HttpEndpoint endpoint,
                                                     std::shared_ptr<TlsClient> tls, engine::Duration limit,
                                                     engine::Callback<const HttpFailure*> opened) {
  auto connection = std::make_shared<Connection>(reactor, std::move(endpoint), std::move(tls), std::move(opened));
  connection->start(limit);
  return connection;
}

}  // namespace lockstep::replication
