// What a hostile, slow or old partner does to either end of a link session over several paths, without sockets.
#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---- the way in ----

TEST_F(WayIn, GivesACopyNoMoreThanThatCopyAskedFor) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  ASSERT_EQ(join(0, {1, process(1), {}}), JoinVerdict::welcome);
  ASSERT_EQ(join(1, {1, process(1), kOurs}), JoinVerdict::welcome);
  send(0, numbered(1), 4096);
  Copy& second = send(1, numbered(1), 0);  // the same number, no room for an answer
  ASSERT_EQ(mirror.held.size(), 1u);
  const std::vector<std::byte> payload(4096);
  mirror.held[0]->answer({}, payload, [] {});
  EXPECT_TRUE(second.answered);
  send(1, numbered(1), 100);  // and once more, of one that is kept
}

TEST_F(WayIn, WhatWaitsForItsTurnGoesWithThePathThatBroughtItAndComesAgain) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  ASSERT_EQ(join(0, {1, process(1), {}}), JoinVerdict::welcome);
  ASSERT_EQ(join(1, {1, process(1), kOurs}), JoinVerdict::welcome);
  Copy& second = send(1, numbered(2));
  EXPECT_FALSE(second.answered);
  service.on_path_down(slot(1));
  EXPECT_TRUE(second.answered) << "its buffer is free";
  send(0, numbered(1));
  EXPECT_EQ(mirror.held.size(), 1u);
  send(0, numbered(2));
  EXPECT_EQ(mirror.held.size(), 2u);
}

TEST_F(WayIn, WhatWaitsForItsTurnStaysWhereAnotherPathBroughtItToo) {
  for (std::size_t path : {0, 1, 2}) service.on_path_up(slot(path));
  ASSERT_EQ(join(0, {1, process(1), {}}), JoinVerdict::welcome);
  for (std::size_t path : {1, 2}) ASSERT_EQ(join(path, {1, process(1), kOurs}), JoinVerdict::welcome);
  Copy& second = send(1, numbered(2));
  Copy& again = send(2, numbered(2));
  service.on_path_down(slot(1));
  EXPECT_TRUE(second.answered);
  send(0, numbered(1));
  ASSERT_EQ(mirror.held.size(), 2u);
  mirror.held[1]->answer({}, {}, [] {});
  EXPECT_TRUE(again.answered);
}

TEST_F(WayIn, ASessionInWhichWhatWaitsHasTakenAllBuffersIsEnded) {
  bool starves = true;
  service.ask_for_starving([&] { return starves; });
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  ASSERT_EQ(join(0, {1, process(1), {}}), JoinVerdict::welcome);
  ASSERT_EQ(join(1, {1, process(1), kOurs}), JoinVerdict::welcome);
  send(1, numbered(2));
  starves = false;
  clock.advance(PathsService::kStarved + 1ms);
  EXPECT_NE(mirror.alive, 0u) << "it is only late";
  starves = true;
  clock.advance(PathsService::kStarved + 1ms);
  EXPECT_EQ(mirror.alive, 0u);
  EXPECT_EQ(service.faults(), 0u);
}

TEST_F(WayIn, AProcessThatWasReplacedDoesNotLockOutTheOneThatLives) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  for (const std::uint8_t n : {1, 2, 3}) {
    ASSERT_EQ(join(0, {1, process(n), {}}), JoinVerdict::welcome);
    send(0, numbered(1));
  }
  const auto living = mirror.alive;
  // Process 1 was replaced twice; a machine set back to a snapshot with its memory runs it again, or its frame is late.
  EXPECT_NE(join(1, {2, process(1), {}}), JoinVerdict::welcome);
  EXPECT_EQ(mirror.alive, living);
  unsigned attempts = 0;
  for (std::uint64_t session = 2; session < 100; ++session) {
    ++attempts;
    if (join(0, {session, process(3), {}}) == JoinVerdict::welcome) break;
  }
  EXPECT_EQ(attempts, 1u) << "the living process is taken for one that was replaced, for ever";
}

TEST_F(WayIn, WhatComesLateByAPlainPathDoesNotEndTheSessionThatTookItsPlace) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  send(0, plain_frame(MessageType::hello));
  const auto first = mirror.alive;
  send(1, plain_frame(MessageType::hello));  // the sender has lost path 0, and greets anew
  const auto second = mirror.alive;
  ASSERT_NE(first, second);
  send(0, plain_frame(MessageType::heartbeat));  // sent before, read after
  EXPECT_EQ(mirror.alive, second);
  send(1, plain_frame(MessageType::heartbeat));
  EXPECT_EQ(mirror.alive, second)
      << "another session, in which nobody says hello: all is answered with stale, for ever";
}

TEST_F(WayIn, WhatComesLateByAPlainPathDoesNotEndANumberedSession) {
  for (std::size_t path : {0, 1}) service.on_path_up(slot(path));
  send(0, plain_frame(MessageType::hello));
  ASSERT_EQ(join(1, {1, process(2), {}}), JoinVerdict::welcome);  // upgraded
  const auto numbered_one = mirror.alive;
  send(0, plain_frame(MessageType::heartbeat));
  EXPECT_EQ(mirror.alive, numbered_one);
}

// ---- the way out ----

TEST_F(WayOut, TheOnlyPathBearsAPauseOfThePartnersAsTheLinkDidBefore) {
  start(1);
  join(0);
  ASSERT_EQ(mirror.ups, 1u);
  // IscsiLinkSettings::broken_after: 1,000 ms. There is no other path to move anything to.
  pass(800ms);
  EXPECT_EQ(paths[0]->resets, 0u) << "closed, and after 300 ms more the mirror's link is down";
  lose(0);
  pass(350ms);
  EXPECT_EQ(mirror.downs, 1u);
}

TEST_F(WayOut, WhatThePartnerKeepsIsBoundedInBytes) {
  start(2);
  join(0);
  join(1);
  pass(20ms);
  paths[0]->sent.clear();
  std::vector<std::vector<std::byte>> in(240, std::vector<std::byte>(1 << 20));
  Message m;
  m.type = MessageType::copy;
  for (auto& one : in) link->send(encode(m), {}, one, [](const auto&) {});
  // Request 1 went by path 0, where its answer, the first, is stuck; all that went by path 1 is answered.
  ASSERT_EQ(decode_request_frame(paths[0]->sent.front().header)->number.value, 1u);
  std::uint64_t answers = 1;
  while (!paths[1]->sent.empty()) {
    paths[1]->answer_first(encode_answer_frame({AnswerKind::answer, {++answers}}));
  }
  // The partner's mirror has a buffer for each of these until answer 1 is acknowledged.
  EXPECT_LE(answers * (1 << 20), 2 * PathsLink::kMaxBytesUnderWay);
}

/// Its number is one that it had before.
TEST_F(WayOut, AMachineThatWasSetBackWithItsMemoryComesInAgainSoon) {
  start(1);
  unsigned attempts = 0;
  for (std::uint64_t session = 0; session <= 500; ++attempts) {
    come_up(0);
    session = decode_join(paths[0]->sent.front().header)->session;
    const auto verdict = session > 500 ? JoinVerdict::welcome : JoinVerdict::overtaken;
    paths[0]->answer_first(JoinAnswer{verdict, kOurs, {}});
    if (verdict != JoinVerdict::welcome) lose(0);
  }
  EXPECT_EQ(mirror.ups, 1u);
  EXPECT_EQ(mirror.set_backs, 0u) << "a join may have been late";
  EXPECT_LE(attempts, 10u);
}

TEST_F(WayOut, AProcessThatComesInByNoNumberWasReplaced) {
  start(1);
  for (unsigned attempts = 0; mirror.set_backs == 0; ++attempts) {
    ASSERT_LT(attempts, 40u);
    come_up(0);
    paths[0]->answer_first(JoinAnswer{JoinVerdict::overtaken, kOurs, {}});
    lose(0);
  }
  EXPECT_EQ(mirror.ups, 0u);
}

TEST_F(WayOut, JoinsThatWereLateNowAndThenSayNothingOfThisProcess) {
  start(1);
  for (unsigned i = 0; i < 40; ++i) {
    come_up(0);
    paths[0]->answer_first(JoinAnswer{JoinVerdict::overtaken, kOurs, {}});
    lose(0);
    join(0);
    lose(0);
    pass(1s);
  }
  EXPECT_EQ(mirror.ups, 40u);
  EXPECT_EQ(mirror.set_backs, 0u);
}

TEST_F(WayOut, AProcessWhoseSessionIsOverWasNotSetBack) {
  start_and_join(1);
  come_up_again_and_hear(JoinVerdict::over);
  EXPECT_EQ(mirror.set_backs, 0u);
}

TEST_F(WayOut, APathThatIsAboutToJoinIsNotClosedBecauseTheSessionBeforeItIsOver) {
  start(1);
  join(0);
  lose(0);
  pass(280ms);
  paths[0]->up = true;
  link->on_path_up(slot(0));  // dialled again just now
  pass(100ms);
  EXPECT_EQ(paths[0]->resets, 0u) << "it dials once more, after a longer pause";
}

struct WayOutOfAHeartbeat : WayOut {
  /// By both paths, and answered by the first.
  void SetUp() override {
    start_and_join(2);
    send({}, MessageType::heartbeat);
    paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
    ASSERT_EQ(done, 1u);
  }
  void loses_both_and_keeps_nothing() {
    ASSERT_GT(paths[0]->resets, 0u) << "the session is over";
    lose(0);
    lose(1);
    EXPECT_EQ(link->tasks_in_use(), 0u);
  }
};

TEST_F(WayOutOfAHeartbeat, IsForgottenWhenTheOtherPathSaysThatTheSessionIsOver) {
  paths[1]->answer_first(AnswerFrame{AnswerKind::over, {}});
  loses_both_and_keeps_nothing();
}

TEST_F(WayOutOfAHeartbeat, IsForgottenWhenTheOtherPathsAnswerIsNoFrame) {
  paths[1]->answer_first(std::vector<std::byte>(4));
  loses_both_and_keeps_nothing();
}

}  // namespace
}  // namespace lockstep::replication
