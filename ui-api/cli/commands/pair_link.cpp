// lockstep pair rotate-secrets, pair protect-link
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

void add_rotate_secrets(CLI::App& pair, Action& chosen) {
  auto no_wait = std::make_shared<bool>(false);
  auto* c = pair.add_subcommand("rotate-secrets", "Give the replication link between the nodes new secrets");
  c->footer("Sessions and I/O go on. Both nodes must be up; where one goes away meanwhile, the job waits for it.");
  c->add_flag("--no-wait", *no_wait, "Do not wait for the job");
  c->callback([no_wait, &chosen] {
    chosen = [no_wait](Context& context) -> Outcome<void> {
      auto job = context.api.post("/pair/link-secrets", json::object());
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !*no_wait);
    };
  });
}

void add_protect_link(CLI::App& pair, Action& chosen) {
  struct Options {
    bool off = false;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = pair.add_subcommand("protect-link", "Encrypt the replication link between the nodes (TLS 1.3)");
  c->footer(
      "A new pair has it. Hosts go on, with a pause of some milliseconds when the link is made anew. Both nodes must\n"
      "be up; where one goes away meanwhile, the job waits for it.");
  c->add_flag("--off", o->off, "Stop encrypting it: its network then has to be the two nodes' alone");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto job = context.api.post("/pair/link-protection", json{{"tls", !o->off}});
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

}  // namespace

void add_pair_link_commands(CLI::App& pair, Action& chosen) {
  add_rotate_secrets(pair, chosen);
  add_protect_link(pair, chosen);
}

}  // namespace lockstep::cli
