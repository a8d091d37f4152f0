// lockstep pair leave, lockstep pair dissolve
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

struct LeaveOptions {
  std::string node, confirmation;
  bool lost = false, without_changes = false, no_wait = false;
};

/// What is confirmed by the node's name; the node itself may be asked, where it is known to be out already.
std::string warning_of(const json& node, const std::string& side, const LeaveOptions& o) {
  if (flag(node, "local"))
    return "This node forgets the pair, and what it has of the pair's volumes is deleted. Refused while it is still "
           "in the pair.";
  const std::string rest =
      "The other node goes on alone, without a pause, and there is one copy of each volume until "
      "another node joins.";
  if (o.lost)
    return fmt::format(
        "Side {} is let go without its doing: for a machine that is lost for good. It is refused when it "
        "comes back. {}",
        side, rest);
  return fmt::format("Side {} leaves the pair for good, and its copies of the volumes are deleted. {}", side, rest);
}

Outcome<void> leave(Context& context, const LeaveOptions& o) {
  const auto side = find_side(context, o.node);
  if (!side) return std::unexpected(side.error());
  const auto nodes = context.api.list("/nodes");
  if (!nodes) return std::unexpected(nodes.error());
  json body = json::object();
  if (o.lost) body["lost"] = true;
  const std::string path = "/nodes/" + *side + "/leave";
  for (const json& node : *nodes) {
    if (text(node, "side") != *side) continue;
    const std::string name = text(node, "name");
    const auto risked = what_is_risked(context, path, body, o.confirmation, o.without_changes);
    if (!risked) return std::unexpected(risked.error());
    if (auto sure = confirm(context, warning_of(node, *side, o) + *risked, name, o.confirmation); !sure) return sure;
    body["confirm"] = o.without_changes ? name + " without its changes" : name;
  }
  auto job = context.api.post(path, body);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

void add_leave(CLI::App& pair, Action& chosen) {
  auto o = std::make_shared<LeaveOptions>();
  auto* c = pair.add_subcommand("leave", "Take a node out of the pair; the other one goes on alone with the volumes");
  c->footer(
      "Run it on the node that stays. Hosts go on through that one; the node that leaves is in no pair afterwards, "
      "its\n"
      "copies are deleted, and it can make or join another pair. `lockstep pair invite` takes another node in later.\n"
      "Examples:\n"
      "  node-a# lockstep pair leave b\n"
      "  node-a# lockstep pair leave b --lost      node-b is gone for good\n"
      "  node-b# lockstep pair leave b             node-b was let go while it was away, and is back");
  c->add_option("node", o->node, "The side that leaves, a or b, or its node's name")->required();
  auto* lost = c->add_flag("--lost", o->lost, "It can't be reached, and never will be again");
  c->add_flag("--without-its-changes", o->without_changes,
              "Also where it has changed the configuration or a volume alone, or has the only good copy of one")
      ->needs(lost);
  c->add_option("--confirm", o->confirmation, "The node's name, in place of the question")->type_name("NAME");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return leave(context, *o); }; });
}

struct DissolveOptions {
  std::string confirmation;
  bool delete_volumes = false, no_wait = false;
};

Outcome<void> dissolve(Context& context, const DissolveOptions& o) {
  const auto pair = context.api.get("/pair");
  if (!pair) return std::unexpected(pair.error());
  json body = json::object();
  if (o.delete_volumes) body["delete_volumes"] = true;
  if (const std::string name = text(*pair, "name"); !name.empty()) {
    const std::string warning =
        fmt::format("The pair {} ends: both nodes are in no pair afterwards.{}", name,
                    o.delete_volumes ? " ALL ITS VOLUMES AND THEIR DATA ARE DELETED on both." : "");
    if (auto sure = confirm(context, warning, name, o.confirmation); !sure) return sure;
    body["confirm"] = name;
  }
  auto job = context.api.post("/pair/dissolve", body);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

void add_dissolve(CLI::App& pair, Action& chosen) {
  auto o = std::make_shared<DissolveOptions>();
  auto* c = pair.add_subcommand("dissolve", "End the pair: its nodes are in no pair afterwards");
  c->footer(
      "Refused while there are volumes, unless they are to be deleted. To keep them, on one node, have the other one\n"
      "leave: `lockstep pair leave`.\n"
      "Examples:\n"
      "  lockstep pair dissolve\n"
      "  lockstep pair dissolve --delete-volumes --confirm pair1");
  c->add_flag("--delete-volumes", o->delete_volumes, "Delete all volumes, and their data, first");
  c->add_option("--confirm", o->confirmation, "The pair's name, in place of the question")->type_name("NAME");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return dissolve(context, *o); }; });
}

}  // namespace

void add_pair_leave_commands(CLI::App& pair, Action& chosen) {
  add_leave(pair, chosen);
  add_dissolve(pair, chosen);
}

}  // namespace lockstep::cli
