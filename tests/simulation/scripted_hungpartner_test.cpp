// A disk that hangs on one node: the other node goes on alone, and all that waits for the first one ends.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr Nanos kSoon = 20 * kMillisecond;
constexpr Nanos kLong = 20 * kSecond;  ///< deadlines and leases, several times over

void two_volumes(Scenario& s) {
  s.reservations = true;
  s.volumes.push_back(s.volumes[0]);
  s.volumes[1].id.bytes[0] ^= 1;
  s.volumes[1].size = s.volume_size();
}

void hang_store(SimStore& store) {
  StoreFaults faults = store.faults();
  faults.hang = kAlways;
  store.set_faults(faults);
}

void expect_ends_well(ScriptedPair& pair, ScriptedPair::Io& io, const char* what) {
  EXPECT_TRUE(pair.wait_for([&] { return io.done; }, kLong)) << what;
  EXPECT_EQ(io.status(), std::error_code{}) << what;
}

/// What came by the old way is not over, and may never be.
TEST(HungPartner, ANewWayToItDoesNotKeepTheOtherFromGoingOnAlone) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kB);
  auto& write = pair.write(kA, 8, 2);
  pair.run_for(kSoon);
  pair.world().way_from(kA).reset();
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, kLong)) << to_string(pair.status(kA).state);
  expect_ends_well(pair, write, "written");
  EXPECT_EQ(pair.written(kA, 9, 3), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

/// To have its buffers back from the first, the node that goes on breaks the way of the second, too.
TEST(HungPartner, TwoVolumesOnItsDiskBothGoOnWithoutIt) {
  ScriptedPair pair(pair_program(), two_volumes);
  for (const unsigned volume : {0u, 1u}) hang_store(pair.host(kB).data(volume));
  auto& first = pair.write(kA, 8, 2);
  pair.run_for(500 * kMillisecond);
  auto& second = pair.write(kA, 8, 2, 1, 1);
  const auto solo = [&](unsigned volume) { return pair.host(kA).status(volume)->state == MirrorState::solo; };
  EXPECT_TRUE(pair.wait_for([&] { return solo(0) && solo(1); }, kLong));
  expect_ends_well(pair, first, "first");
  expect_ends_well(pair, second, "second");
  EXPECT_EQ(pair.violation(), "");
}

/// It is asked for its state, and detached before it could answer.
TEST(HungPartner, AVolumeThatIsDetachedThereAnswersWhoWaitsForItsState) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.store_deadline = 100 * kSecond; });
  hang(pair, kB);
  auto& write = pair.write(kA, 8, 2);
  pair.run_for(kSoon);
  pair.world().way_from(kA).reset();
  pair.run_for(kSecond);
  pair.host(kB).program()->detach(0, [] {});
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, kLong)) << to_string(pair.status(kA).state);
  expect_ends_well(pair, write, "written");
}

/// The node that goes on has the data: what it forwarded ends without an answer.
TEST(HungPartner, AWriteThatWasForwardedToItEndsWhereItCameIn) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kB, 8, 1), std::error_code{});
  hang(pair, kA);
  auto& write = pair.write(kB, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }, kLong));
  expect_ends_well(pair, write, "forwarded");
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

/// B's metadata of the other volume fails, so that it has to close its sessions; `forwarded` ends with them.
void expect_sessions_are_closed(ScriptedPair& pair, const ScriptedPair::Io& forwarded) {
  StoreFaults faults = pair.host(kB).metadata(1).faults();
  faults.write_error = kAlways;
  pair.host(kB).metadata(1).set_faults(faults);
  pair.change_state(kA, registration(), 1);
  EXPECT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() > 0; }, kLong));
  EXPECT_TRUE(forwarded.done);
  EXPECT_EQ(pair.violation(), "");
}

/// B forwards, and can't know whether A will ever answer: its sessions are closed in the end.
TEST(HungPartner, SessionsAreClosedThoughAForwardIsNeverAnswered) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    two_volumes(s);
    s.store_deadline = 1000 * kSecond;
  });
  hang(pair, kA);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(kSoon);
  expect_sessions_are_closed(pair, forwarded);
}

/// A has it in its store and waits for B's order, which B's own disk holds.
TEST(HungDisk, SessionsAreClosedThoughAForwardThatIsHalfDoneIsNeverOver) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    two_volumes(s);
    s.store_deadline = 1000 * kSecond;
  });
  ASSERT_EQ(pair.written(kB, 8, 1), std::error_code{});
  hang_store(pair.host(kB).data(0));
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(kSoon);
  ASSERT_FALSE(forwarded.done);
  ASSERT_EQ(std::to_integer<int>(pair.host(kA).data(0).visible()[8 * kBlock]), 2);
  expect_sessions_are_closed(pair, forwarded);
}

TEST(HungPartner, AChangeOfTheUnitsStateThatItDoesNotAnswerHoldsNothingOnceItLeft) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang_store(pair.host(kB).metadata(0));
  auto& change = pair.change_state(kA, registration());
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, kLong));
  expect_ends_well(pair, change, "changed");
  auto& read = pair.read(kA, 8);
  expect_ends_well(pair, read, "read");
  EXPECT_EQ(pair.written(kA, 8, 2), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

/// Neither deadline has passed when the nodes lose one another: the one that can't serve must not win.
TEST(HungPartner, ANodeWhoseStoreStandsStillLeavesTheWitnessToTheOther) {
  for (const NodeSide stuck : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.store_deadline = 30 * kSecond; });
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang(pair, stuck);
    auto& write = pair.write(other(stuck), 8, 2);
    pair.run_for(kSoon);
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(other(stuck), MirrorState::solo); }, 5 * kSecond));
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }, kSecond));
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
    EXPECT_EQ(pair.written(other(stuck), 9, 3), std::error_code{});
    pair.mend(stuck);
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.violation(), "");
  }
}

/// Data and metadata on one disk: the record is not waited for as long again.
TEST(HungPartner, ADiskThatHangsWithItsMetadataIsAPauseOfOneDeadline) {
  for (const NodeSide stuck : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.store_deadline = 4 * kSecond; });
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang_store(pair.host(stuck).data(0));
    hang_store(pair.host(stuck).metadata(0));
    auto& write = pair.write(other(stuck), 8, 2);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(other(stuck), MirrorState::solo); }, 6 * kSecond));
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }, kSecond));
    EXPECT_EQ(pair.host(other(stuck)).fences(), 0u) << "its initiators should notice nothing but a pause";
    EXPECT_EQ(pair.written(other(stuck), 9, 3), std::error_code{});
    pair.mend(stuck);
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << "what returned late, without an error, is whole";
    EXPECT_EQ(pair.violation(), "");
  }
}

/// The preferred node's disk stands still with its metadata on it. No witness remembers that the other node goes on:
/// the preferred one does, in its own machine's records.
struct PreferredNodeHangs {
  PreferredNodeHangs()
      : pair(pair_program(), [](Scenario& s) {
          s.arbiter = {engine::ArbiterKind::preferred, kB, {}};
          s.store_deadline = 4 * kSecond;
        }) {
    EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang_store(pair.host(kB).data(0));
    hang_store(pair.host(kB).metadata(0));
  }
  ScriptedPair pair;
};

TEST(PreferredNode, WhoseDiskHangsWithItsMetadataLeavesAndTheOtherGoesOn) {
  PreferredNodeHangs world;
  ScriptedPair& pair = world.pair;
  auto& write = pair.write(kA, 8, 2);
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, kLong))
      << state_name(pair.status(kA).state);
  expect_ends_well(pair, write, "written");
  EXPECT_EQ(pair.written(kA, 9, 3), std::error_code{});
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << "what returned late, without an error, is whole";
  EXPECT_TRUE(pair.host(kB).left_records().records.empty()) << "the metadata has it";
  EXPECT_EQ(pair.violation(), "");
}

TEST(PreferredNode, WhoseMetadataDidNotLearnThatItLeftKnowsItAfterARestart) {
  PreferredNodeHangs world;
  ScriptedPair& pair = world.pair;
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, kLong));
  EXPECT_EQ(pair.written(kA, 9, 3), std::error_code{});
  pair.host(kA).end(Host::End::power_cut);
  pair.host(kB).end(Host::End::power_cut);
  pair.mend(kB);
  pair.host(kB).boot();
  pair.run_for(10 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving);
  std::optional<bool> forced;
  pair.host(kB).program()->force_solo(0, false, [&](engine::Result<void> r) { forced = r.has_value(); });
  ASSERT_TRUE(pair.wait_for([&] { return forced.has_value(); }, kLong));
  EXPECT_FALSE(*forced) << "its copy lacks what the other acknowledged: that must not pass as whole";
  pair.host(kA).boot();
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.violation(), "");
}

TEST(PreferredNode, ThatCanKeepNothingAnywhereStopsTheVolumeRatherThanSplitIt) {
  PreferredNodeHangs world;
  ScriptedPair& pair = world.pair;
  pair.host(kB).left_records().broken = true;
  auto& write = pair.write(kA, 8, 2);
  pair.run_for(kLong);
  EXPECT_FALSE(pair.is(kA, MirrorState::solo));
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_TRUE(pair.wait_for([&] { return write.done; }, kLong));
  EXPECT_EQ(pair.violation(), "");
}

/// What it tried to record may be on its disk: a record beside it takes nothing back.
TEST(PreferredNode, ThatMayHaveRecordedThatItGoesOnAloneDoesNotLeave) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.arbiter = {engine::ArbiterKind::preferred, kB, {}}; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  const auto talk = [&](bool can) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, can);
  };
  SimStore& metadata = pair.host(kB).metadata(0);
  talk(false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::suspended); }, kLong));
  ASSERT_TRUE(pair.wait_for([&] { return metadata.in_flight() > 0; }, kSoon)) << "it shows that it can be written";
  ASSERT_TRUE(pair.wait_for([&] { return metadata.in_flight() == 0; }, kSoon)) << "while A's lease runs out";
  hang_store(metadata);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::failed); }, kLong))
      << state_name(pair.status(kB).state);
  EXPECT_GT(metadata.in_flight(), 0u) << "its record";
  talk(true);
  pair.run_for(5 * kSecond);
  EXPECT_FALSE(pair.status(kA).serving) << "nobody knows whether B went on alone";
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.violation(), "");
}

/// Its disk dies while it is brought up to date. It can't keep the unit's state, and nothing may pass without: what is
/// sent to it must not wait there for ever.
TEST(DeadTarget, ANodeThatCannotKeepItsMetadataSendsInitiatorsToTheOther) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 256; });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).partner_follows && pair.status(kB).serving; }, kSecond));
  StoreFaults faults = pair.host(kB).metadata(0).faults();
  faults.write_error = kAlways;
  pair.host(kB).metadata(0).set_faults(faults);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).metadata(0).failed() > 0; }, kLong));
  pair.run_for(5 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving);
  EXPECT_FALSE(pair.status(kA).partner_follows) << "what both tell initiators of its ports must be the same";
  auto& read = pair.read(kB, 8);
  EXPECT_TRUE(pair.wait_for([&] { return read.done; }, kSecond));
  EXPECT_EQ(read.status(), make_error_code(engine::Errc::not_serving));
  EXPECT_TRUE(pair.is(kA, MirrorState::solo)) << to_string(pair.status(kA).state);
  EXPECT_EQ(pair.written(kA, 8, 2), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

void restart_both(ScriptedPair& pair) {
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
}

TEST(FirstFlush, OneThatFailsKeepsTheOtherNodeFromNothing) {
  for (const NodeSide bad : {kA, kB}) {
    const NodeSide good = other(bad);
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.spoil(bad, [](StoreFaults& f) { f.flush_error = kAlways; });
    restart_both(pair);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(good, MirrorState::solo); }, kLong))
        << to_string(pair.status(good).state);
    EXPECT_EQ(pair.value_at(good, 8), 1);
    EXPECT_EQ(pair.written(good, 8, 2), std::error_code{});
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(FirstFlush, OneThatHangsKeepsTheOtherNodeFromNothing) {
  for (const NodeSide bad : {kA, kB}) {
    const NodeSide good = other(bad);
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang(pair, bad);
    restart_both(pair);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(good, MirrorState::solo); }, kLong))
        << to_string(pair.status(good).state);
    EXPECT_EQ(pair.written(good, 8, 2), std::error_code{});
    pair.mend(bad);
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(bad).state);
    EXPECT_EQ(pair.value_at(bad, 8), 2);
    EXPECT_EQ(pair.violation(), "");
  }
}

}  // namespace
}  // namespace lockstep::simulation
