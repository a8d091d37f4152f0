// Stores that hang or fail: nothing of theirs lands late, nobody waits for them for ever.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

TEST(HungStore, OrdersThatOutliveTheirEpochLetGoOfTheirRanges) {
  ScriptedPair pair(pair_program());
  for (const std::uint64_t block : {8, 24}) ASSERT_EQ(pair.written(kA, block, 1), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 8, 2);
  pair.write(kA, 24, 3);
  pair.run_for(50 * kMillisecond);
  pair.host(kA).end(Host::End::killed);
  pair.host(kA).boot();
  pair.run_for(10 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving) << "its store has not returned what it holds";
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << "b " << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.value_at(kB, 8), pair.value_at(kA, 8));
  EXPECT_EQ(pair.written(kA, 8, 4), std::error_code{});
  EXPECT_EQ(pair.written(kB, 24, 5), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

TEST(FailedWrite, WhatAReadShowedOfItSurvivesAPowerCut) {
  ScriptedPair pair(pair_program());
  constexpr std::uint64_t kBlocks = 40;
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < kBlocks; ++block) ASSERT_EQ(pair.written(kA, block, 1), std::error_code{});
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  for (std::uint64_t block = 0; block < kBlocks; ++block) EXPECT_NE(pair.written(kA, block, 2), std::error_code{});
  pair.mend(kA);
  std::vector<int> seen;
  unsigned landed = 0;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    seen.push_back(pair.value_at(kA, block));
    landed += seen.back() == 2;
  }
  ASSERT_GT(landed, 0u) << "no failed write left anything: the test shows nothing";
  pair.host(kA).end(Host::End::power_cut);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    EXPECT_EQ(pair.value_at(kA, block), seen[block]) << "block " << block;
  }
}

TEST(FailedWrite, IsNotShownByTheOtherMemberWhileTheSequencerIsStillWriting) {
  for (std::uint64_t block = 0; block < 8; ++block) {
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, block, 1), std::error_code{});
    hang(pair, kA);
    pair.spoil(kB, [](StoreFaults& f) { f.write_error = kAlways; });
    pair.write(kA, block, 2);
    // Received by B while the order is still in its store.
    const auto begun = [&] { return pair.host(kB).data(0).in_flight() > 0; };
    ASSERT_TRUE(pair.wait_for(begun));
    auto& read = pair.read(kB, block);
    pair.run_for(300 * kMillisecond);
    EXPECT_FALSE(read.done && !read.status()) << "read " << read.first();
  }
}

TEST(FailedWrite, OfBothStoresAtOnceIsToldToTheHostAndOneNodeGoesOn) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 3, 1), std::error_code{});
  for (const NodeSide node : {kA, kB}) pair.spoil(node, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_EQ(pair.written(kB, 3, 2), make_error_code(engine::Errc::io_error));
  EXPECT_TRUE(pair.status(kA).serving && pair.status(kB).serving) << "one alone, the other through it";
  for (const NodeSide node : {kA, kB}) pair.mend(node);
  EXPECT_EQ(pair.written(kB, 3, 3), std::error_code{});
  for (const NodeSide node : {kA, kB}) {
    if (pair.is(node, MirrorState::solo)) continue;
    pair.host(node).end(Host::End::killed);
    pair.host(node).boot();
  }
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(kB, 3), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// A, told to leave, is no more able than B, whose store fails.
TEST(FailedWrite, ThatOnlyTheLeaverHasIsToldToTheHost) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kB, 3, 1), std::error_code{});
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  auto& write = pair.write(kA, 3, 2);
  pair.host(kB).shut_down();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_EQ(write.status(), make_error_code(engine::Errc::io_error));
  pair.mend(kA);
  EXPECT_EQ(pair.written(kA, 3, 3), std::error_code{});
}

TEST(FailedFlush, OfBothStoresStopsTheVolumeAndSaysSo) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 3, 1), std::error_code{});
  for (const NodeSide node : {kA, kB}) pair.spoil(node, [](StoreFaults& f) { f.flush_error = kAlways; });
  pair.submit(kA, engine::DiskOpcode::flush, 0, 0, 0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::failed) && pair.is(kB, MirrorState::failed); }));
  EXPECT_NE(pair.status(kA).reason, "");
}

TEST(HungStore, TheOnlyMemberServesNothingUntilItHasReturnedEverything) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 3, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  hang(pair, kA);
  auto& write = pair.write(kA, 3, 7);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kA).serving; }, 10 * kSecond));
  EXPECT_TRUE(pair.is(kA, MirrorState::failed));
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
  EXPECT_TRUE(write.done);
  EXPECT_EQ(pair.value_at(kA, 3), 7);
}

TEST(HungStore, AMemberThatWonTheWitnessGoesOnOnlyWhenItHasReturnedEverything) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 3, 1), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 3, 7);
  pair.run_for(50 * kMillisecond);
  pair.host(kA).end(Host::End::power_cut);
  pair.run_for(20 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); })) << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.written(kB, 3, 8), std::error_code{});
  EXPECT_EQ(pair.value_at(kB, 3), 8);
}

/// A resync's copy holds no lock on the receiver: nothing may be written there before the store has returned it.
TEST(HungStore, ALateCopyLandsOnNothingNewer) {
  ScriptedPair pair(pair_program());
  auto& lost = pair.write(kA, 16, 1);
  ASSERT_TRUE(pair.wait_for([&] { return lost.done; }));
  pair.host(kA).end(Host::End::power_cut);
  pair.host(kB).end(Host::End::power_cut);
  pair.host(kA).boot();
  pair.host(kB).boot();
  hang(pair, kB);  // its reads and copies; the pair is {A,B} again while it is being made equal
  pair.run_for(300 * kMillisecond);
  pair.host(kA).end(Host::End::power_cut);
  for (int i = 0; i < 20; ++i) {
    pair.run_for(kSecond);
    EXPECT_FALSE(pair.status(kB).serving) << "a copy may still land";
  }
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); })) << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.written(kB, 16, 9), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kB, 16), 9);
}

TEST(HungStore, WhatQueuesBehindItIsServedByThePartnerOnceTheReplicaLeft) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 5, 1), std::error_code{});
  hang(pair, kA);
  pair.write(kA, 5, 2);
  pair.run_for(20 * kMillisecond);
  auto& queued = pair.read(kA, 5);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }, 8 * kSecond));
  ASSERT_TRUE(pair.wait_for([&] { return queued.done; }, 4 * kSecond)) << "it waits for a store that has left";
  EXPECT_EQ(queued.status(), std::error_code{});
  EXPECT_EQ(pair.written(kA, 40, 3), std::error_code{}) << "forwarded";
}

TEST(HungStore, AReplicaWhoseStoreReturnedComesBackByItself) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 5, 1), std::error_code{});
  hang(pair, kB);
  auto& write = pair.write(kA, 5, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  EXPECT_TRUE(pair.wait_for([&] { return write.done; }));
  pair.run_for(20 * kSecond);
  EXPECT_TRUE(pair.is(kB, MirrorState::failed)) << "it still holds a write";
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.value_at(kB, 5), 2);
}

/// The partner restarted meanwhile: its next process takes no order of that epoch any more.
TEST(HungStore, LetsThePartnersNextProcessGoOnWhateverItHoldsOrHas) {
  for (const bool returns : {false, true}) {
    ScriptedPair pair(pair_program());
    for (const std::uint64_t block : {5, 16}) ASSERT_EQ(pair.written(kA, block, 1), std::error_code{});
    hang(pair, kB);
    pair.write(kA, 5, 2);
    pair.run_for(20 * kMillisecond);
    hang(pair, kA);
    pair.write(kA, 16, 2);
    pair.run_for(20 * kMillisecond);
    pair.host(kA).witness().set_reachable(false);
    pair.host(kB).end(Host::End::killed);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::failed); })) << to_string(pair.status(kA).state);
    pair.mend(kB);
    if (returns) pair.mend(kA);
    pair.host(kB).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).serving; })) << to_string(pair.status(kB).state);
    EXPECT_EQ(pair.written(kB, 5, 3), std::error_code{});
    pair.mend(kA);
    pair.host(kA).witness().set_reachable(true);
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kA).state);
    for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.value_at(side, 5), 3);
    EXPECT_EQ(pair.value_at(kA, 16), pair.value_at(kB, 16));
    EXPECT_EQ(pair.violation(), "");
  }
}

/// The sequencer won at the witness and the two meet again before it goes on alone: they make a new epoch, and what was
/// ordered in the old one ends first. An order waits at the partner for the watermark to cover one that it overlaps.
TEST(Drain, AnOrderThatOverlapsAnEarlierOneEndsThoughNobodyServes) {
  ScriptedPair pair(pair_program());
  for (const std::uint64_t block : {64, 200}) ASSERT_EQ(pair.written(kA, block, 9), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 64, 1);
  pair.run_for(5 * kMillisecond);
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  pair.write(kA, 200, 2);
  pair.run_for(5 * kMillisecond);
  auto& waits = pair.write(kA, 200, 3);
  pair.run_for(5 * kMillisecond);
  pair.host(kB).witness().set_reachable(false);
  pair.world().cut(kB, false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::suspended); }));
  const auto id = pair.world().scenario.volumes[0].id;
  const auto won = [&] {
    const auto record = pair.world().witness.view(id).record;
    return record && record->members == engine::MemberSet::only(kA);
  };
  ASSERT_TRUE(pair.wait_for(won));
  pair.world().cut(kB, true);
  pair.mend(kB);
  pair.host(kB).witness().set_reachable(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << pair.status(kA).reason;
  EXPECT_TRUE(pair.wait_for([&] { return waits.done; }));
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
