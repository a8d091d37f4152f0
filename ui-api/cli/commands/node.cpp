// lockstep node ..., lockstep health
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/commands/node_set.hpp"
#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

bool runs(const json& node) { return text(part(node, "lockstepd"), "state") == "running"; }

std::string link_text(const json& node) {
  if (!runs(node)) return "-";  // what it said last is of no use now
  const json& link = part(node, "partner_link");
  return flag(link, "connected") ? "up (" + text(link, "path") + ")" : "down";
}

std::string witness_text(const json& node) {
  const json& witness = part(node, "witness");
  if (text(witness, "kind") != "witness") return text(witness, "kind");
  if (!runs(node)) return "-";
  if (!part(witness, "reachable").is_boolean()) return "unknown";
  return flag(witness, "reachable") ? "reachable" : "lost";
}

std::string nodes_text(const json& nodes) {
  Table table{"SIDE", "NAME", "MANAGEMENT", "LOCKSTEPD", "VERSION", "UP FOR", "LINK", "WITNESS", "PORTALS"};
  std::string messages;
  for (const json& node : nodes) {
    const json& daemon = part(node, "lockstepd");
    const std::string uptime =
        part(daemon, "uptime_seconds").is_number() ? format_duration(number(daemon, "uptime_seconds")) : "-";
    table.add({text(node, "side"), text(node, "name") + (flag(node, "local") ? " *" : ""),
               flag(node, "reachable") ? "reachable" : "not reachable", text(daemon, "state"),
               or_dash(text(node, "version")), uptime, link_text(node), witness_text(node),
               or_dash(joined(part(part(node, "addresses"), "portals")))});
    if (const std::string message = text(daemon, "message"); !message.empty()) {
      messages += fmt::format("{}: {}\n", text(node, "name"), printable(message));
    }
  }
  if (table.empty()) return "No nodes: this node is not in a pair.\n";
  return table.text() + messages + "* the node that answered\n";
}

std::string health_text(const json& health) {
  std::string status = text(health, "status");
  std::transform(status.begin(), status.end(), status.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = fmt::format("{}: {}\n", status, printable(text(health, "summary")));
  for (const json& problem : part(health, "problems")) {
    const bool is_advice = text(problem, "severity") == "info";
    out += fmt::format("- {}{}\n", is_advice ? "advice: " : "", printable(text(problem, "message")));
    if (const std::string advice = text(problem, "advice"); !advice.empty())
      out += fmt::format("  {}\n", printable(advice));
  }
  return out;
}

void add_replace(CLI::App& node, Action& chosen) {
  struct Options {
    std::string node, confirmation;
    bool without_changes = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = node.add_subcommand("replace", "Make an invitation for a machine that takes the other node's place");
  c->footer(
      "For when the other node, or its database, is lost. Run it on the node that is left.\n"
      "Example:\n"
      "  node-a# lockstep node replace b\n"
      "  node-b# lockstep pair join INVITATION");
  c->add_option("node", o->node, "The side that is lost, a or b, or its node's name")->required();
  c->add_option("--confirm", o->confirmation, "The node's name, in place of the question")->type_name("NAME");
  c->add_flag("--without-its-changes", o->without_changes,
              "Also where it has changed the configuration alone, or may have data that this node lacks");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      const auto side = find_side(context, o->node);
      if (!side) return std::unexpected(side.error());
      const auto nodes = context.api.list("/nodes");
      if (!nodes) return std::unexpected(nodes.error());
      std::string name;
      for (const json& candidate : *nodes)
        if (text(candidate, "side") == *side) name = text(candidate, "name");
      const std::string path = "/nodes/" + *side + "/replacement";
      // A side without a node is refused below, with what to do.
      if (!name.empty()) {
        const auto risked = what_is_risked(context, path, json::object(), o->confirmation, o->without_changes);
        if (!risked) return std::unexpected(risked.error());
        const std::string warning = fmt::format(
            "Whoever uses the invitation has side {} from then on; the machine that has it now is shut out for good.{}",
            *side, *risked);
        if (auto sure = confirm(context, warning, name, o->confirmation); !sure) return sure;
      }
      const auto made =
          context.api.post(path, json{{"confirm", o->without_changes ? name + " without its changes" : name}});
      if (!made) return std::unexpected(made.error());
      if (!context.json_output) {
        if (const std::string change = text(*made, "undecided_change"); !change.empty())
          context.err << "The lost node had proposed a change, which holds once its place is taken: "
                      << printable(change) << ".\n";
        context.err << "On the machine that takes the place, until " << short_time(part(*made, "expires_at"))
                    << " UTC:\n  lockstep pair join INVITATION\nThe invitation is:\n";
      }
      context.show(*made, [](const json& i) { return text(i, "invitation") + "\n"; });
      return {};
    };
  });
}

void add_rename(CLI::App& node, Action& chosen) {
  struct Options {
    std::string node, name;
  };
  auto o = std::make_shared<Options>();
  auto* c = node.add_subcommand("rename", "Give a node another name; nothing but what is shown changes");
  c->footer("Example:\n  lockstep node rename b rack8-b");
  c->add_option("node", o->node, "The side, a or b, or the node's name")->required();
  c->add_option("name", o->name, "Letters, digits, dots and hyphens")->required()->type_name("NEW");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      const auto side = find_side(context, o->node);
      if (!side) return std::unexpected(side.error());
      const auto changed = context.api.patch("/nodes/" + *side, json{{"name", o->name}});
      if (!changed) return std::unexpected(changed.error());
      context.show(*changed, [](const json& nodes) { return nodes_text(part(nodes, "items")); });
      return {};
    };
  });
}

}  // namespace

void add_node_commands(CLI::App& app, Action& chosen) {
  auto* node = app.add_subcommand("node", "Each of the two machines");
  node->require_subcommand(1);
  node->add_subcommand("list", "List both nodes")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto nodes = context.api.list("/nodes");
      if (!nodes) return std::unexpected(nodes.error());
      context.show(*nodes, nodes_text);
      return {};
    };
  });
  add_rename(*node, chosen);
  add_replace(*node, chosen);
  add_node_set(*node, chosen);
  add_node_certificate_commands(*node, chosen);
}

void add_health_command(CLI::App& app, Action& chosen) {
  auto* health = app.add_subcommand("health", "Tell whether all is well; exits 1 when it is not");
  health->footer("Example:\n  lockstep health || mail -s 'lockstep is not well' admin");
  health->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto found = context.api.get("/health");
      if (!found) return std::unexpected(found.error());
      context.show(*found, health_text);
      if (text(*found, "status") != "ok") return fail(Exit::refused, "");
      return {};
    };
  });
}

}  // namespace lockstep::cli
