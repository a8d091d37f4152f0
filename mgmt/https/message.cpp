#include "mgmt/https/message.hpp"

#include <sstream>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/write.hpp>

namespace lockstep::https {
namespace {

constexpr std::size_t kMaxUnparsed = 64 * 1024;

template <bool isRequest>
error_code at_end(http::basic_parser<isRequest>& parser) {
  if (!parser.got_some()) return http::error::end_of_stream;
  error_code error;
  parser.put_eof(error);
  return error;
}

}  // namespace

template <bool isRequest>
asio::awaitable<error_code> feed(Stream& stream, boost::beast::flat_buffer& buffer,
                                 http::basic_parser<isRequest>& parser) {
  if (buffer.size() > 0) {
    error_code error;
    const auto used = parser.put(buffer.cdata(), error);
    buffer.consume(used);
    if (error && error != http::error::need_more) co_return error;
    if (!error && used > 0) co_return error;
  }
  // What the parser does not take is a part of a header, a chunk's or a trailer's, that does not end.
  if (buffer.size() >= kMaxUnparsed) co_return http::error::header_limit;
  const error_code error = co_await stream.read_some(buffer);
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) co_return at_end(parser);
  co_return error;
}

template <bool isRequest>
asio::awaitable<error_code> read_header(Stream& stream, boost::beast::flat_buffer& buffer,
                                        http::basic_parser<isRequest>& parser) {
  error_code error;
  parser.eager(false);
  while (!error && !parser.is_header_done()) error = co_await feed(stream, buffer, parser);
  co_return error;
}

template <bool isRequest>
asio::awaitable<error_code> read_message(Stream& stream, boost::beast::flat_buffer& buffer,
                                         http::basic_parser<isRequest>& parser) {
  error_code error;
  parser.eager(true);
  while (!error && !parser.is_done()) error = co_await feed(stream, buffer, parser);
  co_return error;
}

template <bool isRequest>
std::string to_text(const http::header<isRequest>& header) {
  std::ostringstream text;
  text << header;
  return std::move(text).str();
}

template asio::awaitable<error_code> feed(Stream&, boost::beast::flat_buffer&, http::basic_parser<true>&);
template asio::awaitable<error_code> feed(Stream&, boost::beast::flat_buffer&, http::basic_parser<false>&);
template asio::awaitable<error_code> read_header(Stream&, boost::beast::flat_buffer&, http::basic_parser<true>&);
template asio::awaitable<error_code> read_header(Stream&, boost::beast::flat_buffer&, http::basic_parser<false>&);
template asio::awaitable<error_code> read_message(Stream&, boost::beast::flat_buffer&, http::basic_parser<true>&);
template asio::awaitable<error_code> read_message(Stream&, boost::beast::flat_buffer&, http::basic_parser<false>&);
template std::string to_text(const http::header<true>&);
template std::string to_text(const http::header<false>&);

}  // namespace lockstep::https
