// lockstep node set
#include "ui-api/cli/commands/node_set.hpp"

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

void add_node_set(CLI::App& node, Action& chosen) {
  struct Options {
    std::string node, link_address, management_address;
    std::vector<std::string> portals;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = node.add_subcommand("set", "Give a node other addresses, in use");
  c->footer(
      "The new addresses are opened and tried by both nodes before the old ones are closed; if they do not work, the\n"
      "node keeps what it has. I/O goes on: the replication link moves by itself, and hosts that use a portal which\n"
      "goes away are asked to log out there, and go on by the others.\n"
      "A machine that has another address already: give all that have changed in one command, on either node.\n"
      "Example:\n"
      "  lockstep node set b --portal 10.0.1.12:3260 --link-address 10.9.1.2:3261 --management-address 10.0.1.12:8443");
  c->add_option("node", o->node, "The side, a or b, or the node's name")->required();
  c->add_option("--portal", o->portals, "Where hosts find it, all that it is to have; may be given several times")
      ->type_name("ADDRESS:PORT");
  c->add_option("--link-address", o->link_address, "Where its partner replicates to")->type_name("ADDRESS:PORT");
  c->add_option("--management-address", o->management_address, "Where its partner's management finds it")
      ->type_name("ADDRESS:PORT");
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      const auto side = find_side(context, o->node);
      if (!side) return std::unexpected(side.error());
      json body = json::object();
      if (!o->portals.empty()) body["portals"] = o->portals;
      if (!o->link_address.empty()) body["link_address"] = o->link_address;
      if (!o->management_address.empty()) body["management_address"] = o->management_address;
      auto job = context.api.patch("/nodes/" + *side + "/addresses", body);
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

}  // namespace lockstep::cli
