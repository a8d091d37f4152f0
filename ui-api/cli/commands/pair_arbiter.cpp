// lockstep pair arbiter ...
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/witness_options.hpp"

namespace lockstep::cli {
namespace {

void add_arbiter_set(CLI::App& arbiter, Action& chosen) {
  struct Options {
    WitnessOptions witness;
    std::string preferred;
    bool fence = false;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = arbiter.add_subcommand("set", "Give the pair another arbiter, of whichever kind");
  c->footer(
      "Both nodes must be up and in sync. While it goes on, for some seconds, the loss of a node stops I/O.\n"
      "Examples:\n"
      "  lockstep pair arbiter set --witness http://10.0.0.20:2379\n"
      "  lockstep pair arbiter set --preferred b\n"
      "  lockstep pair arbiter set --fence         /etc/lockstep/fence.toml says on each node what powers the other "
      "off");
  const auto witness = o->witness.add_to(*c);
  auto* preferred =
      c->add_option("--preferred", o->preferred, "No witness: this side goes on when the nodes cannot talk")
          ->check(CLI::IsMember({"a", "b"}))
          ->excludes(witness.endpoints)
          ->excludes(witness.token)
          ->type_name("a|b");
  c->add_flag("--fence", o->fence, "No witness: who powers the partner off goes on; tried on both nodes first")
      ->excludes(witness.endpoints)
      ->excludes(witness.token)
      ->excludes(preferred);
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      if (!o->witness.name_one() && o->preferred.empty() && !o->fence)
        return fail(Exit::usage, "Say who is to decide: --witness URL, --preferred a, or --fence.");
      Outcome<json> body =
          o->fence ? json{{"kind", "fence"}} : json{{"kind", "preferred"}, {"preferred_side", o->preferred}};
      if (o->witness.name_one()) {
        body = o->witness.body(context);
        if (!body) return std::unexpected(body.error());
        (*body)["kind"] = "witness";
      }
      auto job = context.api.patch("/pair/arbiter", *body);
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

}  // namespace

void add_pair_arbiter_commands(CLI::App& pair, Action& chosen) {
  auto* arbiter =
      pair.add_subcommand("arbiter", "Who decides when the nodes cannot talk: a witness, a preferred side, or a fence");
  arbiter->require_subcommand(1);
  add_arbiter_set(*arbiter, chosen);
}

}  // namespace lockstep::cli
