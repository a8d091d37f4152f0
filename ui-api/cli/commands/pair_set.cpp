// lockstep pair set
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"

namespace lockstep::cli {
namespace {

struct PairChanges {
  std::string name, lease, floor, ceiling;
  bool no_wait = false;
};

/// Of PATCH /pair; an empty object where none of that is given.
Outcome<json> changes_of(const PairChanges& o) {
  json body = json::object(), settings = json::object();
  if (!o.name.empty()) body["name"] = o.name;
  for (const auto& [given, key] : {std::pair{&o.floor, "resync_floor_bytes_per_second"},
                                   std::pair{&o.ceiling, "resync_ceiling_bytes_per_second"}}) {
    if (given->empty()) continue;
    const auto bytes = parse_size(*given);
    if (!bytes) return std::unexpected(bytes.error());
    settings[key] = *bytes;
  }
  if (!settings.empty()) body["settings"] = settings;
  return body;
}

Outcome<void> change(Context& context, const PairChanges& o) {
  const auto body = changes_of(o);
  if (!body) return std::unexpected(body.error());
  if (body->empty() && o.lease.empty())
    return fail(Exit::usage, "Say what is to change: --name, --lease, --resync-floor or --resync-ceiling.");
  std::optional<std::uint64_t> lease;
  if (!o.lease.empty()) {
    const auto given = parse_milliseconds(o.lease);
    if (!given) return std::unexpected(given.error());
    lease = *given;
  }
  if (!body->empty()) {
    const auto changed = context.api.patch("/pair", *body);
    if (!changed) return std::unexpected(changed.error());
    if (!lease) context.show(*changed, pair_text);
  }
  if (!lease) return {};
  auto job = context.api.patch("/pair/lease", json{{"lease_ms", *lease}});
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

}  // namespace

void add_pair_set_command(CLI::App& pair, Action& chosen) {
  auto o = std::make_shared<PairChanges>();
  auto* c = pair.add_subcommand("set", "Change a pair in use: its name, its lease, the limits of resync");
  c->footer(
      "Hosts notice none of these. The lease is changed on both nodes step by step; the others count at once.\n"
      "Examples:\n"
      "  lockstep pair set --lease 3s\n"
      "  lockstep pair set --resync-floor 50MiB --resync-ceiling 400MiB\n"
      "  lockstep pair set --name rack7            the target's name stays");
  c->add_option("--name", o->name, "Lower-case letters, digits and hyphens")->type_name("NEW");
  c->add_option("--lease", o->lease, "How long a node may serve without having heard from its partner, 500ms to 20s")
      ->type_name("TIME");
  c->add_option("--resync-floor", o->floor, "Resync of all volumes together is never slower, a second; 0: no promise")
      ->type_name("SIZE");
  c->add_option("--resync-ceiling", o->ceiling, "… and never faster; 0: as fast as it can")->type_name("SIZE");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the lease's job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return change(context, *o); }; });
}

}  // namespace lockstep::cli
