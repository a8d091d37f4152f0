#pragma once
// A refusal as a problem document's text (RFC 9457), and back.
#include <string>
#include <string_view>

#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

[[nodiscard]] std::string to_json_text(const Refusal& refusal);
/// What can be made out of a problem document; kind internal when it is not one.
[[nodiscard]] Refusal refusal_from(std::string_view text);

}  // namespace lockstep::mgmt
