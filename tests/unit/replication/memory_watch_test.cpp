// A machine that was set back to a snapshot with its memory goes on as the process that it was: how either node finds
// it, and what becomes of it.
#include "tests/unit/replication/partner_fixture.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;

struct MemoryOfTheTwo : PartnerFixture {
  static constexpr std::uint64_t kSaid = 100;  ///< the partner's first count

  /// What the partner says at `count`, having heard `echo` of this process.
  Message counted(MessageType type, std::uint64_t count, std::uint64_t echo = 0) {
    Message m;
    m.type = type;
    m.process = theirs;
    m.watermark = count;
    m.lowest_tag = echo;
    m.volume = settings.process;
    if (type == MessageType::hello) m.flags = kFlagSideB;
    return m;
  }
  std::optional<Message> hear(std::uint64_t session, const Message& message) {
    HeldRequest request(message);
    (void)partner.take(session, request, message);
    return request.said;
  }
  /// The request at `index` is answered at that count.
  void answer_at(std::size_t index, std::uint64_t count, std::uint64_t echo = 0, Errc status = Errc::ok) {
    HeldLink::Sent sent = take(index);
    Message header = counted(sent.message.type, count, echo);
    header.answer = true;
    header.flags = 0;
    header.status = status;
    header.stamp = their_clock();
    const MessageBytes bytes = encode(header);
    sent.done(LinkAnswer{bytes, 0});
  }
  void answer_hello_and_a_beat() {
    connect();
    answer_at(0, kSaid);
    answer_at(0, kSaid + 1);
    ASSERT_TRUE(partner.in_contact());
    events.clear();
  }
  void greet(std::uint64_t session, std::uint64_t count, Errc answered = Errc::ok) {
    partner.on_inbound_up(session);
    const auto said = hear(session, counted(MessageType::hello, count));
    ASSERT_TRUE(said);
    EXPECT_EQ(said->status, answered);
  }
  void expect_partner_refused() {
    EXPECT_EQ(events, (std::vector<std::string>{"contact lost", "disconnected"}));
    EXPECT_FALSE(partner.in_contact());
    EXPECT_FALSE(partner.connected());
    EXPECT_EQ(link.resets, 1) << "what is on its way there ends";
    EXPECT_FALSE(partner.set_back());
  }
  void expect_this_one_is_over() {
    EXPECT_EQ(events.back(), "set back");
    EXPECT_TRUE(partner.set_back());
    EXPECT_FALSE(partner.in_contact());
    disconnect();
    connect();
    EXPECT_TRUE(link.sent.empty()) << "it says nothing any more";
    partner.on_inbound_up(9);
    EXPECT_EQ(hear(9, counted(MessageType::hello, kSaid + 50))->status, Errc::not_serving);
  }
};

// ---- what is told --------------------------------------------------------------------------------------------------

TEST_F(MemoryOfTheTwo, EachThingSaidHasAHigherCountThanAllBefore) {
  connect();
  EXPECT_EQ(link.sent[0].message.watermark, 1u);
  answer_at(0, kSaid);
  EXPECT_EQ(link.sent[0].message.watermark, 2u);
  partner.on_inbound_up(1);
  EXPECT_EQ(hear(1, counted(MessageType::hello, kSaid + 1))->watermark, 3u);
  EXPECT_EQ(hear(1, counted(MessageType::heartbeat, kSaid + 2))->watermark, 4u);
}

TEST_F(MemoryOfTheTwo, WhatWasHeardIsToldWithWhoSaidIt) {
  answer_hello_and_a_beat();
  partner.heartbeat_now();
  EXPECT_EQ(link.sent.back().message.lowest_tag, kSaid + 1);
  EXPECT_EQ(link.sent.back().message.volume, theirs);
}

TEST_F(MemoryOfTheTwo, NoTwoHeartbeatsAreTheSameBytes) {
  connect();
  answer_at(0, kSaid);
  clock.advance(std::chrono::milliseconds(1));
  partner.heartbeat_now();
  EXPECT_NE(link.sent[0].message.nexus, link.sent[1].message.nexus) << "of two pasts either, with the same count";
}

// ---- the partner's was set back ------------------------------------------------------------------------------------

TEST_F(MemoryOfTheTwo, APartnerThatAnswersWithWhatItHasSaidAlreadyIsRefused) {
  answer_hello_and_a_beat();
  partner.heartbeat_now();
  answer_at(0, kSaid + 1);
  expect_partner_refused();
}

TEST_F(MemoryOfTheTwo, APartnerThatComesBackWithWhatItHasSaidAlreadyIsRefused) {
  greet(1, kSaid);
  ASSERT_TRUE(hear(1, counted(MessageType::heartbeat, kSaid + 1)));
  greet(2, kSaid + 1, Errc::stale);
}

TEST_F(MemoryOfTheTwo, NothingOfAPartnerThatWasSetBackIsTaken) {
  answer_hello_and_a_beat();
  greet(1, kSaid + 2);
  partner.heartbeat_now();
  answer_at(0, kSaid);
  expect_partner_refused();
  for (const auto type : {MessageType::hello, MessageType::heartbeat, MessageType::forward, MessageType::state}) {
    const auto said = hear(1, counted(type, kSaid + 10));
    ASSERT_TRUE(said) << "it is not passed on";
    EXPECT_EQ(said->status, Errc::stale);
  }
}

TEST_F(MemoryOfTheTwo, APartnerThatWasSetBackIsNotConnectedThoughItAnswers) {
  answer_hello_and_a_beat();
  partner.found_partner_set_back(theirs);
  disconnect();
  connect();
  answer_at(0, kSaid + 20);
  EXPECT_FALSE(partner.connected());
  EXPECT_NE(partner.refusal().find("set back"), std::string::npos) << partner.refusal();
}

TEST_F(MemoryOfTheTwo, TheNextProcessOfAPartnerThatWasSetBackIsTaken) {
  answer_hello_and_a_beat();
  partner.found_partner_set_back(theirs);
  disconnect();
  theirs.bytes[0] = 3;
  connect();
  answer_at(0, 1);
  EXPECT_TRUE(partner.connected());
  greet(2, 2);
}

TEST_F(MemoryOfTheTwo, AProcessThatIsGoneIsNoReasonToRefuseTheNextOne) {
  answer_hello_and_a_beat();
  theirs.bytes[0] = 3;
  greet(1, 1);
  events.clear();
  partner.found_partner_set_back(engine::Uuid{{2}});
  EXPECT_TRUE(events.empty());
}

/// A partner of an earlier version counts nothing.
TEST_F(MemoryOfTheTwo, APartnerWhoseClockGoesBackIsRefused) {
  connect();
  answer(0, their_clock());
  answer(0, their_clock());
  events.clear();
  partner.heartbeat_now();
  answer(0, their_clock() - 1);
  expect_partner_refused();
}

// ---- what is no sign of it -----------------------------------------------------------------------------------------

TEST_F(MemoryOfTheTwo, AnswersThatOvertakeOneAnotherAreNoSign) {
  answer_hello_and_a_beat();
  partner.heartbeat_now();
  partner.heartbeat_now();
  answer_at(1, kSaid + 3);
  answer_at(0, kSaid + 2);
  EXPECT_TRUE(partner.in_contact());
}

TEST_F(MemoryOfTheTwo, AHelloThatWasOvertakenByAnAnswerIsNoSign) {
  answer_hello_and_a_beat();
  greet(1, kSaid - 1);
  EXPECT_TRUE(partner.in_contact());
}

TEST_F(MemoryOfTheTwo, AnotherProcessThatBeginsAnewIsNoSign) {
  answer_hello_and_a_beat();
  disconnect();
  connect();  // this hello was sent when the process before it was the one that is known
  theirs.bytes[0] = 3;
  answer_at(0, 1);
  EXPECT_TRUE(partner.connected());
  greet(2, 2);
}

TEST_F(MemoryOfTheTwo, APartnerThatCountsNothingIsTaken) {
  greet(1, 0);
  greet(2, 0);
  EXPECT_TRUE(hear(2, counted(MessageType::heartbeat, 0)));
  EXPECT_TRUE(events.empty());
}

// ---- this node's was set back --------------------------------------------------------------------------------------

TEST_F(MemoryOfTheTwo, AProcessOfWhichThePartnerHasHeardMoreThanItSaidIsOver) {
  answer_hello_and_a_beat();
  partner.on_inbound_up(1);
  const auto said = hear(1, counted(MessageType::hello, kSaid + 2, 1000));
  EXPECT_EQ(said->status, Errc::not_serving) << "not a word that the partner could take for news of itself";
  expect_this_one_is_over();
}

TEST_F(MemoryOfTheTwo, AProcessThatIsAnsweredSoIsOver) {
  connect();
  answer_at(0, kSaid, 1000);
  expect_this_one_is_over();
}

TEST_F(MemoryOfTheTwo, AProcessThatThePartnerRefusesAsSetBackIsOver) {
  connect();
  answer_at(0, kSaid, 0, Errc::stale);
  expect_this_one_is_over();
}

TEST_F(MemoryOfTheTwo, AProcessWhoseForwarderHasHeardALaterTimeOfItsClockIsOver) {
  greet(1, kSaid);
  Message forward = counted(MessageType::forward, 0);
  forward.stamp = static_cast<std::uint64_t>(clock.now().since_origin.count()) + 1;
  EXPECT_EQ(hear(1, forward)->status, Errc::not_serving);
  expect_this_one_is_over();
}

TEST_F(MemoryOfTheTwo, WhatThePartnerHeardOfTheProcessBeforeIsNoSign) {
  Message hello = counted(MessageType::hello, kSaid, 1000);
  hello.volume.bytes[0] = 77;
  partner.on_inbound_up(1);
  EXPECT_EQ(hear(1, hello)->status, Errc::ok);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace lockstep::replication
