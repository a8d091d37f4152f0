// Which path is used, and when one is over.
#include <random>

#include "tests/unit/replication/managed_paths.hpp"

namespace lockstep::replication {
namespace {

TEST_F(Paths, AreRankedByTransportThenSpeedThenOrder) {
  EXPECT_LT(rank_of(PathTransport::rdma, 1'000, 9), rank_of(PathTransport::tcp, 100'000, 0));
  EXPECT_LT(rank_of(PathTransport::tcp, 25'000, 9), rank_of(PathTransport::tcp, 10'000, 0));
  EXPECT_LT(rank_of(PathTransport::tcp, 10'000, 0), rank_of(PathTransport::tcp, 10'000, 1));
}

TEST_F(Paths, TheFirstThatJoinsIsUsedAtOnceAndABetterOneWhileNeitherIsProven) {
  make({kRdma, kTcp});
  EXPECT_FALSE(best());
  manager->connected(kSlow, now);
  EXPECT_FALSE(best()) << "it has not joined";
  manager->joined(kSlow, now);
  EXPECT_EQ(best(), kSlow);
  come_up(kFast);
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, OfTheSameRankShareByWhatIsUnderWay) {
  make({kTcp, kTcp, kTcp});
  for (const PathSlot p : {kFast, kSlow, kTwin}) come_up(p);
  load = {3000, 1000, 2000};
  EXPECT_EQ(best(), kSlow);
  load = {0, 1000, 2000};
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, OfABetterRankIsUsedHoweverMuchItHasUnderWay) {
  make({kTcp, kRdma});
  come_up(kFast), come_up(kSlow);
  load = {0, 3000};
  EXPECT_EQ(best(), kSlow) << "it is the one over RDMA";
}

TEST_F(Paths, SilenceIsAskedAfter75MillisecondsAndEndsAPathAfter300) {
  make({kRdma, kTcp});
  come_up(kFast), come_up(kSlow);
  EXPECT_TRUE(pass(50ms, set({kSlow})).probe.empty());
  auto orders = pass(225ms, set({kSlow}));
  EXPECT_EQ(orders.probe, set({kFast}));
  EXPECT_TRUE(orders.end.empty());
  orders = pass(25ms, set({kSlow}));
  EXPECT_EQ(orders.end, set({kFast}));
  EXPECT_TRUE(manager->is_dying(kFast));
  EXPECT_EQ(best(), kSlow);
}

TEST_F(Paths, AnAnswerToTheQuestionKeepsItAndTheNextSilenceIsAskedAgain) {
  make({kTcp});
  come_up(kFast);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(pass(200ms, {}).probe, set({kFast}));
    manager->heard(kFast, now);
  }
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, OneThatDoesNotJoinIsEnded) {
  make({kTcp});
  manager->connected(kFast, now);
  EXPECT_EQ(pass(300ms, {}).end, set({kFast}));
}

TEST_F(Paths, OneThatIsSilentIsAskedOnceAndOneThatHasNotJoinedNever) {
  make({kTcp, kTcp});
  come_up(kFast);
  manager->connected(kSlow, now);
  EXPECT_EQ(pass(100ms, {}).probe, set({kFast}));
  EXPECT_TRUE(pass(150ms, {}).probe.empty());
}

TEST_F(Paths, OneThatWasHeardWithin300MillisecondsSpeaks) {
  make({kTcp, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(200ms, set({kSlow}));
  EXPECT_EQ(pass(100ms, {}).end, set({kFast}));
}

TEST_F(Paths, OneThatConnectsDoesNotSpeak) {
  make({kTcp, kTcp});
  come_up(kFast);
  (void)pass(200ms, {});
  manager->connected(kSlow, now);
  EXPECT_TRUE(pass(200ms, {}).end.empty()) << "the partner stands still, for all that is known";
}

TEST_F(Paths, WhereNoneSpeaksNoneIsEndedBeforeOneSpeaksAgain) {
  make({kTcp, kTcp});
  come_up(kFast), come_up(kSlow);
  EXPECT_TRUE(pass(900ms, {}).end.empty()) << "the partner stands still, for all that is known";
  EXPECT_FALSE(manager->joined().empty());
  EXPECT_EQ(pass(25ms, set({kSlow})).end, set({kFast}));
}

TEST_F(Paths, TheOnlyOneIsLeftToItsTransport) {
  make({kTcp, kTcp});
  come_up(kFast);
  manager->connected(kSlow, now);
  EXPECT_EQ(pass(900ms, {}).end, set({kSlow})) << "it has not joined";
  EXPECT_EQ(best(), kFast);
}

TEST_F(Paths, TheOwnStandstillIsNoSilence) {
  make({kTcp, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(50ms, set({kSlow}));
  now = now + 10s;
  const PathOrders orders = manager->tick(now);
  EXPECT_TRUE(orders.end.empty());
  EXPECT_EQ(pass(250ms, set({kSlow})).end, set({kFast})) << "what came before and after it counts";
}

TEST_F(Paths, OneThatWasHeardDuringTheOwnStandstillIsSilentFromItsEndOn) {
  make({kTcp, kTcp});
  come_up(kFast), come_up(kSlow);
  (void)pass(25ms, set({kFast, kSlow}));
  now = now + 5s;
  manager->heard(kFast, now);
  now = now + 5s;
  manager->heard(kSlow, now);
  EXPECT_TRUE(manager->tick(now).end.empty());
  EXPECT_EQ(pass(300ms, set({kSlow})).end, set({kFast}));
}

TEST_F(Paths, TheOwnStandstillIsNoTimeWithoutAPath) {
  make({kTcp});
  come_up(kFast);
  (void)pass(25ms, {});
  fault(kFast);
  (void)pass(25ms, {});
  now = now + 10s;
  EXPECT_FALSE(manager->tick(now).session_over);
  EXPECT_TRUE(pass(300ms, {}).session_over);
}

TEST_F(Paths, OneThatJoinsAndIsLostAtOnceBeginsTheTimeWithoutAPathAnew) {
  make({kTcp});
  come_up(kFast);
  fault(kFast);
  (void)pass(275ms, {});
  come_up(kFast);
  fault(kFast);
  EXPECT_FALSE(pass(300ms, {}).session_over);
  EXPECT_TRUE(pass(25ms, {}).session_over);
}

TEST_F(Paths, OneThatIsNotConnectedIsNotClosed) {
  make({kTcp});
  manager->closing(kFast);
  EXPECT_TRUE(manager->is_down(kFast));
}

TEST_F(Paths, ADyingOneIsNotUsedAndNotEndedAgainUntilItIsDestroyed) {
  make({kTcp, kTcp});
  come_up(kFast);
  manager->failed(kFast, now);
  EXPECT_FALSE(best());
  EXPECT_TRUE(manager->joined().empty());
  manager->failed(kFast, now);
  EXPECT_TRUE(pass(1s, {}).end.empty());
  EXPECT_TRUE(manager->is_dying(kFast));
  manager->destroyed(kFast, now);
  EXPECT_TRUE(manager->is_down(kFast));
}

TEST_F(Paths, TheSessionIsOver300MillisecondsAfterTheLastOneIsGone) {
  make({kTcp, kTcp});
  come_up(kFast), come_up(kSlow);
  fault(kFast);
  EXPECT_FALSE(pass(1s, set({kSlow})).session_over) << "one is left";
  fault(kSlow);
  EXPECT_FALSE(pass(300ms, {}).session_over);
  EXPECT_TRUE(pass(25ms, {}).session_over);
}

TEST_F(Paths, OneThatJoinsInTimeKeepsTheSession) {
  make({kTcp, kTcp});
  come_up(kFast);
  fault(kFast);
  EXPECT_FALSE(pass(275ms, {}).session_over);
  come_up(kSlow);
  EXPECT_FALSE(pass(2s, set({kSlow})).session_over);
}

TEST_F(Paths, AnEndWithoutFaultIsNoRelapse) {
  make({kTcp});
  for (int i = 0; i < 5; ++i) {
    come_up(kFast);
    (void)pass(1s, set({kFast}));
    manager->closing(kFast);
    manager->destroyed(kFast, now);
  }
  come_up(kFast);
  (void)pass(3s, set({kFast}));
  EXPECT_TRUE(manager->is_proven(kFast));
}

TEST_F(Paths, InAnyHistoryOnlyJoinedOnesAreChosenAndNoUnprovenOneBeforeAProvenOne) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    make({kRdma, kTcp, kTcp, rank_of(PathTransport::tcp, 1'000, 0)});
    for (int i = 0; i < 2000; ++i) {
      const PathSlot path{static_cast<std::uint8_t>(random() % 4)};
      switch (random() % 12) {
        case 0:
          if (manager->is_down(path)) manager->connected(path, now);
          break;
        case 1:
          if (manager->is_joining(path)) manager->joined(path, now);
          break;
        case 2:
          if (random() % 8 == 0) manager->failed(path, now);
          break;
        case 3:
          if (manager->is_dying(path) || random() % 16 == 0) manager->destroyed(path, now);
          break;
        case 4:
          manager->carried(path);
          break;
        case 5:
          now = now + std::chrono::milliseconds(random() % 100);
          (void)manager->tick(now);
          break;
        default:
          manager->heard(path, now);
          break;
      }
      const auto chosen = best();
      ASSERT_EQ(chosen.has_value(), !manager->joined().empty());
      for (std::uint8_t p = 0; p < 4 && chosen; ++p) {
        ASSERT_TRUE(manager->joined().contains(*chosen));
        ASSERT_FALSE(manager->is_proving(*chosen) && manager->is_proven(PathSlot{p})) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::replication
