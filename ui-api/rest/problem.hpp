#pragma once
// Problem documents, RFC 9457.
#include <string>

#include "mgmt/control/refusal.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

[[nodiscard]] Response problem(const mgmt::Refusal& refusal);
[[nodiscard]] Response problem(mgmt::RefusalKind kind, std::string detail);

}  // namespace lockstep::ui_api
