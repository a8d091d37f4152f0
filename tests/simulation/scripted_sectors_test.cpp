// Sectors that a disk loses for good: the partner has them, and they are written anew. What nobody has is told, and
// keeps nothing else waiting.
#include <gtest/gtest.h>

#include "replication/core/marks.hpp"
#include "tests/simulation/played_pair.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;

constexpr std::uint64_t kHere = 10, kBeside = 13;  // blocks of one region
constexpr std::uint64_t kElsewhere = 80;           // … of another
constexpr Nanos kPrompt = 3 * kSecond;             // less than a region waits that can't be read

void stays_dirty(Scenario& s) {
  s.clean_after = 600 * kSecond;
  s.dirty_bound = s.volume_size();
}

void both_restart(ScriptedPair& pair) {
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
}

void boot_both(ScriptedPair& pair) {
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync); }));
}

/// What was written is durable on both, marked, and both start again.
struct Restarted {
  ScriptedPair pair{pair_program(), stays_dirty};
  Restarted() {
    for (const std::uint64_t block : {kHere, kBeside, kElsewhere}) EXPECT_FALSE(pair.written(kA, block, 7));
    both_restart(pair);
  }
  void lose(NodeSide side, std::uint64_t block) { pair.host(side).data(0).lose_sector(block); }
  [[nodiscard]] bool is_lost(NodeSide side, std::uint64_t block) { return pair.host(side).data(0).is_lost(block); }
  [[nodiscard]] std::error_code read(NodeSide side, std::uint64_t block) {
    auto& io = pair.read(side, block);
    if (!pair.wait_for([&] { return io.done; }, kPrompt)) return Errc::timed_out;
    return io.status();
  }
};

TEST(LostSector, OfTheOrderingNodeComesFromThePartnerWhenBothHaveRestarted) {
  for (const NodeSide asked : {kA, kB}) {
    Restarted world;
    world.lose(kA, kHere);
    boot_both(world.pair);
    auto& read = world.pair.read(asked, kHere);
    ASSERT_TRUE(world.pair.wait_for([&] { return read.done; }, kPrompt));
    EXPECT_EQ(read.status(), std::error_code{});
    EXPECT_EQ(read.first(), 7);
    EXPECT_FALSE(world.is_lost(kA, kHere));
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }, kPrompt)) << "nothing differs any more";
    EXPECT_EQ(world.pair.status(kA).rewritten, 1u);
    EXPECT_EQ(world.pair.violation(), "");
  }
}

TEST(LostSector, OfEachNodeInTheSameRegionComesFromTheOther) {
  Restarted world;
  world.lose(kA, kHere);
  world.lose(kB, kBeside);
  boot_both(world.pair);
  EXPECT_EQ(world.pair.value_at(kA, kHere), 7);
  EXPECT_EQ(world.pair.value_at(kB, kBeside), 7);
  EXPECT_FALSE(world.is_lost(kA, kHere));
  EXPECT_FALSE(world.is_lost(kB, kBeside));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }, kPrompt));
}

/// A store that has a copy still, which came by an earlier session, will hold something else in a moment.
TEST(LostSector, DoesNotComeFromAPartnerThatIsStillWritingACopyThere) {
  ScriptedPair pair(pair_program(), stays_dirty);
  for (const std::uint64_t block : {kHere, kBeside}) ASSERT_FALSE(pair.written(kA, block, 7));
  both_restart(pair);
  SimStore &mine = pair.host(kA).data(0), &theirs = pair.host(kB).data(0);
  mine.poke(kBeside * kBlock, std::vector<std::byte>(kBlock, std::byte{8}));
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::in_sync); }));
  hang(pair, kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync) && theirs.in_flight() == 1; }));
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  mine.lose_sector(kHere);
  pair.world().way_from(kA).reset();
  pair.run_for(500 * kMillisecond);
  theirs.release_hung();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, kPrompt));
  EXPECT_EQ(pair.value_at(kA, kBeside), pair.value_at(kB, kBeside));
  EXPECT_EQ(pair.value_at(kA, kHere), 7);
  EXPECT_FALSE(mine.is_lost(kHere));
  EXPECT_EQ(pair.violation(), "");
}

TEST(LostSector, OfBothIsAMediumErrorOfThatBlockAloneUntilItIsWritten) {
  for (const NodeSide asked : {kA, kB}) {
    Restarted world;
    world.lose(kA, kHere);
    world.lose(kB, kHere);
    boot_both(world.pair);
    EXPECT_EQ(world.read(asked, kHere), make_error_code(Errc::io_error));
    EXPECT_EQ(world.pair.value_at(asked, kBeside), 7) << "in the same region";
    EXPECT_EQ(world.pair.value_at(asked, kElsewhere), 7);
    EXPECT_FALSE(world.pair.written(asked, kBeside, 8)) << "what is not lost can be written, too";
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).reason.starts_with("Block 10 "); }, kPrompt));
    EXPECT_FALSE(world.pair.in_sync()) << "they may differ there";
    EXPECT_FALSE(world.pair.written(asked, kHere, 9));
    EXPECT_EQ(world.pair.value_at(asked, kHere), 9);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }, kPrompt));
    EXPECT_EQ(world.pair.status(kA).reason, "");
    EXPECT_EQ(world.pair.violation(), "");
  }
}

/// The map of a large volume takes milliseconds.
TEST(LostSector, OfBothHasTheDirtyMapWalkedOnlyWhenItIsTriedAgain) {
  Restarted world;
  for (const NodeSide side : {kA, kB}) world.lose(side, kHere);
  boot_both(world.pair);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).reason.starts_with("Block 10 "); }, kPrompt));
  const auto before = replication::mark_of<"resync.walked">.count();
  world.pair.run_for(10 * kSecond);
  EXPECT_LE(replication::mark_of<"resync.walked">.count() - before, 2u);
  ASSERT_FALSE(world.pair.written(kA, kHere, 9));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }, kPrompt));
}

/// What they hold there may differ: as long as it was not compared, it is shown by neither.
TEST(LostSector, OfBothIsNotShownWhenOneCanBeReadAgainBeforeItIsMadeEqual) {
  Restarted world;
  for (const NodeSide side : {kA, kB}) world.pair.spoil(side, [](StoreFaults& f) { f.read_error = kAlways; });
  boot_both(world.pair);
  EXPECT_EQ(world.read(kA, kHere), make_error_code(Errc::io_error));
  for (const NodeSide side : {kA, kB}) world.pair.mend(side);
  EXPECT_EQ(world.read(kA, kHere), make_error_code(Errc::io_error));
  EXPECT_EQ(world.read(kB, kHere), make_error_code(Errc::io_error));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }, 10 * kSecond)) << "it is tried again";
  EXPECT_EQ(world.pair.value_at(kB, kHere), 7);
}

TEST(LostSector, IsNotTakenFromTheDirtyMapWhileNobodyCanReadIt) {
  Restarted world;
  world.lose(kA, kHere);
  world.lose(kB, kHere);
  boot_both(world.pair);
  EXPECT_EQ(world.read(kA, kHere), make_error_code(Errc::io_error));
  EXPECT_FALSE(world.pair.written(kA, kBeside, 8));
  world.pair.run_for(2 * kSecond);
  both_restart(world.pair);
  boot_both(world.pair);
  EXPECT_EQ(world.read(kA, kHere), make_error_code(Errc::io_error)) << "compared again";
  EXPECT_EQ(world.pair.value_at(kB, kBeside), 8);
}

/// The partner does not read for its own hosts as long as something may differ somewhere.
TEST(LostSector, OfTheOrderingNodeIsServedWhileOthersAreMadeEqual) {
  Restarted world;
  world.lose(kA, kHere);
  world.lose(kB, kHere);
  boot_both(world.pair);
  EXPECT_EQ(world.read(kA, kHere), make_error_code(Errc::io_error));
  ASSERT_TRUE(world.pair.status(kA).resync.running);
  EXPECT_EQ(world.pair.value_at(kA, kElsewhere), 7);
  world.lose(kA, kElsewhere);
  EXPECT_EQ(world.pair.value_at(kA, kElsewhere), 7);
  EXPECT_FALSE(world.is_lost(kA, kElsewhere));
}

TEST(LostSector, OfEachNodeIsReadForOneCommandThatCoversBoth) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, kHere, 7, 8));
  pair.host(kA).data(0).lose_sector(kHere + 1);
  pair.host(kB).data(0).lose_sector(kHere + 5);
  auto& read = pair.read(kA, kHere, 8);
  ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
  EXPECT_EQ(read.status(), std::error_code{});
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(std::to_integer<int>(read.request.data[i * kBlock]), 7);
  EXPECT_FALSE(pair.host(kA).data(0).is_lost(kHere + 1));
}

TEST(LostSector, OfTheMemberThatDoesNotOrderIsRewrittenThere) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, kHere, 7, 8));
  pair.host(kB).data(0).lose_sector(kHere + 3);
  auto& read = pair.read(kB, kHere, 8);
  ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
  EXPECT_EQ(read.status(), std::error_code{});
  EXPECT_TRUE(pair.wait_for([&] { return !pair.host(kB).data(0).is_lost(kHere + 3); }, kPrompt));
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).rewritten == 1; }, kPrompt)) << "and nothing else";
  EXPECT_EQ(pair.status(kB).read_errors, 1u);
  pair.host(kA).end(Host::End::power_cut);
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  EXPECT_EQ(pair.value_at(kB, kHere + 3), 7);
  EXPECT_EQ(pair.violation(), "");
}

/// Of a disk that reads a whole physical block before it writes a part of it, and can't.
TEST(LostSector, IsRewrittenByWholePhysicalBlocksOnly) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.volumes.front().physical_block_size = 4096; });
  ASSERT_FALSE(pair.written(kA, 8, 7, 16));
  const auto is_read = [&](std::uint64_t block, unsigned count) {
    auto& read = pair.read(kB, block, count);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
    EXPECT_EQ(read.status(), std::error_code{});
    pair.run_for(100 * kMillisecond);
  };
  pair.host(kB).data(0).lose_sector(11);
  is_read(8, 7);
  EXPECT_TRUE(pair.host(kB).data(0).is_lost(11)) << "blocks 8 to 15 are one";
  EXPECT_EQ(pair.status(kB).rewritten, 0u);
  is_read(10, 14);
  EXPECT_TRUE(pair.host(kB).data(0).is_lost(11));
  is_read(8, 16);
  EXPECT_FALSE(pair.host(kB).data(0).is_lost(11));
  EXPECT_EQ(pair.status(kB).rewritten, 1u);
  EXPECT_TRUE(pair.in_sync());
  EXPECT_EQ(pair.violation(), "");
}

TEST(LostSector, OfTheOrderingNodeIsRewrittenByWholePhysicalBlocksOnly) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.volumes.front().physical_block_size = 4096; });
  ASSERT_FALSE(pair.written(kA, 8, 7, 16));
  SimStore& mine = pair.host(kA).data(0);
  mine.set_physical_block_size(4096);
  for (std::uint64_t sector = 8; sector < 16; ++sector) mine.lose_sector(sector);
  const auto is_read = [&](NodeSide side, std::uint64_t block, unsigned count) {
    auto& read = pair.read(side, block, count);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
    EXPECT_EQ(read.status(), std::error_code{});
    EXPECT_EQ(read.first(), 7);
  };
  is_read(kA, 10, 1);
  is_read(kA, 10, 14);
  auto& same = pair.submit(kA, DiskOpcode::verify, 11, 1, 7);
  ASSERT_TRUE(pair.wait_for([&] { return same.done; }, kPrompt));
  EXPECT_EQ(same.status(), std::error_code{});
  EXPECT_TRUE(mine.is_lost(10));
  EXPECT_EQ(pair.status(kA).rewritten, 0u);
  is_read(kA, 8, 16);
  EXPECT_FALSE(mine.is_lost(10));
  EXPECT_EQ(pair.status(kA).rewritten, 1u);
  EXPECT_TRUE(pair.in_sync()) << pair.status(kA).reason;
  EXPECT_EQ(pair.violation(), "");
}

/// Each store reads what it can; what it can't write without the rest of its block is lost with that.
TEST(LostSector, OfBothNodesTakesItsWholePhysicalBlockAlongWhenBothHaveRestarted) {
  for (const NodeSide coarse : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) {
      stays_dirty(s);
      s.region_size = 16384;
      s.regions = 16;
      s.volumes.front().physical_block_size = 4096;
    });
    ASSERT_FALSE(pair.written(kA, 0, 7, 32));
    both_restart(pair);
    SimStore& whole = pair.host(coarse).data(0);
    whole.set_physical_block_size(4096);
    for (std::uint64_t sector = 8; sector < 16; ++sector) whole.lose_sector(sector);
    pair.host(other(coarse)).data(0).lose_sector(12);
    boot_both(pair);
    pair.run_for(kPrompt);
    for (const NodeSide side : {kA, kB}) EXPECT_TRUE(pair.is(side, MirrorState::in_sync)) << pair.status(side).reason;
    for (const std::uint64_t block : {7, 16}) EXPECT_EQ(pair.value_at(kA, block), 7);
    auto& read = pair.read(kA, 9);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
    EXPECT_EQ(read.status(), make_error_code(Errc::io_error));
    ASSERT_FALSE(pair.written(kA, 8, 8, 8));
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, kPrompt));
    for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.value_at(side, 12), 8);
    EXPECT_EQ(pair.violation(), "");
  }
}

/// What is read for the host may be old by the time it could be written.
TEST(LostSector, IsNotRewrittenOverWhatAHostHasWrittenSince) {
  ScriptedPair pair(pair_program());
  for (int round = 0; round < 20; ++round) {
    ASSERT_FALSE(pair.written(kA, kHere, 1));
    pair.host(kB).data(0).lose_sector(kHere);
    auto& read = pair.read(kB, kHere);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kPrompt));
    pair.run_for(static_cast<Nanos>(round) * 100 * kMicrosecond);
    ASSERT_FALSE(pair.written(kA, kHere, 2));
    pair.run_for(100 * kMillisecond);
    EXPECT_EQ(pair.value_at(kA, kHere), 2);
    EXPECT_EQ(pair.value_at(kB, kHere), 2);
  }
}

TEST(LostSector, OfTheOnlyMemberIsNamedAndKeepsNoOtherRegionWaiting) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, kHere, 7));
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < 256; block += 8) ASSERT_FALSE(pair.written(kA, block, 3, 8));
  pair.host(kA).data(0).lose_sector(kHere);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  const auto rest_is_copied = [&] {
    const auto p = pair.status(kA).resync;
    return p.bytes_total != 0 && p.bytes_total - p.bytes_done == pair.world().scenario.region_size;
  };
  EXPECT_TRUE(pair.wait_for(rest_is_copied, kPrompt));
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).reason.starts_with("Block 10 "); }, kPrompt));
  EXPECT_TRUE(pair.is(kA, MirrorState::syncing_source));
  ASSERT_FALSE(pair.written(kA, kHere, 4));
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, kPrompt));
  EXPECT_EQ(pair.status(kA).reason, "");
  EXPECT_EQ(pair.value_at(kB, kHere), 4);
}

/// It may be gone after a power cut, so that the partner is not shown it before it is written again.
TEST(LostSector, ThatTheOnlyMemberReadsAndCannotRewriteIsNamed) {
  ScriptedPair pair(pair_program());
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t block = 0; block < 256; block += 8) ASSERT_FALSE(pair.written(kA, block, 3, 8));
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_TRUE(pair.written(kA, kHere, 4));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  const auto rest_is_copied = [&] {
    const auto p = pair.status(kA).resync;
    return p.bytes_total != 0 && p.bytes_total - p.bytes_done == pair.world().scenario.region_size;
  };
  EXPECT_TRUE(pair.wait_for(rest_is_copied, kPrompt));
  for (int retry = 0; retry < 3; ++retry) {
    EXPECT_TRUE(pair.status(kA).reason.starts_with("Block 10 of this copy, the only one, can't be written"))
        << pair.status(kA).reason;
    pair.run_for(6 * kSecond);
  }
  pair.mend(kA);
  ASSERT_FALSE(pair.written(kA, kHere, 5));
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, kPrompt));
  EXPECT_EQ(pair.status(kA).reason, "");
  EXPECT_EQ(pair.value_at(kB, kHere), 5);
  EXPECT_EQ(pair.violation(), "");
}

/// That its leases need not be waited for held of the time before.
TEST(GoingAlone, WaitsForTheLeasesOfAPartnerThatStoppedAndServesAgain) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.b.says = [](const Message& m) { return is(m, MessageType::propose) ? Errc::io_error : Errc::ok; };
  world.b.state.able = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  world.b.says = [](const Message&) { return Errc::ok; };
  world.b.state.able = true;
  world.b.state.serving = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::in_sync); }));
  world.pair.host(kA).witness().set_reachable(true);
  world.b.state.serving = true;
  world.b.tell_state();
  world.let_a_win();
  EXPECT_TRUE(world.pair.is(kA, MirrorState::suspended));
}

}  // namespace
}  // namespace lockstep::simulation
