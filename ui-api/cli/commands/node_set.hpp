#pragma once
// lockstep node set
#include "ui-api/cli/commands.hpp"

namespace lockstep::cli {

void add_node_set(CLI::App& node, Action& chosen);

}  // namespace lockstep::cli
