// lockstep pair configuration [force | give-up]
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string state_text(const json& lines) {
  const std::string state = text(lines, "state");
  if (state == "one_line") return "Both nodes have the same configuration.\n";
  if (state == "being_taken_over") return "One node is about to take over what the other has changed.\n";
  if (state == "one_node") return "The pair has one node.\n";
  if (state == "partner_away")
    return printable(text(lines, "partner_problem")) + " Only this node's configuration is known.\n";
  return "THE TWO NODES HAVE PARTED: there are two configurations, and nothing can be changed before one is given "
         "up.\n";
}

std::string lines_text(const json& lines) {
  std::string out = state_text(lines) + "\n";
  Table nodes{"SIDE", "NODE", ">REVISION", "DECIDED BY", "VOLUMES"};
  for (const json& n : part(lines, "nodes")) {
    const std::string by = text(n, "decided_by");
    nodes.add({text(n, "side"), or_dash(text(n, "node")), std::to_string(number(n, "revision")),
               by == "both" ? "both nodes" : "side " + by + (flag(n, "forced") ? " alone, forced" : " alone"),
               or_dash(joined(part(n, "volumes")))});
  }
  out += nodes.text();
  for (const json& n : part(lines, "nodes")) {
    const json& lost = part(n, "lost_if_given_up");
    if (lost.empty()) continue;
    out += fmt::format("\nIf {} gives its configuration up (`lockstep pair configuration give-up` there):\n",
                       text(n, "node"));
    for (const json& what : lost) out += "  " + printable(what.get<std::string>()) + "\n";
  }
  return out;
}

std::string done_text(const json& done) {
  std::string out = printable(text(done, "message")) + "\n";
  for (const json& what : part(done, "lost")) out += "  " + printable(what.get<std::string>()) + "\n";
  return out;
}

Outcome<void> decide(Context& context, const std::string& path, const std::string& confirmation) {
  json body = json::object();
  if (!confirmation.empty()) body["confirm"] = confirmation;
  const auto done = context.api.post(path, body);
  if (!done) return std::unexpected(done.error());
  context.show(*done, done_text);
  return {};
}

void add_decision(CLI::App& configuration, Action& chosen, const char* name, const char* help, const char* footer) {
  auto confirmation = std::make_shared<std::string>();
  auto* c = configuration.add_subcommand(name, help);
  c->footer(footer);
  c->add_option("--confirm", *confirmation, "What the command asks for, when it has said what is risked")
      ->type_name("WORDS");
  c->callback([confirmation, name, &chosen] {
    chosen = [confirmation, path = std::string("/pair/configuration/") + name](Context& context) {
      return decide(context, path, *confirmation);
    };
  });
}

}  // namespace

void add_pair_configuration_commands(CLI::App& pair, Action& chosen) {
  auto* c = pair.add_subcommand("configuration", "Show whether both nodes have one configuration; decide where not");
  c->footer("Examples:\n  lockstep pair configuration\n  lockstep pair configuration give-up");
  c->require_subcommand(0, 1);
  add_decision(*c, chosen, "force", "Have the node asked change the configuration alone, which nothing lets it",
               "For a node whose partner and whose arbiter are both away and must be waited for no longer. Without\n"
               "--confirm it says what is risked and does nothing.\n"
               "Example:\n  lockstep pair configuration force --confirm \"node-a without node-b\"");
  add_decision(*c, chosen, "give-up", "Of two configurations, end that of the node asked",
               "The node asked takes over the other one's configuration. Without --confirm it says, by name, what is\n"
               "lost, and does nothing.\n"
               "Example:\n  node-b# lockstep pair configuration give-up --confirm node-b");
  c->callback([c, &chosen] {
    if (!c->get_subcommands().empty()) return;
    chosen = [](Context& context) -> Outcome<void> {
      const auto lines = context.api.get("/pair/configuration");
      if (!lines) return std::unexpected(lines.error());
      context.show(*lines, lines_text);
      return {};
    };
  });
}

}  // namespace lockstep::cli
