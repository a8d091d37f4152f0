// A volume's write cache: what a flush promises when the cache was put off meanwhile, and what a failed flush leaves.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using engine::NodeSide;
using replication::MirrorState;

void cached(Scenario& s) {
  s.volumes[0].write_cache = true;
  s.clean_after = kSecond / 5;
  s.store_deadline = 60 * kSecond;
}

ScriptedPair::Io& flush(ScriptedPair& pair, NodeSide through) {
  return pair.submit(through, DiskOpcode::flush, 0, 0, 0);
}

std::error_code flushed(ScriptedPair& pair, NodeSide through) {
  auto& io = flush(pair, through);
  if (!pair.wait_for([&] { return io.done; })) return engine::Errc::timed_out;
  return io.status();
}

int stable_value(ScriptedPair& pair, NodeSide side, std::uint64_t block) {
  return std::to_integer<int>(pair.host(side).data(0).stable()[block * kBlock]);
}

bool lose_power_together(ScriptedPair& pair) {
  for (const auto side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  for (const auto side : {kA, kB}) pair.host(side).boot();
  return pair.wait_for([&] { return pair.in_sync(); });
}

/// Loses power, and comes back to what the other one has.
void lose_power_and_return(ScriptedPair& pair, NodeSide side) {
  pair.host(side).end(Host::End::power_cut);
  pair.mend(side);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
  pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
}

void expect_same_on_both(ScriptedPair& pair, std::uint64_t block, int value) {
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.value_at(side, block), value);
  EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
  EXPECT_EQ(pair.violation(), "");
}

TEST(WriteCache, AFlushAfterItWasPutOffCoversWhatWasCachedBefore) {
  constexpr std::uint64_t kBlocks = 8;
  for (const auto through : {kA, kB}) {
    ScriptedPair pair(pair_program(), cached);
    for (std::uint64_t block = 0; block < kBlocks; ++block) ASSERT_FALSE(pair.written(kA, block, 7));
    pair.host(kA).program()->set_write_cache(0, false);
    ASSERT_FALSE(flushed(pair, through));
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      for (const auto side : {kA, kB}) EXPECT_EQ(stable_value(pair, side, block), 7) << "block " << block;
    }
    ASSERT_TRUE(lose_power_together(pair));
    for (std::uint64_t block = 0; block < kBlocks; ++block) EXPECT_EQ(pair.value_at(through, block), 7);
  }
}

TEST(WriteCache, AFlushAfterItWasPutOffCoversWhatWasOnItsWayThen) {
  for (const auto through : {kA, kB}) {
    ScriptedPair pair(pair_program(), cached);
    ASSERT_FALSE(pair.written(kA, 8, 1));  // there is space for the next, and its region is dirty
    auto& write = pair.write(kA, 8, 7);
    ASSERT_GT(pair.host(kA).data(0).in_flight(), 0u);
    pair.host(kA).program()->set_write_cache(0, false);
    ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
    ASSERT_FALSE(write.status());
    ASSERT_FALSE(flushed(pair, through));
    for (const auto side : {kA, kB}) EXPECT_EQ(stable_value(pair, side, 8), 7);
    ASSERT_TRUE(lose_power_together(pair));
    EXPECT_EQ(pair.value_at(through, 8), 7);
  }
}

/// Hosts that are told so send no flush any more.
TEST(WriteCache, IsSaidToBeOffWhenWhatWasAcknowledgedIsDurableOnBoth) {
  for (const auto side : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) {
      cached(s);
      s.clean_after = 1000 * kSecond;
    });
    for (std::uint64_t block = 0; block < 8; ++block) ASSERT_FALSE(pair.written(side, block, 7));
    auto& write = pair.write(side, 3, 9);  // its region is dirty, and it is begun as a cached one
    bool told = false, was_done = false;
    std::vector<int> stable;
    pair.host(side).program()->set_write_cache(0, false, [&] {
      told = true;
      was_done = write.done;
      for (const auto node : {kA, kB}) {
        for (const std::uint64_t block : {0, 3, 7}) stable.push_back(stable_value(pair, node, block));
      }
    });
    ASSERT_TRUE(pair.wait_for([&] { return told && write.done; }));
    EXPECT_TRUE(was_done);
    EXPECT_EQ(stable, (std::vector{7, 9, 7, 7, 9, 7}));
  }
}

/// The partner's store stands still, and all that waits is the word.
TEST(WriteCache, IsNotSaidToBeOffBeforeThePartnerHasFlushed) {
  for (const auto side : {kA, kB}) {
    ScriptedPair pair(pair_program(), cached);
    ASSERT_FALSE(pair.written(side, 8, 7));
    hang(pair, other(side));
    bool told = false;
    pair.host(side).program()->set_write_cache(0, false, [&] { told = true; });
    pair.run_for(2 * kSecond);
    EXPECT_FALSE(told);
    pair.mend(other(side));
    pair.host(other(side)).data(0).release_hung();
    EXPECT_TRUE(pair.wait_for([&] { return told; }));
    for (const auto node : {kA, kB}) EXPECT_EQ(stable_value(pair, node, 8), 7);
  }
}

TEST(WriteCache, IsNotSaidToBeOffWhereItWasPutOnAgain) {
  ScriptedPair pair(pair_program(), cached);
  ASSERT_FALSE(pair.written(kA, 8, 7));
  hang(pair, kA);
  int off = 0, on = 0;
  pair.host(kA).program()->set_write_cache(0, false, [&] { ++off; });
  pair.host(kA).program()->set_write_cache(0, true, [&] { ++on; });
  pair.mend(kA);
  pair.host(kA).data(0).release_hung();
  pair.run_for(2 * kSecond);
  EXPECT_EQ(off, 0);
  EXPECT_EQ(on, 1);
  pair.host(kA).program()->set_write_cache(0, false, [&] { ++off; });
  EXPECT_TRUE(pair.wait_for([&] { return off == 1; }));
}

/// One that applies again what it has applied tells so each time, and nobody counts.
TEST(WriteCache, IsSaidToBeOffOnceHoweverOftenItWasPutOffMeanwhile) {
  ScriptedPair pair(pair_program(), cached);
  ASSERT_FALSE(pair.written(kA, 8, 7));
  hang(pair, kA);
  int earlier = 0, last = 0;
  for (int i = 0; i < 3; ++i) pair.host(kA).program()->set_write_cache(0, false, [&] { ++earlier; });
  pair.host(kA).program()->set_write_cache(0, false, [&] { ++last; });
  pair.mend(kA);
  pair.host(kA).data(0).release_hung();
  EXPECT_TRUE(pair.wait_for([&] { return last == 1; }));
  EXPECT_EQ(earlier, 0);
}

void be_alone(ScriptedPair& pair) {
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
}

void be_alone_with_what_is_cached(ScriptedPair& pair) {
  be_alone(pair);
  ASSERT_FALSE(pair.written(kA, 8, 7));
}

void fail_syncs(ScriptedPair& pair) {
  pair.spoil(kA, [](StoreFaults& f) { f.flush_error = kAlways; });
}

TEST(FailedFlush, OfACacheThatIsPutOffIsToldToHostsThatFlushAndTheCacheIsNotSaidToBeOff) {
  ScriptedPair pair(pair_program(), cached);
  be_alone_with_what_is_cached(pair);
  fail_syncs(pair);
  bool told = false;
  pair.host(kA).program()->set_write_cache(0, false, [&] { told = true; });
  pair.run_for(kSecond);
  pair.mend(kA);
  pair.run_for(2 * kSecond);
  EXPECT_FALSE(told);
  pair.host(kA).program()->set_write_cache(0, true);
  pair.host(kA).program()->set_write_cache(0, false, [&] { told = true; });
  for (int host = 0; host < 2; ++host) EXPECT_EQ(flushed(pair, kA), engine::Errc::io_error);
  pair.run_for(kSecond);
  EXPECT_FALSE(told);
}

/// The node that orders has no say in what the other one tells its hosts.
TEST(FailedFlush, OfTheOnlyMemberIsToldToThePartnersHostsThoughItsCacheSwitchMetIt) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    cached(s);
    s.regions = 128;
  });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  ASSERT_FALSE(pair.written(kB, 8, 7));
  fail_syncs(pair);
  bool told = false;
  for (const auto side : {kB, kA}) pair.host(side).program()->set_write_cache(0, false, [&] { told = true; });
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).refuses_writes; }));
  pair.mend(kA);
  auto &ours = flush(pair, kA), &theirs = flush(pair, kB);
  ASSERT_TRUE(pair.wait_for([&] { return ours.done && theirs.done; }));
  EXPECT_EQ(ours.status(), engine::Errc::io_error);
  EXPECT_EQ(theirs.status(), engine::Errc::io_error);
  EXPECT_FALSE(told);
}

TEST(FailedFlush, OfTheOnlyCopyIsSaidAndNothingIsWrittenUntilItIsOpenedAnew) {
  ScriptedPair pair(pair_program(), cached);
  be_alone_with_what_is_cached(pair);
  fail_syncs(pair);
  EXPECT_TRUE(flushed(pair, kA));
  pair.mend(kA);
  EXPECT_EQ(pair.written(kA, 9, 8), engine::Errc::io_error);
  EXPECT_TRUE(pair.status(kA).refuses_writes);
  EXPECT_NE(pair.status(kA).reason.find("restart"), std::string::npos) << pair.status(kA).reason;
  EXPECT_EQ(pair.value_at(kA, 8), 7);
  pair.host(kA).end(Host::End::killed);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
  EXPECT_EQ(pair.status(kA).reason, "");
  EXPECT_FALSE(pair.written(kA, 9, 8));
}

/// Each write is durable by itself, and has told of its own failure.
TEST(FailedFlush, OfTheOnlyCopyIsOverWithTheOperationThatMetItWhereNothingWasEverCached) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, 0, 7, 32));
  be_alone(pair);
  fail_syncs(pair);
  auto& unmap = pair.submit(kA, DiskOpcode::unmap, 0, 16, 0);
  ASSERT_TRUE(pair.wait_for([&] { return unmap.done; }));
  EXPECT_EQ(unmap.status(), engine::Errc::io_error);
  pair.mend(kA);
  EXPECT_FALSE(pair.written(kA, 16, 8));
  EXPECT_FALSE(pair.status(kA).refuses_writes);
  EXPECT_EQ(pair.status(kA).reason, "");
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  expect_same_on_both(pair, 16, 8);
}

/// What a write has left that failed before can't be written back there.
TEST(FailedFlush, TheOnlyCopyLeavesWhenThePartnerHasAllThatIsThere) {
  ScriptedPair pair(pair_program(), cached);
  be_alone_with_what_is_cached(pair);
  ASSERT_FALSE(pair.written(kA, 256, 9));  // it has its space
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  ASSERT_TRUE(pair.written(kA, 256, 10));
  pair.mend(kA);
  fail_syncs(pair);
  ASSERT_TRUE(flushed(pair, kA));
  pair.mend(kA);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo) && pair.is(kA, MirrorState::failed); }));
  EXPECT_NE(pair.status(kA).reason.find("restart"), std::string::npos) << pair.status(kA).reason;
  for (const auto through : {kA, kB}) EXPECT_FALSE(pair.written(through, 9, 8));
  EXPECT_EQ(pair.value_at(kB, 8), 7);
  lose_power_and_return(pair, kA);
  expect_same_on_both(pair, 8, 7);
}

/// A power cut may take back a bit's clearing that is not flushed yet: only some of these worlds lose it for good.
constexpr int kWorlds = 12;

/// The same each time, but for what chance makes of it.
void take_another_course(ScriptedPair& pair, int world) {
  for (int i = 0; i < world; ++i) ASSERT_FALSE(pair.written(kA, 256, i));
  ASSERT_FALSE(flushed(pair, kA));
}

/// Another one is under way, of the cleaner's, and the disk is whole when that ends.
void lose_a_flush_before_another(int world) {
  ScriptedPair pair(pair_program(), cached);
  take_another_course(pair, world);
  ASSERT_FALSE(pair.written(kA, 8, 7));
  pair.spoil(kA, [](StoreFaults& f) { f.flush_error = f.hang = kAlways; });
  auto& fails = flush(pair, kA);
  pair.spoil(kA, [](StoreFaults& f) { f.flush_error = 0; });
  SimStore& disk = pair.host(kA).data(0);
  ASSERT_TRUE(pair.wait_for([&] { return disk.in_flight() == 2; }))
      << "the region is cold: it is flushed to be cleared";
  pair.run_for(20 * kMillisecond);  // the partner has flushed
  disk.release_first_hung();
  ASSERT_TRUE(pair.wait_for([&] { return disk.in_flight() == 1; }));
  disk.release_first_hung();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); })) << "A left";
  ASSERT_TRUE(pair.wait_for([&] { return fails.done; }, 5 * kSecond));
  pair.run_for(kSecond);  // what was begun before it left is on its disk
  EXPECT_EQ(fails.status(), std::error_code{}) << "the member that stayed has flushed";
  lose_power_and_return(pair, kA);
  expect_same_on_both(pair, 8, 7);
}

TEST(FailedFlush, ARegionStaysDirtyThoughTheDiskIsWholeWhenTheNextOneEnds) {
  for (int world = 0; world < kWorlds; ++world) {
    SCOPED_TRACE(world);
    lose_a_flush_before_another(world);
  }
}

void lose_a_flush_alone(int world) {
  ScriptedPair pair(pair_program(), cached);
  take_another_course(pair, world);
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_FALSE(pair.written(kA, 8, 7));
  pair.spoil(kA, [](StoreFaults& f) { f.flush_error = kAlways; });
  EXPECT_TRUE(flushed(pair, kA)) << "the initiator is told";
  pair.mend(kA);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); })) << "A left in its favour";
  ASSERT_FALSE(flushed(pair, kB));
  pair.run_for(5 * kSecond);
  lose_power_and_return(pair, kA);
  expect_same_on_both(pair, 8, 7);
}

TEST(FailedFlush, ARegionOfTheOnlyMemberStaysDirtyUntilAPartnerCanGiveItBack) {
  for (int world = 0; world < kWorlds; ++world) {
    SCOPED_TRACE(world);
    lose_a_flush_alone(world);
  }
}

}  // namespace
}  // namespace lockstep::simulation
