#include "ui-api/rest/https_server.hpp"

#include <functional>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/https/message.hpp"
#include "mgmt/https/stream.hpp"
#include "ui-api/rest/problem.hpp"

namespace lockstep::ui_api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using https::Stream;
using tcp = asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr auto kHearOut = std::chrono::seconds(3);
constexpr std::size_t kHearOutBytes = std::size_t{32} << 20;
constexpr auto kStreamTurn = std::chrono::milliseconds(250);

bool asked_for_peer_api(const SSL* connection) {
  const char* name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
  return name && std::string_view(name) == mgmt::kPeerServerName;
}

// Certificates are pinned by fingerprint, which the handler checks: any well-formed one may connect.
int accept_any_certificate(int, X509_STORE_CTX*) { return 1; }

// Only a client that asks for the peer API is asked for a certificate: a browser would bother its user with it.
int on_server_name(SSL* connection, int*, void*) {
  if (asked_for_peer_api(connection))
    SSL_set_verify(connection, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any_certificate);
  return SSL_TLSEXT_ERR_OK;
}

asio::ssl::context make_context(const mgmt::TlsIdentity& identity) {
  asio::ssl::context context(asio::ssl::context::tls_server);
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // A resumed session would carry no certificate; connections between nodes are few.
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  context.use_certificate_chain_file(identity.certificate_file.string());
  context.use_private_key_file(identity.key_file.string(), asio::ssl::context::pem);
  SSL_CTX_set_tlsext_servername_callback(native, on_server_name);
  return context;
}

http::response<http::string_body> to_beast(Response& response, unsigned version, bool keep_alive, bool head) {
  http::response<http::string_body> out(static_cast<http::status>(response.status), version);
  out.set(http::field::server, "lockstep");
  out.set("X-Content-Type-Options", "nosniff");
  if (!response.content_type.empty()) out.set(http::field::content_type, response.content_type);
  bool cached = false;
  for (const auto& [name, value] : response.headers) {
    out.set(name, value);
    cached = cached || beast::iequals(name, "Cache-Control");
  }
  if (!cached) out.set(http::field::cache_control, "no-store");
  out.keep_alive(keep_alive);
  if (response.stream) return out;
  const auto size = response.body.size();
  if (!head) out.body() = std::move(response.body);
  const bool no_content = response.status == 204 || response.status == 304;
  if (!no_content) out.content_length(size);
  return out;
}

Response answer_to(const Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const std::exception& e) {
    spdlog::error("{} {}: {}", request.method, request.path, e.what());
    return problem(mgmt::RefusalKind::internal,
                   fmt::format("{}. The log of lockstep-mgmtd on this node says more.", e.what()));
  }
}

}  // namespace

struct HttpsServer::Impl {
  Impl(mgmt::TlsIdentity identity, ServerLimits l, Handler h)
      : limits(l),
        handler(std::move(h)),
        context(make_context(identity)),
        acceptor(io),
        workers(l.workers),
        peer_workers(l.peer_workers) {}

  ServerLimits limits;
  Handler handler;
  asio::io_context io{1};
  asio::ssl::context context;
  tcp::acceptor acceptor;
  asio::thread_pool workers;
  asio::thread_pool peer_workers;
  std::thread thread;
  std::size_t connections = 0;

  asio::awaitable<void> accept_for_ever();
  asio::awaitable<void> wait(std::chrono::milliseconds time);
  asio::awaitable<void> run_on(asio::thread_pool& pool, std::function<void()> work);
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<bool> serve_one(Stream& stream, beast::flat_buffer& buffer);
  asio::awaitable<bool> refuse_unread(Stream& stream, error_code error);
  asio::awaitable<void> discard_rest(Stream& stream);
  asio::awaitable<void> send_stream(Stream& stream, ResponseStream& source, asio::thread_pool& pool);
  Request read(const Parser& parser, Stream& stream, bool& well_formed) const;
};

asio::awaitable<void> HttpsServer::Impl::accept_for_ever() {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, most likely: give the others time to close
      co_await wait(std::chrono::milliseconds(100));
      continue;
    }
    if (connections >= limits.connections) continue;
    ++connections;
    asio::co_spawn(io, serve(std::move(socket)), [this](std::exception_ptr) { --connections; });
  }
}

asio::awaitable<void> HttpsServer::Impl::wait(std::chrono::milliseconds time) {
  asio::steady_timer timer(io, time);
  co_await timer.async_wait(kAwait);
}

// Handlers wait for disks and for the partner: they never run on the connections' own thread.
asio::awaitable<void> HttpsServer::Impl::run_on(asio::thread_pool& pool, std::function<void()> work) {
  const auto run = [](std::function<void()> f) -> asio::awaitable<void> {
    f();
    co_return;
  };
  co_await asio::co_spawn(pool, run(std::move(work)), kAwait);
}

asio::awaitable<void> HttpsServer::Impl::serve(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  Stream stream(std::move(socket), context);
  stream.deadline(limits.handshake);
  if (co_await stream.handshake(asio::ssl::stream_base::server)) co_return;
  beast::flat_buffer buffer;
  while (co_await serve_one(stream, buffer)) {
  }
  stream.deadline(std::chrono::seconds(2));
  co_await stream.close();
}

Request HttpsServer::Impl::read(const Parser& parser, Stream& stream, bool& well_formed) const {
  const auto& in = parser.get();
  Request request;
  request.method = in.method() == http::verb::head ? "GET" : std::string(in.method_string());
  well_formed = parse_target(in.target(), request);
  request.body = in.body();
  request.content_type = in[http::field::content_type];
  request.authorization = in[http::field::authorization];
  request.last_event_id = in["Last-Event-ID"];
  request.if_none_match = in[http::field::if_none_match];
  request.between_nodes = asked_for_peer_api(stream.tls());
  if (request.between_nodes) request.peer_fingerprint = mgmt::fingerprint_of_peer(stream.tls());
  return request;
}

// The request could not be read whole: says why, and ends the connection, since its end is not known.
asio::awaitable<bool> HttpsServer::Impl::refuse_unread(Stream& stream, error_code error) {
  Response response;
  if (error == http::error::body_limit) {
    response = problem(mgmt::RefusalKind::too_large,
                       fmt::format("The body is larger than {} bytes. Send less.", limits.body_bytes));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    response = problem(mgmt::RefusalKind::too_large,
                       fmt::format("The request's header is larger than {} bytes. Send less.", limits.header_bytes));
    response.status = 431;
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    response = problem(mgmt::RefusalKind::malformed, fmt::format("This is not HTTP/1.1: {}.", error.message()));
  } else {
    co_return false;  // it has gone
  }
  stream.deadline(limits.write);
  co_await stream.write(https::to_text(to_beast(response, 11, false, false)));
  co_await discard_rest(stream);
  co_return false;
}

// A client that is still sending would meet a closed connection before it reads why: hears it out, within bounds.
asio::awaitable<void> HttpsServer::Impl::discard_rest(Stream& stream) {
  beast::flat_buffer nowhere;
  stream.deadline(kHearOut);
  for (std::size_t read = 0; read < kHearOutBytes;) {
    if (co_await stream.read_some(nowhere)) co_return;
    read += nowhere.size();
    nowhere.clear();
  }
}

asio::awaitable<bool> HttpsServer::Impl::serve_one(Stream& stream, beast::flat_buffer& buffer) {
  Parser parser;
  parser.header_limit(limits.header_bytes);
  parser.body_limit(asked_for_peer_api(stream.tls()) ? limits.peer_body_bytes : limits.body_bytes);
  stream.deadline(limits.idle);
  if (const auto error = co_await https::read_header(stream, buffer, parser))
    co_return co_await refuse_unread(stream, error);
  stream.deadline(limits.body);
  if (beast::iequals(parser.get()[http::field::expect], "100-continue") && !parser.is_done()) {
    if (co_await stream.write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  if (const auto error = co_await https::read_message(stream, buffer, parser))
    co_return co_await refuse_unread(stream, error);

  bool well_formed = false;
  const Request request = read(parser, stream, well_formed);
  auto& pool = request.between_nodes ? peer_workers : workers;
  stream.no_deadline();
  Response response;
  if (well_formed) {
    co_await run_on(pool, [&] { response = answer_to(handler, request); });
  } else {
    response = problem(mgmt::RefusalKind::malformed, "The path or the query is not well-formed. Percent-encode it.");
  }
  const bool head = parser.get().method() == http::verb::head;
  const bool keep_alive = parser.get().keep_alive() && !response.stream;
  stream.deadline(limits.write);
  const auto text = https::to_text(to_beast(response, parser.get().version(), keep_alive, head));
  if (co_await stream.write(text)) co_return false;
  if (response.stream && !head) co_await send_stream(stream, *response.stream, pool);
  co_return keep_alive;
}

asio::awaitable<void> HttpsServer::Impl::send_stream(Stream& stream, ResponseStream& source, asio::thread_pool& pool) {
  for (;;) {
    std::string chunk;
    co_await run_on(pool, [&] { chunk = source.poll(); });
    stream.deadline(limits.write);
    if (co_await stream.write(chunk)) co_return;
    stream.no_deadline();
    co_await wait(kStreamTurn);
  }
}

HttpsServer::HttpsServer(mgmt::TlsIdentity identity, ServerLimits limits, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(identity), limits, std::move(handler))) {}

HttpsServer::~HttpsServer() { stop(); }

engine::Result<std::string> HttpsServer::start(const std::string& address) {
  const auto parsed = mgmt::parse_address(address);
  if (!parsed)
    return engine::fail(engine::Errc::refused, fmt::format("{} is not an address with a port to listen at, such as "
                                                           "0.0.0.0:8443 or [::]:8443.",
                                                           address));
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(parsed->host), parsed->port);
    auto& acceptor = impl_->acceptor;
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    asio::co_spawn(impl_->io, impl_->accept_for_ever(), asio::detached);
    impl_->thread = std::thread([this] { impl_->io.run(); });
    mgmt::Address in_use = *parsed;
    in_use.port = acceptor.local_endpoint().port();
    return mgmt::to_string(in_use);
  } catch (const boost::system::system_error& e) {
    return std::unexpected(engine::Error{
        e.code(), fmt::format("Cannot listen at {}: {}. Is another program using it, or is the address not this "
                              "machine's?",
                              address, e.code().message())});
  }
}

void HttpsServer::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->io.stop();
  impl_->thread.join();
  impl_->workers.join();
  impl_->peer_workers.join();
}

}  // namespace lockstep::ui_api
