#include "ui-api/cli/https.hpp"

#include <array>
#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <fmt/format.h>

#include "ui-api/cli/trust.hpp"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tls = beast::ssl_stream<beast::tcp_stream>;
using boost::system::error_code;

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr auto kAnswerTimeout = std::chrono::seconds(60);
constexpr auto kStreamSilence = std::chrono::seconds(45);  // the server sends a comment every 15 s
constexpr std::uint64_t kMaxAnswer = 64u << 20;

class HttpsTransport final : public Transport {
 public:
  explicit HttpsTransport(Settings settings) : settings_(std::move(settings)) {}

  Outcome<Response> send(const Request& request) override {
    // A kept connection may have been closed by the server since; then once more on a new one. Only before any byte of
    // an answer, and only for requests that may be repeated.
    const bool kept = connected_;
    auto answer = try_send(request);
    if (!answer && kept && request.method == "GET") answer = try_send(request);
    return answer;
  }

  Outcome<std::optional<Response>> stream(const std::string& target, const std::string& last_event_id,
                                          const std::function<bool(std::string_view)>& on_data) override {
    connected_ = false;
    if (auto connected = connect(); !connected) return std::unexpected(connected.error());
    auto message = prepare({"GET", target, std::nullopt});
    message.set(http::field::accept, "text/event-stream");
    if (!last_event_id.empty()) message.set("Last-Event-ID", last_event_id);
    if (const error_code e = write(message)) return lost(e);
    return tls_ ? receive(*tls_, on_data) : receive(*plain_, on_data);
  }

 private:
  beast::tcp_stream& lowest() { return tls_ ? beast::get_lowest_layer(*tls_) : *plain_; }

  /// Starts one asynchronous operation and runs it to its end or its deadline.
  template <class Start>
  error_code await(std::chrono::seconds limit, Start start) {
    error_code result;
    lowest().expires_after(limit);
    start([&](error_code e, auto&&...) { result = e; });
    io_.restart();
    io_.run();
    return result;
  }

  std::unexpected<Failure> lost(error_code e) {
    connected_ = false;
    const std::string why = e == beast::error::timeout ? "no answer in time" : e.message();
    const Url& s = settings_.server;
    return fail(Exit::unreachable,
                fmt::format("The server {}:{} does not answer ({}).\n"
                            "Check that lockstep-mgmtd runs there, or name the other node with --server.",
                            s.host, s.port, why));
  }

  Outcome<void> connect() {
    error_code e;
    const auto addresses = asio::ip::tcp::resolver(io_).resolve(settings_.server.host, settings_.server.port, e);
    if (e) return lost(e);
    connected_ = true;
    tls_.reset();
    plain_.reset();
    context_.reset();
    if (!settings_.server.tls) {
      plain_.emplace(io_);
      e = await(kConnectTimeout, [&](auto done) { plain_->async_connect(addresses, done); });
      if (e) return lost(e);
      return {};
    }
    return connect_tls(addresses);
  }

  Outcome<void> connect_tls(const asio::ip::tcp::resolver::results_type& addresses) {
    context_.emplace(asio::ssl::context::tls_client);
    const auto check = TrustCheck::make(settings_.trust, settings_.server.host, context_->native_handle());
    if (!check) {
      connected_ = false;
      return std::unexpected(check.error());
    }
    tls_.emplace(io_, *context_);
    SSL_set_tlsext_host_name(tls_->native_handle(), settings_.server.host.c_str());
    if (const error_code e = await(kConnectTimeout, [&](auto done) { lowest().async_connect(addresses, done); }))
      return lost(e);
    if (const error_code e =
            await(kConnectTimeout, [&](auto done) { tls_->async_handshake(asio::ssl::stream_base::client, done); })) {
      return lost(e);
    }
    auto accepted = check->accept(tls_->native_handle());
    if (!accepted) connected_ = false;
    return accepted;
  }

  http::request<http::string_body> prepare(const Request& request) {
    http::request<http::string_body> message;
    message.method_string(request.method);
    message.target(request.target);
    message.version(11);
    const Url& server = settings_.server;
    const std::string host = server.host.find(':') == std::string::npos ? server.host : '[' + server.host + ']';
    message.set(http::field::host, host + ':' + server.port);
    message.set(http::field::user_agent, "lockstep/" LOCKSTEP_VERSION);
    message.set(http::field::authorization, "Bearer " + settings_.token);
    message.set(http::field::accept, "application/json");
    if (request.body) {
      message.set(http::field::content_type, "application/json");
      message.body() = *request.body;
    }
    message.prepare_payload();
    return message;
  }

  error_code write(http::request<http::string_body>& message) {
    return await(kAnswerTimeout, [&](auto done) {
      if (tls_) {
        http::async_write(*tls_, message, done);
      } else {
        http::async_write(*plain_, message, done);
      }
    });
  }

  Outcome<Response> try_send(const Request& request) {
    if (!connected_) {
      if (auto connected = connect(); !connected) return std::unexpected(connected.error());
    }
    auto message = prepare(request);
    if (const error_code e = write(message)) return lost(e);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxAnswer);
    const error_code e = await(kAnswerTimeout, [&](auto done) {
      if (tls_) {
        http::async_read(*tls_, buffer, parser, done);
      } else {
        http::async_read(*plain_, buffer, parser, done);
      }
    });
    if (e) return lost(e);
    if (!parser.get().keep_alive()) connected_ = false;
    auto& answer = parser.get();
    return Response{answer.result_int(), std::string(answer[http::field::content_type]), std::move(answer.body())};
  }

  template <class Stream>
  Outcome<std::optional<Response>> receive(Stream& stream, const std::function<bool(std::string_view)>& on_data) {
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    if (const error_code e =
            await(kAnswerTimeout, [&](auto done) { http::async_read_header(stream, buffer, parser, done); })) {
      return lost(e);
    }
    Response refused{parser.get().result_int(), std::string(parser.get()[http::field::content_type]), {}};
    std::array<char, 16384> piece{};
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      error_code e = await(kStreamSilence, [&](auto done) { http::async_read_some(stream, buffer, parser, done); });
      if (e == http::error::need_buffer) e = {};
      const std::string_view data(piece.data(), piece.size() - parser.get().body().size);
      if (refused.status != 200) {
        refused.body += data;
      } else if (!data.empty() && !on_data(data)) {
        break;
      }
      if (e == asio::error::eof || e == http::error::partial_message || e == asio::ssl::error::stream_truncated) break;
      if (e) return lost(e);
    }
    connected_ = false;
    if (refused.status != 200) return refused;
    return std::nullopt;
  }

  Settings settings_;
  asio::io_context io_;
  std::optional<asio::ssl::context> context_;
  std::optional<Tls> tls_;
  std::optional<beast::tcp_stream> plain_;
  bool connected_ = false;  // one of the two streams is
};

}  // namespace

std::unique_ptr<Transport> make_https_transport(Settings settings) {
  return std::make_unique<HttpsTransport>(std::move(settings));
}

}  // namespace lockstep::cli
