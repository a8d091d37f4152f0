// Who is a member, and serves, after both nodes or the way between them were away.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

TEST(Forwarding, APartnerThatIsGoneBeforeContactWasMadeIsGone) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 256; });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  auto& read = pair.read(kB, 5);
  pair.host(kA).end(Host::End::killed);
  EXPECT_TRUE(pair.wait_for([&] { return read.done && pair.is(kB, MirrorState::waiting); }, 10 * kSecond));
}

/// Reads that went unanswered while the two could not talk either: their answers come when nothing is to be decided.
TEST(Witness, IsNotAskedForAFailoverByAMemberThatIsInSyncAgain) {
  ScriptedPair pair(pair_program());
  const auto reach_witness = [&](bool can) {
    for (const NodeSide side : {kA, kB}) pair.host(side).witness().set_reachable(can);
  };
  const auto talk = [&](bool can) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, can);
  };
  reach_witness(false);
  talk(false);
  ASSERT_TRUE(
      pair.wait_for([&] { return pair.is(kA, MirrorState::suspended) && pair.is(kB, MirrorState::suspended); }));
  pair.run_for(kSecond);
  talk(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  const auto before = pair.status(kA).epoch.number;
  reach_witness(true);
  pair.run_for(10 * kSecond);
  EXPECT_TRUE(pair.in_sync());
  EXPECT_EQ(pair.status(kA).epoch.number, before) << "a failover was won, and had to be undone";
  const auto record = pair.world().witness.view(pair.world().scenario.volumes[0].id).record;
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(record->members.is_both()) << "the other member could not go on alone";
}

/// Both processes died while what was written here had not reached the other: a pair again, whose regions differ until
/// the resync came by. One a second, so that the last ones wait for their turn.
struct BothDied {
  static constexpr std::uint64_t kRegions = 16, kRegionBlocks = 8, kLast = (kRegions - 1) * kRegionBlocks;

  BothDied() : pair(pair_program(), [](Scenario& s) { s.resync_ceiling = s.region_size; }) {
    for (std::uint64_t i = 0; i < kRegions; ++i) before = &write_everywhere(i);
    pair.world().cut(kA, false);
    for (std::uint64_t i = 0; i < kRegions; ++i) after = &pair.write_stamp(kA, i * kRegionBlocks);
    pair.run_for(50 * kMillisecond);
    EXPECT_FALSE(after->done);
    for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::killed);
    pair.world().cut(kA, true);
    for (const NodeSide side : {kA, kB}) pair.host(side).boot();
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).serving && pair.status(kB).serving; }));
    EXPECT_EQ(stored(kA), after->value);
    EXPECT_EQ(stored(kB), before->value) << "nothing differs any more: the test shows nothing";
  }
  ScriptedPair::Io& write_everywhere(std::uint64_t region) {
    auto& io = pair.write_stamp(kA, region * kRegionBlocks);
    EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
    return io;
  }
  /// What the node's own store has.
  Value stored(NodeSide side) {
    return read_stamp(pair.host(side).data(0).visible().subspan(kLast * kBlock, kBlock), kLast);
  }

  ScriptedPair pair;
  const ScriptedPair::Io* before = nullptr;  ///< of the last region: on both
  const ScriptedPair::Io* after = nullptr;   ///< … on A only, its outcome unknown
};

TEST(BothRestarted, ARegionThatDiffersIsMadeEqualBeforeEitherMemberShowsIt) {
  for (const NodeSide first : {kA, kB}) {
    BothDied world;
    EXPECT_EQ(world.pair.stamp_at(first, world.kLast), world.after->value);
    EXPECT_EQ(world.pair.stamp_at(first == kA ? kB : kA, world.kLast), world.after->value);
    EXPECT_EQ(world.stored(kB), world.after->value);
    EXPECT_EQ(world.pair.judgement(), "");
    EXPECT_EQ(world.pair.violation(), "");
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  }
}

/// A host does not wait for the ceiling, which is a region a second here; and the walk does not go faster for it.
TEST(BothRestarted, WhatAHostWaitsForIsCopiedAtOnceAndNothingElseWithIt) {
  BothDied world;
  const auto unequal = [&] {
    const std::size_t size = world.kRegionBlocks * kBlock;
    std::uint64_t regions = 0;
    for (std::uint64_t i = 0; i < world.kRegions; ++i) {
      const auto of = [&](NodeSide side) { return world.pair.host(side).data(0).visible().subspan(i * size, size); };
      if (!std::ranges::equal(of(kA), of(kB))) ++regions;
    }
    return regions;
  };
  const Nanos from = world.pair.world().scheduler.now();
  const auto before = unequal();
  ASSERT_GT(before, 6u + 2) << "the test would show nothing";
  for (std::uint64_t i = 1; i <= 6; ++i)
    EXPECT_NE(world.pair.stamp_at(kA, world.kLast - i * world.kRegionBlocks), 0) << i;
  EXPECT_LE(world.pair.world().scheduler.now() - from, kSecond);
  EXPECT_GE(unequal() + 6 + 2, before) << "beside those six, one a second";
  EXPECT_EQ(world.pair.violation(), "");
}

/// B orders, and its store keeps a write of its own that A has; A goes on alone and overwrites it.
constexpr std::uint64_t kBlockOfBoth = 8;
void adopts_with_a_write_in_its_store(Nanos returned_after) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
    s.first_sequencer = kB;
    s.store_deadline = 60 * kSecond;
  });
  ASSERT_FALSE(pair.written(kB, kBlockOfBoth, 1));
  hang(pair, kB);
  pair.write(kB, kBlockOfBoth, 0xb);
  pair.run_for(20 * kMillisecond);
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  const auto talk = [&](bool can) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, can);
  };
  talk(false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_FALSE(pair.written(kA, kBlockOfBoth, 0xa));
  talk(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target) && pair.status(kB).serving; }));
  pair.run_for(returned_after);
  EXPECT_TRUE(pair.status(kA).serving) << "it waits for a member that can't join";
  EXPECT_TRUE(pair.status(kB).serving) << "through A";
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
  EXPECT_EQ(pair.value_at(kB, kBlockOfBoth), 0xa);
}

/// An order of A's is at work in B's store when that stops, and A goes on alone and is there again before anybody can
/// know that B's store hangs.
struct AdoptingWithAHungOrder {
  AdoptingWithAHungOrder() {
    EXPECT_FALSE(pair.written(kA, kBlockOfBoth, 1));
    hang(pair, kB);
    pair.write(kA, kBlockOfBoth, 0xa);
    pair.run_for(20 * kMillisecond);
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
  }
  ScriptedPair pair{pair_program(), [](Scenario& s) { s.arbiter = {engine::ArbiterKind::preferred, kA, {}}; }};
};

TEST(Adopting, AStoreThatIsFoundToHangMeanwhileKeepsNobodyFromServing) {
  AdoptingWithAHungOrder world;
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kB).serving; }, 30 * kSecond)) << "through A";
  world.pair.mend(kB);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
}

TEST(Adopting, EndsWithAVolumeThatIsDetachedMeanwhile) {
  AdoptingWithAHungOrder world;
  world.pair.run_for(500 * kMillisecond);
  bool detached = false;
  world.pair.host(kB).program()->detach(0, [&] { detached = true; });
  world.pair.run_for(500 * kMillisecond);
  world.pair.mend(kB);
  EXPECT_TRUE(world.pair.wait_for([&] { return detached; }));
  EXPECT_EQ(world.pair.violation(), "");
}

TEST(Adopting, WhatTheStoreStillHoldsOfTheOldEpochDoesNotLandOnTheResync) { adopts_with_a_write_in_its_store(kSecond); }

TEST(Adopting, AStoreThatDoesNotReturnAWriteKeepsNobodyElseFromServing) {
  adopts_with_a_write_in_its_store(10 * kSecond);
}

}  // namespace
}  // namespace lockstep::simulation
