// When contact that comes and goes keeps the partner out, for how long, and whose fault it was.
#include "replication/core/flap_damping.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using engine::Duration;
using engine::TimePoint;
using namespace std::chrono_literals;

class Flapping : public testing::Test {
 protected:
  Flapping() { pass(1s); }
  /// Ticks go on; true when the partner may join from some moment of it on.
  bool pass(Duration time) {
    bool may_join = false;
    for (const TimePoint end = now + time; now < end; now = now + 25ms) may_join |= damping.tick(now, in_contact);
    return may_join;
  }
  void lose(bool served = true, bool stood_still = false) {
    damping.lost(now, served, stood_still);
    in_contact = false;
    pass(100ms);
    in_contact = true;
  }
  /// The program does not look.
  void stand_still(Duration time) { now = now + time; }
  /// A loss each two seconds.
  void lose_often(unsigned times, bool stood_still = false) {
    for (unsigned i = 0; i < times; ++i) {
      pass(1900ms);
      lose(true, stood_still);
    }
  }
  /// How long contact holds before the partner may join.
  Duration waits() {
    const TimePoint began = now;
    while (damping.damped() && now - began < 5min) pass(25ms);
    return now - began;
  }

  NodeSettings settings;
  FlapDamping damping{settings};
  TimePoint now;
  bool in_contact = true;
};

TEST_F(Flapping, IsThreeLossesWithinAMinute) {
  lose_often(2);
  EXPECT_FALSE(damping.damped());
  lose_often(1);
  EXPECT_TRUE(damping.damped());
  EXPECT_FALSE(damping.stood_still());
}

TEST_F(Flapping, IsNotALossNowAndThen) {
  for (int i = 0; i < 20; ++i) {
    lose();
    EXPECT_FALSE(damping.damped());
    pass(31s);
  }
}

TEST_F(Flapping, IsNotOneLossThatIsNoticedTwice) {
  for (int i = 0; i < 6; ++i) lose();
  EXPECT_FALSE(damping.damped());
}

TEST_F(Flapping, IsNotALossOfWhatWasNotServedByBoth) {
  for (int i = 0; i < 6; ++i) {
    pass(2s);
    lose(false);
  }
  EXPECT_FALSE(damping.damped());
}

TEST_F(Flapping, ThePartnerWaitsLongerAfterEachRelapseForAMinuteAtTheMost) {
  lose_often(3);
  for (const Duration expected : {3s, 6s, 12s, 24s, 48s, 60s, 60s}) {
    const Duration waited = waits();
    EXPECT_GE(waited, expected);
    EXPECT_LT(waited, expected + 500ms);
    pass(10s);
    lose(false);
    ASSERT_TRUE(damping.damped());
  }
}

TEST_F(Flapping, ContactHasToHoldAllTheTime) {
  lose_often(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(pass(2800ms));
    lose(false);
  }
  EXPECT_TRUE(damping.damped());
  EXPECT_TRUE(pass(3200ms));
}

TEST_F(Flapping, IsForgivenAfterAQuietWhile) {
  lose_often(3);
  waits();
  pass(5min + 1s);
  lose_often(2);
  EXPECT_FALSE(damping.damped());
  lose_often(1);
  EXPECT_LT(waits(), 3500ms);
}

TEST_F(Flapping, IsForgottenWithThePartnersProcess) {
  lose_often(2);
  damping.forget();
  lose_often(2);
  EXPECT_FALSE(damping.damped());
  lose_often(1);
  EXPECT_TRUE(damping.damped());
  damping.forget();
  EXPECT_FALSE(damping.damped());
}

TEST_F(Flapping, IsThisNodesFaultIfItStoodStillInMostOfThem) {
  lose_often(1, false);
  lose_often(2, true);
  EXPECT_TRUE(damping.stood_still());
}

TEST_F(Flapping, IsThePartnersFaultIfThisNodeStoodStillOnce) {
  lose_often(1, true);
  lose_often(2, false);
  EXPECT_TRUE(damping.damped());
  EXPECT_FALSE(damping.stood_still());
}

/// It need not notice that by the loss: the partner may be the only one that has lost contact.
TEST_F(Flapping, StandingStillIsSeenByTheOwnTicks) {
  for (int i = 0; i < 3; ++i) {
    pass(1s);
    stand_still(settings.lease);
    pass(200ms);
    lose();
  }
  EXPECT_TRUE(damping.stood_still());
  pass(2s);
  stand_still(settings.lease);
  EXPECT_GE(waits(), 3s) << "since it last did";
}

TEST_F(Flapping, OfALongLeaseIsCountedInLeases) {
  settings.lease = 30s;
  for (int i = 0; i < 3; ++i) {
    pass(60s);
    lose();
  }
  EXPECT_TRUE(damping.damped());
  EXPECT_GE(waits(), 60s);
}

}  // namespace
}  // namespace lockstep::replication
