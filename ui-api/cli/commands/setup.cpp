// lockstep setup
#include "ui-api/cli/setup/setup.hpp"

#include <memory>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {
namespace {

void add_node_options(CLI::App& command, setup::Options& o) {
  const auto group = "This node (asked for at the terminal where not given)";
  command.add_option("--portal", o.portals, "Where hosts reach it; may be repeated")
      ->type_name("IP:PORT")
      ->group(group);
  command.add_option("--link-address", o.link, "Where its partner reaches it for replication")
      ->type_name("IP:PORT")
      ->group(group);
  command.add_option("--management-address", o.management, "Where its partner's management reaches it")
      ->type_name("IP:PORT")
      ->group(group);
  command.add_option("--node-name", o.node_name, "How it is called (default: its host name)")
      ->type_name("NAME")
      ->group(group);
  command.add_option("--volume-folder", o.volume_folder, "A folder on the disk that volumes are to use")
      ->type_name("FOLDER")
      ->group(group);
}

void add_pair_options(CLI::App& command, setup::Options& o) {
  const auto group = "The pair";
  auto* pair = command.add_option("--pair", o.pair, "The first node: make the pair of this name, and an invitation")
                   ->type_name("NAME")
                   ->group(group);
  auto* token = command
                    .add_option("--witness-token-file", o.witness_token_file,
                                "File with the token that `lockstep-witness setup` printed, - for pasting it")
                    ->type_name("FILE")
                    ->group(group);
  auto* preferred =
      command.add_option("--preferred", o.preferred, "No witness: this side goes on when the nodes cannot talk")
          ->check(CLI::IsMember({"a", "b"}))
          ->type_name("a|b")
          ->needs(pair)
          ->excludes(token)
          ->group(group);
  // No option takes the invitation itself: it is a secret, and everybody on the machine sees command lines.
  command
      .add_option("--invitation-file", o.invitation_file,
                  "The second node: file with the invitation to join by, - for pasting it")
      ->type_name("FILE")
      ->excludes(pair)
      ->excludes(token)
      ->excludes(preferred)
      ->group(group);
  command
      .add_option("--partner", o.partner, "The partner's management, which has to answer (default: the invitation's)")
      ->type_name("IP:PORT")
      ->group(group);
  command
      .add_option("--partner-link", o.partner_link, "The partner's link address: the link's packets have to reach it")
      ->type_name("IP:PORT")
      ->group(group);
}

}  // namespace

void add_setup_command(CLI::App& app, LocalAction& local) {
  auto o = std::make_shared<setup::Options>();
  auto* c = app.add_subcommand("setup", "As root on a node, after the installation: from the package to a pair");
  c->footer(
      "It looks before it writes: addresses, ports, clock, folder, packets on the link, the partner's version. It can "
      "be run "
      "again.\n"
      "Examples:\n"
      "  lockstep setup\n"
      "  lockstep setup --portal 10.0.0.11:3260 --link-address 10.0.1.11:3261 --management-address 10.0.0.11:8443 "
      "--pair pair1 --witness-token-file -\n"
      "  lockstep setup --portal 10.0.0.12:3260 --link-address 10.0.1.12:3261 --management-address 10.0.0.12:8443 "
      "--invitation-file -");
  add_node_options(*c, *o);
  add_pair_options(*c, *o);
  c->add_flag("--yes", o->yes, "Ask nothing: take what is found on this machine");
  c->callback([o, &local] { local = [o](const Machine& machine) { return setup::run(*o, machine); }; });
}

}  // namespace lockstep::cli
