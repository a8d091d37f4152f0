#pragma once
// HTTP/1.1 messages over a Stream, either way: Beast's parser fed by hand, Beast's header as text.
#include <string>

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "mgmt/https/stream.hpp"

namespace lockstep::https {

namespace http = boost::beast::http;

/// One step: gives `parser` what `buffer` holds, or reads more. At the end of the stream the parser decides whether the
/// message is whole; http::error::end_of_stream when not a byte of it had come.
template <bool isRequest>
asio::awaitable<error_code> feed(Stream& stream, boost::beast::flat_buffer& buffer,
                                 http::basic_parser<isRequest>& parser);
/// Until the header is there; the body is left alone.
template <bool isRequest>
asio::awaitable<error_code> read_header(Stream& stream, boost::beast::flat_buffer& buffer,
                                        http::basic_parser<isRequest>& parser);
/// Until the message is whole.
template <bool isRequest>
asio::awaitable<error_code> read_message(Stream& stream, boost::beast::flat_buffer& buffer,
                                         http::basic_parser<isRequest>& parser);

/// As it goes over the wire, with the empty line behind it.
template <bool isRequest>
[[nodiscard]] std::string to_text(const http::header<isRequest>& header);
template <bool isRequest>
[[nodiscard]] std::string to_text(const http::message<isRequest, http::string_body>& message) {
  return to_text(message.base()) + message.body();
}

}  // namespace lockstep::https
