// lockstep pair arbiter ...
#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/witness_options.hpp"

namespace lockstep::cli {
namespace {

void add_set(CLI::App& arbiter, Action& chosen) {
  struct Options {
    WitnessOptions witness;
    std::string preferred;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = arbiter.add_subcommand("set", "Give the pair another arbiter, of whichever kind");
  c->footer(
      "Both nodes must be up and in sync. While it goes on, for some seconds, the loss of a node stops I/O.\n"
      "Examples:\n"
      "  lockstep pair arbiter set --witness http://10.0.0.20:2379\n"
      "  lockstep pair arbiter set --preferred b");
  const auto witness = o->witness.add_to(*c);
  c->add_option("--preferred", o->preferred, "No witness: this side goes on when the nodes cannot talk")
      ->check(CLI::IsMember({"a", "b"}))
      ->excludes(witness.endpoints)
      ->excludes(witness.token)
      ->type_name("a|b");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      if (!o->witness.name_one() && o->preferred.empty())
        return fail(Exit::usage, "Say who is to decide: --witness URL, or --preferred a.");
      Outcome<json> body = json{{"kind", "preferred"}, {"preferred_side", o->preferred}};
      if (o->preferred.empty()) {
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
      pair.add_subcommand("arbiter", "Who decides when the nodes cannot talk: a witness, or a preferred side");
  arbiter->require_subcommand(1);
  add_set(*arbiter, chosen);
}

}  // namespace lockstep::cli
