// lockstep pair witness ...
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"
#include "ui-api/cli/witness_options.hpp"

namespace lockstep::cli {
namespace {

std::string stands_with_it(const json& node) {
  const json& reachable = part(node, "reachable");
  if (!reachable.is_boolean()) return "not known";
  if (!reachable.get<bool>()) return "cannot reach it";
  const std::uint64_t unknown = number(node, "volumes_not_known");
  return unknown == 0 ? "reaches it" : fmt::format("reaches it; {} of its volumes are not known to it yet", unknown);
}

std::string witness_facts(const json& witness) {
  if (text(witness, "kind") == "fence")
    return "The pair has no witness, but a fence: the node that has powered the other off goes on.\n";
  if (text(witness, "kind") != "witness") return "The pair has no witness: a preferred side goes on.\n";
  Facts facts;
  facts.add("Endpoints", joined(part(witness, "endpoints")));
  facts.add("CA", flag(witness, "ca") ? "given" : "-");
  facts.add("User", or_dash(text(witness, "user")));
  facts.add("Certificate", flag(witness, "client_certificate") ? "shown by the nodes" : "-");
  if (flag(witness, "changing")) facts.add("State", "being changed: if a node fails now, I/O stops");
  for (const json& node : part(witness, "nodes"))
    facts.add(text(node, "name"), flag(witness, "changing") ? "asks none" : stands_with_it(node));
  return facts.text();
}

void add_witness_set(CLI::App& witness, Action& chosen) {
  struct Options {
    WitnessOptions witness;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = witness.add_subcommand("set", "Give the pair another witness, or ask the same one in another way");
  c->footer(
      "Both nodes must be up and in sync. With --endpoint everything is said anew; without, the endpoints stay, and "
      "of the rest what is not said. While it goes on, for some seconds, the loss of a node stops I/O.\n"
      "Examples:\n"
      "  lockstep pair witness set --endpoint http://10.0.0.20:2379\n"
      "  lockstep pair witness set --endpoint https://10.0.0.20:2379 --ca ca.pem --user lockstep --password-file "
      "password\n"
      "  lockstep pair witness set --user lockstep --password-file new-password");
  o->witness.add_for_change(*c);
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto body = o->witness.body(context);
      if (!body) return std::unexpected(body.error());
      if (body->empty())
        return fail(Exit::usage,
                    "Say what is to be another one: --witness-token-file, --endpoint, --ca, --user, --password-file or "
                    "--certificate.");
      auto job = context.api.patch("/pair/witness", *body);
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

}  // namespace

void add_pair_witness_commands(CLI::App& pair, Action& chosen) {
  auto* witness = pair.add_subcommand("witness", "Who decides when the nodes cannot talk");
  witness->require_subcommand(1);
  witness->add_subcommand("show", "Show the witness, and how each node stands with it")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto found = context.api.get("/pair/witness");
      if (!found) return std::unexpected(found.error());
      context.show(*found, witness_facts);
      return {};
    };
  });
  add_witness_set(*witness, chosen);
}

}  // namespace lockstep::cli
