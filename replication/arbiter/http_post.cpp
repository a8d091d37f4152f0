#include "replication/arbiter/http_post.hpp"

#include <charconv>
#include <chrono>
#include <memory>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::replication {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

class Post : public std::enable_shared_from_this<Post> {
 public:
  Post(asio::io_context& context, const HttpEndpoint& endpoint, HttpCallback done)
      : endpoint_(endpoint),
        resolver_(context),
        socket_(context),
        timer_(context),
        share_(context),
        done_(std::move(done)) {
    parser_.body_limit(kMaxHttpReply);
  }

  void start(std::string_view path, std::string body, engine::Duration deadline) {
    request_.method(http::verb::post);
    request_.version(11);
    request_.target(path);
    request_.set(http::field::host, endpoint_.to_string());
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    request_.body() = std::move(body);
    request_.prepare_payload();
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
      if (!e && self->socket_.is_open()) return self->write();
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

  void write() {
    if (!done_) return;
    sent_ = true;  // from here on nobody can say that it was not
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    http::async_write(socket_, request_, [self = shared_from_this()](boost::system::error_code e, std::size_t) {
      if (e) return self->fail(e.message());
      self->read();
    });
  }

  void read() {
    if (!done_) return;
    http::async_read(socket_, buffer_, parser_, [self = shared_from_this()](boost::system::error_code e, std::size_t) {
      if (e) return self->fail(e.message());
      self->finish(HttpReply{self->parser_.get().result_int(), std::move(self->parser_.get().body())});
    });
  }

  void fail(std::string message, bool timed_out = false) {
    finish(std::unexpected(HttpFailure{sent_, timed_out, endpoint_.to_string() + ": " + message}));
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
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  asio::steady_timer share_;  ///< of an address that is not the last
  std::vector<tcp::endpoint> addresses_;
  std::size_t tried_ = 0;  ///< of them
  HttpCallback done_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  boost::beast::flat_buffer buffer_{kMaxHttpReply + 16384};
  bool sent_ = false;
};

}  // namespace

engine::Result<HttpEndpoint> HttpEndpoint::parse(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    return engine::fail(engine::Errc::refused, "\"" + std::string(url) + "\" is not an etcd endpoint: " +
                                                   std::string(why) + "; expected http://HOST:PORT");
  };
  constexpr std::string_view scheme = "http://";
  if (url.starts_with("https://")) return refuse("TLS to etcd is not supported");
  if (!url.starts_with(scheme)) return refuse("it does not start with http://");
  std::string_view rest = url.substr(scheme.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos) return refuse("the port is missing");
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("/@?# ") != std::string_view::npos)
    return refuse("the host is missing or wrong");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 65535) {
    return refuse("the port is not a number from 1 to 65535");
  }
  return HttpEndpoint{std::string(host), std::to_string(number)};
}

std::string HttpEndpoint::to_string() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

void http_post(engine::Reactor& reactor, const HttpEndpoint& endpoint, std::string_view path, std::string body,
               engine::Duration deadline, HttpCallback done) {
  std::make_shared<Post>(engine::io_context(reactor), endpoint, std::move(done))
      ->start(path, std::move(body), deadline);
}

}  // namespace lockstep::replication
