#include "mgmt/https/stream.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace lockstep::https {
namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadBytes = 16384;

}  // namespace

Stream::Plain& Stream::lowest() {
  if (auto* tls = std::get_if<Tls>(&stream_)) return tls->next_layer();
  return std::get<Plain>(stream_);
}

void Stream::abort() { lowest().close(); }

SSL* Stream::tls() {
  auto* tls = std::get_if<Tls>(&stream_);
  return tls ? tls->native_handle() : nullptr;
}

asio::awaitable<error_code> Stream::connect(const tcp::resolver::results_type& addresses) {
  error_code error = asio::error::host_not_found;
  for (const auto& entry : addresses) {
    std::tie(error) = co_await lowest().async_connect(entry.endpoint(), kAwait);
    if (!error) break;
  }
  co_return error;
}

asio::awaitable<error_code> Stream::handshake(asio::ssl::stream_base::handshake_type type) {
  auto* tls = std::get_if<Tls>(&stream_);
  if (!tls) co_return error_code{};
  const auto [error] = co_await tls->async_handshake(type, kAwait);
  co_return error;
}

asio::awaitable<error_code> Stream::read_some(boost::beast::flat_buffer& buffer) {
  const auto space = buffer.prepare(kReadBytes);
  std::tuple<error_code, std::size_t> result;
  if (auto* tls = std::get_if<Tls>(&stream_)) {
    result = co_await tls->async_read_some(space, kAwait);
  } else {
    result = co_await std::get<Plain>(stream_).async_read_some(space, kAwait);
  }
  buffer.commit(std::get<1>(result));
  co_return std::get<0>(result);
}

asio::awaitable<error_code> Stream::write(std::string_view data) {
  while (!data.empty()) {
    std::tuple<error_code, std::size_t> result;
    const auto piece = asio::buffer(data);
    if (auto* tls = std::get_if<Tls>(&stream_)) {
      result = co_await tls->async_write_some(piece, kAwait);
    } else {
      result = co_await std::get<Plain>(stream_).async_write_some(piece, kAwait);
    }
    if (std::get<0>(result)) co_return std::get<0>(result);
    data.remove_prefix(std::get<1>(result));
  }
  co_return error_code{};
}

asio::awaitable<void> Stream::close() {
  if (auto* tls = std::get_if<Tls>(&stream_)) co_await tls->async_shutdown(kAwait);
}

}  // namespace lockstep::https
