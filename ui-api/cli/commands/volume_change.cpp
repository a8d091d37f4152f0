// lockstep volume set, grow
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"

namespace lockstep::cli {
namespace {

struct Use {
  std::string name, new_name, read_only, write_cache;
};

Outcome<void> set(Context& context, const Use& o) {
  json body = json::object();
  if (!o.read_only.empty()) body["read_only"] = o.read_only == "on";
  if (!o.write_cache.empty()) body["write_cache"] = o.write_cache == "on";
  if (!o.new_name.empty()) body["name"] = o.new_name;
  if (body.empty())
    return fail(Exit::usage, "Say what to change: --name NEW, --read-only on|off, --write-cache on|off.");
  const auto found = find_volume(context, o.name);
  if (!found) return std::unexpected(found.error());
  const auto changed = context.api.patch("/volumes/" + text(*found, "id"), body);
  if (!changed) return std::unexpected(changed.error());
  context.show(*changed, [](const json& v) {
    return fmt::format("{} is {}, its write cache is {}.\n", text(v, "name"),
                       flag(v, "read_only") ? "read-only" : "for reading and writing",
                       flag(v, "write_cache") ? "on" : "off");
  });
  return {};
}

void add_volume_set(CLI::App& volume, Action& chosen) {
  auto o = std::make_shared<Use>();
  auto* c = volume.add_subcommand("set", "Change how a volume may be used; takes effect at once");
  c->footer(
      "Examples:\n"
      "  lockstep volume set vm1 --read-only on\n"
      "  lockstep volume set vm1 --write-cache off\n"
      "  lockstep volume set vm1 --name mail\n\n"
      "With --write-cache on, a Linux host does not flush until each of its paths was rescanned\n"
      "(echo 1 > /sys/block/sdX/device/rescan) or it has logged in again.");
  c->add_option("name", o->name, "Name or id")->required();
  c->add_option("--name", o->new_name, "Call it so from now on; hosts notice nothing")->type_name("NEW");
  for (auto [option, value, what] :
       {std::tuple("--read-only", &o->read_only, "Initiators may only read"),
        std::tuple("--write-cache", &o->write_cache, "Writes are answered before they are on stable storage")}) {
    c->add_option(option, *value, what)->check(CLI::IsMember({"on", "off"}))->type_name("on|off");
  }
  c->callback([o, &chosen] { chosen = [o](Context& context) { return set(context, *o); }; });
}

struct Growth {
  std::string name, size;
  bool no_wait = false;
};

Outcome<void> grow(Context& context, const Growth& o) {
  const auto size = parse_size(o.size);
  if (!size) return std::unexpected(size.error());
  const auto found = find_volume(context, o.name);
  if (!found) return std::unexpected(found.error());
  auto job = context.api.patch("/volumes/" + text(*found, "id"), json{{"size_bytes", *size}});
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

void add_grow(CLI::App& volume, Action& chosen) {
  auto o = std::make_shared<Growth>();
  auto* c = volume.add_subcommand("grow", "Make a volume larger while it is in use; it never becomes smaller");
  c->footer(
      "Examples:\n"
      "  lockstep volume grow vm1 --size 200GiB\n\n"
      "Both nodes must be in sync, or the other one away and the volume served by this one alone. Initiators hear of "
      "the new capacity; let them rescan if they do not look by themselves.");
  c->add_option("name", o->name, "Name or id")->required();
  c->add_option("--size", o->size, "The new size, such as 10GiB, 1.5TiB")->required()->type_name("SIZE");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return grow(context, *o); }; });
}

}  // namespace

void add_volume_change_commands(CLI::App& volume, Action& chosen) {
  add_volume_set(volume, chosen);
  add_grow(volume, chosen);
}

}  // namespace lockstep::cli
