// lockstep volume leave, force-solo, give-up
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

struct Wording {
  const char* command;
  const char* action;
  const char* summary;
  const char* example;
  const char* warning;  ///< null: needs no confirmation; else with {0} the node and {1} the volume
};

constexpr Wording kActions[] = {
    {"leave", "leave", "Take one node's replica out for maintenance; the other node goes on alone",
     "The replica returns, and is brought up to date, when lockstepd on that node is restarted.\n\n"
     "Example:\n  lockstep volume leave vm1 --node b",
     nullptr},
    {"force-solo", "force_solo", "Make one node go on alone, on your word that the other is gone for good",
     "Example:\n  lockstep volume force-solo vm1 --node b --confirm vm1",
     "Node {0} will serve {1} alone. If the other node serves it too, the two copies drift apart and one will have to "
     "be given "
     "up."},
    {"give-up", "give_up", "After a split brain: drop one node's changes and bring it up to date from the other",
     "Example:\n  lockstep volume give-up vm1 --node a --confirm vm1",
     "What was written to {1} on node {0} since the two copies parted is lost."},
};

struct ActionOptions {
  std::string name, node, confirm;
  bool yes = false, no_wait = false, accept_inconsistent = false, despite_partner = false;
};

Outcome<void> act(Context& context, const Wording& words, const ActionOptions& o) {
  const auto found = find_volume(context, o.name);
  if (!found) return std::unexpected(found.error());
  const auto side = find_side(context, o.node);
  if (!side) return std::unexpected(side.error());
  const std::string name = text(*found, "name");
  json body{{"action", words.action}, {"side", *side}};
  if (words.warning != nullptr) {
    const std::string warning = fmt::format(fmt::runtime(words.warning), o.node, name);
    if (auto sure = confirm(context, warning, name, o.yes ? name : o.confirm); !sure) return sure;
    body["confirm"] = name;
  }
  if (o.accept_inconsistent) body["accept_inconsistent"] = true;
  if (o.despite_partner) body["despite_partner"] = true;
  auto job = context.api.post("/volumes/" + text(*found, "id") + "/actions", body);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

}  // namespace

void add_volume_action_commands(CLI::App& volume, Action& chosen) {
  for (const Wording& words : kActions) {
    auto o = std::make_shared<ActionOptions>();
    auto* c = volume.add_subcommand(words.command, words.summary);
    c->footer(words.example);
    c->add_option("name", o->name, "Name or id of the volume")->required();
    c->add_option("--node", o->node, "The node whose replica is meant: a, b or its name")
        ->required()
        ->type_name("NODE");
    if (words.warning != nullptr) {
      c->add_option("--confirm", o->confirm, "The volume's name, instead of typing it when asked")->type_name("NAME");
      c->add_flag("--yes", o->yes, "Do not ask");
    }
    if (words.action == std::string_view("force_solo")) {
      c->add_flag(
          "--accept-inconsistent", o->accept_inconsistent,
          "Although this copy is in the middle of a resync, and a mixture of old and new, or lacks what the other has");
      c->add_flag("--despite-partner", o->despite_partner,
                  "Although the other node says that it serves the volume: what one of the two takes is lost later");
    }
    c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
    c->callback([o, &words, &chosen] { chosen = [o, &words](Context& context) { return act(context, words, *o); }; });
  }
}

}  // namespace lockstep::cli
