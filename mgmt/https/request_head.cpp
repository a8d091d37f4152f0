#include "mgmt/https/request_head.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <boost/beast/core/string.hpp>

namespace lockstep::https {
namespace {

using boost::beast::iequals;

constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kBlank = " \t";

struct Framing {
  bool http_1_0 = false;
  unsigned hosts = 0;
  unsigned lengths = 0;
  unsigned codings = 0;
  std::string_view length, coding;
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

bool is_token(char c) {  // RFC 9110 5.6.2
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

bool is_whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<HeadFault> fault_in_coding(std::string_view coding) {
  if (iequals(coding, "chunked")) return std::nullopt;
  const auto comma = coding.rfind(',');
  if (comma != std::string_view::npos && iequals(trimmed(coding.substr(comma + 1)), "chunked"))
    return HeadFault{501, "Of the transfer codings only chunked is known here."};
  return HeadFault{400, "Where the body ends can't be known: its last transfer coding is not chunked."};
}

std::optional<HeadFault> fault_in_framing(const Framing& framing) {
  if (framing.hosts > 1 || (framing.hosts == 0 && !framing.http_1_0)) return HeadFault{400, "There must be one Host."};
  if (framing.codings > 1) return HeadFault{400, "There is more than one Transfer-Encoding."};
  if (framing.lengths > 1) return HeadFault{400, "There is more than one Content-Length."};
  if (framing.lengths == 1 && !is_whole_number(framing.length))
    return HeadFault{400, "The Content-Length is not a number of bytes."};
  if (framing.codings == 0) return std::nullopt;
  if (framing.lengths == 1) return HeadFault{400, "There is a Content-Length beside a Transfer-Encoding."};
  if (framing.http_1_0) return HeadFault{400, "HTTP/1.0 knows no Transfer-Encoding."};
  return fault_in_coding(framing.coding);
}

std::optional<HeadFault> take_field(std::string_view line, Framing& framing) {
  if (kBlank.contains(line.front())) return HeadFault{400, "A field goes on over more than one line."};
  const auto colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || name.empty() || !std::ranges::all_of(name, is_token))
    return HeadFault{400, "A field's name is malformed."};
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (iequals(name, "Host")) {
    ++framing.hosts;
  } else if (iequals(name, "Content-Length")) {
    ++framing.lengths;
    framing.length = value;
  } else if (iequals(name, "Transfer-Encoding")) {
    ++framing.codings;
    framing.coding = value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<HeadFault> fault_in_head(std::string_view head) {
  Framing framing;
  bool first = true;
  while (!head.empty()) {
    const auto end = head.find(kEndOfLine);
    const std::string_view line = head.substr(0, end);
    if (end == std::string_view::npos || std::ranges::any_of(line, is_control))
      return HeadFault{400, "The header holds control characters, or lines that do not end in CR LF."};
    head.remove_prefix(end + kEndOfLine.size());
    if (line.empty()) break;
    if (!first) {
      if (const auto fault = take_field(line, framing)) return fault;
    }
    framing.http_1_0 = first ? line.ends_with(" HTTP/1.0") : framing.http_1_0;
    first = false;
  }
  if (first) return HeadFault{400, "There is no request line."};
  return fault_in_framing(framing);
}

std::optional<std::size_t> head_length(std::string_view received) {
  if (received.starts_with(kEndOfLine)) return kEndOfLine.size();  // without a request line
  constexpr std::string_view kEmptyLine = "\r\n\r\n";
  const auto end = received.find(kEmptyLine);
  if (end == std::string_view::npos) return std::nullopt;
  return end + kEmptyLine.size();
}

}  // namespace lockstep::https
