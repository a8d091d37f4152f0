// What keeps a copy that was set back to when it was the only member from serving, or from being overwritten unasked:
// all that it may have read or heard before it starts.
#include <gtest/gtest.h>

#include "tests/simulation/only_member.hpp"

namespace lockstep::simulation {
namespace {

// ---- the witness ---------------------------------------------------------------------------------------------------

TEST(OldCopy, IsNotStartedByAWitnessThatFallsSilentAfterWhatItSaid) {
  OnlyMember world;
  world.set_a_back();
  world.cut();
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.never_serves(kA, 3 * kLease));
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).slow_witness().hold();
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
  EXPECT_NE(world.pair.status(kA).reason.find("without this replica"), std::string::npos);
  EXPECT_EQ(world.pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
