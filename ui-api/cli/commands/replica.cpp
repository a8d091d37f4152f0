// lockstep replica replace
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

struct ReplaceOptions {
  std::string name, node, store, confirm;
  bool all = false, yes = false, no_wait = false;
};

bool is_lost(const json& volume, const std::string& side) {
  for (const json& replica : part(volume, "replicas"))
    if (text(replica, "side") == side) return flag(replica, "lost");
  return false;
}

Outcome<json> begin(Context& context, const json& volume, const std::string& side, const ReplaceOptions& o) {
  json body = json::object();
  if (!o.store.empty()) body["store"] = o.store;
  if (!is_lost(volume, side)) body["confirm"] = text(volume, "name");
  return context.api.post("/volumes/" + text(volume, "id") + "/replicas/" + side + "/replace", body);
}

Outcome<void> replace_one(Context& context, const std::string& side, const ReplaceOptions& o) {
  const auto volume = find_volume(context, o.name);
  if (!volume) return std::unexpected(volume.error());
  const std::string name = text(*volume, "name");
  if (!is_lost(*volume, side) && !o.store.empty()) {
    const std::string warning = fmt::format(
        "The copy of {} on node {} is not lost. It leaves now, so that there is one copy until the new one in {} is "
        "whole; then its files are removed.",
        name, o.node, o.store);
    if (auto sure = confirm(context, warning, name, o.yes ? name : o.confirm); !sure) return sure;
  }
  auto job = begin(context, *volume, side, o);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

/// All are begun, so that they are copied beside one another; one that is refused keeps none of the others.
Outcome<void> replace_all(Context& context, const std::string& side, const ReplaceOptions& o) {
  const auto volumes = context.api.get("/volumes");
  if (!volumes) return std::unexpected(volumes.error());
  std::vector<json> lost;
  std::string names;
  for (const json& volume : part(*volumes, "items")) {
    if (!is_lost(volume, side)) continue;
    names += (names.empty() ? "" : ", ") + text(volume, "name");
    lost.push_back(volume);
  }
  if (lost.empty()) {
    context.err << fmt::format("No copy on node {} is lost.\n", o.node);
    return {};
  }
  const std::string warning = fmt::format("New copies are made on node {}, in {}, of: {}.", o.node,
                                          o.store.empty() ? "the folders where the lost ones were" : o.store, names);
  if (auto sure = confirm(context, warning, o.node, o.yes ? o.node : o.confirm); !sure) return sure;
  Outcome<void> all;
  std::vector<json> jobs;
  for (const json& volume : lost) {
    auto job = begin(context, volume, side, o);
    if (job) {
      jobs.push_back(std::move(*job));
      continue;
    }
    context.err << fmt::format("{}: {}\n", text(volume, "name"), job.error().message);
    all = std::unexpected(job.error());
  }
  for (json& job : jobs)
    if (auto done = finish_job(context, std::move(job), !o.no_wait); !done) all = std::move(done);
  return all;
}

Outcome<void> replace(Context& context, const ReplaceOptions& o) {
  const auto side = find_side(context, o.node);
  if (!side) return std::unexpected(side.error());
  return o.all ? replace_all(context, *side, o) : replace_one(context, *side, o);
}

}  // namespace

void add_replica_commands(CLI::App& app, Action& chosen) {
  auto* replica = app.add_subcommand("replica", "One node's copy of a volume");
  replica->require_subcommand(1);
  auto o = std::make_shared<ReplaceOptions>();
  auto* c =
      replica->add_subcommand("replace", "Make a new copy in the place of one that is lost, while the other serves");
  c->footer(
      "The copy on the other node has to be whole and to serve alone, which it does by itself soon after this one is\n"
      "lost. Paths through the named node are away for some seconds when the new copy is put in place; hosts go on\n"
      "through the other node. Until the new copy is whole there is one copy only.\n\n"
      "A copy that is not lost can be moved to another folder of its node: it leaves first, which has to be "
      "confirmed.\n\n"
      "Examples:\n"
      "  lockstep replica replace vm1 --node b\n"
      "  lockstep replica replace vm1 --node b --store /srv/new-disk\n"
      "  lockstep replica replace --all --node b");
  auto* name = c->add_option("name", o->name, "Name or id of the volume");
  auto* all = c->add_flag("--all", o->all, "Every volume whose copy on that node is lost");
  name->excludes(all);
  c->add_option("--node", o->node, "The node whose copy is made anew: a, b or its name")->required()->type_name("NODE");
  c->add_option("--store", o->store, "Folder on that node for the new copy (default: where the old one was)")
      ->type_name("PATH");
  c->add_option("--confirm", o->confirm,
                "The volume's name (with --all the node's, as given), instead of typing it when asked")
      ->type_name("NAME");
  c->add_flag("--yes", o->yes, "Do not ask");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    if (!o->all && o->name.empty()) throw CLI::RequiredError("name, or --all");
    chosen = [o](Context& context) { return replace(context, *o); };
  });
}

}  // namespace lockstep::cli
