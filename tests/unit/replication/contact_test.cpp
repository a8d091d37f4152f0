// Contact with the partner: from when to when it holds, what is fresh, and whose requests are taken.
#include <algorithm>

#include "tests/unit/replication/partner_fixture.hpp"

namespace lockstep::replication {
namespace {

class Contact : public PartnerFixture {
 protected:
  /// Hello was answered; the first heartbeat is under way.
  void meet() {
    connect();
    answer(0, their_clock());
    ASSERT_EQ(beats(), 1u);
  }
  [[nodiscard]] std::size_t lost() const {
    return static_cast<std::size_t>(std::ranges::count(events, "contact lost"));
  }
};
using Freshness = PartnerFixture;
using Inbound = PartnerFixture;

TEST_F(Contact, HoldsForALeaseFromTheSendingOfTheHeartbeat) {
  meet();
  clock.advance(600ms);
  answer(0, their_clock());
  EXPECT_TRUE(partner.in_contact());
  clock.advance(399ms);
  EXPECT_TRUE(partner.in_contact());
  clock.advance(1ms);
  EXPECT_FALSE(partner.in_contact());
}

TEST_F(Contact, IsNotShortenedByAnAnswerThatWasOvertaken) {
  meet();
  clock.advance(500ms);
  partner.heartbeat_now();
  answer(1, their_clock());
  answer(0, their_clock());
  clock.advance(900ms);
  EXPECT_TRUE(partner.in_contact());
}

TEST_F(Contact, IsNotMadeByAnAnswerOfAnotherProcess) {
  meet();
  theirs.bytes[1] += 1;
  answer(0, their_clock());
  EXPECT_FALSE(partner.in_contact());
}

/// What was held until then is dropped before anything counts on the new contact.
TEST_F(Contact, ThatRanOutUnseenIsLostBeforeItIsMadeAgain) {
  meet();
  answer(0, their_clock());
  clock.advance(900ms);
  partner.heartbeat_now();
  clock.advance(200ms);
  answer(0, their_clock());
  EXPECT_TRUE(partner.in_contact());
  EXPECT_EQ(lost(), 1u);
}

/// Nothing that was sent before may arrive long after.
TEST_F(Contact, ThatIsLostTakesTheWayOutWithIt) {
  meet();
  answer(0, their_clock());
  clock.advance(kLease);
  partner.check();
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(link.resets, 1);
}

/// The partner compares it with its own clock: it is from before the heartbeat, not from its answer.
TEST_F(Contact, CarriesThePartnersClockOfBeforeTheHeartbeat) {
  meet();
  const std::uint64_t of_the_hello = their_clock();
  clock.advance(100ms);
  answer(0, their_clock());
  EXPECT_EQ(partner.contact_stamp(), of_the_hello);
}

TEST_F(Contact, WithAnotherProcessDoesNotCarryTheClockOfTheOneBefore) {
  meet();
  answer(0, their_clock());
  theirs.bytes[1] += 1;
  partner.on_inbound_up(1);
  said_to(1, MessageType::hello, theirs);
  partner.heartbeat_now();
  answer(0, 1);
  EXPECT_EQ(partner.contact_stamp(), 0u);
}

TEST_F(Contact, IsNotBegunByAHelloOfAnEarlierWay) {
  connect();
  partner.on_link_down();
  partner.on_link_up();
  answer(0, their_clock());
  EXPECT_FALSE(partner.connected());
  answer(0, their_clock());
  EXPECT_TRUE(partner.connected());
}

constexpr std::uint64_t count(engine::Duration time) { return static_cast<std::uint64_t>(time.count()); }

TEST_F(Freshness, LastsForALeaseLessTheDrift) {
  clock.advance(10s);
  const std::uint64_t now = count(clock.now().since_origin);
  EXPECT_TRUE(partner.is_fresh(now));
  EXPECT_TRUE(partner.is_fresh(now - count(800ms)));
  EXPECT_FALSE(partner.is_fresh(now - count(801ms)));
  EXPECT_FALSE(partner.is_fresh(now + 1)) << "from another clock";
  EXPECT_FALSE(partner.is_fresh(0)) << "without a stamp";
}

/// By the clock that runs fastest, and the drift of a lease is forgiven: the rest is measured by this node's.
TEST_F(Freshness, OfACommandCountsFromItsReceipt) {
  const std::uint64_t stamp = count(10s);
  EXPECT_EQ(partner.stamp_less(stamp, 0), stamp);
  EXPECT_EQ(partner.stamp_less(stamp, count(100ms)), stamp);
  EXPECT_EQ(partner.stamp_less(stamp, count(500ms)), stamp - count(400ms));
  EXPECT_EQ(partner.stamp_less(stamp, count(2s)), stamp - count(2200ms));
  EXPECT_EQ(partner.stamp_less(stamp, ~std::uint64_t{0}), stamp - count(2200ms)) << "a hostile age";
  EXPECT_EQ(partner.stamp_less(1, count(1s)), 0u);
}

TEST_F(Inbound, IsTakenOnlyOfAProcessThatSaidHelloOnThisWay) {
  const engine::Uuid another{{3}};
  partner.on_inbound_up(1);
  EXPECT_EQ(said_to(1, MessageType::state, theirs)->status, engine::Errc::stale);
  EXPECT_EQ(said_to(1, MessageType::hello, theirs)->status, engine::Errc::ok);
  EXPECT_FALSE(said_to(1, MessageType::state, theirs));
  EXPECT_EQ(said_to(1, MessageType::state, another)->status, engine::Errc::stale);
  partner.on_inbound_up(2);
  EXPECT_EQ(said_to(2, MessageType::state, theirs)->status, engine::Errc::stale);
  EXPECT_EQ(said_to(2, MessageType::hello, theirs)->status, engine::Errc::ok);
  EXPECT_EQ(said_to(1, MessageType::state, theirs)->status, engine::Errc::stale) << "by a way that was replaced";
  EXPECT_FALSE(said_to(2, MessageType::state, theirs));
}

/// What is on the way out must end before anything is sent to the new one.
TEST_F(Inbound, HelloOfAnotherProcessBreaksTheWayToTheOneBefore) {
  connect();
  answer(0, their_clock());
  partner.on_inbound_up(1);
  said_to(1, MessageType::hello, theirs);
  EXPECT_EQ(link.resets, 0);
  said_to(1, MessageType::hello, engine::Uuid{{3}});
  EXPECT_EQ(link.resets, 1);
  EXPECT_EQ(events.back(), "restarted");
}

TEST_F(Inbound, HelloIsAnsweredWithThisNodesOwnLease) {
  their_lease = kLease / 2;
  connect();
  answer(0, their_clock());
  ASSERT_EQ(settings.lease, kLease / 2);
  partner.on_inbound_up(1);
  EXPECT_EQ(said_to(1, MessageType::hello, theirs)->number, count(kLease))
      << "a longer one would never count again once a shorter one was agreed on";
}

}  // namespace
}  // namespace lockstep::replication
