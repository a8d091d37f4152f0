// /api/v1/initiators
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/chap.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

Response list(Controller& controller) {
  const auto configuration = controller.core().configuration();
  nlohmann::json items = nlohmann::json::array();
  for (const auto& i : configuration->initiators) items.push_back(initiator_json(*configuration, i));
  return ok({{"items", items}});
}

Response show(Controller& controller, const std::string& iqn) {
  const auto configuration = controller.core().configuration();
  const mgmt::Initiator* initiator = configuration->initiator(iqn);
  if (!initiator) return problem(mgmt::RefusalKind::not_found, "No initiator of this name is known.");
  return ok(initiator_json(*configuration, *initiator));
}

Response create(Controller& controller, const Call& call) {
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

}  // namespace

void add_initiator_resources(Router& router, Controller& controller) {
  router.add(
      {"GET", "/api/v1/initiators", Access::viewer, false, [&controller](const Call&) { return list(controller); }});
  router.add({"POST", "/api/v1/initiators", Access::admin, true,
              [&controller](const Call& call) { return create(controller, call); }, true});
  router.add({"GET", "/api/v1/initiators/{iqn}", Access::viewer, false,
              [&controller](const Call& call) { return show(controller, call.parameters[0]); }});
  router.add({"DELETE", "/api/v1/initiators/{iqn}", Access::admin, true,
              [&controller](const Call& call) {
                const auto done = controller.initiators().remove(call.parameters[0]);
                return done ? no_content() : problem(done.error());
              },
              true});
}

}  // namespace lockstep::ui_api
