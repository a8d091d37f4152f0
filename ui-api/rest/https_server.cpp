#include "ui-api/rest/https_server.hpp"

#include <algorithm>
#include <expected>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/https/message.hpp"
#include "mgmt/https/request_head.hpp"
#include "mgmt/https/stream.hpp"
#include "mgmt/log/log.hpp"
#include "ui-api/rest/body_budget.hpp"
#include "ui-api/rest/problem.hpp"
#include "ui-api/rest/server_context.hpp"

namespace lockstep::ui_api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using https::Stream;
using mgmt::RefusalKind;
using tcp = asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr auto kHearOut = std::chrono::seconds(3);
constexpr std::size_t kHearOutBytes = std::size_t{32} << 20;
constexpr auto kStreamTurn = std::chrono::milliseconds(250);
constexpr std::size_t kLeaving = 128;  // connections that have given way and are not gone yet

// Why a request was not read: the answer before the connection is closed, or nothing when the client has gone.
using Step = std::expected<void, std::optional<Response>>;

std::unexpected<std::optional<Response>> gone() { return std::unexpected(std::optional<Response>()); }

std::unexpected<std::optional<Response>> refused(Response response) {
  return std::unexpected(std::optional<Response>(std::move(response)));
}

Response with_status(unsigned status, RefusalKind kind, const std::string& detail) {
  Response response = problem(kind, detail);
  response.status = static_cast<int>(status);
  return response;
}

Response overloaded(const std::string& detail) {
  Response response = problem(RefusalKind::too_many, detail);
  response.headers.emplace_back("Retry-After", "5");
  return response;
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

// What a service throws is told to the client, and is no end of the server.
Response trouble_with(const Request& request, const std::exception& e) {
  mgmt::log_error(fmt::format("{} {}: {}", request.method, request.path, e.what()));
  return problem(RefusalKind::internal, fmt::format("{}. The log of lockstep-mgmtd on this node says more.", e.what()));
}

Admission admitted(Service& service, const Request& request) {
  try {
    return service.admit(request);
  } catch (const std::exception& e) {
    Admission admission;
    admission.refusal = trouble_with(request, e);
    return admission;
  }
}

Response handled(Service& service, const Request& request) {
  try {
    return service.handle(request);
  } catch (const std::exception& e) {
    return trouble_with(request, e);
  }
}

std::string_view text_of(const beast::flat_buffer& buffer) {
  const auto data = buffer.cdata();
  return {static_cast<const char*>(data.data()), data.size()};
}

}  // namespace

struct HttpsServer::Impl {
  Impl(const mgmt::TlsIdentity& identity, const mgmt::PageCertificate& page, const ServerLimits& l, Service& s)
      : limits(l),
        service(s),
        door(l.door),
        partner_bodies(l.partner_bodies),
        known_bodies(l.known_bodies),
        stranger_bodies(l.stranger_bodies),
        context(make_server_context(identity, page)),
        workers(l.workers),
        peer_workers(l.peer_workers) {}

  struct Connection;

  // What connections refer to outlives the io_context, which holds their frames.
  ServerLimits limits;
  Service& service;
  Doorkeeper door;
  BodyBudget partner_bodies, known_bodies, stranger_bodies;
  std::map<std::uint64_t, Connection*> open;
  std::uint64_t next_id = 1;
  std::size_t connections = 0;
  asio::io_context io{1};
  asio::ssl::context context;
  // Also those that are closed: who accepted there may not have seen it yet. Of the thread that runs `io`.
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  std::map<std::string, tcp::acceptor*> also;
  asio::thread_pool workers;
  asio::thread_pool peer_workers;
  std::thread thread;

  asio::awaitable<void> accept_for_ever(tcp::acceptor& acceptor);
  [[nodiscard]] std::expected<tcp::acceptor*, engine::Error> listen_at(const std::string& address);
  std::map<std::string, std::string> also_listen_at(const std::vector<std::string>& addresses);
  asio::awaitable<void> wait(std::chrono::milliseconds time);
  asio::awaitable<void> run_on(asio::thread_pool& pool, std::function<void()> work);
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<bool> serve_one(Connection& c);
  asio::awaitable<bool> serve_request(Connection& c, Parser& parser, std::optional<Response>& refusal);
  asio::awaitable<Step> read_head(Connection& c, Parser& parser);
  asio::awaitable<Step> read_body(Connection& c, Parser& parser, const Admission& admission);
  // Responses are passed by reference, from a variable: g++ 12 mishandles a coroutine's arguments that own something.
  asio::awaitable<bool> answer(Connection& c, const Parser& parser, Response& response, asio::thread_pool& pool);
  asio::awaitable<void> refuse(Connection& c, std::optional<Response>& response);
  asio::awaitable<void> discard_rest(Connection& c);
  asio::awaitable<void> send_stream(Stream& stream, ResponseStream& source, asio::thread_pool& pool);
  std::optional<Response> unreadable(error_code error) const;
  [[nodiscard]] Entrance entrance_of(const std::string& address);
  [[nodiscard]] bool is_stranger(const Connection& c) const;
  BodyBudget& bodies_of(Standing standing);
};

// One connection, and its place among all for as long as it is there.
struct HttpsServer::Impl::Connection {
  Connection(Impl& s, tcp::socket socket, const std::string& address)
      : server(s), id(s.next_id++), stream(std::move(socket), s.context) {
    const auto gives_way = server.door.enter(id, server.entrance_of(address), address);
    server.open.emplace(id, this);
    if (gives_way) server.open.at(*gives_way)->stream.abort();
  }
  ~Connection() {
    server.open.erase(id);
    server.door.leave(id);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Impl& server;
  const std::uint64_t id;
  Stream stream;
  beast::flat_buffer buffer;
  std::optional<BodyBudget::Share> body;
};

Entrance HttpsServer::Impl::entrance_of(const std::string& address) {
  if (is_local(address)) return Entrance::local;
  return service.is_partners(address) ? Entrance::partner : Entrance::outside;
}

bool HttpsServer::Impl::is_stranger(const Connection& c) const { return door.standing(c.id) == Standing::stranger; }

BodyBudget& HttpsServer::Impl::bodies_of(Standing standing) {
  return standing == Standing::partner ? partner_bodies : standing == Standing::known ? known_bodies : stranger_bodies;
}

asio::awaitable<void> HttpsServer::Impl::accept_for_ever(tcp::acceptor& acceptor) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (error) {  // out of descriptors, most likely: give the others time to close
      co_await wait(std::chrono::milliseconds(100));
      continue;
    }
    if (connections >= limits.door.all() + kLeaving) continue;
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
  error_code error;
  const auto from = socket.remote_endpoint(error);
  if (error) co_return;  // it has gone already
  socket.set_option(tcp::no_delay(true), error);
  Connection c(*this, std::move(socket), from.address().to_string());
  c.stream.deadline(limits.handshake);
  if (co_await c.stream.handshake(asio::ssl::stream_base::server)) co_return;
  while (co_await serve_one(c)) {
  }
  c.stream.deadline(std::chrono::seconds(2));
  co_await c.stream.close();
}

Request head_of(const Parser& parser, Stream& stream, bool& well_formed) {
  const auto& in = parser.get();
  Request request;
  request.method = in.method() == http::verb::head ? "GET" : std::string(in.method_string());
  well_formed = parse_target(in.target(), request);
  request.content_type = in[http::field::content_type];
  request.authorization = in[http::field::authorization];
  request.last_event_id = in["Last-Event-ID"];
  request.if_none_match = in[http::field::if_none_match];
  request.between_nodes = asked_for_peer_api(stream.tls());
  request.nodes = in[mgmt::kNodesHeader];
  if (request.between_nodes) request.peer_fingerprint = mgmt::fingerprint_of_peer(stream.tls());
  return request;
}

std::optional<Response> HttpsServer::Impl::unreadable(error_code error) const {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return with_status(431, RefusalKind::too_large,
                       fmt::format("The request's header is larger than {} bytes. Send less.", limits.header_bytes));
  if (error == http::error::body_limit)
    return problem(RefusalKind::too_large, "The body is larger than such a request may have. Send less.");
  const bool of_http = error.category() == make_error_code(http::error::bad_method).category();
  if (of_http && error != http::error::end_of_stream && error != http::error::partial_message)
    return problem(RefusalKind::malformed, fmt::format("This is not HTTP/1.1: {}.", error.message()));
  return std::nullopt;  // it has gone
}

// The request was not read whole: says why, and ends the connection, since its end is not known.
asio::awaitable<void> HttpsServer::Impl::refuse(Connection& c, std::optional<Response>& response) {
  if (!response) co_return;
  c.stream.deadline(limits.write);
  const std::string text = https::to_text(to_beast(*response, 11, false, false));
  const error_code error = co_await c.stream.write(text);
  if (!error) co_await discard_rest(c);
}

// A client that is still sending would meet a closed connection before it reads why: hears it out, within bounds.
asio::awaitable<void> HttpsServer::Impl::discard_rest(Connection& c) {
  c.stream.deadline(kHearOut);
  for (std::size_t read = 0; read < kHearOutBytes;) {
    c.buffer.clear();
    const error_code error = co_await c.stream.read_some(c.buffer);
    if (error) co_return;
    read += c.buffer.size();
  }
}

asio::awaitable<Step> HttpsServer::Impl::read_head(Connection& c, Parser& parser) {
  c.stream.deadline(c.buffer.size() > 0 ? limits.header : is_stranger(c) ? limits.stranger_idle : limits.idle);
  for (;;) {
    const std::string_view received = text_of(c.buffer);
    if (const auto length = https::head_length(received)) {
      if (const auto fault = https::fault_in_head(received.substr(0, *length)))
        co_return refused(with_status(fault->status, RefusalKind::malformed, std::string(fault->why)));
      break;
    }
    if (received.size() > limits.header_bytes) co_return std::unexpected(unreadable(http::error::header_limit));
    const error_code error = co_await c.stream.read_some(c.buffer);
    if (error) co_return gone();
    if (received.empty()) c.stream.deadline(limits.header);
  }
  const error_code error = co_await https::read_header(c.stream, c.buffer, parser);
  if (error) co_return std::unexpected(unreadable(error));
  co_return Step();
}

asio::awaitable<Step> HttpsServer::Impl::read_body(Connection& c, Parser& parser, const Admission& admission) {
  const std::uint64_t bytes = parser.content_length().value_or(admission.body_bytes);
  if (bytes > admission.body_bytes)
    co_return refused(problem(RefusalKind::too_large,
                              fmt::format("The body is larger than {} bytes. Send less.", admission.body_bytes)));
  if (auto share = bodies_of(admission.standing).take(bytes))
    c.body.emplace(std::move(*share));
  else
    co_return refused(overloaded("Too many requests are being received. Try again."));
  parser.body_limit(admission.body_bytes);
  c.stream.deadline(is_stranger(c) ? limits.stranger_body : limits.body);
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const error_code error = co_await c.stream.write("HTTP/1.1 100 Continue\r\n\r\n");
    if (error) co_return gone();
  }
  const error_code error = co_await https::read_message(c.stream, c.buffer, parser);
  if (error) co_return std::unexpected(unreadable(error));
  co_return Step();
}

asio::awaitable<bool> HttpsServer::Impl::serve_one(Connection& c) {
  Parser parser;
  parser.header_limit(limits.header_bytes);
  parser.body_limit(boost::none);  // who sends it says how long it may be
  c.body.reset();
  std::optional<Response> refusal;
  const bool answered = co_await serve_request(c, parser, refusal);
  if (!answered) co_await refuse(c, refusal);
  co_return answered;
}

// False: the connection ends, `refusal` says why.
asio::awaitable<bool> HttpsServer::Impl::serve_request(Connection& c, Parser& parser,
                                                       std::optional<Response>& refusal) {
  Step read = co_await read_head(c, parser);
  if (!read) co_return refusal = std::move(read.error()), false;
  bool well_formed = false;
  Request request = head_of(parser, c.stream, well_formed);
  const bool has_body = !parser.is_done();
  Admission admission;
  if (!well_formed)
    admission.refusal = problem(RefusalKind::malformed, "The path or the query is not well-formed. Percent-encode it.");

  auto& pool = request.between_nodes ? peer_workers : workers;
  Response response;
  c.stream.no_deadline();
  co_await run_on(pool, [&] {
    if (!admission.refusal) admission = admitted(service, request);
    if (!admission.refusal && !has_body) response = handled(service, request);
  });
  if (!door.recognize(c.id, admission.standing)) {
    refusal = overloaded("There are as many connections as may be. Close some.");
    co_return false;
  }
  if (admission.refusal && has_body) co_return refusal = std::move(admission.refusal), false;
  if (admission.refusal) {
    response = std::move(*admission.refusal);
  } else if (has_body) {
    read = co_await read_body(c, parser, admission);
    if (!read) co_return refusal = std::move(read.error()), false;
    request.body = std::move(parser.get().body());
    c.stream.no_deadline();
    co_await run_on(pool, [&] { response = handled(service, request); });
  }
  co_return co_await answer(c, parser, response, pool);
}

asio::awaitable<bool> HttpsServer::Impl::answer(Connection& c, const Parser& parser, Response& response,
                                                asio::thread_pool& pool) {
  const bool head = parser.get().method() == http::verb::head;
  const bool keep_alive = parser.get().keep_alive() && !response.stream;
  c.stream.deadline(limits.write);
  const std::string text = https::to_text(to_beast(response, parser.get().version(), keep_alive, head));
  const error_code error = co_await c.stream.write(text);
  if (error) co_return false;
  if (response.stream && !head) co_await send_stream(c.stream, *response.stream, pool);
  co_return keep_alive;
}

asio::awaitable<void> HttpsServer::Impl::send_stream(Stream& stream, ResponseStream& source, asio::thread_pool& pool) {
  for (;;) {
    std::optional<std::string> chunk;
    co_await run_on(pool, [&] { chunk = source.poll(); });
    stream.deadline(limits.write);
    if (!chunk || co_await stream.write(*chunk)) co_return;
    stream.no_deadline();
    co_await wait(kStreamTurn);
  }
}

HttpsServer::HttpsServer(mgmt::TlsIdentity identity, const mgmt::PageCertificate& page, ServerLimits limits,
                         Service& service)
    : impl_(std::make_unique<Impl>(identity, page, limits, service)) {}

HttpsServer::~HttpsServer() { stop(); }

std::expected<tcp::acceptor*, engine::Error> HttpsServer::Impl::listen_at(const std::string& address) {
  const auto parsed = mgmt::parse_address(address);
  if (!parsed)
    return engine::fail(engine::Errc::refused, fmt::format("{} is not an address with a port to listen at, such as "
                                                           "0.0.0.0:8443 or [::]:8443.",
                                                           address));
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(parsed->host), parsed->port);
    auto opened = std::make_unique<tcp::acceptor>(io);
    opened->open(endpoint.protocol());
    opened->set_option(tcp::acceptor::reuse_address(true));
    opened->bind(endpoint);
    opened->listen();
    asio::co_spawn(io, accept_for_ever(*opened), asio::detached);
    return acceptors.emplace_back(std::move(opened)).get();
  } catch (const boost::system::system_error& e) {
    return std::unexpected(engine::Error{
        e.code(), fmt::format("Cannot listen at {}: {}. Is another program using it, or is the address not this "
                              "machine's?",
                              address, e.code().message())});
  }
}

engine::Result<std::string> HttpsServer::start(const std::string& address) {
  auto opened = impl_->listen_at(address);
  if (!opened) return std::unexpected(std::move(opened.error()));
  mgmt::Address in_use = *mgmt::parse_address(address);
  in_use.port = (*opened)->local_endpoint().port();
  impl_->thread = std::thread([this] { impl_->io.run(); });
  return mgmt::to_string(in_use);
}

std::map<std::string, std::string> HttpsServer::Impl::also_listen_at(const std::vector<std::string>& addresses) {
  std::erase_if(also, [&](const auto& one) {
    if (std::ranges::find(addresses, one.first) != addresses.end()) return false;
    error_code ignored;
    one.second->close(ignored);
    return true;
  });
  std::map<std::string, std::string> problems;
  for (const auto& address : addresses) {
    if (also.contains(address)) continue;
    if (auto opened = listen_at(address))
      also.emplace(address, *opened);
    else
      problems.emplace(address, opened.error().message);
  }
  return problems;
}

std::map<std::string, std::string> HttpsServer::also_listen_at(const std::vector<std::string>& addresses) {
  std::promise<std::map<std::string, std::string>> done;
  auto problems = done.get_future();
  asio::post(impl_->io, [&] { done.set_value(impl_->also_listen_at(addresses)); });
  while (problems.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
    if (impl_->io.stopped()) return {};
  return problems.get();
}

void HttpsServer::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->io.stop();
  impl_->thread.join();
  impl_->workers.join();
  impl_->peer_workers.join();
}

}  // namespace lockstep::ui_api
