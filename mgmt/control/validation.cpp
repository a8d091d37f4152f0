#include "mgmt/control/validation.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "replication/arbiter/http_endpoint.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::int64_t kFastestResync = std::int64_t{1} << 40;  // bytes a second: more than any disk or network does

bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool letter_or_digit(char c) { return lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }
bool lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

template <class Allowed>
bool is_name(std::string_view name, std::size_t longest, bool (*first)(char), Allowed allowed) {
  return !name.empty() && name.size() <= longest && first(name.front()) && std::ranges::all_of(name, allowed);
}

bool is_iqn(std::string_view rest) {  // "2026-11.io.lockstep:pair1"
  if (rest.size() < 9 || rest[4] != '-' || rest[7] != '.') return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::ranges::all_of(rest.substr(0, 4), digit) || !std::ranges::all_of(rest.substr(5, 2), digit)) return false;
  const int month = (rest[5] - '0') * 10 + (rest[6] - '0');
  if (month < 1 || month > 12) return false;
  rest = rest.substr(8);
  const auto colon = rest.find(':');
  const auto authority = rest.substr(0, colon);
  const auto in_authority = [](char c) { return lower_or_digit(c) || c == '.' || c == '-'; };
  if (authority.empty() || !std::ranges::all_of(authority, in_authority)) return false;
  if (colon == std::string_view::npos) return true;
  rest = rest.substr(colon + 1);
  return !rest.empty() && std::ranges::all_of(rest, [&](char c) { return in_authority(c) || c == ':'; });
}

bool hex_of_size(std::string_view text, std::size_t size) {
  return text.size() == size && std::ranges::all_of(text, lower_hex);
}

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c != 0x7f; });
}

}  // namespace

Complaint check_pair_name(std::string_view name) {
  if (is_name(name, 32, lower_or_digit, [](char c) { return lower_or_digit(c) || c == '-'; })) return {};
  return "Must be 1 to 32 lower-case letters, digits and hyphens, beginning with a letter or a digit.";
}

Complaint check_node_name(std::string_view name) {
  if (is_name(name, 63, letter_or_digit, [](char c) { return letter_or_digit(c) || c == '.' || c == '-'; })) return {};
  return "Must be 1 to 63 letters, digits, dots and hyphens, beginning with a letter or a digit.";
}

Complaint check_volume_name(std::string_view name) {
  const auto allowed = [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; };
  if (is_name(name, 63, letter_or_digit, allowed)) return {};
  return "Must be 1 to 63 letters, digits, dots, underscores and hyphens, beginning with a letter or a digit.";
}

Complaint check_iscsi_name(std::string_view name) {
  const bool good =
      name.size() <= 223 &&
      ((name.starts_with("iqn.") && is_iqn(name.substr(4))) ||
       (name.starts_with("eui.") && hex_of_size(name.substr(4), 16)) ||
       (name.starts_with("naa.") && (hex_of_size(name.substr(4), 16) || hex_of_size(name.substr(4), 32))));
  if (good) return {};
  return "Must be an iSCSI name in lower case, at most 223 characters: iqn.YYYY-MM.domain:name, eui. and 16 hex "
         "digits, "
         "or naa. and 16 or 32 hex digits.";
}

Complaint check_address(std::string_view address) {
  const auto parsed = parse_address(address);
  if (parsed && parsed->port != 0) return {};
  return "Must be a numeric address and a port, such as 10.0.0.11:3260 or [fd00::11]:3260.";
}

Complaint check_endpoint(std::string_view url) {
  // What names, addresses and ports are made of: an endpoint is shown in commands to be pasted into a shell.
  const auto allowed = [](char c) { return letter_or_digit(c) || std::string_view(".-_:/[]").contains(c); };
  if (url.size() <= 120 && std::ranges::all_of(url, allowed) && replication::HttpEndpoint::parse(url)) return {};
  return "Must be the address of an etcd server, such as https://10.0.0.10:2379 or http://etcd1:2379, with the port, "
         "at most 120 characters.";
}

Complaint check_volume_size(std::int64_t bytes) {
  if (bytes < kMinVolumeSize) return "Must be at least 1048576 (1 MiB).";
  if (bytes > kMaxVolumeSize) return "Must be at most 70368744177664 (64 TiB).";
  if (bytes % kVolumeGranule != 0) return "Must be a multiple of 4096.";
  return {};
}

Complaint check_lease(std::int64_t ms) {
  constexpr std::int64_t kShortest = 500, kLongest = 20'000;
  if (ms < kShortest)
    return fmt::format(
        "Must be at least {} ms: with a shorter one a node that a busy machine holds up for a moment loses its "
        "partner, "
        "and hosts are cut off though nothing is broken.",
        kShortest);
  if (ms > kLongest)
    return fmt::format(
        "Must be at most {} ms: for a lease, and a fifth more, hosts wait when a node fails, and most give a disk up "
        "after 30 s.",
        kLongest);
  return std::nullopt;
}

Complaint check_resync_floor(std::int64_t bytes) {
  if (bytes > kFastestResync) return fmt::format("Must be at most {} bytes, which is 1 TiB/s.", kFastestResync);
  return std::nullopt;
}

Complaint check_resync_ceiling(std::int64_t bytes, std::int64_t floor) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;
  if (bytes == 0) return std::nullopt;
  if (bytes < floor) return fmt::format("Must be 0, for none, or at least the floor, which is {} bytes.", floor);
  if (bytes < kLeast)
    return fmt::format("Must be 0, for none, or at least {} bytes: a resync of 1 TiB would take longer than 12 days.",
                       kLeast);
  if (bytes > kFastestResync)
    return fmt::format("Must be 0, for none, or at most {} bytes, which is 1 TiB/s.", kFastestResync);
  return std::nullopt;
}

Complaint check_chap_user(std::string_view user) {
  if (!user.empty() && user.size() <= 255 && printable(user)) return {};
  return "Must be 1 to 255 printable ASCII characters.";
}

Complaint check_chap_secret(std::string_view secret) {
  if (secret.size() >= 12 && secret.size() <= 255 && printable(secret)) return {};
  return "Must be 12 to 255 printable ASCII characters (RFC 7143 12.1.3 asks for 96 bits).";
}

}  // namespace lockstep::mgmt
