// Two nodes with different settings of the lease.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

/// B is configured with four seconds, A with one.
void unlike(Scenario& s) { s.longer_lease = 4 * kSecond; }

/// A goes on alone by its own lease; B can't ask the witness, and would hold its longer one for two seconds more.
TEST(UnlikeLeases, TheNodeWithTheLongerOneAnswersNoStaleRead) {
  ScriptedPair pair(pair_program(), unlike);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  ASSERT_EQ(pair.value_at(kB, 8), 1);
  pair.run_for(kSecond);
  pair.host(kB).witness().set_reachable(false);
  for (const auto side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 10 * kSecond));
  ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
  auto& read = pair.read(kB, 8);
  pair.run_for(20 * kMillisecond);
  EXPECT_FALSE(read.done && !read.status()) << "it read " << read.first();
  for (const auto side : {kA, kB}) pair.world().cut(side, true);
  pair.host(kB).witness().set_reachable(true);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

TEST(UnlikeLeases, BothNodesStayInSyncByTheShorterOne) {
  ScriptedPair pair(pair_program(), unlike);
  for (int i = 0; i < 100; ++i) {
    pair.run_for(100 * kMillisecond);
    ASSERT_TRUE(pair.in_sync());
    ASSERT_EQ(pair.written(i % 2 ? kA : kB, 8, i), std::error_code{});
  }
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.host(side).fences(), 0u);
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
