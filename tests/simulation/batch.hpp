#pragma once
// Many seeds, each run once or twice, spread over processes. The last line of its output is "N passed, M failed".
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

struct BatchOptions {
  std::uint64_t from = 1;
  std::uint64_t to = 1;
  unsigned jobs = 1;
  bool ci = false;                    ///< a required mark that no seed reached is a failure
  std::vector<std::string> required;  ///< so is one of these
  bool first = false;                 ///< each seed once, until one fails
  std::uint64_t twice_every = 1;      ///< the seeds that it divides are run twice, the others once
  bool without_faults = false;
  bool marks = false;  ///< tell how often each mark was reached
  SwitchOrders switches;
  const ProgramKind* kind = nullptr;
};

/// The exit code: 0 when all passed.
[[nodiscard]] int run_batch(const BatchOptions& options);
/// One seed, once, with every event on standard output.
[[nodiscard]] int trace_one(const BatchOptions& options);
/// One seed, twice; a second run that differs is a violation as well.
[[nodiscard]] Outcome run_twice(const BatchOptions& options, std::uint64_t seed);

}  // namespace lockstep::simulation
