// /api/v1/tokens
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

constexpr std::int64_t kTenYears = 315'360'000;  // seconds

Response list_tokens(Controller& controller) {
  nlohmann::json items = nlohmann::json::array();
  for (const auto& use : controller.tokens().list())
    items.push_back(token_json(use.token, use.last_used_ms, use.here_only));
  return ok({{"items", items}});
}

Response create_token(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto name = fields.text("name", Presence::required);
  if (name && (name->empty() || name->size() > 64)) problems.push_back({"/name", "Must be 1 to 64 characters."});
  const auto role = fields.one_of("role", Presence::optional, {"admin", "viewer"}).value_or("admin");
  const auto life = fields.integer("expires_in_seconds", Presence::optional, 60, kTenYears).value_or(0);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  const auto made = controller.tokens().create(*name, role == "viewer" ? mgmt::Role::viewer : mgmt::Role::admin, life);
  if (!made) return problem(made.error());
  auto shown = token_json(made->token, 0, false);
  shown["token"] = made->secret;
  return created(shown, "/api/v1/tokens/" + made->token.id.to_string());
}

Response revoke(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "token");
  if (!id) return problem(id.error());
  const auto done = controller.tokens().revoke(*id);
  return done ? no_content() : problem(done.error());
}

bool is_this_nodes(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "token");
  return id && controller.tokens().is_own(*id);
}

}  // namespace

void add_token_resources(Router& router, Controller& controller) {
  router.add(
      {"GET", "/api/v1/tokens", Access::admin, false, [&controller](const Call&) { return list_tokens(controller); }});
  router.add({"POST", "/api/v1/tokens", Access::admin, true,
              [&controller](const Call& call) { return create_token(controller, call); }, true});
  router.add({"DELETE", "/api/v1/tokens/{id}", Access::admin, true,
              [&controller](const Call& call) { return revoke(controller, call); }, true,
              [&controller](const Call& call) { return is_this_nodes(controller, call); }});
}

}  // namespace lockstep::ui_api
