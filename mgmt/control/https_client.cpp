#include "mgmt/control/https_client.hpp"

#include <exception>
#include <stdexcept>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/https/message.hpp"
#include "mgmt/https/stream.hpp"

namespace lockstep::mgmt {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using https::Stream;

constexpr std::uint64_t kMaxReply = std::uint64_t{16} << 20;

struct OtherCertificate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

asio::ssl::context make_context(const TlsIdentity& identity) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  context.use_certificate_chain_file(identity.certificate_file.string());
  context.use_private_key_file(identity.key_file.string(), asio::ssl::context::pem);
  // The certificate is self-signed and pinned: the fingerprint is compared after the handshake, before anything is
  // sent.
  context.set_verify_mode(asio::ssl::verify_peer);
  context.set_verify_callback([](bool, asio::ssl::verify_context&) { return true; });
  return context;
}

void or_throw(boost::system::error_code error) {
  if (error) throw boost::system::system_error(error);
}

asio::awaitable<HttpsReply> exchange(Stream& stream, const HttpsTarget& target,
                                     const asio::ip::tcp::resolver::results_type& addresses,
                                     const http::request<http::string_body>& request, bool& sending) {
  or_throw(co_await stream.connect(addresses));
  SSL_set_tlsext_host_name(stream.tls(), kPeerServerName);
  or_throw(co_await stream.handshake(asio::ssl::stream_base::client));
  if (fingerprint_of_peer(stream.tls()) != target.fingerprint)
    throw OtherCertificate(fmt::format("{} shows another certificate than the one that was pinned", target.address));
  sending = true;
  or_throw(co_await stream.write(https::to_text(request)));
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxReply);
  or_throw(co_await https::read_message(stream, buffer, parser));
  co_return HttpsReply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

}  // namespace

std::string trouble_with_partner(const Refusal& refusal) {
  if (refusal.kind == RefusalKind::not_current) return refusal.detail;
  std::string sentence = refusal.detail;
  if (sentence.ends_with('.')) sentence.pop_back();
  return "answers: " + sentence;
}

Outcome<HttpsReply> https_request(const TlsIdentity& identity, const HttpsTarget& target, const std::string& method,
                                  const std::string& path, const std::string& body,
                                  std::chrono::milliseconds deadline) {
  const auto parsed = parse_address(target.address);
  if (!parsed) return refuse(RefusalKind::not_current, fmt::format("has no usable address ({})", target.address));
  bool sending = false;
  try {
    asio::io_context io;
    auto context = make_context(identity);
    Stream stream(io, context);
    http::request<http::string_body> request(http::string_to_verb(method), path, 11, body);
    request.set(http::field::host, target.address);
    request.set(http::field::content_type, "application/json");
    if (!target.nodes.empty()) request.set(kNodesHeader, target.nodes);
    request.prepare_payload();
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(parsed->host), parsed->port);
    const auto addresses = asio::ip::tcp::resolver::results_type::create(endpoint, parsed->host, "");
    stream.deadline(deadline);
    HttpsReply reply;
    std::exception_ptr failed;
    asio::co_spawn(io, exchange(stream, target, addresses, request, sending), [&](std::exception_ptr e, HttpsReply r) {
      failed = e;
      reply = std::move(r);
    });
    io.run();
    if (failed) std::rethrow_exception(failed);
    return reply;
  } catch (const OtherCertificate& e) {
    return std::unexpected(
        Refusal{.kind = RefusalKind::not_current, .detail = e.what(), .fields = {}, .other_certificate = true});
  } catch (const boost::system::system_error& e) {
    const bool late = e.code() == beast::error::timeout;
    return std::unexpected(
        Refusal{.kind = RefusalKind::not_current,
                .detail = late ? fmt::format("did not answer at {} in time", target.address)
                               : fmt::format("cannot be reached at {} ({})", target.address, e.code().message()),
                .fields = {},
                .perhaps_done = sending});
  }
}

}  // namespace lockstep::mgmt
