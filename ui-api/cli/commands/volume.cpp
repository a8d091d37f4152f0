// lockstep volume list, show, delete, access
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

/// The running resync of a volume that knows most, or null.
const json& resync_of(const json& volume) {
  static const json kNone;
  const json* best = &kNone;
  for (const json& replica : part(volume, "replicas")) {
    const json& resync = part(replica, "resync");
    if (flag(resync, "running") && (best->is_null() || number(resync, "bytes_total") > number(*best, "bytes_total")))
      best = &resync;
  }
  return *best;
}

std::string resync_text(const json& resync) {
  if (resync.is_null()) return "-";
  const std::uint64_t total = number(resync, "bytes_total");
  const double done =
      total == 0 ? 0 : 100.0 * static_cast<double>(number(resync, "bytes_done")) / static_cast<double>(total);
  std::string out = fmt::format("{:.1f} %", done);
  if (const auto rate = number(resync, "bytes_per_second"); rate > 0) out += fmt::format(", {}/s", format_size(rate));
  if (part(resync, "seconds_left").is_number())
    out += fmt::format(", {} left", format_duration(number(resync, "seconds_left")));
  return out;
}

std::string state_of(const json& volume, const char* side) {
  for (const json& replica : part(volume, "replicas")) {
    if (text(replica, "side") == side) return text(replica, "state");
  }
  return "-";
}

std::string health_word(const json& volume) {
  return text(volume, "lifecycle") == "ready" ? text(volume, "health") : text(volume, "lifecycle");
}

std::string volumes_text(const json& volumes) {
  Table table{"NAME", ">SIZE", "HEALTH", "NODE A", "NODE B", "RESYNC", ">LUN", "ACCESS"};
  for (const json& volume : volumes) {
    const json& access = part(volume, "access");
    table.add({text(volume, "name"), format_size(number(volume, "size_bytes")), health_word(volume),
               state_of(volume, "a"), state_of(volume, "b"), resync_text(resync_of(volume)),
               std::to_string(number(volume, "lun")),
               flag(volume, "any_initiator") ? "any"
               : access.empty()              ? "none"
                                             : std::to_string(access.size())});
  }
  return table.empty() ? "No volumes. Make one with `lockstep volume create NAME --size 10GiB --initiator IQN`.\n"
                       : table.text();
}

std::string replica_text(const json& replica) {
  const json& io = part(replica, "io");
  const json& epoch = part(replica, "epoch");
  Facts facts;
  facts.add("  State", text(replica, "state"));
  if (const auto reason = text(replica, "reason"); !reason.empty()) facts.add("  Reason", reason);
  facts.add("  Answers hosts", flag(replica, "serving") ? "yes" : "no");
  facts.add("  Access state", text(replica, "access"));
  if (flag(replica, "failover_limited")) facts.add("  Failover", "limited: the witness has not been told yet");
  facts.add("  Space taken", format_size(number(replica, "allocated_bytes")));
  facts.add("  Partner may lack", format_size(number(replica, "dirty_bytes")));
  facts.add("  Resync", resync_text(flag(part(replica, "resync"), "running") ? part(replica, "resync") : json()));
  if (epoch.is_object()) facts.add("  Epoch", fmt::format("{} ({})", number(epoch, "number"), text(epoch, "members")));
  facts.add("  Reads", fmt::format("{} ({})", number(io, "reads"), format_size(number(io, "read_bytes"))));
  facts.add("  Writes", fmt::format("{} ({})", number(io, "writes"), format_size(number(io, "write_bytes"))));
  return fmt::format("Replica on {} (side {})\n{}", printable(text(replica, "node")), text(replica, "side"),
                     facts.text());
}

std::string volume_text(const json& volume) {
  Facts facts;
  facts.add("Name", text(volume, "name"));
  facts.add("State", fmt::format("{}: {}", health_word(volume), text(volume, "summary")));
  facts.add("Size", fmt::format("{} ({} bytes), {}, {} blocks{}", format_size(number(volume, "size_bytes")),
                                number(volume, "size_bytes"), flag(volume, "thin") ? "thin" : "fully allocated",
                                text(volume, "block_format"),
                                flag(volume, "encrypted") ? ", encrypted on each node's disk" : ""));
  facts.add("Use", fmt::format("{}, write cache {}{}{}", flag(volume, "read_only") ? "read-only" : "read and write",
                               flag(volume, "write_cache") ? "on" : "off",
                               flag(volume, "removable") ? ", shown as removable" : "",
                               flag(volume, "importing") ? ", being imported" : ""));
  std::string portals;
  for (const json& portal : part(volume, "portals")) portals += (portals.empty() ? "" : ", ") + text(portal, "address");
  facts.add("Target", text(volume, "target_name"));
  facts.add("Portals", or_dash(portals));
  facts.add("LUN", std::to_string(number(volume, "lun")));
  facts.add("Shard", fmt::format("{} (the link's port + {})", number(volume, "shard"), number(volume, "shard")));
  facts.add("Serial", text(volume, "serial"));
  facts.add("Access", flag(volume, "any_initiator")    ? "any initiator"
                      : part(volume, "access").empty() ? "nobody yet; see `lockstep volume access`"
                                                       : joined(part(volume, "access")));
  facts.add("Made", short_time(part(volume, "created_at")));
  facts.add("Id", text(volume, "id"));
  std::string out = facts.text();
  for (const json& replica : part(volume, "replicas")) out += "\n" + replica_text(replica);
  return out;
}

void add_show(CLI::App& volume, Action& chosen) {
  auto name = std::make_shared<std::string>();
  auto* c = volume.add_subcommand("show", "Show one volume, both replicas and how hosts connect");
  c->add_option("name", *name, "Name or id")->required();
  c->callback([name, &chosen] {
    chosen = [name](Context& context) -> Outcome<void> {
      const auto found = find_volume(context, *name);
      if (!found) return std::unexpected(found.error());
      context.show(*found, volume_text);
      return {};
    };
  });
}

void add_delete(CLI::App& volume, Action& chosen) {
  struct Options {
    std::string name, confirm;
    bool yes = false, no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = volume.add_subcommand("delete", "Delete a volume and its data on both nodes");
  c->footer("Examples:\n  lockstep volume delete vm1\n  lockstep volume delete vm1 --confirm vm1");
  c->add_option("name", o->name, "Name or id")->required();
  c->add_option("--confirm", o->confirm, "The volume's name, instead of typing it when asked")->type_name("NAME");
  c->add_flag("--yes", o->yes, "Do not ask");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      const auto found = find_volume(context, o->name);
      if (!found) return std::unexpected(found.error());
      const std::string name = text(*found, "name");
      const std::string warning = fmt::format("All {} of {} are erased on both nodes. This cannot be undone.",
                                              format_size(number(*found, "size_bytes")), name);
      if (auto sure = confirm(context, warning, name, o->yes ? name : o->confirm); !sure) return sure;
      auto job = context.api.remove(fmt::format("/volumes/{}?confirm={}", text(*found, "id"), percent_encode(name)));
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

struct AccessWish {
  std::string name;
  std::vector<std::string> initiators, add, remove;
  bool any = false;
};

/// A list that is given closes the volume to whoever is not in it. Who adds one host means nobody else.
Outcome<void> check_for_list(const json& volume, const AccessWish& wish) {
  if (!flag(volume, "any_initiator") || (wish.add.empty() && wish.remove.empty())) return {};
  const std::string name = printable(text(volume, "name"));
  if (!wish.add.empty())
    return fail(Exit::usage, fmt::format("{0} is open to any initiator, also to this one: nothing was changed, since "
                                         "with --add all others would be shut out at once. To close it to all but "
                                         "some, name each of them: `lockstep volume access {0} --initiator IQN ...`.",
                                         name));
  return fail(Exit::usage, fmt::format("{0} is open to any initiator, and has no list to take one from: nothing was "
                                       "changed. To shut one out, name each of the others: `lockstep volume access "
                                       "{0} --initiator IQN ...`.",
                                       name));
}

void add_access(CLI::App& volume, Action& chosen) {
  auto o = std::make_shared<AccessWish>();
  auto* c = volume.add_subcommand("access", "Show or change who may use a volume");
  c->footer(
      "Examples:\n"
      "  lockstep volume access vm1\n"
      "  lockstep volume access vm1 --add iqn.1998-01.com.vmware:esx1\n"
      "  lockstep volume access vm1 --any");
  c->add_option("name", o->name, "Name or id")->required();
  auto* any = c->add_flag("--any", o->any, "Any initiator");
  auto* exact =
      c->add_option("--initiator", o->initiators, "Only these; may be repeated")->excludes(any)->type_name("IQN");
  c->add_option("--add", o->add, "This one, too")->excludes(any)->excludes(exact)->type_name("IQN");
  c->add_option("--remove", o->remove, "No longer this one; after the last nobody may use it")
      ->excludes(any)
      ->excludes(exact)
      ->type_name("IQN");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto found = find_volume(context, o->name);
      if (!found) return std::unexpected(found.error());
      if (auto fits = check_for_list(*found, *o); !fits) return fits;
      std::vector<std::string> access;
      for (const json& iqn : part(*found, "access")) access.push_back(iqn.is_string() ? iqn.get<std::string>() : "");
      for (const auto& iqn : o->add) {
        if (std::find(access.begin(), access.end(), iqn) == access.end()) access.push_back(iqn);
      }
      for (const auto& iqn : o->remove) std::erase(access, iqn);
      if (!o->initiators.empty()) access = o->initiators;
      if (o->any || !o->initiators.empty() || !o->add.empty() || !o->remove.empty()) {
        found = context.api.patch("/volumes/" + text(*found, "id"),
                                  o->any ? json{{"any_initiator", true}} : json{{"access", access}});
        if (!found) return std::unexpected(found.error());
      }
      context.show(*found, [](const json& v) {
        std::string out;
        for (const json& iqn : part(v, "access")) out += (iqn.is_string() ? iqn.get<std::string>() : "") + "\n";
        if (!out.empty()) return out;
        const bool open = flag(v, "any_initiator");
        return fmt::format("{} may use {}.\n", open ? "Any initiator" : "Nobody", text(v, "name"));
      });
      return {};
    };
  });
}

}  // namespace

void add_volume_commands(CLI::App& app, Action& chosen) {
  auto* volume = app.add_subcommand("volume", "Virtual disks, mirrored on both nodes");
  volume->require_subcommand(1);
  volume->add_subcommand("list", "List the volumes")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto volumes = context.api.list("/volumes");
      if (!volumes) return std::unexpected(volumes.error());
      context.show(*volumes, volumes_text);
      return {};
    };
  });
  add_volume_create_command(*volume, chosen);
  add_show(*volume, chosen);
  add_access(*volume, chosen);
  add_volume_change_commands(*volume, chosen);
  add_volume_import_command(*volume, chosen);
  add_delete(*volume, chosen);
  add_volume_action_commands(*volume, chosen);
}

}  // namespace lockstep::cli
