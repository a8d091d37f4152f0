#include "ui-api/rest/http.hpp"

#include <cctype>
#include <optional>

namespace lockstep::ui_api {
namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !std::isxdigit(static_cast<unsigned char>(text[i + 2])))
      return std::nullopt;
    plain += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  if (plain.find('\0') != std::string::npos) return std::nullopt;
  return plain;
}

bool parse_query(std::string_view text, Request& request) {
  while (!text.empty()) {
    const auto end = text.find('&');
    const std::string_view field = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (field.empty()) continue;
    const auto equals = field.find('=');
    const auto name = percent_decoded(field.substr(0, equals));
    const auto value = percent_decoded(equals == std::string_view::npos ? "" : field.substr(equals + 1));
    if (!name || !value) return false;
    request.query[*name] = *value;
  }
  return true;
}

}  // namespace

bool parse_target(std::string_view target, Request& request) {
  if (target.empty() || target.front() != '/') return false;
  target = target.substr(0, target.find('#'));
  const auto question = target.find('?');
  request.path = target.substr(0, question);
  std::string_view rest(request.path);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = rest.find('/');
    const auto segment = percent_decoded(rest.substr(0, end));
    if (!segment) return false;
    if (!segment->empty() || end != std::string_view::npos) request.segments.push_back(*segment);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end);
  }
  return question == std::string_view::npos || parse_query(target.substr(question + 1), request);
}

}  // namespace lockstep::ui_api
