// When a path that came, or came back, is believed: how long it proves itself, and by what.
#include "tests/unit/replication/managed_paths.hpp"

namespace lockstep::replication {
namespace {

TEST_F(Paths, OneThatComesBackIsUsedOnlyWhenItHasProvenItself) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  ASSERT_EQ(best(), kFast);
  fault(kFast);
  EXPECT_EQ(best(), kSlow);
  come_up(kFast);
  (void)pass(2900ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kSlow);
  (void)pass(200ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, OneByWhichNothingLargeComesIsNotProvenHoweverLongItSpeaks) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  fault(kFast);
  join(kFast);
  (void)pass(2min, set({kFast, kSlow}));
  EXPECT_TRUE(manager->is_proving(kFast));
  EXPECT_EQ(best(), kSlow);
  EXPECT_TRUE(manager->is_to_carry(kFast));
  manager->carried(kFast);
  EXPECT_FALSE(manager->is_to_carry(kFast));
  EXPECT_EQ(best(), kFast) << "the time has gone by";
  (void)pass(25ms, set({kFast, kSlow}));
  EXPECT_TRUE(manager->is_proven(kFast));
}

TEST_F(Paths, WhatCameThroughBeforeALossProvesNothingAfterIt) {
  make({kTcp});
  come_up(kFast);
  fault(kFast);
  join(kFast);
  EXPECT_TRUE(manager->is_to_carry(kFast));
  (void)pass(10s, set({kFast}));
  EXPECT_FALSE(manager->is_proven(kFast));
}

TEST_F(Paths, IsToCarrySomethingLargeAfterAThirdOfItsProof) {
  make({kRdma, kTcp});
  come_up(kSlow);
  const auto comes_again = [this] { fault(kFast), join(kFast); };
  comes_again();
  for (const auto third : {1s, 2s, 4s, 8s, 16s, 20s, 20s}) {
    comes_again();
    EXPECT_TRUE(pass(third - 25ms, set({kFast, kSlow})).prove.empty()) << third.count();
    EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kFast})) << third.count();
  }
  manager->carried(kFast);
  EXPECT_TRUE(pass(1s, set({kFast, kSlow})).prove.empty()) << "it has";
}

/// Which of them lets data through nobody knows, and requests go by any.
TEST_F(Paths, AreToCarrySomethingLargeSoonWhileNoneHas) {
  make({kTcp, kTcp});
  join(kFast), join(kSlow);
  for (int i = 0; i < 6; ++i) {
    for (const PathSlot path : {kFast, kSlow}) fault(path), join(path);
    EXPECT_TRUE(pass(975ms, set({kFast, kSlow})).prove.empty());
    EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kFast, kSlow}));
  }
}

/// Requests go by the best one meanwhile, and to another one that has carried before it and back they need not go.
TEST_F(Paths, WhileNoneHasCarriedTheBestOneIsToFirst) {
  make({kRdma, kTcp});
  join(kSlow);
  (void)pass(500ms, set({kFast, kSlow}));
  join(kFast);
  EXPECT_TRUE(pass(975ms, set({kFast, kSlow})).prove.empty());
  EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kFast}));
  manager->carried(kFast);
  EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kSlow}));
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, WhereTheBestOneDoesNotCarryTheOthersAreToSoon) {
  make({kRdma, kTcp});
  join(kFast), join(kSlow);
  EXPECT_EQ(pass(1275ms, set({kFast, kSlow})).prove, set({kFast}));
  EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kFast, kSlow}));
}

TEST_F(Paths, OnlyOneThatHasJoinedIsToCarry) {
  make({kTcp});
  EXPECT_FALSE(manager->is_to_carry(kFast));
  manager->connected(kFast, now);
  manager->carried(kFast);
  EXPECT_FALSE(manager->is_to_carry(kFast));
  manager->joined(kFast, now);
  EXPECT_TRUE(manager->is_to_carry(kFast));
}

TEST_F(Paths, AProofEndsByTheTimeAlsoWhenTheProgramStoodStill) {
  make({kRdma, kTcp});
  come_up(kSlow);
  (void)pass(2s, set({kSlow}));
  come_up(kFast);
  now = now + 1s;
  EXPECT_EQ(best(), kSlow);
}

TEST_F(Paths, OneThatOnlyProvesIsUsedWhenNoneIsProven) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  fault(kFast);
  come_up(kFast);
  fault(kSlow);
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, WhileNoneIsProvenTheOneByWhichSomethingLargeCameIsUsed) {
  make({kRdma, kTcp, kTcp});
  join(kFast), join(kSlow), join(kTwin);
  load = {0, 1000, 3000};
  EXPECT_EQ(best(), kFast) << "nothing tells them apart but what they are";
  manager->carried(kTwin);
  EXPECT_EQ(best(), kTwin);
  manager->carried(kSlow);
  EXPECT_EQ(best(), kSlow);
  fault(kSlow), fault(kTwin);
  EXPECT_EQ(best(), kFast) << "none else is left";
}

TEST_F(Paths, OneThatComesAndGoesProvesTwiceAsLongEachTimeAndAMinuteAtMost) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  for (const auto proof : {3s, 6s, 12s, 24s, 48s, 60s, 60s}) {
    fault(kFast);
    come_up(kFast);
    (void)pass(proof - 100ms, set({kFast, kSlow}));
    ASSERT_TRUE(manager->is_proving(kFast)) << proof.count();
    (void)pass(200ms, set({kFast, kSlow}));
    ASSERT_TRUE(manager->is_proven(kFast)) << proof.count();
  }
  (void)pass(5min, set({kFast, kSlow}));
  fault(kFast);
  come_up(kFast);
  (void)pass(3100ms, set({kFast, kSlow}));
  EXPECT_TRUE(manager->is_proven(kFast)) << "five minutes without a fault";
}

TEST_F(Paths, OneThatIsMadeAnewIsUsedAgainAsSoonAsSomethingLargeHasComeThrough) {
  make({kTcp, kTcp});
  manager->set_rank(kSlow, rank_of(PathTransport::tcp, 10'000, 1));
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(best(), kFast);
    EXPECT_FALSE(manager->renews());
    manager->renewing(kFast);
    EXPECT_EQ(best(), kSlow);
    manager->destroyed(kFast, now);
    join(kFast);
    EXPECT_EQ(best(), kSlow);
    EXPECT_TRUE(manager->renews());
    EXPECT_EQ(pass(25ms, set({kFast, kSlow})).prove, set({kFast}));
    manager->carried(kFast);
    EXPECT_EQ(best(), kFast);
    (void)pass(25ms, set({kFast, kSlow}));
    EXPECT_TRUE(manager->is_proven(kFast));
  }
  EXPECT_EQ(manager->losses(kFast), 0u);
  fault(kFast), come_up(kFast);
  (void)pass(2975ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kSlow);
  (void)pass(25ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kFast) << "its first fault";
}

TEST_F(Paths, OneThatDoesNotComeBackWhenItIsMadeAnewProvesItselfAsAfterAnyFault) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  manager->renewing(kFast);
  manager->destroyed(kFast, now);
  manager->connected(kFast, now);
  fault(kFast);
  EXPECT_FALSE(manager->renews());
  come_up(kFast);
  (void)pass(2975ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kSlow);
}

TEST_F(Paths, OnlyOneThatHasJoinedIsMadeAnew) {
  make({kTcp});
  manager->renewing(kFast);
  manager->connected(kFast, now);
  manager->renewing(kFast);
  EXPECT_TRUE(manager->is_joining(kFast));
  EXPECT_FALSE(manager->renews());
}

TEST_F(Paths, TellHowOftenTheyWereLost) {
  make({kRdma, kTcp});
  come_up(kFast);
  manager->closing(kFast);
  manager->destroyed(kFast, now);
  EXPECT_EQ(manager->losses(kFast), 0U) << "it was closed";
  manager->connected(kFast, now);
  fault(kFast);
  EXPECT_EQ(manager->losses(kFast), 0U) << "it had not joined";
  for (int i = 0; i < 3; ++i) come_up(kFast), fault(kFast);
  EXPECT_EQ(manager->losses(kFast), 3U);
  EXPECT_EQ(manager->losses(kSlow), 0U);
}

TEST_F(Paths, AFaultWhileItProvesBeginsTheProofAnew) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(4s, set({kFast, kSlow}));
  fault(kFast);
  come_up(kFast);
  (void)pass(2s, set({kFast, kSlow}));
  fault(kFast);
  come_up(kFast);
  (void)pass(5900ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kSlow);
  (void)pass(200ms, set({kFast, kSlow}));
  EXPECT_EQ(best(), kFast);
}

}  // namespace
}  // namespace lockstep::replication
