#pragma once
// One disk in memory, shared by both machines, that is never lost: what the simulator is tested with. A perfect one
// must pass every world; each broken one must be caught.
#include "tests/simulation/program.hpp"

namespace lockstep::simulation {

enum class FakeFlaw : std::uint8_t {
  none,
  loses_writes,    ///< acknowledges some writes without doing them
  reads_old,       ///< some reads return what was there before the last write
  late_effect,     ///< some writes take effect once more, later
  torn_compare,    ///< COMPARE AND WRITE looks and writes at two different moments
  misplaces,       ///< some writes go to the next block
  ignores_cancel,  ///< carries out what was cancelled, after it said that it is over
  refuses,         ///< answers every command with an error
  ignores_age,     ///< carries out what is so old that its host may have tried it elsewhere
};

[[nodiscard]] ProgramKind fake_program(FakeFlaw flaw);

}  // namespace lockstep::simulation
