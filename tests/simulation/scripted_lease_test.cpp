// Two nodes with different settings of the lease, and a lease that is changed while the pair is in use.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

/// B is configured with four seconds, A with one.
void unlike(Scenario& s) { s.longer_lease = 4 * kSecond; }

/// A goes on alone by its own lease; B can't ask the witness, and would hold its longer one for two seconds more.
TEST(UnlikeLeases, TheNodeWithTheLongerOneAnswersNoStaleRead) {
  ScriptedPair pair(pair_program(), unlike);
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  ASSERT_EQ(pair.value_at(kB, 8), 1);
  pair.run_for(kSecond);
  pair.host(kB).witness().set_reachable(false);
  for (const auto side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 10 * kSecond));
  ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
  auto& read = pair.read(kB, 8);
  pair.run_for(20 * kMillisecond);
  EXPECT_FALSE(read.done && !read.status()) << "it read " << read.first();
  for (const auto side : {kA, kB}) pair.world().cut(side, true);
  pair.host(kB).witness().set_reachable(true);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

TEST(UnlikeLeases, BothNodesStayInSyncByTheShorterOne) {
  ScriptedPair pair(pair_program(), unlike);
  for (int i = 0; i < 100; ++i) {
    pair.run_for(100 * kMillisecond);
    ASSERT_TRUE(pair.in_sync());
    ASSERT_EQ(pair.written(i % 2 ? kA : kB, 8, i), std::error_code{});
  }
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.host(side).fences(), 0u);
  EXPECT_EQ(pair.violation(), "");
}

constexpr Nanos kLong = 4 * kSecond, kShort = kSecond;

struct ChangingLease {
  explicit ChangingLease(Nanos first)
      : pair(pair_program(), [first](Scenario& s) {
          s.lease = first;
          s.longer_lease = 0;
          s.heartbeat = first / 6;
        }) {
    for (const auto side : {kA, kB}) told(side, {first, 0});
    EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(kB, 8), 1);
  }
  void told(NodeSide side, LeaseTold what) { pair.world().lease_changer->tell(side, what); }
  [[nodiscard]] Nanos held(NodeSide side) {
    return static_cast<Nanos>(pair.host(side).program()->lease().held.count());
  }
  void cut(bool open) {
    for (const auto side : {kA, kB}) pair.world().cut(side, open);
  }
  ScriptedPair pair;
};

/// B holds the longer one still, and can't ask the witness; A was told of the shorter one already, as far as it may be.
TEST(ChangedLease, ThatBecomesShorterIsWaitedForInItsOldLengthByWhoGrantedIt) {
  for (const bool restarted : {false, true}) {
    ChangingLease w(kLong);
    w.told(kB, {kLong, kShort});
    w.told(kA, {kLong, kShort});
    w.told(kA, {kShort, kLong});
    w.pair.run_for(kSecond);
    w.pair.host(kB).witness().set_reachable(false);
    w.cut(false);
    if (restarted) {
      w.pair.host(kA).end(Host::End::killed);
      w.pair.host(kA).boot();
    }
    w.pair.run_for(2 * kSecond);
    EXPECT_FALSE(w.pair.is(kA, MirrorState::solo)) << "B may answer reads still";
    ASSERT_TRUE(w.pair.wait_for([&] { return w.pair.is(kA, MirrorState::solo); }, 10 * kSecond));
    ASSERT_EQ(w.pair.written(kA, 8, 2), std::error_code{});
    auto& read = w.pair.read(kB, 8);
    w.pair.run_for(20 * kMillisecond);
    EXPECT_FALSE(read.done && !read.status()) << "it read " << read.first();
    EXPECT_EQ(w.pair.violation(), "");
  }
}

TEST(ChangedLease, IsHeldByBothInTheEndAndNobodyNoticed) {
  for (const auto& [from, to] : {std::pair{kLong, kShort}, {kShort, kLong}}) {
    ChangingLease w(from);
    w.pair.world().lease_changer->change(to);
    for (int i = 2; !w.pair.world().lease_changer->satisfied() && i < 400; ++i) {
      ASSERT_EQ(w.pair.written(i % 2 ? kA : kB, 8, i), std::error_code{});
      w.pair.run_for(50 * kMillisecond);
      ASSERT_TRUE(w.pair.in_sync());
    }
    ASSERT_TRUE(w.pair.world().lease_changer->satisfied());
    for (const auto side : {kA, kB}) {
      EXPECT_EQ(w.pair.host(side).fences(), 0u);
      EXPECT_EQ(w.pair.world().lease_changer->told(side).lease, w.held(side));
    }
    EXPECT_EQ(w.pair.violation(), "");
  }
}

/// One node was never told of the first step: it goes by the old one, whatever the other waits for.
TEST(ChangedLease, IsNotHeldBeforeThePartnerWasToldOfIt) {
  ChangingLease w(kShort);
  w.told(kA, {kShort, kLong});
  w.pair.run_for(5 * kSecond);
  for (const auto side : {kA, kB}) EXPECT_EQ(w.held(side), kShort);
  w.told(kB, {kShort, kLong});
  w.told(kB, {kLong, kShort});
  w.pair.run_for(5 * kSecond);
  for (const auto side : {kA, kB}) EXPECT_EQ(w.held(side), kShort) << "the shorter of both";
  w.told(kA, {kLong, kShort});
  w.pair.run_for(5 * kSecond);
  for (const auto side : {kA, kB}) EXPECT_EQ(w.held(side), kLong);
  EXPECT_TRUE(w.pair.in_sync());
}

}  // namespace
}  // namespace lockstep::simulation
