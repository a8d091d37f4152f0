// A thin device whose pool is full: writes fail for want of space, or hang and then fail, though the file system had
// set the space aside. Whatever becomes of the pool, each of them has an end.
#include <initializer_list>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::Errc;
using engine::NodeSide;
using replication::MirrorState;

const std::error_code kPoolIsFull = make_error_code(Errc::no_space);

struct FullPool : testing::Test {
  ScriptedPair pair;

  explicit FullPool(const ScriptedPair::Adjust& adjust = [](Scenario&) {}) : pair(pair_program(), adjust) {}

  void fill(NodeSide side) {
    pair.spoil(side, [](StoreFaults& f) { f.pool_full = kAlways; });
  }
  /// As one does that waits for more space, a minute by default, before it fails anything.
  void fill_and_hang(NodeSide side) {
    pair.spoil(side, [](StoreFaults& f) { f.pool_full = f.hang = kAlways; });
  }
  /// What hangs fails now; the pool stays full.
  void give_up(NodeSide side) {
    pair.spoil(side, [](StoreFaults& f) { f.hang = 0; });
    pair.host(side).data(0).release_hung();
  }
  /// There is space again: nothing is left of what failed, in these blocks least of all.
  void expect_all_is_well(std::initializer_list<std::uint64_t> blocks) {
    for (const NodeSide node : {kA, kB}) pair.mend(node);
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
    for (const std::uint64_t block : blocks) {
      const int value = pair.value_at(kA, block);
      EXPECT_TRUE(value == 1 || value == 2 || value == 3) << value;
      EXPECT_EQ(pair.value_at(kB, block), value);
      EXPECT_EQ(pair.written(kB, block, 9), std::error_code{});
      EXPECT_EQ(pair.value_at(kA, block), 9);
    }
    const auto a = pair.host(kA).data(0).visible(), b = pair.host(kB).data(0).visible();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
    EXPECT_EQ(pair.violation(), "");
  }
};

TEST_F(FullPool, OfBothThatFailsWhatHungInItTellsTheHostAndOneNodeGoesOn) {
  for (const NodeSide through : {kA, kB}) {
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    ASSERT_EQ(pair.written(kA, 24, 1), std::error_code{});
    for (const NodeSide node : {kA, kB}) fill_and_hang(node);
    auto& first = pair.write(through, 8, 2);
    auto& second = pair.write(through, 24, 2);
    pair.run_for(20 * kSecond);
    EXPECT_FALSE(through == kA && (first.done || second.done));
    for (const NodeSide node : {kA, kB}) give_up(node);
    ASSERT_TRUE(pair.wait_for([&] { return first.done && second.done; }));
    const auto told = through == kA ? kPoolIsFull : make_error_code(Errc::unknown_outcome);
    EXPECT_EQ(first.status(), told);
    EXPECT_EQ(second.status(), told);
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).serving && pair.status(kB).serving; }));
    expect_all_is_well({8, 24});
  }
}

TEST_F(FullPool, OfBothThatFailsAWriteAtOnceTellsTheHostAndOneNodeGoesOn) {
  for (const NodeSide through : {kA, kB}) {
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    for (const NodeSide node : {kA, kB}) fill(node);
    EXPECT_EQ(pair.written(through, 8, 2), kPoolIsFull);
    expect_all_is_well({8});
  }
}

/// The next process of the one that was to go on takes no more orders of this epoch, so that what failed at the other
/// one waits for an answer that never comes.
TEST_F(FullPool, OfBothHasAnEndThoughOneIsStartedAnewMeanwhile) {
  for (const NodeSide started_anew : {kA, kB}) {
    for (const Nanos after : {kMillisecond, 10 * kMillisecond, 100 * kMillisecond, 700 * kMillisecond, 2 * kSecond}) {
      ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
      fill(kA);
      pair.spoil(kB, [](StoreFaults& f) {
        f.pool_full = kAlways;
        f.slowest = 5 * kMillisecond;
      });
      auto& write = pair.write(kA, 8, 2);
      pair.run_for(after);
      pair.host(started_anew).end(Host::End::killed);
      pair.host(started_anew).boot();
      pair.run_for(100 * kMillisecond);
      expect_all_is_well({8});
      EXPECT_TRUE(write.done || started_anew == kA) << "its host is told, where its process lives";
    }
  }
}

/// The one that was to go on fails its write, too, when it no longer waits for the other one's answer, and that one has
/// left in its favour.
TEST_F(FullPool, OfTheOneThatWasToGoOnDoesNotKeepItFromTakingOver) {
  for (const NodeSide leaves : {kA, kB}) {
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    for (const NodeSide node : {kA, kB}) fill_and_hang(node);
    auto& write = pair.write(kA, 8, 2);
    pair.run_for(20 * kMillisecond);
    give_up(leaves);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(leaves), MirrorState::suspended); }));
    give_up(other(leaves));
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }));
    expect_all_is_well({8});
  }
}

/// A tick comes before the partner has answered: the two are far from each other.
struct FullPoolFarAway : FullPool {
  FullPoolFarAway() : FullPool([](Scenario& s) { s.slowest_link = 80 * kMillisecond; }) {}
};

TEST_F(FullPoolFarAway, OfOneNodeMakesItsReplicaLeave) {
  for (int round = 0; round < 10; ++round) {
    for (const NodeSide full : {kA, kB}) {
      ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
      fill(full);
      auto& write = pair.write(kA, 8, 2);
      ASSERT_TRUE(pair.wait_for([&] { return write.done; })) << "full " << (full == kA ? "a" : "b");
      EXPECT_EQ(write.status(), std::error_code{}) << "the other node has it";
      EXPECT_EQ(pair.value_at(kA, 8), 2);
      expect_all_is_well({8});
    }
  }
}

TEST_F(FullPool, OfTheOnlyMemberThatFailsWhatHungInItTellsTheHost) {
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  fill_and_hang(kA);
  auto& write = pair.write(kA, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kA).serving; }));
  give_up(kA);
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_EQ(write.status(), kPoolIsFull);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
  pair.mend(kA);
  EXPECT_EQ(pair.written(kA, 8, 3), std::error_code{});
  pair.host(kB).boot();
  expect_all_is_well({8});
}

TEST_F(FullPool, OfANodeThatLosesItsPartnerAtThatMomentDoesNotKeepItFromGoingOn) {
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().cut(kA, false);
  pair.world().cut(kB, false);
  fill(kA);
  auto& write = pair.write(kA, 8, 2);
  pair.run_for(20 * kMillisecond);
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); })) << to_string(pair.status(kA).state);
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_EQ(write.status(), kPoolIsFull);
  pair.world().cut(kA, true);
  pair.world().cut(kB, true);
  pair.host(kB).boot();
  expect_all_is_well({8});
}

TEST_F(FullPool, OfANodeThatHearsItsPartnerAgainBeforeAnybodyDecidedMakesItLeaveAfterAll) {
  for (const bool both : {true, false}) {
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    for (const NodeSide node : {kA, kB}) pair.host(node).witness().set_reachable(false);
    for (const NodeSide node : {kA, kB}) pair.world().cut(node, false);
    fill(kA);
    if (both) fill(kB);
    auto& write = pair.write(kA, 8, 2);
    const auto decided = [&](NodeSide node) { return !pair.is(node, MirrorState::suspended); };
    ASSERT_TRUE(pair.wait_for([&] { return !decided(kA) && !decided(kB); }));
    for (const NodeSide node : {kA, kB}) pair.world().cut(node, true);
    ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
    EXPECT_EQ(write.status(), both ? kPoolIsFull : std::error_code{});
    for (const NodeSide node : {kA, kB}) pair.host(node).witness().set_reachable(true);
    expect_all_is_well({8});
  }
}

}  // namespace
}  // namespace lockstep::simulation
