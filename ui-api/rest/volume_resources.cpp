// /api/v1/volumes
#include "mgmt/control/controller.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/records/fields.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

Response show_volume(Controller& controller, const mgmt::Uuid& id) {
  const auto view = controller.view();
  const mgmt::Volume* volume = view.configuration->volume(id);
  if (!volume) return problem(mgmt::RefusalKind::not_found, "There is no volume with this id.");
  return ok(volume_json(view, *volume));
}

Response list_volumes(Controller& controller) {
  const auto view = controller.view();
  nlohmann::json items = nlohmann::json::array();
  for (const auto& volume : view.configuration->volumes) items.push_back(volume_json(view, volume));
  return ok({{"items", items}});
}

/// The names in which block sizes are sold: logical and physical.
struct BlockFormat {
  const char* name;
  std::int64_t logical;
  std::int64_t physical;
};
constexpr const char* kImporter = "iqn.2026-11.io.lockstep:import";  // the name that a source sees
constexpr BlockFormat kBlockFormats[] = {{"512e", 512, 4096}, {"512n", 512, 512}, {"4kn", 4096, 4096}};

// Either field alone will do; when both are there they must agree, which problems_of() sees.
void read_blocks(Fields& fields, mgmt::VolumeWish& wish) {
  const auto format = fields.one_of("block_format", Presence::optional, {"512e", "512n", "4kn"});
  const auto size = fields.integer("block_size_bytes", Presence::optional, INT64_MIN, INT64_MAX);
  for (const BlockFormat& known : kBlockFormats) {
    if (!format || *format != known.name) continue;
    wish.block_size = known.logical;
    wish.physical_block = known.physical;
    if (size && *size != known.logical) wish.physical_block = 0;
  }
  if (size) wish.block_size = *size;
}

// What nobody chooses, or chooses in words of its own. All else of a volume may be asked for by its name.
constexpr std::string_view kNotRead =
    "id name serial lun size block_size physical_block lifecycle first_epoch import_secret created_ms shard copies";

void read_use(Fields& fields, mgmt::VolumeWish& wish) {
  records::each_field<mgmt::Volume>([&]<class Member>() {
    if constexpr (!records::lists(kNotRead, Member::name)) fields.take(Member::name, wish.*Member::pointer);
  });
}

Response create_volume(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::VolumeWish wish;
  const auto name = fields.text("name", Presence::required);
  const auto size = fields.integer("size_bytes", Presence::required, INT64_MIN, INT64_MAX);
  read_blocks(fields, wish);
  read_use(fields, wish);
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

Response import(Controller& controller, const Call& call) {
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::ImportWish wish;
  const auto name = fields.text("name", Presence::required);
  const auto source = fields.text("source", Presence::required);
  const auto initiator = fields.text("initiator", Presence::optional);
  const auto format = fields.one_of("block_format", Presence::optional, {"512e", "512n"});
  read_use(fields, wish.volume);
  fields.nothing_else();
  wish.volume.name = name.value_or("");
  if (format && *format == "512n") wish.volume.physical_block = 512;
  if (source) {
    const auto parsed = mgmt::parse_import_source(*source);
    if (parsed) wish.source = *parsed;
    if (!parsed) problems.push_back({"/source", parsed.error()});
  }
  wish.initiator = initiator.value_or(kImporter);
  if (const auto complaint = mgmt::check_iscsi_name(wish.initiator)) problems.push_back({"/initiator", *complaint});
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.volumes().import(wish));
}

// What a volume was made with and keeps is named as such, rather than as a field that nobody knows.
void refuse_what_stays(const nlohmann::json& body, Fields& fields, Problems& problems) {
  if (!body.is_object()) return;
  for (const char* name : {"block_format", "block_size_bytes", "thin", "removable", "encrypted"})
    if (fields.is_there(name))
      problems.push_back({std::string("/") + name, "Stays as it was when the volume was made; it can't be changed."});
}

Response change(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "volume");
  if (!id) return problem(id.error());
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::VolumeChange change;
  change.name = fields.text("name", Presence::optional);
  change.any_initiator = fields.flag("any_initiator", Presence::optional);
  change.access = fields.texts("access", Presence::optional);
  change.read_only = fields.flag("read_only", Presence::optional);
  change.write_cache = fields.flag("write_cache", Presence::optional);
  const auto size = fields.integer("size_bytes", Presence::optional, INT64_MIN, INT64_MAX);
  refuse_what_stays(*body, fields, problems);
  fields.nothing_else();
  const bool use = change.name || change.any_initiator || change.access || change.read_only || change.write_cache;
  if (problems.empty() && !use && !size)
    problems.push_back(
        {"", "Nothing is to be changed: give name, access, any_initiator, read_only, write_cache or size_bytes."});
  if (problems.empty() && use && size)
    problems.push_back({"/size_bytes", "Takes a job of its own: change it by itself."});
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  if (size) return accepted(controller.volumes().grow(*id, *size));
  if (auto done = controller.volumes().change(*id, change); !done) return problem(done.error());
  return show_volume(controller, *id);
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
  wish.despite_partner = fields.flag("despite_partner", Presence::optional).value_or(false);
  wish.confirm = fields.text("confirm", Presence::optional).value_or("");
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  using Kind = mgmt::ReplicaOrder::Kind;
  wish.kind = *action == "leave" ? Kind::leave : *action == "force_solo" ? Kind::force_solo : Kind::give_up;
  wish.side = *side == "b" ? mgmt::NodeSide::b : mgmt::NodeSide::a;
  return accepted(controller.volumes().act(*id, wish));
}

Response replace(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "volume");
  if (!id) return problem(id.error());
  const std::string& side = call.parameters[1];
  if (side != "a" && side != "b") return problem(mgmt::RefusalKind::not_found, "A pair's sides are a and b.");
  const auto body = body_of(call.request);
  if (!body) return problem(body.error());
  Problems problems;
  Fields fields(*body, "", problems);
  mgmt::ReplaceWish wish;
  wish.side = side == "b" ? mgmt::NodeSide::b : mgmt::NodeSide::a;
  wish.store = fields.text("store", Presence::optional).value_or("");
  wish.confirm = fields.text("confirm", Presence::optional).value_or("");
  fields.nothing_else();
  if (auto good = accept(std::move(problems)); !good) return problem(good.error());
  return accepted(controller.replacing().replace(*id, wish));
}

}  // namespace

std::vector<std::string> volume_wish_fields() {
  std::vector<std::string> names;
  records::each_field<mgmt::Volume>([&]<class Member>() {
    if constexpr (!records::lists(kNotRead, Member::name)) names.emplace_back(Member::name);
  });
  return names;
}

void add_volume_resources(Router& router, Controller& controller) {
  router.add({"GET", "/api/v1/volumes", Access::viewer, false,
              [&controller](const Call&) { return list_volumes(controller); }});
  router.add({"POST", "/api/v1/volumes", Access::admin, true,
              [&controller](const Call& call) { return create_volume(controller, call); }, true});
  router.add({"POST", "/api/v1/imports", Access::admin, true,
              [&controller](const Call& call) { return import(controller, call); }});
  router.add({"GET", "/api/v1/volumes/{id}", Access::viewer, false, [&controller](const Call& call) {
                const auto id = path_id(call.parameters[0], "volume");
                return id ? show_volume(controller, *id) : problem(id.error());
              }});
  router.add({"PATCH", "/api/v1/volumes/{id}", Access::admin, true,
              [&controller](const Call& call) { return change(controller, call); }, true});
  router.add({"DELETE", "/api/v1/volumes/{id}", Access::admin, true,
              [&controller](const Call& call) { return remove(controller, call); }, true});
  router.add({"POST", "/api/v1/volumes/{id}/replicas/{side}/replace", Access::admin, true,
              [&controller](const Call& call) { return replace(controller, call); }});
  // Not ordered: it must work when the partner burned down.
  router.add({"POST", "/api/v1/volumes/{id}/actions", Access::admin, false,
              [&controller](const Call& call) { return act(controller, call); }});
}

}  // namespace lockstep::ui_api
