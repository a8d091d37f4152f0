#pragma once
// "lsi1.<where>.<secret>": how a node finds its partner-to-be, and how each of the two knows the other. Pure.
#include <string>
#include <string_view>

#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

struct Invitation {
  std::string address;      ///< of the inviting node's management
  std::string fingerprint;  ///< of its certificate
  std::string secret;       ///< 32 random bytes, base64url
};

[[nodiscard]] std::string to_text(const Invitation& invitation);
/// Spaces and line ends around it, as pasting brings them, are passed over.
[[nodiscard]] Outcome<Invitation> invitation_from(std::string_view text);

}  // namespace lockstep::mgmt
