// A new copy in the place of one that is lost: it serves nothing before it is whole, whatever dies meanwhile, and the
// old one that comes back is never taken for it.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint64_t kBlocks[] = {8, 24, 40, 56, 72, 88, 104, 120, 136, 152};  // a region each

/// There is time to break something.
void slow_copy(Scenario& s) { s.resync_ceiling = 4 * s.region_size; }  // a second

bool equal(ScriptedPair& pair) {
  return std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible());
}

bool in_sync(ScriptedPair& pair) {
  return pair.wait_for([&] { return pair.in_sync(); });
}

void write_all(ScriptedPair& pair, NodeSide through, int fill) {
  for (const auto block : kBlocks) ASSERT_FALSE(pair.written(through, block, fill));
}

/// No bit of what was written is set any more.
void settle(ScriptedPair& pair, NodeSide side) {
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(side).dirty_bytes == 0; })) << pair.status(side).dirty_bytes;
}

void settle(ScriptedPair& pair) {
  for (const NodeSide side : {kA, kB}) settle(pair, side);
}

/// `side` left by agreement; its partner goes on alone.
bool leaves(ScriptedPair& pair, NodeSide side) {
  pair.host(side).program()->leave(0);
  return pair.wait_for([&] { return pair.is(other(side), MirrorState::solo) && pair.is(side, MirrorState::left); });
}

/// Until its partner copies to the blank one.
bool is_replaced(ScriptedPair& pair, NodeSide side) {
  pair.host(side).replace_copy(0);
  return pair.wait_for(
      [&] { return pair.is(side, MirrorState::syncing_target) && pair.is(other(side), MirrorState::syncing_source); });
}

TEST(Replace, ABlankCopyIsMadeEqualAsAWholeWhileTheOtherServes) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), slow_copy);
    write_all(pair, kA, 1);
    settle(pair);
    ASSERT_TRUE(leaves(pair, side));
    ASSERT_TRUE(is_replaced(pair, side));
    EXPECT_EQ(pair.value_at(side, 152), 1) << "the target asks the source";
    ASSERT_FALSE(pair.written(side, 8, 2));
    ASSERT_FALSE(pair.written(other(side), 24, 3));
    EXPECT_TRUE(pair.is(side, MirrorState::syncing_target)) << "the test was too slow";
    ASSERT_TRUE(in_sync(pair));
    EXPECT_EQ(pair.value_at(side, 8), 2);
    EXPECT_EQ(pair.value_at(side, 24), 3);
    EXPECT_EQ(pair.value_at(side, 152), 1);
    EXPECT_TRUE(equal(pair));
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Replace, ACopyWhoseDiskFailedIsReplacedUnderThePathThatForwards) {
  ScriptedPair pair(pair_program());
  write_all(pair, kA, 1);
  settle(pair);
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = f.read_error = f.flush_error = kAlways; });
  ASSERT_FALSE(pair.written(kA, 8, 2));
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.is(kB, MirrorState::failed); }));
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(in_sync(pair));
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

/// It holds a part of the data: it serves nothing, is let in to nothing, and goes on where it stood.
TEST(Replace, ACopyThatIsNotWholeServesNothingWhenTheOtherDies) {
  for (const bool witnessed : {true, false}) {
    for (const bool both : {false, true}) {
      ScriptedPair pair(pair_program(), [&](Scenario& s) {
        slow_copy(s);
        if (!witnessed) s.arbiter = {engine::ArbiterKind::preferred, kB, {}};
      });
      write_all(pair, kA, 1);
      settle(pair);
      ASSERT_TRUE(leaves(pair, kB));
      ASSERT_TRUE(is_replaced(pair, kB));
      pair.run_for(3 * kSecond);
      ASSERT_TRUE(pair.is(kB, MirrorState::syncing_target)) << "the test was too slow";
      pair.host(kA).end(Host::End::power_cut);
      if (both) {
        pair.host(kB).end(Host::End::power_cut);
        pair.host(kB).boot();
      }
      pair.run_for(30 * kSecond);
      EXPECT_FALSE(pair.status(kB).serving);
      EXPECT_FALSE(pair.status(kB).epoch.members.contains(kB));
      bool refused = false;
      pair.host(kB).program()->force_solo(0, false, [&](engine::Result<void> done) { refused = !done; });
      EXPECT_TRUE(refused) << "an operator has to say that a mixture is better than nothing";
      pair.host(kA).boot();
      ASSERT_TRUE(in_sync(pair));
      EXPECT_EQ(pair.value_at(kB, 152), 1);
      EXPECT_TRUE(equal(pair));
      EXPECT_EQ(pair.violation(), "");
    }
  }
}

TEST(Replace, ACopyWhoseNodeDiesInTheMiddleGoesOnWhenItIsBack) {
  ScriptedPair pair(pair_program(), slow_copy);
  write_all(pair, kA, 1);
  settle(pair);
  ASSERT_TRUE(leaves(pair, kB));
  ASSERT_TRUE(is_replaced(pair, kB));
  for (const auto how : {Host::End::killed, Host::End::power_cut}) {
    pair.run_for(2 * kSecond);
    pair.host(kB).end(how);
    ASSERT_FALSE(pair.written(kA, 8, 2)) << "the other serves";
    pair.host(kB).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target); }));
  }
  ASSERT_TRUE(in_sync(pair));
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

/// By the same process, so fast that the source does not see it gone: it goes by the map of the one before.
TEST(Replace, ACopyThatIsReplacedInTheMiddleOfItsResyncIsGivenEverything) {
  ScriptedPair pair(pair_program(), slow_copy);
  write_all(pair, kA, 1);
  settle(pair);
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (const std::uint64_t block : {8, 24, 40, 56}) ASSERT_FALSE(pair.written(kA, block, 2));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(in_sync(pair));
  EXPECT_EQ(pair.value_at(kB, 152), 1);
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

/// The source asks for a new generation of the copy that is in the place of the other one, before either has said what
/// it knows of it.
TEST(Replace, ANewCopyIsNotTakenForAMachineWhoseMemoryWasSetBack) {
  ScriptedPair pair(pair_program());
  write_all(pair, kA, 1);
  ASSERT_TRUE(leaves(pair, kA));
  ASSERT_FALSE(pair.written(kB, 200, 1));
  pair.host(kB).data(0).lose_sector(200);  // so that it stays the source
  pair.host(kA).replace_copy(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).dirty_bytes == 4096; }));
  const auto life = pair.host(kA).life();
  auto& way_out = pair.world().way_from(kA);
  for (Nanos phase = 0; phase < 2 * kSecond; phase += 200 * kMillisecond) {
    pair.run_for(phase);
    ASSERT_FALSE(pair.written(kB, 8, 2));
    pair.run_for(850 * kMillisecond);
    way_out.hold(SimLink::Flow::requests, true);
    pair.host(kA).replace_copy(0);
    pair.run_for(600 * kMillisecond);
    way_out.hold(SimLink::Flow::requests, false);
    ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).dirty_bytes == 4096; }));
    ASSERT_EQ(pair.host(kA).life(), life) << "it ended itself";
    pair.run_for(2 * kSecond - phase);
  }
  ASSERT_FALSE(pair.written(kB, 200, 3));
  ASSERT_TRUE(in_sync(pair));
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

/// The disk that was thought lost is put back in the place of the new one.
TEST(Replace, TheOldDiskThatComesBackIsBroughtUpToDateAsAWhole) {
  for (const NodeSide side : {kA, kB}) {
    for (const bool written_since : {true, false}) {
      ScriptedPair pair(pair_program());
      write_all(pair, kA, 1);
      settle(pair);
      pair.host(side).take_snapshot();
      ASSERT_TRUE(leaves(pair, side));
      if (written_since) write_all(pair, other(side), 2);
      pair.host(side).replace_copy(0);
      ASSERT_TRUE(in_sync(pair));
      settle(pair, other(side));  // nothing but its generation tells that the old one lacks something
      pair.host(side).end(Host::End::power_cut);
      pair.host(side).set_back();
      pair.host(side).boot();
      ASSERT_TRUE(in_sync(pair));
      EXPECT_EQ(pair.value_at(side, 8), written_since ? 2 : 1);
      EXPECT_TRUE(equal(pair));
      EXPECT_EQ(pair.violation(), "");
    }
  }
}

TEST(Replace, TheOldDiskThatComesBackDoesNotGoOnAloneByWordOfTheWitness) {
  ScriptedPair pair(pair_program());
  write_all(pair, kA, 1);
  settle(pair);
  pair.host(kB).take_snapshot();
  ASSERT_TRUE(leaves(pair, kB));
  write_all(pair, kA, 2);
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(in_sync(pair));
  write_all(pair, kA, 3);
  pair.run_for(5 * kSecond);  // the witness has heard of the new epoch
  for (const NodeSide each : {kA, kB}) pair.host(each).end(Host::End::power_cut);
  pair.host(kB).set_back();
  pair.host(kB).boot();
  pair.run_for(30 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving) << "its hosts would see what was overwritten";
  pair.host(kA).boot();
  ASSERT_TRUE(in_sync(pair));
  EXPECT_EQ(pair.value_at(kB, 8), 3);
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

/// Whoever is replaced while the other is no only member may be the one that has everything.
TEST(Replace, NoCopyIsReplacedWhileTheOtherIsNotAlone) {
  ScriptedPair pair(pair_program());
  write_all(pair, kA, 1);
  settle(pair);
  pair.host(kB).replace_copy(0);
  EXPECT_TRUE(in_sync(pair));
  EXPECT_FALSE(std::ranges::all_of(pair.host(kB).data(0).visible(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(pair.violation(), "");
}

TEST(Replace, WhatTheOldCopyLeftBesideItsMetadataDoesNotCountForTheNewOne) {
  ScriptedPair pair(pair_program());
  write_all(pair, kA, 1);
  const engine::EpochRecord together = pair.status(kB).epoch;
  ASSERT_TRUE(leaves(pair, kB));
  engine::EpochRecord left = together;
  left.number += 1;
  left.id.bytes[0] ^= 1;
  left.ancestors.insert(left.ancestors.begin(), together.id);
  left.members = engine::MemberSet::only(kA);
  left.sequencer = kA;
  pair.host(kB).left_records().records[pair.world().scenario.volumes[0].id] = left;
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(in_sync(pair));
  EXPECT_TRUE(pair.host(kB).left_records().records.empty());
  EXPECT_TRUE(equal(pair));
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
