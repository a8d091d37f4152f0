// /api/v1/certificate: what the node that answers shows to people and programs.
#include "mgmt/control/controller.hpp"
#include "mgmt/control/secrets.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

/// As the pair calls it; in no pair yet, as its configuration file does.
std::string node_name(Controller& controller) {
  const auto& core = controller.core();
  const auto configuration = core.configuration();
  const auto side = core.side();
  return side ? configuration->node(*side)->name : core.local.node_name;
}

nlohmann::json certificate_json(Controller& controller, const mgmt::PageCertificate::View& view) {
  return {{"node", node_name(controller)},
          {"own", view.own},
          {"subject", view.facts.subject},
          {"issuer", view.facts.issuer},
          {"names", view.facts.names},
          {"missing_names", view.missing},
          {"valid_from", rfc3339(view.facts.from_ms)},
          {"valid_until", rfc3339(view.facts.until_ms)},
          {"fingerprint", view.facts.fingerprint}};
}

void tell(Controller& controller, const char* what) {
  auto& core = controller.core();
  core.events.append({.kind = "node.certificate", .side = core.side(), .volume = {}, .message = what});
}

Response use_own(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto certificate = fields.text("certificate", Presence::required);
  const auto key = fields.text("key", Presence::required);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  const auto used = controller.core().page.use_own(*certificate, *key, mgmt::wall_clock_ms());
  if (!used) return problem(used.error());
  tell(controller, "The page of this node shows another certificate, which it was given.");
  return ok(certificate_json(controller, *used));
}

Response drop_own(Controller& controller) {
  if (auto done = controller.core().page.drop_own(mgmt::wall_clock_ms()); !done) return problem(done.error());
  tell(controller, "The page of this node shows a self-made certificate again.");
  return no_content();
}

}  // namespace

void add_certificate_resources(Router& router, Controller& controller) {
  router.add({"GET", "/api/v1/certificate", Access::viewer, false,
              [&controller](const Call&) { return ok(certificate_json(controller, controller.core().page.view())); }});
  router.add({"PUT", "/api/v1/certificate", Access::admin, false,
              [&controller](const Call& call) { return use_own(controller, call); }});
  router.add({"DELETE", "/api/v1/certificate", Access::admin, false,
              [&controller](const Call&) { return drop_own(controller); }});
}

}  // namespace lockstep::ui_api
