// What the link or the partner will not take, though the way between the nodes never breaks.
#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MessageType;
using replication::MirrorState;

constexpr std::uint64_t kBlocksOfRegion = 8;

MessageFilter first_order(bool& seen) {
  return [&seen](std::span<const std::byte> header) {
    const auto m = replication::decode(header);
    if (seen || !m || m->type != MessageType::replicate) return false;
    return seen = true;
  };
}

TEST(FullLinkQueue, AnOrderThatItRefusedDuringAResyncGoesOutAgain) {
  constexpr std::uint64_t kRegions = 20, kLast = (kRegions - 1) * kBlocksOfRegion;
  bool refused = false;
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.resync_ceiling = s.region_size; });  // a second
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t r = 0; r < kRegions; ++r) ASSERT_FALSE(pair.written(kA, r * kBlocksOfRegion, 1));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  pair.world().way_from(kA).refuse(first_order(refused));
  auto& write = pair.write(kA, kLast, 2);
  EXPECT_TRUE(pair.wait_for([&] { return write.done; }, 6 * kSecond));
  EXPECT_EQ(write.status(), std::error_code{});
  EXPECT_TRUE(refused);
  EXPECT_TRUE(pair.is(kA, MirrorState::syncing_source)) << "it does not wait for the end of the resync";
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.value_at(side, kLast), 2);
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
