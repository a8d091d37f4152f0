// The first seeds, as every batch has them.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {
namespace {

TEST(Simulator, FindsNothingInTheFirstSeeds) {
  WorldOptions options;
  for (options.seed = 1; options.seed <= 50; ++options.seed) {
    const Outcome outcome = World(options, pair_program()).run();
    EXPECT_EQ(outcome.violation, "") << "seed " << options.seed;
  }
}

}  // namespace
}  // namespace lockstep::simulation
