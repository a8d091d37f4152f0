#pragma once
// CHAP credentials in a request's body.
#include "mgmt/control/configuration.hpp"
#include "ui-api/rest/fields.hpp"

namespace lockstep::ui_api {

[[nodiscard]] inline std::optional<mgmt::Chap> read_chap(Fields& fields, const char* name) {
  auto object = fields.object(name, Presence::optional);
  if (!object) return std::nullopt;
  mgmt::Chap chap;
  chap.user = object->text("user", Presence::required).value_or("");
  chap.secret = object->text("secret", Presence::required).value_or("");
  object->nothing_else();
  return chap;
}

}  // namespace lockstep::ui_api
