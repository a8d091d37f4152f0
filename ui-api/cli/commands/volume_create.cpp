// lockstep volume create
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"

namespace lockstep::cli {
namespace {

struct CreateOptions {
  std::string name, size, block;
  unsigned block_size = 0;
  bool full = false, thin = false, read_only = false, removable = false, encrypted = false, write_cache = false,
       any = false, no_wait = false;
  std::vector<std::string> initiators;
};

Outcome<void> create(Context& context, const CreateOptions& o) {
  const auto size = parse_size(o.size);
  if (!size) return std::unexpected(size.error());
  json body{{"name", o.name}, {"size_bytes", *size}, {"thin", !o.full}};
  if (!o.block.empty()) body["block_format"] = o.block;
  if (o.block_size != 0) body["block_size_bytes"] = o.block_size;
  if (o.read_only) body["read_only"] = true;
  if (o.removable) body["removable"] = true;
  if (o.encrypted) body["encrypted"] = true;
  if (o.write_cache) body["write_cache"] = true;
  if (!o.initiators.empty()) body["access"] = o.initiators;
  if (o.any) body["any_initiator"] = true;
  auto job = context.api.post("/volumes", body);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

}  // namespace

void add_volume_create_command(CLI::App& volume, Action& chosen) {
  auto o = std::make_shared<CreateOptions>();
  auto* c = volume.add_subcommand("create", "Make a volume on both nodes");
  c->footer(
      "Examples:\n"
      "  lockstep volume create vm1 --size 100GiB --initiator iqn.1993-08.org.debian:01:host1\n"
      "  lockstep volume create db1 --size 1.5TiB --full --initiator iqn.1998-01.com.vmware:esx1\n"
      "  lockstep volume create fast1 --size 200GiB --block 4kn --write-cache --any");
  c->add_option("name", o->name, "Letters, digits, dot, underscore and hyphen")->required();
  c->add_option("--size", o->size, "Such as 10GiB, 1.5TiB, 512MiB")->required()->type_name("SIZE");
  auto* block = c->add_option("--block", o->block,
                              "512e: blocks of 512 bytes on physical ones of 4096 (default); 512n: 512 on 512; 4kn: "
                              "4096, only if every initiator can")
                    ->check(CLI::IsMember({"512n", "512e", "4kn"}))
                    ->type_name("512n|512e|4kn");
  c->add_option("--block-size", o->block_size, "The logical block in bytes: 512 means 512e, 4096 means 4kn")
      ->check(CLI::IsMember({512, 4096}))
      ->excludes(block)
      ->type_name("512|4096");
  auto* full = c->add_flag("--full,--thick", o->full, "Reserve all the space now (default: thin, as it is written)");
  c->add_flag("--thin", o->thin, "Take space only as it is written; the default")->excludes(full);
  c->add_flag("--read-only", o->read_only, "Initiators may only read; `volume set` changes it");
  c->add_flag("--removable", o->removable, "Shown as removable medium; for tests of initiators");
  c->add_flag(
      "--encrypted", o->encrypted,
      "Each node encrypts its copy: without the key in its state folder a disk can't be read. Can't be changed later");
  c->add_flag("--write-cache", o->write_cache,
              "Writes are answered before they are on stable storage; initiators must flush. `volume set` changes it");
  auto* initiators = c->add_option("--initiator", o->initiators,
                                   "This initiator, which is known already, may use it; may be repeated (default: "
                                   "nobody, until `volume access` says who)")
                         ->type_name("IQN");
  c->add_flag("--any", o->any, "Whatever initiator reaches a portal may use it")->excludes(initiators);
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return create(context, *o); }; });
}

}  // namespace lockstep::cli
