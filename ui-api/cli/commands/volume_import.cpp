// lockstep volume import
#include <fstream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

struct ImportOptions {
  std::string source, name, initiator, block, secret_file;
  bool full = false, read_only = false, encrypted = false, write_cache = false, any = false, no_wait = false;
  std::vector<std::string> initiators;
};

/// The source with the secret from the file behind its user: what stands on a command line can be read by others.
Outcome<std::string> with_secret(const ImportOptions& o) {
  if (o.secret_file.empty()) return o.source;
  std::ifstream file(o.secret_file);
  std::string secret;
  if (!std::getline(file, secret) || secret.empty())
    return fail(Exit::usage, fmt::format("{} can't be read or is empty.", o.secret_file));
  const auto at = o.source.rfind('@');
  if (at == std::string::npos || o.source.find('%') < at)
    return fail(Exit::usage, "With --secret-file the source must be iscsi://user@host[:port]/target/lun.");
  return o.source.substr(0, at) + "%" + secret + o.source.substr(at);
}

Outcome<void> import(Context& context, const ImportOptions& o) {
  const auto source = with_secret(o);
  if (!source) return std::unexpected(source.error());
  json body{{"source", *source}, {"name", o.name}, {"thin", !o.full}};
  if (!o.initiator.empty()) body["initiator"] = o.initiator;
  if (!o.block.empty()) body["block_format"] = o.block;
  if (o.read_only) body["read_only"] = true;
  if (o.encrypted) body["encrypted"] = true;
  if (o.write_cache) body["write_cache"] = true;
  if (!o.initiators.empty()) body["access"] = o.initiators;
  if (o.any) body["any_initiator"] = true;
  auto job = context.api.post("/imports", body);
  if (!job) return std::unexpected(job.error());
  return finish_job(context, std::move(*job), !o.no_wait);
}

}  // namespace

void add_volume_import_command(CLI::App& volume, Action& chosen) {
  auto o = std::make_shared<ImportOptions>();
  auto* c = volume.add_subcommand("import", "Copy a logical unit of any iSCSI array into a new volume");
  c->footer(
      "Nothing may write to the source meanwhile. `lockstep job cancel` ends it; the copy goes on by itself after a\n"
      "restart of either side, whether this command waits or not.\n\n"
      "Examples:\n"
      "  lockstep volume import iscsi://10.0.0.5/iqn.2005-10.org.example:disk1/0 --name vm1\n"
      "  lockstep volume import iscsi://mover@10.0.0.5:3260/iqn.2005-10.org.example:disk1/2 --name db1 --secret-file "
      "s");
  c->add_option("source", o->source, "iscsi://[user%secret@]host[:port]/target/lun")->required();
  c->add_option("--name", o->name, "The new volume's name")->required();
  c->add_option("--secret-file", o->secret_file, "A file whose first line is the CHAP secret of the user in the source")
      ->type_name("FILE");
  c->add_option("--as", o->initiator, "The initiator's name that the source sees")->type_name("IQN");
  c->add_option("--block", o->block,
                "For a source with blocks of 512 bytes: what physical block is shown (default: 512e)")
      ->check(CLI::IsMember({"512n", "512e"}))
      ->type_name("512n|512e");
  c->add_flag("--full", o->full, "Reserve all the space (default: thin; zeros take none)");
  c->add_flag("--read-only", o->read_only, "Initiators may only read it afterwards");
  c->add_flag("--encrypted", o->encrypted, "As of `volume create`");
  c->add_flag("--write-cache", o->write_cache, "As of `volume create`");
  auto* initiators =
      c->add_option("--initiator", o->initiators, "As of `volume create`; may be repeated")->type_name("IQN");
  c->add_flag("--any", o->any, "As of `volume create`")->excludes(initiators);
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return import(context, *o); }; });
}

}  // namespace lockstep::cli
