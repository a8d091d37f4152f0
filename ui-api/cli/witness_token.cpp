#include "ui-api/cli/witness_token.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/uuid.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::cli {
namespace {

constexpr std::string_view kFamily = "lsw";
constexpr std::string_view kPrefix = "lsw1.";
constexpr std::size_t kLongest = 64u << 10;
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kMostEndpoints = 16;
constexpr std::size_t kLongestWord = 255;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::unexpected<Failure> damaged(std::string_view why) {
  return fail(Exit::usage,
              fmt::format("This is not a whole witness token: {}.\nCopy the whole line again; `lockstep-witness token "
                          "NAME` prints it on the witness.",
                          why));
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestWord &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_pem(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c == '\n' || c == '\r' || (c >= ' ' && c < 0x7f); });
  return plain && text.find("-----BEGIN CERTIFICATE-----") != std::string_view::npos;
}

bool are_endpoints(const json& list) {
  if (!list.is_array() || list.empty() || list.size() > kMostEndpoints) return false;
  return std::ranges::all_of(list, [](const json& one) {
    return one.is_string() && one.get<std::string>().starts_with("https://") &&
           !mgmt::check_endpoint(one.get<std::string>());
  });
}

/// Gives the field that is at fault, or nothing.
std::string_view field_at_fault(const json& fields) {
  if (!fields.is_object()) return "its content";
  const auto id = engine::Uuid::parse(text(fields, "id"));
  if (!id || id->is_nil()) return "the pair's id";
  if (mgmt::check_pair_name(text(fields, "pair"))) return "the pair's name";
  if (!are_endpoints(part(fields, "endpoints"))) return "the endpoints";
  if (!is_pem(text(fields, "ca"))) return "the CA";
  if (!is_word(text(fields, "user"))) return "the user";
  if (!is_word(text(fields, "password"))) return "the password";
  return {};
}

}  // namespace

json WitnessToken::access() const {
  return {{"endpoints", endpoints}, {"ca", ca}, {"user", user}, {"password", password}};
}

Outcome<WitnessToken> witness_token_from(std::string_view pasted) {
  const std::string_view whole = trimmed(pasted);
  if (whole.size() > kLongest) return damaged("it is too long");
  if (!whole.starts_with(kPrefix)) {
    const bool newer = whole.starts_with(kFamily) && whole.size() > kFamily.size() && whole[kFamily.size()] >= '2' &&
                       whole[kFamily.size()] <= '9';
    if (newer)
      return fail(Exit::usage,
                  "This witness token is of a newer version than this command. Install the same version here.");
    return damaged("it does not begin with lsw1.");
  }
  const auto dot = whole.rfind('.');
  const std::string_view signed_part = whole.substr(0, dot), checksum = whole.substr(dot + 1);
  if (dot < kPrefix.size()) return damaged("its end is missing");
  if (checksum.size() != kChecksumDigits || !mgmt::sha256_hex(signed_part).starts_with(checksum))
    return damaged("its checksum does not fit, so something was lost or changed on the way");
  const auto body = mgmt::base64url_decode(signed_part.substr(kPrefix.size()));
  const json fields = json::parse(body.value_or(""), nullptr, false);
  if (const auto fault = field_at_fault(fields); !fault.empty())
    return damaged(fmt::format("{} cannot be used", fault));
  WitnessToken token{text(fields, "pair"), text(fields, "id"),   {},
                     text(fields, "ca"),   text(fields, "user"), text(fields, "password")};
  for (const json& endpoint : part(fields, "endpoints")) token.endpoints.push_back(endpoint.get<std::string>());
  return token;
}

}  // namespace lockstep::cli
