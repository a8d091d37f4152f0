// /api/v1/volumes
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

Response show(Controller& controller, const mgmt::Uuid& id) {
  const auto view = controller.view();
  const mgmt::Volume* volume = view.configuration->volume(id);
  if (!volume) return problem(mgmt::RefusalKind::not_found, "There is no volume with this id.");
  return ok(volume_json(view, *volume));
}

Response list(Controller& controller) {
  const auto view = controller.view();
  nlohmann::json items = nlohmann::json::array();
  for (const auto& volume : view.configuration->volumes) items.push_back(volume_json(view, volume));
  return ok({{"items", items}});
}

Response create(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::VolumeWish wish;
  const auto name = fields.text("name", Presence::required);
  const auto size = fields.integer("size_bytes", Presence::required, INT64_MIN, INT64_MAX);
  wish.block_size =
      fields.integer("block_size_bytes", Presence::optional, INT64_MIN, INT64_MAX).value_or(wish.block_size);
  wish.thin = fields.flag("thin", Presence::optional).value_or(true);
  wish.access = fields.texts("access", Presence::optional).value_or(std::vector<std::string>());
  fields.nothing_else();
  if (name) wish.name = *name;
  if (size) wish.size = *size;
  // Complaints about values join those about the form, so that one answer names all.
  if (!problems.empty()) {
    for (auto& p : mgmt::problems_of(wish, *controller.core().configuration()))
      if (!(p.pointer == "/name" && !name) && !(p.pointer == "/size_bytes" && !size)) problems.push_back(std::move(p));
  }
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.volumes().create(wish));
}

Response change(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "volume");
  if (!id) return problem(id.error());
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto access = fields.texts("access", Presence::required);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto done = controller.volumes().change_access(*id, *access); !done) return problem(done.error());
  return show(controller, *id);
}

Response remove(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "volume");
  if (!id) return problem(id.error());
  const auto confirm = call.request.query.find("confirm");
  return accepted(controller.volumes().remove(
      *id, confirm == call.request.query.end() ? std::nullopt : std::optional(confirm->second)));
}

Response act(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "volume");
  if (!id) return problem(id.error());
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::VolumeActionWish wish;
  const auto action = fields.one_of("action", Presence::required, {"leave", "force_solo", "give_up"});
  const auto side = fields.one_of("side", Presence::required, {"a", "b"});
  wish.accept_inconsistent = fields.flag("accept_inconsistent", Presence::optional).value_or(false);
  wish.confirm = fields.text("confirm", Presence::optional).value_or("");
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  using Kind = mgmt::ReplicaOrder::Kind;
  wish.kind = *action == "leave" ? Kind::leave : *action == "force_solo" ? Kind::force_solo : Kind::give_up;
  wish.side = *side == "b" ? mgmt::NodeSide::b : mgmt::NodeSide::a;
  return accepted(controller.volumes().act(*id, wish));
}

}  // namespace

void add_volume_resources(Router& router, Controller& controller) {
  router.add(
      {"GET", "/api/v1/volumes", Access::viewer, false, [&controller](const Call&) { return list(controller); }});
  router.add({"POST", "/api/v1/volumes", Access::admin, true,
              [&controller](const Call& call) { return create(controller, call); }});
  router.add({"GET", "/api/v1/volumes/{id}", Access::viewer, false, [&controller](const Call& call) {
                const auto id = path_id(call.parameters[0], "volume");
                return id ? show(controller, *id) : problem(id.error());
              }});
  router.add({"PATCH", "/api/v1/volumes/{id}", Access::admin, true,
              [&controller](const Call& call) { return change(controller, call); }});
  router.add({"DELETE", "/api/v1/volumes/{id}", Access::admin, true,
              [&controller](const Call& call) { return remove(controller, call); }});
  // Not ordered: it must work when the partner burned down.
  router.add({"POST", "/api/v1/volumes/{id}/actions", Access::admin, false,
              [&controller](const Call& call) { return act(controller, call); }});
}

}  // namespace lockstep::ui_api
