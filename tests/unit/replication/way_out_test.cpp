// The sending end of a link session over several paths: what goes by which path, and what is asked and told.
#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---- what goes by which path ----

TEST_F(WayOut, WhatWasOnTheOnlyPathGoesByTheNextOneThatJoins) {
  start(2);
  join(0);
  send();
  lose(0);
  join(1);
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  EXPECT_EQ(paths[1]->sent.front().frame().number.value, 1u);
}

TEST_F(WayOut, WhatALostPathEndsOnlyAfterItsOwnEndGoesByAnotherAtOnce) {
  start_and_join(2);
  send();
  auto late = std::exchange(paths[0]->sent, {});
  ASSERT_EQ(late.size(), 1u);
  paths[0]->up = false;
  link->on_path_down(slot(0));
  EXPECT_TRUE(paths[1]->sent.empty());
  late.front().done(std::unexpected(make_error_code(engine::Errc::unknown_outcome)));
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  paths[1]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  EXPECT_EQ(done, 1u);
}

TEST_F(WayOut, WhatAFailingPathEndsLateGoesByAnotherAtOnce) {
  start_and_join(2);
  send();
  auto late = std::exchange(paths[0]->sent, {});
  ASSERT_EQ(late.size(), 1u);
  link->on_path_failing(slot(0));
  EXPECT_TRUE(paths[1]->sent.empty()) << "the path may still read its buffers";
  late.front().done(std::unexpected(make_error_code(engine::Errc::unknown_outcome)));
  EXPECT_EQ(paths[1]->sent.size(), 1u) << "and not when somebody sends the next one";
}

TEST_F(WayOut, APathThatLosesARequestIsClosedAndGivenNothingMore) {
  start_and_join(2);
  send();
  ASSERT_EQ(paths[0]->sent.size(), 1u);
  paths[0]->fail_first();
  EXPECT_EQ(paths[0]->resets, 1u);
  send();
  EXPECT_TRUE(paths[0]->sent.empty());
  EXPECT_EQ(paths[1]->sent.size(), 2u) << "the one that was lost, and the new one";
}

TEST_F(WayOut, PathsShareByTheBytesThatEachHasUnderWay) {
  start_and_join(2);
  std::vector<std::byte> less(1000), more(3000);
  send(less);
  send(more);
  send(less);
  EXPECT_EQ(paths[0]->sent.size(), 2u);
  EXPECT_EQ(paths[1]->sent.size(), 1u);
}

TEST_F(WayOut, WhatWasAnsweredIsNoLoad) {
  start_and_join(2);
  std::vector<std::byte> in(kMiB);
  send(in);
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  EXPECT_EQ(done, 1u);
  send(in);
  EXPECT_EQ(paths[0]->sent.size(), 1u);
}

TEST_F(WayOut, AHeartbeatGoesByEveryPathAndWaitsForNoBytes) {
  start_and_join(2);
  std::vector<std::byte> in(kMiB);
  for (std::size_t sent = 0; sent <= PathsLink::kMaxBytesUnderWay; sent += kMiB) send(in);
  EXPECT_EQ(paths[0]->count(FrameKind::numbered) + paths[1]->count(FrameKind::numbered),
            PathsLink::kMaxBytesUnderWay / kMiB);
  std::vector<std::byte> little(64);
  for (int i = 0; i < 2; ++i) send(little, MessageType::heartbeat);
  for (const auto& path : paths) EXPECT_EQ(path->count(FrameKind::ahead), 2u);
}

TEST_F(WayOut, AHeartbeatsCopiesHaveBuffersOfTheirOwnUntilTheLastOneEnds) {
  start_and_join(2);
  std::vector<std::byte> out(64, std::byte{1}), in(64);
  link->send(plain_frame(MessageType::heartbeat), out, in, [&](const auto&) { out.assign(64, std::byte{2}); });
  std::ranges::fill(paths[0]->sent.front().in, std::byte{3});
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  ASSERT_EQ(out.front(), std::byte{2}) << "its sender has them back";
  EXPECT_EQ(in, std::vector(64, std::byte{3}));
  send({}, MessageType::heartbeat);
  EXPECT_EQ(bytes(paths[1]->sent.front().out), std::vector(64, std::byte{1}));
  std::ranges::fill(paths[1]->sent.front().in, std::byte{4});
  paths[1]->answer_first(AnswerFrame{AnswerKind::stale, {}});
  EXPECT_EQ(in, std::vector(64, std::byte{3}));
  EXPECT_FALSE(link->is_ending()) << "nobody waits for the second answer";
}

struct WayOutWithASlowPath : WayOut {
  static constexpr std::size_t kSlow = 0, kFast = 1;
  static constexpr unsigned kMany = 5000;

  void SetUp() override { start_and_join(2); }
  void send_heartbeat() { send({}, MessageType::heartbeat); }
  /// The fast path answers each, the slow one nothing.
  void send_many() {
    for (std::uint64_t number = 1; number <= kMany; ++number) {
      send_heartbeat();
      ASSERT_LE(paths[kSlow]->count(FrameKind::ahead), kAheadWindow) << "heartbeat " << number;
      paths[kFast]->answer_first(AnswerFrame{AnswerKind::answer, {number}});
    }
    ASSERT_EQ(done, kMany);
  }
  void slow_one_answers_one_of_before() { paths[kSlow]->answer_first(AnswerFrame{AnswerKind::stale, {}}); }
  /// Of the heartbeats on that path.
  [[nodiscard]] std::uint64_t last_on(std::size_t path) const { return paths[path]->sent.back().frame().number.value; }
};

TEST_F(WayOutWithASlowPath, HasNoMoreHeartbeatsThereThanAWindowHoweverManyTheOtherAnswers) {
  send_many();
  EXPECT_EQ(paths[kSlow]->sent.size(), kAheadWindow);
  EXPECT_EQ(link->tasks_in_use(), kAheadWindow) << "those of which it has a copy";
}

TEST_F(WayOutWithASlowPath, SendsThereWhatTheLostOneHadAsSoonAsThereIsRoom) {
  send_many();
  for (int i = 0; i < 2; ++i) send_heartbeat();
  lose(kFast);
  EXPECT_EQ(paths[kSlow]->sent.size(), kAheadWindow);
  for (std::uint64_t number : {kMany + 1, kMany + 2}) {
    slow_one_answers_one_of_before();
    ASSERT_EQ(paths[kSlow]->sent.size(), kAheadWindow);
    EXPECT_EQ(last_on(kSlow), number);
  }
  while (paths[kSlow]->sent.size() > 2) slow_one_answers_one_of_before();
  for (std::uint64_t answer : {kMany + 1, kMany + 2}) {
    paths[kSlow]->answer_first(AnswerFrame{AnswerKind::answer, {answer}});
  }
  EXPECT_EQ(done, kMany + 2);
  EXPECT_EQ(link->tasks_in_use(), 0u);
}

TEST_F(WayOutWithASlowPath, SendsAHeartbeatThatFoundNoRoomOnAnyWhenThereIsSome) {
  send_many();
  lose(kFast);
  send_heartbeat();
  EXPECT_EQ(paths[kSlow]->sent.size(), kAheadWindow);
  EXPECT_LE(last_on(kSlow), kMany);
  slow_one_answers_one_of_before();
  EXPECT_EQ(paths[kSlow]->sent.size(), kAheadWindow);
  EXPECT_EQ(last_on(kSlow), kMany + 1);
}

TEST_F(WayOutWithASlowPath, SendsThereWhatTheOtherHasNotAnsweredAsSoonAsThereIsRoom) {
  send_many();
  send_heartbeat();
  slow_one_answers_one_of_before();
  EXPECT_EQ(last_on(kSlow), kMany + 1) << "if the other one hangs, what follows would wait for it";
  EXPECT_EQ(paths[kFast]->sent.size(), 1u);
  for (const auto& path : paths) EXPECT_LE(path->sent.size(), kAheadWindow);
}

TEST_F(WayOutWithASlowPath, CountsThereNothingOfBeforeItWasLost) {
  send_many();
  lose(kSlow);
  join(kSlow);
  send_heartbeat();
  ASSERT_EQ(paths[kSlow]->sent.size(), 1u);
  EXPECT_EQ(last_on(kSlow), kMany + 1);
}

TEST_F(WayOutWithASlowPath, CountsThereNothingOfTheSessionBefore) {
  send_many();
  link->reset();
  for (std::size_t path : {kSlow, kFast}) lose(path);
  for (std::size_t path : {kSlow, kFast}) join(path);
  send_heartbeat();
  for (const auto& path : paths) EXPECT_EQ(path->sent.size(), 1u);
}

TEST_F(WayOut, AHeartbeatThatIsNotAnsweredGoesByAPathThatJoinsLater) {
  start(2);
  join(0);
  send({}, MessageType::heartbeat);
  join(1);
  EXPECT_EQ(paths[1]->count(FrameKind::ahead), 1u);
}

TEST_F(WayOut, WhatWasAnsweredLeavesRoomForWhatWaits) {
  start_and_join(1);
  std::vector<std::byte> in(kMiB);
  constexpr std::size_t kRoom = PathsLink::kMaxBytesUnderWay / kMiB;
  for (std::size_t i = 0; i < 2 * kRoom; ++i) send(in);
  for (std::uint64_t answer = 1; answer <= kRoom; ++answer) {
    ASSERT_EQ(paths[0]->sent.size(), kRoom);
    paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {answer}});
  }
}

TEST_F(WayOut, NoMoreWaitThanALimitBehindTheWindow) {
  start_and_join(1);
  for (std::size_t i = 0; i < kNumberedWindow + PathsLink::kMaxWaiting; ++i) send();
  clock.advance(0ms);
  EXPECT_EQ(failed, 0u);
  send();
  clock.advance(0ms);
  EXPECT_EQ(failed, 1u);
}

TEST_F(WayOut, OnlyAPathThatHasJoinedIsMeasured) {
  start(2);
  join(0);
  come_up(1);
  EXPECT_TRUE(link->measure(slot(0), {}, [](bool) {}));
  EXPECT_FALSE(link->measure(slot(1), {}, [](bool) {}));
}

TEST_F(WayOut, TakesTheWordThatTheSessionIsOverForNoMeasurement) {
  start_and_join(1);
  std::optional<bool> came;
  ASSERT_TRUE(link->measure(slot(0), {}, [&](bool so) { came = so; }));
  paths[0]->answer_first(AnswerFrame{AnswerKind::over, {}});
  EXPECT_EQ(came, false);
  ASSERT_TRUE(link->measure(slot(0), {}, [&](bool so) { came = so; }));
  paths[0]->answer_first(AnswerFrame{AnswerKind::alive, {}});
  EXPECT_EQ(came, true);
}

// ---- questions, and what is told ----

TEST_F(WayOut, TellsOnceWhichAnswersHaveComeWhenNothingElseIsSaid) {
  start_and_join(1);
  send();
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  pass(25ms);
  ASSERT_EQ(paths[0]->sent.size(), 1u);
  EXPECT_EQ(paths[0]->sent.front().frame(), (RequestFrame{FrameKind::probe, {}, {1}}));
  paths[0]->answer_first(AnswerFrame{AnswerKind::alive, {}});
  pass(50ms);
  EXPECT_TRUE(paths[0]->sent.empty());
}

TEST_F(WayOut, WhatARequestTellsIsNotToldAgain) {
  start_and_join(1);
  send();
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  send();
  EXPECT_EQ(paths[0]->sent.front().frame().acknowledged.value, 1u);
  pass(50ms);
  EXPECT_EQ(paths[0]->count(FrameKind::probe), 0u);
}

TEST_F(WayOut, AnAnswerIsASignOfLife) {
  start_and_join(1);
  send();
  send();
  pass(60ms);
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {2}});  // the other one's is on its way: nothing is to be told
  pass(50ms);
  EXPECT_EQ(paths[0]->count(FrameKind::probe), 0u);
  pass(50ms);
  EXPECT_EQ(paths[0]->count(FrameKind::probe), 1u);
}

TEST_F(WayOut, APathHasOneQuestionUnderWay) {
  start_and_join(1);
  send();
  pass(100ms);
  EXPECT_EQ(paths[0]->count(FrameKind::probe), 1u);
  paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {1}});
  pass(200ms);
  EXPECT_EQ(paths[0]->count(FrameKind::probe), 1u);
}

TEST_F(WayOut, APathThatAnswersItsQuestionsStaysAndIsAskedAgain) {
  start_and_join(2);
  for (int i = 0; i < 10; ++i) {
    pass(100ms);
    for (const auto& path : paths) {
      ASSERT_EQ(path->count(FrameKind::probe), 1u);
      path->answer_first(AnswerFrame{AnswerKind::alive, {}});
    }
  }
  for (const auto& path : paths) EXPECT_EQ(path->resets, 0u);
}

TEST_F(WayOut, APartnerThatAnswersAQuestionWithTheSessionsEndEndsIt) {
  start_and_join(1);
  pass(100ms);
  paths[0]->answer_first(AnswerFrame{AnswerKind::over, {}});
  EXPECT_TRUE(link->is_ending());
  EXPECT_EQ(link->faults(), 0u);
}

}  // namespace
}  // namespace lockstep::replication
