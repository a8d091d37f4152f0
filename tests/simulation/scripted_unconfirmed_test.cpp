// A witness that says what its node can't judge by anything that it has seen there before, and a machine that stood
// still before it read it: the partner has gone on since.
#include <gtest/gtest.h>

#include "tests/simulation/only_member.hpp"

namespace lockstep::simulation {
namespace {

/// B is in sync, and its question waits; the witness holds the epoch of both.
void expect_that_b_does_not_win(ScriptedPair& pair, SimWitness& witness) {
  auto& b = pair.host(kB);
  ASSERT_TRUE(pair.wait_for([&] { return b.slow_witness().held() == 1; }, 3 * kSecond));
  const auto of_both = witness.snapshot();
  b.pause();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 10 * kSecond));
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  pair.host(kA).witness().set_reachable(false);
  witness.restore(of_both);
  b.thaw();
  EXPECT_TRUE(pair.is(kB, MirrorState::in_sync)) << "by its clock it has a lease";
  for (Nanos passed = 0; passed < 10 * kLease; passed += 10 * kMillisecond) {
    while (b.slow_witness().held() > 0) b.slow_witness().let_go(0);
    pair.run_for(10 * kMillisecond);
    ASSERT_FALSE(pair.is(kB, MirrorState::solo)) << "beside A, which serves";
  }
  EXPECT_EQ(pair.violation(), "");
}

TEST(UnconfirmedWitness, ThatWasNeverSeenIsNotBelievedByALeaseOfBeforeAPause) {
  OnlyMember world;
  auto& pair = world.pair;
  pair.host(kB).program()->leave(0);
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  pair.host(kB).slow_witness().hold();
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(pair.wait_for(
      [&] { return pair.is(kB, MirrorState::in_sync) && world.at_the_witness()->epoch == pair.status(kB).epoch.id; }));
  expect_that_b_does_not_win(pair, pair.world().witness);
}

/// Management has just named it.
TEST(UnconfirmedWitness, ThatIsAnotherOneIsNotTakenByALeaseOfBeforeAPause) {
  ScriptedPair pair(pair_program());
  SimWitness another;
  another.empty();  // so that it is another cluster
  const auto use = [&](SimWitness* witness) {
    for (const NodeSide side : {kA, kB}) {
      pair.host(side).witness().use(witness);
      pair.host(side).program()->look_at_witness_again();
    }
  };
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kB).failover_limited; }));
  use(nullptr);
  pair.run_for(2 * kSecond);
  pair.host(kB).slow_witness().hold();
  use(&another);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kA).failover_limited; }, 4 * kSecond));
  expect_that_b_does_not_win(pair, another);
}

/// What it asks for there is granted, and told when it has found out that its lease is over.
TEST(UnconfirmedWitness, ThatWasEmptiedIsNotTakenByAWinThatIsToldAfterTheLease) {
  OnlyMember world(ArbiterKind::witness, [](Scenario& s) { s.first_sequencer = kB; });
  auto& pair = world.pair;
  auto& b = pair.host(kB);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kB).failover_limited; }));
  b.slow_witness().hold();
  ASSERT_TRUE(pair.wait_for([&] { return b.slow_witness().held() == 1; }, 120 * kSecond));
  b.pause();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 10 * kSecond));
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  pair.host(kA).witness().set_reachable(false);
  pair.world().witness.empty();
  b.thaw();
  for (const char* what : {"its question", "the answer", "what it asks for"}) {
    ASSERT_TRUE(pair.wait_for([&] { return b.slow_witness().held() == 1; }, kLease / 4)) << what;
    b.slow_witness().let_go(0);
  }
  EXPECT_TRUE(pair.is(kB, MirrorState::in_sync)) << "by its clock it has a lease";
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::suspended); }, 2 * kLease));
  for (Nanos passed = 0; passed < 10 * kLease; passed += 10 * kMillisecond) {
    while (b.slow_witness().held() > 0) b.slow_witness().let_go(0);
    pair.run_for(10 * kMillisecond);
    ASSERT_FALSE(pair.is(kB, MirrorState::solo)) << "beside A, which serves";
  }
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
