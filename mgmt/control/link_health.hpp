#pragma once
// What is said of the link between the nodes, and of each of its paths.
#include <vector>

#include "mgmt/control/pair_view.hpp"

namespace lockstep::mgmt {

void judge_link(const PairView& view, std::vector<HealthProblem>& problems);
/// While the link is up; else its loss is told, and is enough.
void judge_link_paths(const PairView& view, std::vector<HealthProblem>& problems);

}  // namespace lockstep::mgmt
