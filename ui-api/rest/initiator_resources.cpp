// /api/v1/initiators
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/chap.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

Response list_initiators(Controller& controller) {
  const auto configuration = controller.core().configuration();
  nlohmann::json items = nlohmann::json::array();
  for (const auto& i : configuration->initiators) items.push_back(initiator_json(*configuration, i));
  return ok({{"items", items}});
}

Response show_initiator(Controller& controller, const std::string& iqn) {
  const auto configuration = controller.core().configuration();
  const mgmt::Initiator* initiator = configuration->initiator(iqn);
  if (!initiator) return problem(mgmt::RefusalKind::not_found, "No initiator of this name is known.");
  return ok(initiator_json(*configuration, *initiator));
}

Response create_initiator(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::Initiator wanted;
  wanted.iqn = fields.text("iqn", Presence::required).value_or("");
  wanted.chap = read_chap(fields, "chap");
  wanted.mutual = read_chap(fields, "mutual_chap");
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  const auto made = controller.initiators().create(wanted);
  if (!made) return problem(made.error());
  return created(initiator_json(*controller.core().configuration(), *made), "/api/v1/initiators/" + made->iqn);
}

/// A user that is not said stays.
std::optional<mgmt::Chap> read_new_chap(Fields& fields, const char* name, Presence presence) {
  auto object = fields.object(name, presence);
  if (!object) return std::nullopt;
  mgmt::Chap chap;
  chap.user = object->text("user", Presence::optional).value_or("");
  chap.secret = object->text("secret", Presence::required).value_or("");
  object->nothing_else();
  return chap;
}

Response change_secret(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::CredentialsChange change{.iqn = call.parameters[0]};
  change.chap = read_new_chap(fields, "chap", Presence::required).value_or(mgmt::Chap{});
  change.mutual = read_new_chap(fields, "mutual_chap", Presence::optional);
  const auto live =
      fields.integer("old_valid_for_seconds", Presence::optional, 0, mgmt::kOldCredentialsLiveAtMost.count());
  if (live) change.old_live = std::chrono::seconds(*live);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  const auto changed = controller.initiators().change_credentials(change);
  if (!changed) return problem(changed.error());
  return ok(initiator_json(*controller.core().configuration(), *changed));
}

}  // namespace

void add_initiator_resources(Router& router, Controller& controller) {
  router.add({"GET", "/api/v1/initiators", Access::viewer, false,
              [&controller](const Call&) { return list_initiators(controller); }});
  router.add({"POST", "/api/v1/initiators", Access::admin, true,
              [&controller](const Call& call) { return create_initiator(controller, call); }, true});
  router.add({"GET", "/api/v1/initiators/{iqn}", Access::viewer, false,
              [&controller](const Call& call) { return show_initiator(controller, call.parameters[0]); }});
  router.add({"DELETE", "/api/v1/initiators/{iqn}", Access::admin, true,
              [&controller](const Call& call) {
                const auto done = controller.initiators().remove(call.parameters[0]);
                return done ? no_content() : problem(done.error());
              },
              true});
  router.add({"POST", "/api/v1/initiators/{iqn}/secret", Access::admin, true,
              [&controller](const Call& call) { return change_secret(controller, call); }, true});
  router.add({"DELETE", "/api/v1/initiators/{iqn}/old-secret", Access::admin, true,
              [&controller](const Call& call) {
                const auto done = controller.initiators().end_old_credentials(call.parameters[0]);
                return done ? no_content() : problem(done.error());
              },
              true});
}

}  // namespace lockstep::ui_api
