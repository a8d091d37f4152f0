// The partner as a process: which answers count for what.
#include "tests/unit/replication/partner_fixture.hpp"

namespace lockstep::replication {
namespace {

using Confirmation = PartnerFixture;
using StandingClock = PartnerFixture;
using SharedLease = PartnerFixture;

std::uint64_t clocks_that_stood_still() { return mark_of<"partner.clock_stood_still">.count(); }

TEST_F(Confirmation, IsNotOverWhenAHeartbeatThatWasSentBeforeIsAnswered) {
  connect();
  answer(0, their_clock());  // the hello; the first heartbeat follows
  ASSERT_EQ(beats(), 1u);
  partner.confirm();
  ASSERT_EQ(beats(), 2u);
  answer(0, their_clock());  // the first one
  partner.confirm();
  EXPECT_EQ(beats(), 1u) << "who asks while one is under way waits for its end, and shares the next";
  answer(0, their_clock());
  EXPECT_EQ(beats(), 1u) << "the one that was sent before the second question is answered: another one goes out";
}

TEST_F(Confirmation, IsSentAsSoonAsThereIsRoomForAHeartbeat) {
  connect();
  answer(0, their_clock());
  while (beats() < 8) partner.heartbeat_now();
  partner.confirm();
  ASSERT_EQ(beats(), 8u) << "no more at once";
  answer(0, their_clock());
  EXPECT_EQ(beats(), 8u) << "none of those that were sent before it serves who asked";
}

TEST_F(Confirmation, IsServedByAHeartbeatThatWasSentLater) {
  connect();
  answer(0, their_clock());
  partner.confirm();
  partner.heartbeat_now();
  ASSERT_EQ(beats(), 3u);
  answer(2, their_clock());  // the last one overtakes the others
  partner.confirm();
  EXPECT_EQ(beats(), 3u) << "nothing is under way that somebody waits for: this one is sent at once";
}

TEST_F(Confirmation, OfAWayThatBrokeIsNotWaitedForOnTheNext) {
  connect();
  answer(0, their_clock());
  partner.confirm();
  partner.confirm();
  disconnect();
  connect();
  answer(0, their_clock());
  ASSERT_EQ(beats(), 1u);
  partner.confirm();
  EXPECT_EQ(beats(), 2u);
}

TEST_F(SharedLease, IsToldInHello) {
  connect();
  EXPECT_EQ(link.sent[0].message.number, std::uint64_t{1'000'000'000});
  EXPECT_EQ(link.sent[0].message.tag, 20u);
}

TEST_F(SharedLease, IsTheShorterOfTheTwo) {
  their_lease = kLease / 2;
  their_drift_percent = 30;
  connect();
  answer(0, their_clock());
  EXPECT_EQ(settings.lease, kLease / 2);
  EXPECT_EQ(settings.drift_percent, 30u);
  answer(0, their_clock());
  ASSERT_TRUE(partner.in_contact());
  clock.advance(kLease / 2);
  EXPECT_FALSE(partner.in_contact());
}

TEST_F(SharedLease, IsThisNodesWhereThePartnersIsLongerOrNotTold) {
  for (const engine::Duration told : {engine::Duration(10 * kLease), engine::Duration(0)}) {
    their_lease = told;
    theirs.bytes[1] += 1;
    connect();
    answer(0, their_clock());
    EXPECT_EQ(settings.lease, kLease);
    disconnect();
  }
}

/// It was restarted with a longer one than before: what this node has configured counts again.
TEST_F(SharedLease, FollowsAPartnerThatComesBackWithAnotherSetting) {
  their_lease = kLease / 2;
  connect();
  answer(0, their_clock());
  disconnect();
  their_lease = 3 * kLease;
  theirs.bytes[1] += 1;
  connect();
  answer(0, their_clock());
  EXPECT_EQ(settings.lease, kLease);
}

TEST_F(SharedLease, ThatMakesNoSenseIsNotTaken) {
  for (const engine::Duration told : {engine::Duration(1), engine::Duration(std::chrono::hours(1000))}) {
    their_lease = told;
    connect();
    answer(0, their_clock());
    EXPECT_FALSE(partner.connected());
    EXPECT_EQ(settings.lease, kLease);
    disconnect();
  }
}

/// One lease takes the place of another, in the steps of partner.hpp.
class ChangedLease : public PartnerFixture {
 protected:
  static constexpr auto kShort = kLease / 2;
  void meet() {
    connect();
    answer(0, their_clock());
    answer(0, their_clock());
    ASSERT_TRUE(partner.in_contact());
  }
};

TEST_F(ChangedLease, MakesThisNodeTrustTheShorterAndWaitForTheLongerUntilItHoldsTheNewOneAlone) {
  meet();
  for (const auto& [before, after] :
       {std::pair<engine::Duration, engine::Duration>{kLease, kShort}, {kShort, kLease}}) {
    partner.set_lease(before, after);
    EXPECT_EQ(settings.lease, kShort);
    EXPECT_EQ(settings.granted_lease, kLease);
    EXPECT_EQ(partner.held_lease(), before);
    partner.set_lease(after, before);
    EXPECT_EQ(settings.lease, kShort);
    EXPECT_EQ(settings.granted_lease, kLease);
    EXPECT_EQ(partner.held_lease(), after);
    partner.set_lease(after, {});
    EXPECT_EQ(settings.lease, after);
    EXPECT_EQ(settings.granted_lease, after);
  }
}

TEST_F(ChangedLease, CountsForWhatIsHeldFromTheStepOnInWhichItIsHeld) {
  meet();
  partner.set_lease(kLease, kShort);
  clock.advance(kShort);
  EXPECT_TRUE(partner.in_contact()) << "the old one is held still";
  partner.heartbeat_now();
  answer(0, their_clock());
  partner.set_lease(kShort, kLease);
  clock.advance(kShort - 1ms);
  EXPECT_TRUE(partner.in_contact());
  clock.advance(1ms);
  EXPECT_FALSE(partner.in_contact());
}

TEST_F(ChangedLease, IsSettledWhenNothingHeldOrSentByTheOldOneCounts) {
  meet();
  EXPECT_TRUE(partner.lease_settled());
  partner.set_lease(kLease, kShort);
  EXPECT_TRUE(partner.lease_settled()) << "nothing is held that was not before";
  partner.set_lease(kShort, kLease);
  EXPECT_FALSE(partner.lease_settled());
  clock.advance(kLease * 12 / 10 - 1ms);
  EXPECT_FALSE(partner.lease_settled());
  clock.advance(1ms);
  EXPECT_TRUE(partner.lease_settled());
}

/// The partner took the next step: it tells so with each heartbeat, not in hello alone.
TEST_F(ChangedLease, OfThePartnersIsToldByItsHeartbeats) {
  their_lease = kShort;
  meet();
  ASSERT_EQ(partner.held_lease(), kShort);
  partner.on_inbound_up(1);
  ASSERT_EQ(said_to(1, MessageType::hello, theirs, kShort)->status, engine::Errc::ok);
  ASSERT_EQ(said_to(1, MessageType::heartbeat, theirs, kLease)->status, engine::Errc::ok);
  EXPECT_EQ(partner.held_lease(), kLease);
  ASSERT_EQ(said_to(1, MessageType::heartbeat, theirs, engine::Duration(1))->status, engine::Errc::corrupt);
  EXPECT_EQ(partner.held_lease(), kLease);
}

TEST_F(ChangedLease, IsToldInEachHeartbeat) {
  meet();
  partner.set_lease(kShort, kLease);
  partner.heartbeat_now();
  EXPECT_EQ(link.sent.back().message.number, static_cast<std::uint64_t>(engine::Duration(kShort).count()));
  EXPECT_EQ(link.sent.back().message.tag, 20u);
}

TEST_F(StandingClock, IsSeenByTwoAnswersThatAreFartherApartThere) {
  connect();
  answer(0, their_clock());
  answer(0, their_clock());
  const auto before = clocks_that_stood_still();
  partner.heartbeat_now();
  answer(0, their_clock() + static_cast<std::uint64_t>(engine::Duration(3 * kLease).count()));
  EXPECT_EQ(clocks_that_stood_still(), before + 1);
  EXPECT_EQ(events.at(2), "contact lost");
}

TEST_F(StandingClock, IsSeenByTheFirstAnswerOnANewWay) {
  connect();
  answer(0, their_clock());
  answer(0, their_clock());
  const auto before = clocks_that_stood_still();
  disconnect();
  connect();
  answer(0, their_clock() + static_cast<std::uint64_t>(engine::Duration(3 * kLease).count()));
  EXPECT_EQ(clocks_that_stood_still(), before + 1);
}

/// The hello has no time by which its answer must be there: one that was on its way for longer than a lease says
/// nothing of this node's clock.
TEST_F(StandingClock, IsNotTakenFromAHelloWhoseAnswerWasLongOnItsWay) {
  connect();
  answer(0, their_clock());
  answer(0, their_clock());
  const auto before = clocks_that_stood_still();
  disconnect();
  connect();
  const std::uint64_t answered_at = their_clock();
  clock.advance(2 * kLease);
  answer(0, answered_at);
  answer(0, their_clock());  // the first heartbeat on the new way, at once
  EXPECT_EQ(clocks_that_stood_still(), before);
}

}  // namespace
}  // namespace lockstep::replication
