#pragma once
// The real thing on a simulated machine: metadata read back, replicas attached, replication::PairNode at work.
#include "tests/simulation/program.hpp"

namespace lockstep::simulation {

[[nodiscard]] const ProgramKind& pair_program();

}  // namespace lockstep::simulation
