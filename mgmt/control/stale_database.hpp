#pragma once
// A node whose database is of the past, or whose copy of the configuration is: what is said of it, and the way out.
#include <string>
#include <vector>

#include "mgmt/control/pair_view.hpp"

namespace lockstep::mgmt {

/// A node whose database is of the past takes part anew. Its management must have nothing before the other one replaces
/// it.
[[nodiscard]] std::string without_the_database(const std::string& name, NodeSide side);

/// Of this node, and of the copy of the configuration beside its volumes.
void judge_copy(const PairView& view, std::vector<HealthProblem>& problems);

}  // namespace lockstep::mgmt
