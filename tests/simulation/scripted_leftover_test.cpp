// What is left of an epoch, a step or a way in that is over: it harms nobody, and nobody waits for it for ever.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

void patient(Scenario& s) { s.store_deadline = 60 * kSecond; }

void talk(ScriptedPair& pair, bool can) {
  for (const auto side : {kA, kB}) pair.world().cut(side, can);
}

TEST(Leftover, AnOldOrderOfItsOwnDoesNotLandOnWhatAReplicaIsGivenAsATarget) {
  static constexpr std::uint64_t kBlocks[] = {8, 24, 40, 56, 72, 88, 104, 120, 136, 152};  // a region each
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    patient(s);
    s.resync_ceiling = s.region_size;  // a second
  });
  for (const auto block : kBlocks) ASSERT_FALSE(pair.written(kA, block, 1));
  pair.host(kA).witness().set_reachable(false);
  hang(pair, kA);
  talk(pair, false);
  for (const auto block : kBlocks) pair.write(kA, block, 2);
  pair.run_for(100 * kMillisecond);
  pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });  // the next ones are not held
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  talk(pair, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_target); }));
  pair.run_for(5 * kSecond);
  EXPECT_TRUE(pair.status(kB).serving);
  for (const auto block : kBlocks) {
    auto& beside = pair.write(kB, block + 1, 3);
    EXPECT_TRUE(pair.wait_for([&] { return beside.done; }, kSecond / 4)) << "it waits for a copy that A can't take";
  }
  pair.mend(kA);
  pair.host(kA).witness().set_reachable(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const auto block : kBlocks) {
    EXPECT_EQ(pair.value_at(kA, block), 1) << "block " << block;
    EXPECT_EQ(pair.value_at(kB, block), 1) << "block " << block;
  }
  EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
  EXPECT_EQ(pair.violation(), "");
}

TEST(Leftover, ALeaveThatWasGivenUpLeavesAMemberThatTakesOrders) {
  ScriptedPair pair(pair_program(), patient);
  hang(pair, kB);
  auto& before = pair.write(kA, 8, 1);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).data(0).in_flight() > 0; }));
  pair.host(kB).program()->leave(0);
  pair.run_for(20 * kSecond);
  auto& after = pair.write(kA, 16, 2);
  pair.run_for(kSecond);
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return before.done && after.done; })) << before.done << after.done;
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_FALSE(pair.written(kB, 24, 3));
  EXPECT_EQ(pair.violation(), "");
}

TEST(Leftover, ForwardsThatWereGivenUpDoNotFillTheTableOfResults) {
  constexpr unsigned kWindow = 1024;  // Forwarder::kWindow: twice that many results are kept
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    patient(s);
    s.regions = 1024;
    s.link_forwards = {std::uint64_t{1} << 30, 2 * kWindow};
  });
  for (unsigned i = 0; i < kWindow; ++i) ASSERT_FALSE(pair.written(kA, i, 1));  // there is space for them
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  for (int flap = 0; flap < 3; ++flap) {
    hang(pair, kA);
    for (unsigned i = 0; i < kWindow; ++i) pair.write(kB, i, 1);
    pair.run_for(5 * kSecond);
    const unsigned fences = pair.host(kB).fences();
    talk(pair, false);
    ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() > fences; }));
    talk(pair, true);
    auto& next = pair.read(kB, 4000);
    pair.run_for(kSecond);
    pair.mend(kA);
    ASSERT_TRUE(pair.wait_for([&] { return next.done; })) << "flap " << flap;
  }
  EXPECT_FALSE(pair.written(kB, 5, 2));
}

/// The host of either node goes by what that node's mode page says.
TEST(WriteCache, PutOffOnOneNodeMakesWritesThroughItDurableOnBoth) {
  for (const auto off : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.volumes[0].write_cache = true; });
    for (const auto side : {kA, kB}) pair.host(side).program()->set_write_cache(0, side != off);
    for (std::uint64_t block = 0; block < 32; ++block) {
      ASSERT_FALSE(pair.written(off, block, 7));
      for (const auto side : {kA, kB})
        EXPECT_EQ(std::to_integer<int>(pair.host(side).data(0).stable()[block * kBlock]), 7) << "block " << block;
    }
  }
}

}  // namespace
}  // namespace lockstep::simulation
