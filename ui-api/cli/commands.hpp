#pragma once
// The commands, by what they are about. Each function adds its subcommands; the chosen one leaves its work in `chosen`.
#include "ui-api/cli/context.hpp"

namespace CLI {
class App;
}

namespace lockstep::cli {

void add_pair_commands(CLI::App& app, Action& chosen);
void add_pair_set_command(CLI::App& pair, Action& chosen);
void add_pair_witness_commands(CLI::App& pair, Action& chosen);
void add_pair_arbiter_commands(CLI::App& pair, Action& chosen);
void add_pair_link_commands(CLI::App& pair, Action& chosen);
void add_pair_configuration_commands(CLI::App& pair, Action& chosen);
void add_pair_leave_commands(CLI::App& pair, Action& chosen);
void add_node_commands(CLI::App& app, Action& chosen);
void add_node_certificate_commands(CLI::App& node, Action& chosen);
void add_link_commands(CLI::App& app, Action& chosen);
void add_volume_commands(CLI::App& app, Action& chosen);
void add_volume_create_command(CLI::App& volume, Action& chosen);
void add_volume_change_commands(CLI::App& volume, Action& chosen);
void add_volume_import_command(CLI::App& volume, Action& chosen);
void add_volume_action_commands(CLI::App& volume, Action& chosen);
void add_replica_commands(CLI::App& app, Action& chosen);
void add_initiator_commands(CLI::App& app, Action& chosen);
void add_initiator_show(CLI::App& initiator, Action& chosen);
void add_initiator_secret(CLI::App& initiator, Action& chosen);
void add_job_commands(CLI::App& app, Action& chosen);
void add_event_commands(CLI::App& app, Action& chosen);
void add_token_commands(CLI::App& app, Action& chosen, LocalAction& local);
void add_setup_command(CLI::App& app, LocalAction& local);
void add_health_command(CLI::App& app, Action& chosen);

/// A pair, as its commands show it.
[[nodiscard]] std::string pair_text(const json& pair);

}  // namespace lockstep::cli
