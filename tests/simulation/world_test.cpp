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

/// Everything that a host may do besides waiting.
WorldOptions with(std::initializer_list<const char*> names, std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  for (const char* name : names) EXPECT_TRUE(options.switches.settle(name, true)) << name;
  // Slow, and never frozen: what a frozen machine holds is the mirror's to judge, this disk knows nothing of leases.
  // Nor does it know what a failed write left.
  options.adjust = [](Scenario& s) { s.faults.freeze = s.faults.both_stores = false, s.faults.store_slow = true; };
  return options;
}

TEST(World, APerfectDiskKeepsEveryPromiseWhateverHostsDo) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ProgramKind kind = fake_program(FakeFlaw::none);
    const auto options = with({"impatient", "quick_logouts", "quick_drops", "late_drops"}, seed);
    ASSERT_EQ(World(options, kind).run().violation, "") << "seed " << seed;
  }
}

class DiskThatForgetsItsHosts : public testing::TestWithParam<std::pair<const char*, FakeFlaw>> {};

TEST_P(DiskThatForgetsItsHosts, IsCaught) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const ProgramKind kind = fake_program(GetParam().second);
    const Outcome outcome = World(with({"impatient", GetParam().first}, seed), kind).run();
    if (outcome.violation.empty()) continue;
    EXPECT_TRUE(outcome.violation.starts_with("promise 3")) << outcome.violation;
    return;
  }
  FAIL() << "no seed up to 300 found it";
}

INSTANTIATE_TEST_SUITE_P(Simulator, DiskThatForgetsItsHosts,
                         testing::Values(std::pair{"impatient", FakeFlaw::ignores_age},
                                         std::pair{"quick_logouts", FakeFlaw::ignores_cancel},
                                         std::pair{"quick_drops", FakeFlaw::ignores_cancel}),
                         [](const auto& test) {
                           return std::string(test.param.first) +
                                  (test.param.second == FakeFlaw::ignores_age ? "_ignores_age" : "_ignores_cancel");
                         });

TEST(World, ASwitchChangesNoOtherDrawOfItsSeed) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimRandom random(seed);
    const Scenario drawn = draw_scenario(seed, random);
    Scenario off = drawn;
    SwitchOrders none;
    for (const Switch& s : switches()) ASSERT_TRUE(none.settle(s.name, false));
    draw_switches(off, none);
    Scenario one = drawn;
    SwitchOrders only = none;
    ASSERT_TRUE(only.settle("one_way_stall", true));
    draw_switches(one, only);
    EXPECT_TRUE(one.faults.one_way_stall);
    one.faults.one_way_stall = false;
    EXPECT_EQ(describe(one), describe(off));
    EXPECT_EQ(describe(drawn), describe(off));
    EXPECT_EQ(one.hosts.patience, off.hosts.patience);
  }
}

TEST(World, ASwitchThatNobodyKnowsIsRefused) {
  SwitchOrders orders;
  EXPECT_FALSE(orders.settle("imaginary", true));
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

TEST(World, ADiskThatRefusesEverythingIsCaughtInEveryWorld) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const ProgramKind kind = fake_program(FakeFlaw::refuses);
    WorldOptions options;
    options.seed = seed;
    ASSERT_TRUE(options.switches.settle("impatient", false));
    const Outcome outcome = World(options, kind).run();
    EXPECT_TRUE(outcome.violation.starts_with("liveness")) << "seed " << seed << ": " << outcome.violation;
  }
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
