#include "mgmt/control/invitation.hpp"

#include <nlohmann/json.hpp>

#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::string_view kPrefix = "lsi1.";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::unexpected<Refusal> unusable(std::string why) {
  const std::string detail = "This is not a whole invitation. Copy it again from where it was made.";
  return refuse(RefusalKind::invalid, detail, {{"/invitation", std::move(why)}});
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  const nlohmann::json where = {{"a", invitation.address}, {"f", invitation.fingerprint}};
  return std::string(kPrefix) + base64url_encode(where.dump()) + "." + invitation.secret;
}

Outcome<Invitation> invitation_from(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(kPrefix)) return unusable("Must begin with lsi1.");
  text.remove_prefix(kPrefix.size());
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) return unusable("Its second half is missing.");
  const auto where = base64url_decode(text.substr(0, dot));
  const auto secret = base64url_decode(text.substr(dot + 1));
  const auto json = nlohmann::json::parse(where.value_or(""), nullptr, false);
  if (!json.is_object() || !secret || secret->size() != 32) return unusable("Is damaged.");
  Invitation invitation{json.value("a", ""), json.value("f", ""), std::string(text.substr(dot + 1))};
  if (check_address(invitation.address) || invitation.fingerprint.size() != 64) return unusable("Is damaged.");
  return invitation;
}

}  // namespace lockstep::mgmt
