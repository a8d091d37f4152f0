// Which path is used, when one is over, and when one that came back is believed again.
#include "replication/link/channel/path_manager.hpp"

#include <random>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;

constexpr PathSlot kFast{0}, kSlow{1}, kTwin{2};
const PathRank kRdma = rank_of(PathTransport::rdma, 25'000, 0), kTcp = rank_of(PathTransport::tcp, 10'000, 0);

class Paths : public testing::Test {
 protected:
  void make(std::vector<PathRank> ranks) { manager.emplace(PathTimes{}, ranks); }
  void come_up(PathSlot path) {
    join(path);
    manager->carried(path);
  }
  /// Without anything large that came through.
  void join(PathSlot path) {
    manager->connected(path, now);
    manager->joined(path, now);
  }
  void fault(PathSlot path) {
    manager->failed(path, now);
    manager->destroyed(path, now);
  }
  /// Time passes; those in `speaking` are heard all the time. What was ordered meanwhile.
  PathOrders pass(engine::Duration time, PathSet speaking) {
    PathOrders all;
    for (const auto until = now + time; now < until;) {
      now = now + 25ms;
      for (std::uint8_t p = 0; p < manager->count(); ++p) {
        if (speaking.contains(PathSlot{p})) manager->heard(PathSlot{p}, now);
      }
      const PathOrders orders = manager->tick(now);
      for (std::uint8_t p = 0; p < manager->count(); ++p) {
        if (orders.probe.contains(PathSlot{p})) all.probe.add(PathSlot{p});
        if (orders.end.contains(PathSlot{p})) all.end.add(PathSlot{p});
        if (orders.prove.contains(PathSlot{p})) all.prove.add(PathSlot{p});
      }
      all.session_over |= orders.session_over;
    }
    return all;
  }
  static PathSet set(std::initializer_list<PathSlot> slots) {
    PathSet all;
    for (const PathSlot s : slots) all.add(s);
    return all;
  }
  [[nodiscard]] std::optional<PathSlot> best() const { return manager->best(load, now); }

  engine::TimePoint now{10s};
  std::optional<PathManager> manager;
  std::array<std::uint64_t, kMaxPaths> load{};
};

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
