#pragma once
// Worlds with `revert_alone` in which a copy that was set back hears nobody for so long that it serves: what it
// acknowledges then, hosts lose, and both copies have to end alike all the same.
#include "tests/simulation/scenario.hpp"

namespace lockstep::simulation {

[[nodiscard]] bool is_dark(const Scenario& scenario);

}  // namespace lockstep::simulation
