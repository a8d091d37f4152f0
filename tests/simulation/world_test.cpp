// The simulator tested with disks whose verdict is known: the perfect one passes, each broken one is caught.
#include "tests/simulation/world.hpp"

#include <gtest/gtest.h>

#include "tests/simulation/fake_program.hpp"

namespace lockstep::simulation {
namespace {

Outcome run_fake(FakeFlaw flaw, std::uint64_t seed) {
  const ProgramKind kind = fake_program(flaw);
  WorldOptions options;
  options.seed = seed;
  return World(options, kind).run();
}

TEST(World, APerfectDiskKeepsEveryPromiseInEveryWorld) {
  std::size_t writes = 0;
  std::size_t reads = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Outcome outcome = run_fake(FakeFlaw::none, seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    writes += outcome.writes;
    reads += outcome.reads;
  }
  EXPECT_GT(writes, 200u * 50) << "the worlds do too little to prove anything";
  EXPECT_GT(reads, 200u * 50);
}

TEST(World, TheSameSeedRunsTheSameWayTwice) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(run_fake(FakeFlaw::none, seed).hash, run_fake(FakeFlaw::none, seed).hash);
}

TEST(World, OtherSeedsRunOtherwise) { EXPECT_NE(run_fake(FakeFlaw::none, 1).hash, run_fake(FakeFlaw::none, 2).hash); }

class BrokenDisk : public testing::TestWithParam<std::pair<const char*, FakeFlaw>> {};

TEST_P(BrokenDisk, IsCaught) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = run_fake(GetParam().second, seed);
    if (!outcome.violation.empty()) {
      EXPECT_TRUE(outcome.violation.starts_with("promise 3")) << outcome.violation;
      return;
    }
  }
  FAIL() << "no seed up to 100 found it";
}

INSTANTIATE_TEST_SUITE_P(Simulator, BrokenDisk,
                         testing::Values(std::pair{"LosesWrites", FakeFlaw::loses_writes},
                                         std::pair{"ReadsOld", FakeFlaw::reads_old},
                                         std::pair{"LateEffect", FakeFlaw::late_effect},
                                         std::pair{"TornCompare", FakeFlaw::torn_compare},
                                         std::pair{"Misplaces", FakeFlaw::misplaces}),
                         [](const auto& test) { return test.param.first; });

}  // namespace
}  // namespace lockstep::simulation
