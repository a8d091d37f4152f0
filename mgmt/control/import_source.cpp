#include "mgmt/control/import_source.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::string_view kScheme = "iscsi://";
constexpr const char* kForm =
    "Must have the form iscsi://[user%secret@]host[:port]/target/lun, such as "
    "iscsi://10.0.0.5/iqn.2005-10.org.example:disk1/0.";
constexpr int kMaxLun = 16383;
constexpr std::size_t kMaxHost = 253;

std::optional<int> number(std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

bool is_host(std::string_view host) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == ':' || c == '_';
  };
  return !host.empty() && host.size() <= kMaxHost && host.front() != '-' && std::ranges::all_of(host, allowed);
}

bool read_place(std::string_view place, ImportSource& source) {
  std::string_view port;
  if (place.starts_with('[')) {
    const auto close = place.find(']');
    if (close == std::string_view::npos) return false;
    source.host = place.substr(1, close - 1);
    port = place.substr(close + 1);
    if (!port.empty() && port.front() != ':') return false;
  } else {
    const auto colon = place.find(':');
    source.host = place.substr(0, colon);
    port = colon == std::string_view::npos ? "" : place.substr(colon);
  }
  if (!is_host(source.host)) return false;
  if (port.empty()) return true;
  const auto value = number(port.substr(1), 1, 65535);
  source.port = value.value_or(0);
  return value.has_value();
}

std::optional<std::string> read_credentials(std::string_view text, ImportSource& source) {
  const auto percent = text.find('%');
  if (percent == std::string_view::npos) return kForm;
  Chap chap{std::string(text.substr(0, percent)), std::string(text.substr(percent + 1))};
  if (const auto complaint = check_chap_user(chap.user)) return "The CHAP user: " + *complaint;
  if (chap.secret.empty() || chap.secret.size() > 255) return "The CHAP secret must have 1 to 255 characters.";
  source.chap = std::move(chap);
  return std::nullopt;
}

}  // namespace

std::string ImportSource::portal() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string ImportSource::shown() const { return fmt::format("iscsi://{}/{}/{}", portal(), target, lun); }

std::expected<ImportSource, std::string> parse_import_source(std::string_view url) {
  if (!url.starts_with(kScheme)) return std::unexpected(kForm);
  std::string_view rest = url.substr(kScheme.size());
  ImportSource source;
  // A secret may hold '/' and '@': what is behind the last '@' is the place.
  if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
    if (auto complaint = read_credentials(rest.substr(0, at), source)) return std::unexpected(std::move(*complaint));
    rest = rest.substr(at + 1);
  }
  const auto first = rest.find('/'), last = rest.rfind('/');
  if (first == std::string_view::npos || first == last) return std::unexpected(kForm);
  if (!read_place(rest.substr(0, first), source)) return std::unexpected(kForm);
  source.target = rest.substr(first + 1, last - first - 1);
  const auto lun = number(rest.substr(last + 1), 0, kMaxLun);
  if (!lun)
    return std::unexpected(fmt::format("The LUN, behind the last slash, must be a number from 0 to {}.", kMaxLun));
  source.lun = *lun;
  // Arrays name their targets more freely than we do: upper case and the like must be let through.
  const bool named =
      source.target.starts_with("iqn.") || source.target.starts_with("eui.") || source.target.starts_with("naa.");
  const bool clean = std::ranges::all_of(source.target, [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
  if (!named || !clean || source.target.size() > 223)
    return std::unexpected("The target's name must begin with iqn., eui. or naa. and have at most 223 characters.");
  return source;
}

}  // namespace lockstep::mgmt
