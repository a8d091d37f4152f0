#pragma once
// One connection, plain or TLS, for coroutines on one io_context. Reading and writing are compiled here once, whatever
// is spoken on top: instantiating Asio's TLS operations costs a compiler more than all the rest of a program.
#include <chrono>
#include <string_view>
#include <variant>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

namespace lockstep::https {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// Every step ends with an error code; beast::error::timeout once the deadline has passed.
class Stream {
 public:
  explicit Stream(asio::io_context& io) : stream_(std::in_place_type<Plain>, io) {}
  Stream(asio::io_context& io, asio::ssl::context& tls) : stream_(std::in_place_type<Tls>, io, tls) {}
  Stream(tcp::socket socket, asio::ssl::context& tls) : stream_(std::in_place_type<Tls>, std::move(socket), tls) {}

  /// For the steps that follow, together, until it is set anew.
  void deadline(std::chrono::milliseconds from_now) { lowest().expires_after(from_now); }
  void no_deadline() { lowest().expires_never(); }

  /// The addresses in their order, until one answers.
  asio::awaitable<error_code> connect(const tcp::resolver::results_type& addresses);
  /// Nothing on a plain stream.
  asio::awaitable<error_code> handshake(asio::ssl::stream_base::handshake_type type);
  /// Appends at least one byte to `buffer`.
  asio::awaitable<error_code> read_some(boost::beast::flat_buffer& buffer);
  asio::awaitable<error_code> write(std::string_view data);
  /// Tells the other side that no more will come.
  asio::awaitable<void> close();

  /// Ends every step under way, at once.
  void abort();

  /// Null on a plain stream.
  [[nodiscard]] SSL* tls();

 private:
  using Plain = boost::beast::tcp_stream;
  using Tls = asio::ssl::stream<Plain>;
  Plain& lowest();

  std::variant<Plain, Tls> stream_;
};

}  // namespace lockstep::https
