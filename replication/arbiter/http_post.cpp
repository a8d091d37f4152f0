#include "replication/arbiter/http_post.hpp"

#include <cassert>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "engine/runtime/reactor_asio.hpp"
#include "replication/arbiter/tls_client.hpp"

namespace lockstep::replication {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

class Post : public std::enable_shared_from_this<Post> {
 public:
  Post(asio::io_context& context, HttpRequest request, HttpCallback done)
      : endpoint_(std::move(request.endpoint)),
        tls_(endpoint_.tls ? std::move(request.tls) : nullptr),
        resolver_(context),
        socket_(context),
        timer_(context),
        share_(context),
        done_(std::move(done)) {
    assert(tls_ || !endpoint_.tls);
    parser_.body_limit(kMaxHttpReply);
    request_.method(http::verb::post);
    request_.version(11);
    request_.target(request.path);
    request_.set(http::field::host, endpoint_.to_string());
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    if (!request.authorization.empty()) request_.set(http::field::authorization, request.authorization);
    request_.body() = std::move(request.body);
    request_.prepare_payload();
  }

  void start(engine::Duration deadline) {
    timer_.expires_after(deadline);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code e) {
      if (!e) self->fail("no answer in time", true);
    });
    boost::system::error_code not_numeric;
    const auto address = asio::ip::make_address(endpoint_.host, not_numeric);
    if (not_numeric) return resolve();
    unsigned port = 0;
    std::from_chars(endpoint_.port.data(), endpoint_.port.data() + endpoint_.port.size(), port);
    addresses_ = {tcp::endpoint(address, static_cast<std::uint16_t>(port))};
    connect();
  }

 private:
  void resolve() {
    resolver_.async_resolve(
        endpoint_.host, endpoint_.port,
        [self = shared_from_this()](boost::system::error_code e, tcp::resolver::results_type found) {
          if (e) return self->fail(e.message());
          for (const auto& entry : found) self->addresses_.push_back(entry.endpoint());
          self->connect();
        });
  }

  /// One address after the other, until one takes the connection.
  void connect() {
    if (!done_) return;
    if (tried_ + 1 < addresses_.size()) limit_to_its_share();
    socket_.async_connect(addresses_[tried_], [self = shared_from_this()](boost::system::error_code e) {
      ++self->tried_;
      self->share_.cancel();
      if (!e && self->socket_.is_open()) return self->shake_hands();
      if (self->tried_ == self->addresses_.size()) return self->fail(e.message());
      boost::system::error_code ignored;
      self->socket_.close(ignored);
      self->connect();
    });
  }

  /// An address that never answers must not take the time of those behind it.
  void limit_to_its_share() {
    const auto left = timer_.expiry() - std::chrono::steady_clock::now();
    share_.expires_after(left / static_cast<int>(addresses_.size() - tried_));
    share_.async_wait([self = shared_from_this(), trying = tried_](boost::system::error_code e) {
      if (e || self->tried_ != trying) return;
      boost::system::error_code ignored;
      self->socket_.close(ignored);
    });
  }

  void shake_hands() {
    if (!done_) return;
    reached_ = true;
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    if (!tls_) return write(socket_);
    secure_.emplace(socket_, tls_->context());
    if (!TlsClient::expect(secure_->native_handle(), endpoint_.host))
      return fail("the host's name is not one that a certificate could have");
    secure_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](boost::system::error_code e) {
      if (!self->done_) return;
      if (e) return self->fail(self->trouble(e));
      self->shaken_hands_ = true;
      self->write(*self->secure_);
    });
  }

  template <class Stream>
  void write(Stream& stream) {
    if (!done_) return;
    sent_ = true;  // from here on nobody can say that it was not
    http::async_write(stream, request_, [self = shared_from_this(), &stream](boost::system::error_code e, std::size_t) {
      if (!self->done_) return;
      if (e) return self->fail(self->trouble(e));
      self->read(stream);
    });
  }

  template <class Stream>
  void read(Stream& stream) {
    http::async_read(stream, buffer_, parser_, [self = shared_from_this()](boost::system::error_code e, std::size_t) {
      if (!self->done_) return;
      if (e) return self->fail(self->trouble(e));
      self->finish(HttpReply{self->parser_.get().result_int(), std::move(self->parser_.get().body())});
    });
  }

  std::string trouble(boost::system::error_code error) {
    if (secure_) return tls_->trouble(secure_->native_handle(), endpoint_.host, error, shaken_hands_);
    // etcd hangs up without a word when it waits for TLS.
    if (error == http::error::end_of_stream)
      return "it broke the connection off without an answer; if etcd speaks TLS there, use https:// and give the pair "
             "its CA";
    return error.message();
  }

  void fail(std::string message, bool timed_out = false) {
    finish(std::unexpected(HttpFailure{sent_, reached_, timed_out, endpoint_.to_string() + ": " + message}));
  }

  void finish(std::expected<HttpReply, HttpFailure> outcome) {
    if (!done_) return;
    timer_.cancel();
    share_.cancel();
    resolver_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
    std::exchange(done_, {})(std::move(outcome));
  }

  HttpEndpoint endpoint_;
  std::shared_ptr<TlsClient> tls_;  ///< null: plain
  tcp::resolver resolver_;
  tcp::socket socket_;
  std::optional<asio::ssl::stream<tcp::socket&>> secure_;  ///< on the socket, from the handshake on
  asio::steady_timer timer_;
  asio::steady_timer share_;  ///< of an address that is not the last
  std::vector<tcp::endpoint> addresses_;
  std::size_t tried_ = 0;  ///< of them
  HttpCallback done_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  boost::beast::flat_buffer buffer_{kMaxHttpReply + 16384};
  bool reached_ = false;
  bool shaken_hands_ = false;
  bool sent_ = false;
};

}  // namespace

void http_post(engine::Reactor& reactor, HttpRequest request, engine::Duration deadline, HttpCallback done) {
  std::make_shared<Post>(engine::io_context(reactor), std::move(request), std::move(done))->start(deadline);
}

}  // namespace lockstep::replication
