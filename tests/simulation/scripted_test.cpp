// Histories that once went wrong, or must not: each played step by step with the mirror.
#include <gtest/gtest.h>

#include "replication/core/regions.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
constexpr std::uint32_t kAlways = 1'000'000;

void hang(ScriptedPair& pair, NodeSide side) {
  pair.spoil(side, [](StoreFaults& f) { f.hang = kAlways; });
}

/// REGISTER AND IGNORE EXISTING KEY with key 1, with APTPL.
scsi::LuRequest registration() {
  scsi::LuRequest request;
  request.nexus = {.initiator = "iqn.2026-11.io.example:0", .isid = {0x80, 0, 0, 0, 0, 1}, .port = 1};
  request.may_persist = true;
  request.target_ports = 0b110;
  request.service_action = 6;
  request.parameters.resize(24);
  request.parameters[15] = request.parameters[20] = std::byte{1};
  return request;
}

void two_volumes(Scenario& s) {
  s.reservations = true;
  s.volumes.push_back(s.volumes[0]);
  s.volumes[1].id.bytes[0] ^= 1;
  s.volumes[1].size = s.volume_size();
}

/// The second volume can't keep its state on `side` any more: all sessions of that node are closed.
void fence_for_the_second_volume(ScriptedPair& pair, NodeSide side) {
  StoreFaults faults = pair.host(side).metadata(1).faults();
  faults.write_error = kAlways;
  pair.host(side).metadata(1).set_faults(faults);
  auto& change = pair.change_state(kA, registration(), 1);
  ASSERT_TRUE(pair.wait_for([&] { return change.done || !pair.host(side).status(1)->serving; }, kSecond));
}

constexpr std::uint64_t kNewBlock =
    64 * 4096 / kBlock;  ///< the first that a volume of 64 regions has when it has grown

void has_room(ScriptedPair& pair) {
  unsigned made = 0;
  for (const NodeSide side : {kA, kB}) {
    pair.host(side).program()->make_room(0, pair.world().scenario.grown_size(),
                                         [&](engine::Result<void> room) { made += room.has_value() ? 1 : 0; });
  }
  ASSERT_TRUE(pair.wait_for([&] { return made == 2; }));
}

void wants_more(ScriptedPair& pair) {
  pair.world().wanted_size = pair.world().scenario.grown_size();
  for (const NodeSide side : {kA, kB}) {
    if (pair.host(side).running()) pair.host(side).program()->want_size(0, pair.world().wanted_size);
  }
}

void grows(Scenario& s) { s.grown_regions = 96; }

TEST(Growth, BothNodesAnswerForTheNewBlocksFromTheMomentThatEitherTellsOfThem) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  EXPECT_EQ(pair.written(kA, kNewBlock, 1), make_error_code(engine::Errc::out_of_range)) << "nobody was told of it";
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  auto& through_a = pair.write(kA, kNewBlock, 1);
  auto& through_b = pair.write(kB, kNewBlock + 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return through_a.done && through_b.done; }));
  EXPECT_EQ(through_a.status(), std::error_code{});
  EXPECT_EQ(through_b.status(), std::error_code{});
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync() && pair.world().grower->satisfied(); }));
}

/// Its partner grew alone and told initiators; they come here and must go on to the other path, not fail.
TEST(Growth, ANodeThatDoesNotServeCallsNothingOutOfRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  pair.host(kB).end(Host::End::killed);
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).program()->disk(0) != nullptr; }));
  ASSERT_LT(pair.status(kB).epoch.size, pair.world().wanted_size) << "it has heard of it: the test shows nothing";
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::not_serving));
}

/// It can't record the epoch in which the volume is larger, so its partner grows alone. Initiators go on there.
TEST(Growth, ANodeThatCannotRecordItNeitherHoldsWhatComesNorCallsItOutOfRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  StoreFaults faults = pair.host(kB).metadata(0).faults();
  faults.write_error = kAlways;
  pair.host(kB).metadata(0).set_faults(faults);
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  ASSERT_LT(pair.status(kB).epoch.size, pair.world().wanted_size);
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::not_serving));
  EXPECT_EQ(pair.written(kA, kNewBlock, 1), std::error_code{});
}

/// Its data store failed and its record is of before: whoever carries an operation out knows how large the volume is.
TEST(Growth, ANodeThatForwardsLetsItsPartnerSayWhatIsInRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = kAlways; });
  pair.write(kA, 0, 1);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kB).serving; }));
  wants_more(pair);
  pair.run_for(10 * kSecond);
  EXPECT_LT(pair.world().grower->told(0), pair.world().wanted_size) << "alone it grows only without a partner there";
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::out_of_range));
  EXPECT_EQ(pair.written(kB, kNewBlock - 1, 1), std::error_code{});
}

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

/// Blocks from `block` on that are of one kind; negative when they are a hole.
std::int64_t run_at(ScriptedPair& pair, NodeSide side, std::uint64_t block) {
  const auto left = pair.world().scenario.volume_size() / kBlock - block;
  auto& asked = pair.submit(side, engine::DiskOpcode::find_run, block, static_cast<std::uint32_t>(left), 0xee);
  EXPECT_TRUE(pair.wait_for([&] { return asked.done; }));
  EXPECT_EQ(asked.status(), std::error_code{});
  const auto run = engine::decode_run(asked.request.data.first(asked.request.transferred));
  const auto blocks = static_cast<std::int64_t>(run.length / kBlock);
  return run.hole ? -blocks : blocks;
}

std::error_code unmapped(ScriptedPair& pair, NodeSide side, std::uint64_t block, std::uint32_t count) {
  auto& io = pair.submit(side, engine::DiskOpcode::unmap, block, count, 0);
  EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
  return io.status();
}

void has_many_regions(Scenario& scenario) { scenario.regions = 4 * replication::Regions::kChunk; }

TEST(Ranges, WhatIsGivenBackThroughEitherMemberIsAHoleOnBothAndCleanAfterAWhile) {
  for (const NodeSide through : {kA, kB}) {
    ScriptedPair pair(pair_program(), has_many_regions);
    const auto blocks = static_cast<std::int64_t>(pair.world().scenario.volume_size() / kBlock);
    for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 30, 1), std::error_code{});
    EXPECT_EQ(run_at(pair, kA, 0), 8);
    EXPECT_EQ(run_at(pair, kB, 30), 2) << "from the asked block to the end of its granule";
    EXPECT_EQ(unmapped(pair, through, 8, static_cast<std::uint32_t>(blocks - 8)), std::error_code{});
    for (const NodeSide side : {kA, kB}) {
      EXPECT_EQ(run_at(pair, side, 0), 8);
      EXPECT_EQ(run_at(pair, side, 8), 8 - blocks);
      EXPECT_EQ(pair.value_at(side, 30), 0);
      EXPECT_EQ(pair.value_at(side, 0), 1);
    }
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes == 0 && pair.status(kB).dirty_bytes == 0; }));
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Ranges, AHoleMadeWhileAReplicaWasAwayIsAHoleThereAfterTheResync) {
  ScriptedPair pair(pair_program(), has_many_regions);
  const auto blocks = static_cast<std::int64_t>(pair.world().scenario.volume_size() / kBlock);
  for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 30, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  EXPECT_EQ(unmapped(pair, kA, 0, static_cast<std::uint32_t>(blocks)), std::error_code{});
  ASSERT_EQ(pair.written(kA, 800, 2), std::error_code{});
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const NodeSide side : {kA, kB}) {
    EXPECT_EQ(run_at(pair, side, 0), -800);
    EXPECT_EQ(run_at(pair, side, 800), 8);
    EXPECT_EQ(run_at(pair, side, 808), 808 - blocks);
  }
}

TEST(Ranges, AReplicaThatIsNoMemberAsksThePartnerWhereHolesAre) {
  ScriptedPair pair(pair_program(), has_many_regions);
  ASSERT_EQ(pair.written(kA, 0, 1, 8), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 8, 2, 8);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_EQ(pair.written(kA, 16, 3, 8), std::error_code{});
  EXPECT_EQ(run_at(pair, kB, 0), 24) << "its own store does not even answer";
}

TEST(Forwarding, APartnerThatIsGoneBeforeContactWasMadeIsGone) {
  ScriptedPair pair(pair_program(), has_many_regions);
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 16, 1), std::error_code{});
  pair.spoil(kB, [](StoreFaults& f) { f.slowest = 100 * kMillisecond; });
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target); }));
  auto& read = pair.read(kB, 5);
  pair.host(kA).end(Host::End::killed);
  EXPECT_TRUE(pair.wait_for([&] { return read.done && pair.is(kB, MirrorState::waiting); }, 10 * kSecond));
}

/// Its partner has called and brings it up to date, while its own call to the partner is still to come.
TEST(Space, ATargetThatHasNotCalledItsPartnerYetIsAskedForRoomToo) {
  ScriptedPair pair(pair_program(), has_many_regions);
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < 64; ++block) ASSERT_EQ(pair.written(kA, block * 16, 1), std::error_code{});
  pair.spoil(kB, [](StoreFaults& f) { f.slowest = 100 * kMillisecond; });
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target); }));
  pair.host(kA).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::waiting); })) << to_string(pair.status(kB).state);
  pair.spoil(kB, [](StoreFaults& f) { f.full = true; });
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  ASSERT_FALSE(pair.is(kB, MirrorState::syncing_target)) << "it has called: the test shows nothing";
  ASSERT_EQ(pair.written(kA, 1600, 2), std::error_code{});
  pair.run_for(kSecond);
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

TEST(HungStore, TheOnlyMemberServesNothingUntilItHasReturnedEverything) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 3, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  hang(pair, kA);
  auto& write = pair.write(kA, 3, 7);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kA).serving; }, 5 * kSecond));
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
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << pair.status(kA).reason;
  EXPECT_TRUE(pair.wait_for([&] { return waits.done; }));
  EXPECT_EQ(pair.violation(), "");
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

  explicit BothDied(const replication::Defects& defects)
      : pair(
            pair_program(), [](Scenario& s) { s.resync_ceiling = s.region_size; }, defects) {
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
    BothDied world({});
    EXPECT_EQ(world.pair.stamp_at(first, world.kLast), world.after->value);
    EXPECT_EQ(world.pair.stamp_at(first == kA ? kB : kA, world.kLast), world.after->value);
    EXPECT_EQ(world.stored(kB), world.after->value);
    EXPECT_EQ(world.pair.judgement(), "");
    EXPECT_EQ(world.pair.violation(), "");
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  }
}

/// The defect of that name; seeds find it too rarely (README.md).
TEST(BothRestarted, ServingBeforeEqualIsFoundByTheJudgementOfTheHistory) {
  BothDied world({.serve_before_equal = true});
  EXPECT_EQ(world.pair.stamp_at(kA, world.kLast), world.after->value);
  EXPECT_EQ(world.pair.stamp_at(kB, world.kLast), world.before->value);
  EXPECT_NE(world.pair.judgement(), "");
}

/// Written here, not told there: its outcome was unknown, and what a crash made of it is what initiators meet.
TEST(UnitState, AChangeThatACrashCutOffMayComeIntoForceWithTheNextProcess) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  scsi::LuRequest request = registration();
  auto& registered = pair.change_state(kA, request);
  ASSERT_TRUE(pair.wait_for([&] { return registered.done; }));
  ASSERT_EQ(registered.status(), std::error_code{});
  const auto lose_power = [&] {
    for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  };
  lose_power();
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));  // PRGENERATION is zero again: power takes nothing else
  pair.run_for(kSecond);
  const auto floor = pair.world().states->floor(0);

  pair.world().cut(kA, false);
  request.service_action = 1;  // RESERVE
  request.scope_and_type = 1;
  request.parameters[7] = std::byte{1};
  request.parameters[15] = request.parameters[20] = std::byte{0};
  auto& reserved = pair.change_state(kA, request);
  pair.run_for(50 * kMillisecond);
  ASSERT_FALSE(reserved.done);
  lose_power();
  pair.world().cut(kA, true);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  auto& shown = pair.read_state(kA);
  ASSERT_TRUE(pair.wait_for([&] { return shown.done; }));
  const auto bytes = shown.request.data.first(shown.request.transferred);
  const auto state = scsi::LuState::decode(bytes);
  ASSERT_TRUE(state && state->reservation) << "it was not written: the test shows nothing";
  pair.world().states->state_shown(pair.host(kA), 0, bytes, floor);
  EXPECT_EQ(pair.violation(), "");
}

/// Its initiator tries again on the other path; what it sent before must not come after that.
TEST(Fence, WhatAnotherVolumeHadQueuedHereIsNotStartedAnyMore) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kA);
  auto& first = pair.write(kA, 8, 2);
  pair.run_for(20 * kMillisecond);
  auto& queued = pair.write(kA, 8, 3);
  pair.run_for(20 * kMillisecond);
  ASSERT_FALSE(first.done || queued.done);
  fence_for_the_second_volume(pair, kA);
  EXPECT_TRUE(queued.done);
  EXPECT_EQ(queued.status(), make_error_code(engine::Errc::not_serving));
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return first.done; }));
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 2) << "started after its session was closed";
  EXPECT_EQ(pair.violation(), "");
}

/// It is on its way: only the partner's answer, or time, tells that it won't be started any more.
TEST(Fence, SessionsAreClosedWhenWhatAnotherVolumeForwardedHasBeenAnswered) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().cut(kB, false);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(5 * kMillisecond);
  fence_for_the_second_volume(pair, kB);
  pair.run_for(100 * kMillisecond);
  EXPECT_EQ(pair.host(kB).fences(), 0u) << "its initiator would try again through the other node now";
  pair.world().cut(kB, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() == 1; }, 2 * kSecond));
  EXPECT_TRUE(forwarded.done);
  EXPECT_EQ(pair.written(kA, 8, 3), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 3) << "what was sent before came after it";
  EXPECT_EQ(pair.violation(), "");
}

/// An initiator could take it for the last word; what was not answered it sends again.
TEST(Fence, NothingIsRefusedBeforeTheSessionsAreClosed) {
  ScriptedPair pair(pair_program(), two_volumes);
  pair.world().cut(kB, false);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(5 * kMillisecond);
  fence_for_the_second_volume(pair, kB);
  auto& refused = pair.change_state(kB, registration(), 1);
  pair.run_for(20 * kMillisecond);
  ASSERT_EQ(pair.host(kB).fences(), 0u) << "the test shows nothing";
  EXPECT_FALSE(refused.done);
  pair.world().cut(kB, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() == 1; }, 2 * kSecond));
  EXPECT_TRUE(refused.done && forwarded.done);
  EXPECT_EQ(refused.status(), make_error_code(engine::Errc::not_serving));
}

TEST(Fence, WhatAnotherVolumeHeldBackForTheUnitsStateIsNotForwardedAnyMore) {
  ScriptedPair pair(pair_program(), two_volumes);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  StoreFaults faults = pair.host(kB).metadata(0).faults();
  faults.hang = kAlways;
  pair.host(kB).metadata(0).set_faults(faults);
  auto& change = pair.change_state(kA, registration());
  pair.run_for(20 * kMillisecond);
  auto& held = pair.write(kB, 8, 3);
  pair.run_for(20 * kMillisecond);
  ASSERT_FALSE(change.done || held.done);
  fence_for_the_second_volume(pair, kB);
  EXPECT_TRUE(held.done);
  EXPECT_EQ(held.status(), make_error_code(engine::Errc::not_serving));
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return change.done; }));
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 1) << "started after its session was closed";
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
