// A volume that is taken out of service and into it again by the same process, while the partner's goes on.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

bool attached_again(ScriptedPair& pair, engine::NodeSide side) {
  pair.host(side).program()->attach_again(0);
  return pair.wait_for([&] { return !pair.host(side).status(0); }) && pair.wait_for([&] { return pair.in_sync(); });
}

TEST(AttachedAgain, WhatItForwardsIsNotTakenForWhatItForwardedBefore) {
  ScriptedPair pair(pair_program());
  for (std::uint64_t block = 0; block < 10; ++block) ASSERT_FALSE(pair.written(kB, block, 1));
  ASSERT_TRUE(attached_again(pair, kB));
  for (std::uint64_t block = 0; block < 20; ++block) {
    ASSERT_FALSE(pair.written(kB, block, 2)) << "block " << block;
    EXPECT_EQ(pair.value_at(kA, block), 2) << "block " << block;
    EXPECT_EQ(pair.value_at(kB, block), 2) << "block " << block;
  }
  EXPECT_EQ(pair.violation(), "");
}

/// One that goes on alone stays in its epoch while it is away. What it writes then is where nothing is to be copied.
TEST(AttachedAgain, WhatItOrdersReachesATargetThatCarriedOutOrdersOfItsBefore) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.regions = 256;
    s.resync_ceiling = 4 * s.region_size;  // a second
  });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  for (std::uint64_t block = 0; block < 10; ++block) ASSERT_FALSE(pair.written(kA, block, 1));
  pair.host(kA).program()->attach_again(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  constexpr std::uint64_t kClean = 1600;
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_FALSE(pair.written(kA, kClean + i, 2)) << i;
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  pair.host(kA).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(pair.value_at(kB, kClean + i), 2) << i;
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
