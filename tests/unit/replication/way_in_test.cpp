// The receiving end of a link session over several paths: which session is in, what is kept, and until when.
#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---- which session is in ----

TEST_F(WayIn, HearsNothingOfAPathThatHasNotJoined) {
  begin(1);
  service.on_path_up(slot(1));
  EXPECT_EQ(send(1, numbered(1)).kind(), AnswerKind::over);
  EXPECT_TRUE(mirror.held.empty());
}

TEST_F(WayIn, ASessionWithoutAPathIsOverAfterASecond) {
  begin(2);
  for (std::size_t path : {0, 1}) service.on_path_down(slot(path));
  clock.advance(PathsService::kWithoutPath - 1ms);
  EXPECT_NE(mirror.alive, 0u);
  clock.advance(1ms);
  EXPECT_EQ(mirror.alive, 0u);
}

TEST_F(WayIn, APathThatJoinsInTimeKeepsTheSession) {
  begin(1);
  service.on_path_down(slot(0));
  clock.advance(PathsService::kWithoutPath - 1ms);
  service.on_path_up(slot(0));
  ASSERT_EQ(join(0, {1, process(1), kOurs}), JoinVerdict::welcome);
  clock.advance(1s);
  EXPECT_NE(mirror.alive, 0u);
}

TEST_F(WayIn, NoPathJoinsASessionThatWasEnded) {
  begin(1);
  send_nonsense(0);
  EXPECT_EQ(mirror.alive, 0u);
  service.on_path_up(slot(1));
  EXPECT_EQ(join(1, {1, process(1), kOurs}), JoinVerdict::over);
}

TEST_F(WayIn, WhatMakesNoSenseEndsTheSessionAndIsCounted) {
  begin(1);
  EXPECT_EQ(send_nonsense(0).kind(), AnswerKind::over);
  EXPECT_EQ(mirror.alive, 0u);
  EXPECT_EQ(service.faults(), 1u);
  EXPECT_NE(service.problem(), "");
}

TEST_F(WayIn, APlainPathThatCameUpAnewIsHeard) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  for (std::size_t path : {0, 1}) send(path, plain_frame(MessageType::hello));
  service.on_path_down(slot(0));
  service.on_path_up(slot(0));
  send(0, plain_frame(MessageType::hello));
  EXPECT_EQ(mirror.held.size(), 3u);
}

TEST_F(WayIn, APartnerThatWentBackToAnEarlierVersionTakesTheNumberedSessionsPlace) {
  begin(1);
  const auto numbered_one = mirror.alive;
  service.on_path_up(slot(1));
  send(1, plain_frame(MessageType::hello));
  EXPECT_GT(mirror.alive, numbered_one);
}

TEST_F(WayIn, RemembersTheLatestOfTheProcessesThatWereReplaced) {
  service.on_path_up(slot(0));
  constexpr std::uint8_t kAll = kMaxReplaced + 2;
  for (std::uint8_t n = 1; n <= kAll; ++n) {
    ASSERT_EQ(join(0, {1, process(n), {}}), JoinVerdict::welcome);
    send(0, numbered(1));
  }
  for (std::uint8_t n = 2; n < kAll; ++n) EXPECT_EQ(join(0, {2, process(n), {}}), JoinVerdict::overtaken) << int{n};
}

/// Process 2 is in. Of process 1, which was killed before anybody read its join, that join is read now.
class AJoinThatComesLate : public WayIn {
 protected:
  AJoinThatComesLate() {
    for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
    EXPECT_EQ(join(0, {1, process(2), {}}), JoinVerdict::welcome);
    send(0, numbered(1));
    EXPECT_EQ(join(1, {1, process(1), {}}), JoinVerdict::welcome) << "it may as well be the next one";
  }
};

TEST_F(AJoinThatComesLate, LeavesTheWayOpenToTheProcessThatLives) {
  EXPECT_EQ(join(0, {2, process(2), {}}), JoinVerdict::welcome);
}

TEST_F(AJoinThatComesLate, IsForgottenWithItsPath) {
  service.on_path_down(slot(1));
  clock.advance(PathsService::kWithoutPath);
  EXPECT_EQ(join(0, {1, process(2), {}}), JoinVerdict::overtaken) << "what was known before is known again";
  EXPECT_EQ(join(0, {2, process(2), {}}), JoinVerdict::welcome);
}

TEST_F(AJoinThatComesLate, IsOfTheNextProcessOnceThatHasHeardTheAnswer) {
  send(1, numbered(1));
  EXPECT_EQ(join(0, {2, process(2), {}}), JoinVerdict::overtaken);
}

TEST_F(AJoinThatComesLate, IsOfTheNextProcessOnceAnotherPathJoins) {
  ASSERT_EQ(join(0, {1, process(1), kOurs}), JoinVerdict::welcome);
  EXPECT_EQ(join(0, {2, process(2), {}}), JoinVerdict::overtaken);
}

// ---- a partner whose machine was set back with its memory ----

/// A number of process 1's session with two paths, whose request says `what`.
std::vector<std::byte> order_of(std::uint64_t number, std::uint64_t what, std::uint64_t acknowledged = 0) {
  auto frame = bytes(encode_request_frame({FrameKind::numbered, {number}, {acknowledged}}));
  Message m;
  m.type = MessageType::copy;
  m.number = what;
  const auto header = encode(m);
  frame.insert(frame.end(), header.begin(), header.end());
  return frame;
}

TEST_F(WayIn, ANumberThatIsUsedTwiceIsNotAnsweredWithWhatTheOtherRequestWas) {
  begin(2);
  send(0, order_of(1, 100));
  mirror.held[0]->answer({}, {}, {});
  EXPECT_EQ(send(1, order_of(1, 200)).kind(), AnswerKind::over);
  EXPECT_EQ(mirror.alive, 0u);
  EXPECT_EQ(mirror.set_back_partner, process(1));
}

TEST_F(WayIn, ANumberThatIsUsedTwiceIsFoundWhileTheFirstWaits) {
  begin(2);
  send(0, order_of(1, 100));
  EXPECT_EQ(send(1, order_of(1, 200)).kind(), AnswerKind::over);
  EXPECT_EQ(mirror.set_back_partner, process(1));
}

TEST_F(WayIn, AProcessThatWasSetBackIsNotLetInAndTheNextOneIs) {
  begin(2);
  send(0, order_of(1, 100));
  send(1, order_of(1, 200));
  EXPECT_EQ(join(0, {2, process(1), {}}), JoinVerdict::overtaken) << "by which it learns of it, and ends";
  EXPECT_EQ(join(0, {1, process(2), {}}), JoinVerdict::welcome);
}

TEST_F(WayIn, ACopyThatAcknowledgesMoreIsACopy) {
  begin(2);
  send(0, order_of(1, 100));
  mirror.held[0]->answer({}, {}, {});
  send(0, order_of(2, 100));
  EXPECT_FALSE(send(1, order_of(2, 100, 1)).answered);
  EXPECT_TRUE(mirror.set_back_partner.is_nil());
}

// ---- what the end of a session ends ----

TEST_F(WayIn, WhatTheMirrorHasNotSeenEndsWithItsSession) {
  begin(1);
  Copy& waits = send(0, numbered(2));
  ASSERT_EQ(join(0, {2, process(1), {}}), JoinVerdict::welcome);
  ASSERT_TRUE(waits.answered);
  EXPECT_EQ(waits.kind(), AnswerKind::over);
}

TEST_F(WayIn, AnswersAreNotKeptBeyondTheirSession) {
  begin(1);
  send(0, numbered(1), kMiB);
  answer_at_length();
  clock.advance(1s);
  EXPECT_FALSE(sent) << "the partner may ask again";
  ASSERT_EQ(join(0, {2, process(1), {}}), JoinVerdict::welcome);
  clock.advance(0ms);
  EXPECT_TRUE(sent);
}

TEST_F(WayIn, WhatTheMirrorAnswersAfterTheSessionGoesNowhereAndGivesItsBufferBack) {
  begin(1);
  Copy& first = send(0, numbered(1), kMiB);
  ASSERT_EQ(join(0, {2, process(1), {}}), JoinVerdict::welcome);
  mirror.held[0]->answer_early({});
  answer_at_length();
  clock.advance(0ms);
  EXPECT_TRUE(sent);
  EXPECT_EQ(first.kind(), AnswerKind::over);
  EXPECT_NE(mirror.alive, 0u) << "the session that is in has nothing to do with it";
}

TEST_F(WayIn, AMirrorThatAnswersAllWhenItHearsOfTheEndMixesNothingUp) {
  begin(1);
  mirror.gives_up = true;
  for (const std::uint64_t number : {1, 2}) send(0, numbered(number));
  send_nonsense(0);
  ASSERT_EQ(join(0, {2, process(1), {}}), JoinVerdict::welcome);
  for (const std::uint64_t number : {1, 2, 3}) send(0, numbered(number));
  ASSERT_EQ(mirror.held.size(), 3u);
  for (std::size_t i : {0, 1, 2}) EXPECT_EQ(decode(mirror.held[i]->header())->number, i + 1);
}

TEST_F(WayIn, WhatTheMirrorHasStaysWhenItsPathIsLostAndIsAnsweredByAnother) {
  begin(2);
  Copy& lost = send(0, numbered(1), 4096);
  service.on_path_down(slot(0));
  EXPECT_FALSE(lost.answered) << "the mirror reads its payload";
  Copy& again = send(1, numbered(1), 4096);
  EXPECT_EQ(mirror.held.size(), 1u);
  EXPECT_EQ(mirror.held[0]->max_answer_payload(), 4096u);
  mirror.held[0]->answer({}, {}, {});
  EXPECT_TRUE(lost.answered);
  EXPECT_EQ(again.kind(), AnswerKind::answer);
}

// ---- answers that are kept ----

TEST_F(WayIn, AnAnswersPayloadStaysUntilItIsAcknowledgedAndNoPathReadsIt) {
  begin(1);
  Copy& copy = send(0, numbered(1), kMiB);
  copy.slow = true;
  answer_at_length();
  EXPECT_EQ(send(0, probe(1)).kind(), AnswerKind::alive);
  clock.advance(0ms);
  EXPECT_FALSE(sent) << "a path reads it";
  copy.on_its_way();
  clock.advance(0ms);
  EXPECT_TRUE(sent);
}

TEST_F(WayIn, AQuestionTellsWhichAnswersHaveCome) {
  begin(1);
  send(0, numbered(1), kMiB);
  answer_at_length();
  send(0, probe(1));
  clock.advance(0ms);
  EXPECT_TRUE(sent);
}

TEST_F(WayIn, APartnerThatAcknowledgesNothingFillsNoMemory) {
  begin(1);
  const std::vector<std::byte> payload(kMiB);
  for (std::uint64_t number = 1; number <= PathsService::kMaxBytesKept / kMiB + 1; ++number) {
    send(0, numbered(number), kMiB);
    mirror.held.back()->answer({}, payload, {});
  }
  EXPECT_EQ(service.faults(), 0u);
  send(0, numbered(mirror.held.size() + 1), kMiB);
  EXPECT_EQ(service.faults(), 1u);
}

TEST_F(WayIn, WhatIsAcknowledgedFillsNoMemory) {
  begin(1);
  const std::vector<std::byte> payload(kMiB);
  for (std::uint64_t number = 1; number <= 2 * PathsService::kMaxBytesKept / kMiB; ++number) {
    send(0, numbered(number, number - 1), kMiB);
    mirror.held.back()->answer({}, payload, {});
  }
  EXPECT_EQ(service.faults(), 0u);
}

TEST_F(WayIn, GivesNoCopyAnAnswerForWhichItHasNoRoom) {
  begin(1);
  send(0, numbered(1), 4096);
  const std::vector<std::byte> payload(4096);
  mirror.held[0]->answer({}, payload, {});
  EXPECT_EQ(send(0, numbered(1), 0).kind(), AnswerKind::over);
  EXPECT_EQ(service.faults(), 1u);
}

TEST_F(WayIn, WhatACopyThatMakesNoSenseAcknowledgesIsNotKeptEither) {
  begin(2);
  send(0, numbered(1), kMiB);
  answer_at_length();
  send(0, numbered(2));
  send(1, numbered(2, 1), 4096);  // not alike, which ends the session
  EXPECT_EQ(service.faults(), 1u);
  clock.advance(0ms);
  EXPECT_TRUE(sent) << "the mirror's buffer, and the room for answers, are lost for ever";
}

TEST_F(WayIn, AnEarlyAnswerGoesToEveryCopy) {
  begin(2);
  Copy& first = send(0, numbered(1));
  Copy& second = send(1, numbered(1));
  mirror.held[0]->answer_early({});
  EXPECT_TRUE(first.early);
  EXPECT_FALSE(first.answered) << "its payload is still read";
  ASSERT_TRUE(second.answered);
  EXPECT_EQ(second.said, first.said);
}

// ---- buffers that are all taken ----

struct Starving : WayIn {
  void SetUp() override {
    service.ask_for_starving([] { return true; });
    begin(2);
  }
};

TEST_F(Starving, ASessionThatGoesOnIsNotEnded) {
  send(1, numbered(4));
  for (std::uint64_t number = 1; number <= 2; ++number) {
    clock.advance(PathsService::kStarved - 1ms);
    send(0, numbered(number));
  }
  EXPECT_NE(mirror.alive, 0u);
}

TEST_F(Starving, ASessionInWhichNothingWaitsAnyMoreIsNotEnded) {
  send(1, numbered(2));
  service.on_path_down(slot(1));
  clock.advance(PathsService::kStarved);
  EXPECT_NE(mirror.alive, 0u);
}

TEST_F(Starving, ARequestThatIsWithTheMirrorForLongIsNoReasonToEndTheSession) {
  send(0, numbered(1));
  clock.advance(2 * PathsService::kStarved);
  EXPECT_NE(mirror.alive, 0u);
}

TEST_F(Starving, ASessionHasAllOfItsSecondWhateverTheOneBeforeItWaitedFor) {
  send(1, numbered(2));
  clock.advance(PathsService::kStarved - 1ms);
  ASSERT_EQ(join(0, {2, process(1), {}}), JoinVerdict::welcome);
  send(0, numbered(2));
  clock.advance(1ms);
  EXPECT_NE(mirror.alive, 0u);
  clock.advance(PathsService::kStarved);
  EXPECT_EQ(mirror.alive, 0u);
}

}  // namespace
}  // namespace lockstep::replication
