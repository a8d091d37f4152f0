// /api/v1/pair, /nodes, /sessions
#include "mgmt/control/controller.hpp"
#include "mgmt/control/link_paths.hpp"
#include "mgmt/control/validation.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/chap.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;
using mgmt::NodeSide;

NodeSide side_of(const std::string& text) { return text == "b" ? NodeSide::b : NodeSide::a; }

mgmt::NodeWish read_node(Fields fields) {
  mgmt::NodeWish wish;
  wish.name = fields.text("name", Presence::optional);
  wish.portals = fields.texts("portals", Presence::optional);
  wish.link_address = fields.text("link_address", Presence::optional);
  wish.management_address = fields.text("management_address", Presence::optional);
  fields.nothing_else();
  return wish;
}

/// `at`: where the body has it.
mgmt::Arbiter read_arbiter(Fields fields, const std::string& at, Problems& problems) {
  mgmt::Arbiter arbiter;
  const auto kind = fields.one_of("kind", Presence::required, {"witness", "preferred", "fence"});
  arbiter.witness = kind == "witness";
  arbiter.fence = kind == "fence";  // what is run, root's file on each node alone says
  arbiter.endpoints = fields.texts("endpoints", Presence::optional).value_or(std::vector<std::string>());
  arbiter.access = {
      fields.text("ca", Presence::optional).value_or(""), fields.text("certificate", Presence::optional).value_or(""),
      fields.text("key", Presence::optional).value_or(""), fields.text("user", Presence::optional).value_or(""),
      fields.text("password", Presence::optional).value_or("")};
  if (const auto side = fields.one_of("preferred_side", Presence::optional, {"a", "b"})) {
    if (arbiter.witness || arbiter.fence)
      problems.push_back({at + "/preferred_side", "Belongs to the kind preferred."});
    arbiter.preferred = side_of(*side);
  }
  if (arbiter.endpoints.size() > 9) problems.push_back({at + "/endpoints", "Must be at most 9."});
  fields.nothing_else();
  return arbiter;
}

mgmt::PairSettings read_settings(Fields fields, Problems& problems) {
  mgmt::PairSettings s;
  s.lease_ms = fields.integer("lease_ms", Presence::optional, 0, INT64_MAX).value_or(s.lease_ms);
  if (const auto complaint = mgmt::check_lease(s.lease_ms)) problems.push_back({"/settings/lease_ms", *complaint});
  s.resync_floor =
      fields.integer("resync_floor_bytes_per_second", Presence::optional, 0, INT64_MAX).value_or(s.resync_floor);
  s.resync_ceiling =
      fields.integer("resync_ceiling_bytes_per_second", Presence::optional, 0, INT64_MAX).value_or(s.resync_ceiling);
  fields.nothing_else();
  return s;
}

Response create_pair(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::PairWish wish;
  wish.name = fields.text("name", Presence::required).value_or("");
  wish.target_name = fields.text("target_name", Presence::optional).value_or("");
  if (const auto id = fields.text("id", Presence::optional)) {
    wish.id = mgmt::Uuid::parse(*id);
    if (!wish.id) problems.push_back({"/id", "Must be a UUID."});
  }
  if (auto node = fields.object("node", Presence::optional)) wish.node = read_node(std::move(*node));
  if (auto arbiter = fields.object("arbiter", Presence::required))
    wish.arbiter = read_arbiter(std::move(*arbiter), "/arbiter", problems);
  if (auto settings = fields.object("settings", Presence::optional))
    wish.settings = read_settings(std::move(*settings), problems);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto done = controller.pair().create(wish); !done) return problem(done.error());
  return created(pair_json(controller.view()), "/api/v1/pair");
}

Response change_pair(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::PairChange change{.name = fields.text("name", Presence::optional), .discovery = {}};
  const auto settings = fields.object("settings", Presence::optional);
  if (settings) {
    Fields rates = *settings;
    change.resync_floor = rates.integer("resync_floor_bytes_per_second", Presence::optional, 0, INT64_MAX);
    change.resync_ceiling = rates.integer("resync_ceiling_bytes_per_second", Presence::optional, 0, INT64_MAX);
    rates.nothing_else();
  }
  const bool open = fields.is_null("discovery_chap");
  const auto chap = open ? std::nullopt : read_chap(fields, "discovery_chap");
  if (open || chap) change.discovery = chap;
  fields.nothing_else();
  if (problems.empty() && !change.name && !change.discovery && !settings)
    problems.push_back({"", "Nothing is to be changed: give name, discovery_chap or settings."});
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto done = controller.pair().change(change); !done) return problem(done.error());
  return ok(pair_json(controller.view()));
}

Response show_witness(Controller& controller) {
  const mgmt::PairView view = controller.view();
  if (!view.configuration->pair) return problem(mgmt::RefusalKind::no_pair, "Make a pair or join one first.");
  return ok(pair_witness_json(view));
}

Response change_witness(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::WitnessWish wish;
  const auto endpoints = fields.texts("endpoints", Presence::optional);
  if (endpoints && (endpoints->empty() || endpoints->size() > 9)) problems.push_back({"/endpoints", "Must be 1 to 9."});
  wish.endpoints = endpoints.value_or(std::vector<std::string>());
  wish.ca = fields.text("ca", Presence::optional);
  wish.certificate = fields.text("certificate", Presence::optional);
  wish.key = fields.text("key", Presence::optional);
  wish.user = fields.text("user", Presence::optional);
  wish.password = fields.text("password", Presence::optional);
  fields.nothing_else();
  const bool said = endpoints || wish.ca || wish.certificate || wish.key || wish.user || wish.password;
  if (problems.empty() && !said) problems.push_back({"", "Nothing is to be changed: give endpoints, ca or user."});
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.witness().change(wish));
}

Response change_arbiter(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  const mgmt::Arbiter next = read_arbiter(Fields(*body, "", problems), "", problems);
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.witness().change_arbiter(next));
}

Response change_lease(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto lease_ms = fields.integer("lease_ms", Presence::required, 0, INT64_MAX);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.lease().change(*lease_ms));
}

Response change_node(Controller& controller, const Call& call) {
  const std::string& side = call.parameters.front();
  if (side != "a" && side != "b") return problem(mgmt::RefusalKind::not_found, "There is no such side: name a or b.");
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto name = fields.text("name", Presence::required);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto done = controller.pair().rename_node(side_of(side), *name); !done) return problem(done.error());
  return ok(nodes_json(controller.view()));
}

Response invite(Controller& controller) {
  const auto invitation = controller.pair().invite();
  if (!invitation) return problem(invitation.error());
  return ok({{"invitation", invitation->text}, {"expires_at", rfc3339(invitation->expires_ms)}}, 201);
}

Response replace_node(Controller& controller, const Call& call) {
  const std::string& side = call.parameters.front();
  if (side != "a" && side != "b") return problem(mgmt::RefusalKind::not_found, "There is no such side: name a or b.");
  const auto confirm = confirm_of(call.request);
  if (!confirm) return problem(confirm.error());
  const auto invitation = controller.pair().invite_in_place_of(side_of(side), *confirm);
  if (!invitation) return problem(invitation.error());
  return ok(
      {{"invitation", invitation->text},
       {"expires_at", rfc3339(invitation->expires_ms)},
       {"undecided_change", invitation->undecided.empty() ? nlohmann::json() : nlohmann::json(invitation->undecided)}},
      201);
}

Response leave_pair(Controller& controller, const Call& call) {
  const std::string& side = call.parameters.front();
  if (side != "a" && side != "b") return problem(mgmt::RefusalKind::not_found, "There is no such side: name a or b.");
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const mgmt::LeaveWish wish{.side = side_of(side),
                             .lost = fields.flag("lost", Presence::optional).value_or(false),
                             .confirm = fields.text("confirm", Presence::optional).value_or("")};
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.leaving().leave(wish));
}

/// Gives the wish, or why it is none.
std::expected<mgmt::AddressWish, Response> read_addresses(const Call& call) {
  const std::string& side = call.parameters.front();
  if (side != "a" && side != "b")
    return std::unexpected(problem(mgmt::RefusalKind::not_found, "There is no such side: name a or b."));
  const auto body = body_of(call.request);
  if (!body) return std::unexpected(problem(body.error()));
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::AddressWish wish{.side = side_of(side), .portals = {}, .link_address = {}, .management_address = {}};
  wish.portals = fields.texts("portals", Presence::optional);
  wish.link_address = fields.text("link_address", Presence::optional);
  wish.management_address = fields.text("management_address", Presence::optional);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return std::unexpected(problem(good.error()));
  return wish;
}

Response change_addresses(Controller& controller, const Call& call) {
  auto wish = read_addresses(call);
  if (!wish) return std::move(wish.error());
  return accepted(controller.addresses().change(*wish));
}

/// The node that orders changes may be the one that is not found where it was.
void find_orderer(Controller& controller, const Call& call) {
  const auto wish = read_addresses(call);
  if (wish && wish->management_address && controller.core().side() != wish->side)
    controller.core().look_for_partner_at(*wish->management_address);
}

Response dissolve_pair(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const mgmt::DissolveWish wish{.delete_volumes = fields.flag("delete_volumes", Presence::optional).value_or(false),
                                .confirm = fields.text("confirm", Presence::optional).value_or("")};
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.leaving().dissolve(wish));
}

mgmt::RecoveryWish read_recovery(const nlohmann::json& body, Problems& problems) {
  Fields fields(body, "", problems);
  mgmt::RecoveryWish wish;
  wish.confirm = fields.text("confirm", Presence::optional).value_or("");
  mgmt::RebuildWish rebuild;
  if (const auto pair = fields.text("pair", Presence::optional)) {
    rebuild.pair = mgmt::Uuid::parse(*pair);
    if (!rebuild.pair) problems.push_back({"/pair", "Must be a UUID."});
  }
  rebuild.name = fields.text("name", Presence::optional).value_or("");
  rebuild.target_name = fields.text("target_name", Presence::optional).value_or("");
  if (auto node = fields.object("node", Presence::optional)) wish.node = read_node(std::move(*node));
  if (auto arbiter = fields.object("arbiter", Presence::optional))
    rebuild.arbiter = read_arbiter(std::move(*arbiter), "/arbiter", problems);
  fields.nothing_else();
  const bool only_confirmed = body.is_object() && body.size() == (body.contains("confirm") ? 1 : 0);
  if (!only_confirmed) wish.rebuild = std::move(rebuild);
  return wish;
}

Response recover_pair(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  const mgmt::RecoveryWish wish = read_recovery(*body, problems);
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto done = controller.recovery().recover(wish, call.token); !done) return problem(done.error());
  return created(pair_json(controller.view()), "/api/v1/pair");
}

Response show_recovery(Controller& controller, const Call& call) {
  const auto named = call.request.query.find("pair");
  if (named == call.request.query.end()) return ok(recovery_json(controller.recovery().look()));
  const auto pair = mgmt::Uuid::parse(named->second);
  if (!pair) return problem(mgmt::Refusal{mgmt::RefusalKind::malformed, "The query's pair must be a UUID.", {}});
  return ok(recovery_json(controller.recovery().look(pair)));
}

Response join(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto invitation = fields.text("invitation", Presence::required);
  if (invitation && (invitation->empty() || invitation->size() > 4096))
    problems.push_back({"/invitation", "Must be 1 to 4096 characters."});
  mgmt::NodeWish node;
  if (auto n = fields.object("node", Presence::optional)) node = read_node(std::move(*n));
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.pair().join(*invitation, node, call.token));
}

Response protect_link(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const bool tls = fields.flag("tls", Presence::required).value_or(false);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.link_tls().protect(tls));
}

Response show_link(Controller& controller, int status = 200) {
  const mgmt::PairView view = controller.view();
  if (!view.configuration->pair) return problem(mgmt::RefusalKind::no_pair, "Make a pair or join one first.");
  return ok(pair_link_json(view), status);
}

/// This node's end of a path, and what its lockstepd says of it.
mgmt::Outcome<mgmt::LinkPathStatus> end_of_path(const mgmt::PairView& view, std::int64_t number) {
  if (!view.configuration->pair) return mgmt::refuse(mgmt::RefusalKind::no_pair, "Make a pair or join one first.");
  const auto paths = mgmt::link_paths_of(view);
  if (number > static_cast<std::int64_t>(paths.size()))
    return mgmt::refuse(mgmt::RefusalKind::not_found, "The link has no such path. `lockstep link` lists them.");
  const auto& end = paths[static_cast<std::size_t>(number - 1)].ends.at(*view.local_side == NodeSide::b ? 1 : 0);
  if (!end.status)
    return mgmt::refuse(mgmt::RefusalKind::data_plane_away, "lockstepd here has not said anything of this path yet.");
  return *end.status;
}

/// The same of one that stands, over TCP or over RDMA.
mgmt::Outcome<mgmt::LinkPathStatus> way_out(const mgmt::PairView& view, std::int64_t number, bool over_rdma) {
  auto end = end_of_path(view, number);
  if (!end) return end;
  if (over_rdma && !end->rdma)
    return mgmt::refuse(mgmt::RefusalKind::conflict,
                        "The path does not go over RDMA from here. `lockstep link` says why the data does not.");
  if (over_rdma && end->rdma->state == "down")
    return mgmt::refuse(mgmt::RefusalKind::conflict, "The path is down over RDMA: " + end->rdma->problem);
  if (!over_rdma && end->state == "down")
    return mgmt::refuse(mgmt::RefusalKind::conflict, "The path is down: " + end->problem);
  return end;
}

/// What was lost, was lost meanwhile: of the path as it is afterwards. By then the node may have left its pair.
std::vector<std::string> what_stands_out(const mgmt::LinkMeasured& measured, const mgmt::LinkPathStatus& before,
                                         const mgmt::PairView& view, std::int64_t number, bool over_rdma) {
  const auto here = mgmt::interface_of(before.from).value_or(mgmt::NetworkInterface{});
  if (over_rdma) {
    const mgmt::DataPlaneStatus* const status = view.local_side && view.at(*view.local_side).report.status
                                                    ? &*view.at(*view.local_side).report.status
                                                    : nullptr;
    return mgmt::findings_over_rdma(measured, here,
                                    status ? status->rdma_findings : std::vector<mgmt::FabricFinding>{});
  }
  const auto after = way_out(view, number, false);
  return mgmt::findings_of(measured.sizes, after ? *after : before, here);
}

Response measure_link(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  const auto number = fields.integer("path", Presence::required, 1, 1 + mgmt::kMaxMorePaths).value_or(1);
  const bool over_rdma = fields.one_of("transport", Presence::optional, {"tcp", "rdma"}) == "rdma";
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  const mgmt::PairView before = controller.view();
  const auto path = way_out(before, number, over_rdma);
  if (!path) return problem(path.error());
  json order{{"to", path->to}};
  if (over_rdma) order["transport"] = "rdma";  // a lockstepd of before that knows no such word
  const auto said = controller.data_plane().call("link.test", order.dump(), std::chrono::seconds(30));
  if (!said) return problem(said.error());
  const auto measured = mgmt::link_measured_from(*said);
  if (!measured) return problem(measured.error());
  return ok({{"path", number},
             {"node", before.at(*before.local_side).node->name},
             {"from", path->from},
             {"to", path->to},
             {"transport", over_rdma ? "rdma" : path->transport},
             {"sizes", sizes_measured_json(measured->sizes)},
             {"findings", what_stands_out(*measured, *path, controller.view(), number, over_rdma)}});
}

Response add_link_path(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::LinkPathWish wish;
  wish.addresses = {fields.text("a", Presence::required).value_or(""),
                    fields.text("b", Presence::required).value_or("")};
  wish.last_resort = fields.flag("last_resort", Presence::optional).value_or(false);
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (auto good = mgmt::know_several_paths(controller.view()); !good) return problem(good.error());
  if (auto done = controller.pair().add_link_path(wish); !done) return problem(done.error());
  Response response = show_link(controller, 201);
  response.headers.emplace_back("Location", "/api/v1/pair/link");
  return response;
}

Response remove_link_path(Controller& controller, const std::string& address) {
  if (auto done = controller.pair().remove_link_path(address); !done) return problem(done.error());
  return no_content();
}

}  // namespace

void add_pair_resources(Router& router, Controller& controller) {
  router.add({"GET", "/api/v1/pair", Access::viewer, false,
              [&controller](const Call&) { return ok(pair_json(controller.view())); }});
  router.add({"POST", "/api/v1/pair", Access::admin, false,
              [&controller](const Call& call) { return create_pair(controller, call); }});
  router.add({"PATCH", "/api/v1/pair", Access::admin, true,
              [&controller](const Call& call) { return change_pair(controller, call); }, true});
  router.add({"PATCH", "/api/v1/pair/arbiter", Access::admin, true,
              [&controller](const Call& call) { return change_arbiter(controller, call); }});
  router.add({"PATCH", "/api/v1/pair/lease", Access::admin, true,
              [&controller](const Call& call) { return change_lease(controller, call); }});
  router.add({"PATCH", "/api/v1/nodes/{side}", Access::admin, true,
              [&controller](const Call& call) { return change_node(controller, call); }, true});
  router.add({"GET", "/api/v1/pair/witness", Access::viewer, false,
              [&controller](const Call&) { return show_witness(controller); }});
  router.add({"PATCH", "/api/v1/pair/witness", Access::admin, true,
              [&controller](const Call& call) { return change_witness(controller, call); }});
  router.add({"POST", "/api/v1/pair/link-secrets", Access::admin, true,
              [&controller](const Call&) { return accepted(controller.link().rotate()); }});
  router.add({"POST", "/api/v1/pair/link-protection", Access::admin, true,
              [&controller](const Call& call) { return protect_link(controller, call); }});
  router.add({"GET", "/api/v1/pair/link", Access::viewer, false,
              [&controller](const Call&) { return show_link(controller); }});
  router.add({"POST", "/api/v1/pair/link/measurement", Access::admin, false,
              [&controller](const Call& call) { return measure_link(controller, call); }});
  router.add({"POST", "/api/v1/pair/link/paths", Access::admin, true,
              [&controller](const Call& call) { return add_link_path(controller, call); }});
  router.add({"DELETE", "/api/v1/pair/link/paths/{address}", Access::admin, true,
              [&controller](const Call& call) { return remove_link_path(controller, call.parameters.front()); }});
  router.add({"POST", "/api/v1/pair/invitations", Access::admin, false,
              [&controller](const Call&) { return invite(controller); }});
  router.add({"POST", "/api/v1/pair/join", Access::admin, false,
              [&controller](const Call& call) { return join(controller, call); }});
  router.add({"GET", "/api/v1/pair/recovery", Access::admin, false,
              [&controller](const Call& call) { return show_recovery(controller, call); }});
  router.add({"POST", "/api/v1/pair/recovery", Access::admin, false,
              [&controller](const Call& call) { return recover_pair(controller, call); }});
  router.add({"POST", "/api/v1/nodes/{side}/replacement", Access::admin, false,
              [&controller](const Call& call) { return replace_node(controller, call); }});
  router.add({.method = "PATCH",
              .pattern = "/api/v1/nodes/{side}/addresses",
              .access = Access::admin,
              .ordered = true,
              .answer = [&controller](const Call& call) { return change_addresses(controller, call); },
              .before = [&controller](const Call& call) { find_orderer(controller, call); }});
  router.add({"POST", "/api/v1/nodes/{side}/leave", Access::admin, false,
              [&controller](const Call& call) { return leave_pair(controller, call); }});
  router.add({"POST", "/api/v1/pair/dissolve", Access::admin, true,
              [&controller](const Call& call) { return dissolve_pair(controller, call); }});
  router.add({"GET", "/api/v1/nodes", Access::viewer, false,
              [&controller](const Call&) { return ok(nodes_json(controller.view())); }});
  router.add({"GET", "/api/v1/sessions", Access::viewer, false,
              [&controller](const Call&) { return ok(sessions_json(controller.view())); }});
}

}  // namespace lockstep::ui_api
