#include "ui-api/cli/https.hpp"

#include <exception>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

#include "mgmt/https/message.hpp"
#include "mgmt/https/stream.hpp"
#include "ui-api/cli/trust.hpp"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
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
    const bool kept = stream_.has_value();
    auto answer = try_send(request);
    if (!answer && kept && request.method == "GET") answer = try_send(request);
    return answer;
  }

  Outcome<std::optional<Response>> stream(const std::string& target, const std::string& last_event_id,
                                          const std::function<bool(std::string_view)>& on_data) override {
    stream_.reset();
    if (auto connected = connect(); !connected) return std::unexpected(connected.error());
    auto message = prepare({"GET", target, std::nullopt});
    message.set(http::field::accept, "text/event-stream");
    if (!last_event_id.empty()) message.set("Last-Event-ID", last_event_id);
    if (const error_code e = write(message)) return lost(e);
    return receive(on_data);
  }

 private:
  /// Runs one step to its end or its deadline.
  error_code await(std::chrono::seconds limit, asio::awaitable<error_code> step) {
    error_code result;
    stream_->deadline(limit);
    asio::co_spawn(io_, std::move(step), [&](const std::exception_ptr& failed, error_code e) {
      if (failed) std::rethrow_exception(failed);
      result = e;
    });
    io_.restart();
    io_.run();
    return result;
  }

  std::unexpected<Failure> lost(error_code e) {
    stream_.reset();
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
    if (settings_.server.tls) return connect_tls(addresses);
    stream_.emplace(io_);
    e = await(kConnectTimeout, stream_->connect(addresses));
    if (e) return lost(e);
    return {};
  }

  Outcome<void> connect_tls(const asio::ip::tcp::resolver::results_type& addresses) {
    stream_.reset();
    context_.emplace(asio::ssl::context::tls_client);
    const auto check = TrustCheck::make(settings_.trust, settings_.server.host, context_->native_handle());
    if (!check) return std::unexpected(check.error());
    stream_.emplace(io_, *context_);
    SSL_set_tlsext_host_name(stream_->tls(), settings_.server.host.c_str());
    if (const error_code e = await(kConnectTimeout, stream_->connect(addresses))) return lost(e);
    if (const error_code e = await(kConnectTimeout, stream_->handshake(asio::ssl::stream_base::client))) return lost(e);
    auto accepted = check->accept(stream_->tls());
    if (!accepted) stream_.reset();
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

  error_code write(const http::request<http::string_body>& message) {
    const std::string text = https::to_text(message);
    return await(kAnswerTimeout, stream_->write(text));
  }

  Outcome<Response> try_send(const Request& request) {
    if (!stream_) {
      if (auto connected = connect(); !connected) return std::unexpected(connected.error());
    }
    if (const error_code e = write(prepare(request))) return lost(e);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxAnswer);
    if (const error_code e = await(kAnswerTimeout, https::read_message(*stream_, buffer, parser))) return lost(e);
    if (!parser.get().keep_alive()) stream_.reset();
    auto& answer = parser.get();
    return Response{answer.result_int(), std::string(answer[http::field::content_type]), std::move(answer.body())};
  }

  Outcome<std::optional<Response>> receive(const std::function<bool(std::string_view)>& on_data) {
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    if (const error_code e = await(kAnswerTimeout, https::read_header(*stream_, buffer, parser))) return lost(e);
    Response refused{parser.get().result_int(), std::string(parser.get()[http::field::content_type]), {}};
    while (!parser.is_done()) {
      const error_code e = await(kStreamSilence, https::feed(*stream_, buffer, parser));
      const std::string data = std::exchange(parser.get().body(), {});
      if (refused.status != 200) {
        refused.body += data;
      } else if (!data.empty() && !on_data(data)) {
        break;
      }
      if (e == http::error::partial_message) break;
      if (e) return lost(e);
    }
    stream_.reset();
    if (refused.status != 200) return refused;
    return std::nullopt;
  }

  Settings settings_;
  asio::io_context io_;
  std::optional<asio::ssl::context> context_;
  std::optional<https::Stream> stream_;  // connected
};

}  // namespace

std::unique_ptr<Transport> make_https_transport(Settings settings) {
  return std::make_unique<HttpsTransport>(std::move(settings));
}

}  // namespace lockstep::cli
