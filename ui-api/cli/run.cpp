#include "ui-api/cli/run.hpp"

#include <iostream>

#include <CLI/CLI.hpp>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/completion.hpp"

namespace lockstep::cli {
namespace {

void add_global_options(CLI::App& app, GlobalOptions& options) {
  const auto group = "The server";
  app.add_option("--server", options.server, "Either node, such as https://node-a:8443 (default: this machine)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--token-file", options.token_file, "File that holds the token")->type_name("FILE")->group(group);
  app.add_option("--token", options.token, "The token; other users of this machine may see it, so prefer a file")
      ->type_name("TOKEN")
      ->group(group);
  app.add_option("--ca", options.ca, "Trust the certificates in this PEM file, a node's own tls.crt for one")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--fingerprint", options.fingerprint,
                 "Trust the certificate with this SHA-256 fingerprint and no other")
      ->type_name("HEX")
      ->group(group);
  app.add_flag("--insecure", options.insecure, "Trust any certificate: whoever is in between can read the token")
      ->group(group);
  app.add_option("--config", options.config, std::string("Settings (default: ") + kConfigFile + ")")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--json", options.json, "Print the server's answer as JSON");
}

void describe(CLI::App& app) {
  app.description("Manages a Lockstep pair: two servers, one highly available iSCSI disk.");
  app.set_version_flag("--version", std::string("lockstep ") + LOCKSTEP_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // global options may stand behind the command, too
}

/// After the commands: those made before would inherit it.
void add_footer(CLI::App& app) {
  app.footer(
      "Examples:\n"
      "  lockstep health\n"
      "  lockstep volume create vm1 --size 100GiB --initiator IQN\n"
      "  lockstep --server https://node-b:8443 --ca tls.crt --token-file token volume list\n\n"
      "Exit codes: 0 done; 1 refused or failed (health: not all is well); 2 wrong use; 3 no answer from the server.\n"
      "`lockstep COMMAND --help` tells more; so does lockstep(1).");
}

/// "There is no ..." or "Say one of ...", where CLI11 only misses a subcommand.
std::string wrong_command(const CLI::App& app) {
  const CLI::App* deepest = &app;
  std::string path = "lockstep";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    path += " " + deepest->get_name();
  }
  std::string names;
  for (const CLI::App* command : deepest->get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  const auto extras = app.remaining(true);
  const std::string unknown = extras.empty() ? "" : "There is no command \"" + path + " " + extras.front() + "\". ";
  return unknown + "Say one of: " + path + " " + names + ".";
}

int report(const Failure& failure, std::ostream& err) {
  if (!failure.message.empty()) err << "lockstep: " << failure.message << '\n';
  return static_cast<int>(failure.exit);
}

}  // namespace

int run(const std::vector<std::string>& arguments, World world) {
  CLI::App app;
  app.name("lockstep");
  GlobalOptions options;
  Action chosen;
  LocalAction local;
  describe(app);
  add_global_options(app, options);
  add_health_command(app, chosen);
  add_pair_commands(app, chosen);
  add_node_commands(app, chosen);
  add_link_commands(app, chosen);
  add_volume_commands(app, chosen);
  add_replica_commands(app, chosen);
  add_initiator_commands(app, chosen);
  add_job_commands(app, chosen);
  add_event_commands(app, chosen);
  add_token_commands(app, chosen, local);
  add_setup_command(app, local);
  const CLI::App* completion =
      app.add_subcommand("completion", "Print a script for bash: eval \"$(lockstep completion)\"");
  add_footer(app);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the back
  } catch (const CLI::Success& e) {
    return app.exit(e, world.out, world.err);
  } catch (const CLI::ParseError& e) {
    const bool no_command = std::string_view(e.what()) == "A subcommand is required";
    world.err << "lockstep: " << (no_command ? wrong_command(app) : e.what())
              << "\nRun with --help for what can be said.\n";
    return static_cast<int>(Exit::usage);
  }
  if (completion->parsed()) {
    world.out << completion_script(app);
    return static_cast<int>(Exit::ok);
  }
  if (local) {
    const std::string token_file = options.token_file.empty() ? kLocalToken : options.token_file;
    const auto done = local(Machine{token_file, world.out, world.err, world.sleep, world.in, world.terminal,
                                    options.token, world.connect, world.host});
    return done ? static_cast<int>(Exit::ok) : report(done.error(), world.err);
  }
  const auto settings = resolve_settings(options, world.getenv);
  if (!settings) return report(settings.error(), world.err);
  const auto transport = world.connect(*settings);
  Api api(*transport);
  Context context{api, world.in, world.out, world.err, options.json, world.terminal, world.sleep};
  const auto done = chosen(context);
  return done ? static_cast<int>(Exit::ok) : report(done.error(), world.err);
}

}  // namespace lockstep::cli
