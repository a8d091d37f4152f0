// The sending end of a link session over several paths: how a session begins, and what its end ends.
#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---- a session begins ----

TEST_F(WayOut, WhenThePathThatAsksForASessionIsLostTheNextOneAsks) {
  start(2);
  come_up(0);
  come_up(1);
  EXPECT_TRUE(paths[1]->sent.empty()) << "one asks";
  lose(0);
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  const auto asked = decode_join(paths[1]->sent.front().header);
  ASSERT_TRUE(asked);
  EXPECT_TRUE(asked->partner.is_nil());
}

TEST_F(WayOut, WhenThePathThatAsksForASessionFailsTheNextOneAsksBeforeThatIsDestroyed) {
  start(2);
  come_up(0);
  come_up(1);
  link->on_path_failing(slot(0));
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  EXPECT_TRUE(is_join(paths[1]->sent.front().header));
  lose(0);
  EXPECT_EQ(paths[1]->sent.size(), 1u);
  paths[1]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}});
  EXPECT_EQ(mirror.ups, 1u);
}

TEST_F(WayOut, WhenTheOnlyPathFailsAsItAsksForASessionTheNextOneIsAskedFor) {
  start(1);
  come_up(0);
  link->on_path_failing(slot(0));
  lose(0);
  join(0);
  EXPECT_EQ(mirror.ups, 1u);
}

TEST_F(WayOut, APathThatDoesNotAskIsLostWithoutConsequence) {
  start(2);
  come_up(0);
  come_up(1);
  lose(1);
  ASSERT_EQ(paths[0]->sent.size(), 1u);
  paths[0]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}});
  EXPECT_EQ(mirror.ups, 1u);
}

TEST_F(WayOut, APathThatThePartnerDoesNotLetInIsClosedAtOnce) {
  start(1);
  come_up(0);
  paths[0]->answer_first(JoinAnswer{JoinVerdict::overtaken, kOurs, {}});
  EXPECT_EQ(paths[0]->resets, 1u);
  EXPECT_EQ(mirror.ups, 0u);
}

TEST_F(WayOut, AnAnswerToAJoinThatMakesNoSenseIsToldAndForgottenWhenASessionBegins) {
  start(1);
  come_up(0);
  paths[0]->answer_first(std::span<const std::byte>{});
  EXPECT_NE(link->problem(), "");
  EXPECT_EQ(paths[0]->resets, 1u);
  lose(0);
  join(0);
  EXPECT_EQ(link->problem(), "");
}

TEST_F(WayOut, KnowsWhereThePartnerSaysThatItCanBeReached) {
  start(1);
  come_up(0);
  const PathAddress address{.ip = {}, .port = 3261, .rdma = true, .tcp = false, .order = 1, .megabits = 25'000};
  paths[0]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {address}});
  EXPECT_EQ(link->partner_addresses(), std::vector{address});
}

TEST_F(WayOut, AWelcomeForAPathThatWasGivenUpMeanwhileComesTooLate) {
  start(2);
  join(0);
  come_up(1);
  pass(350ms);
  ASSERT_EQ(paths[1]->resets, 1u);
  paths[1]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}});
  EXPECT_FALSE(link->paths().joined().contains(slot(1)));
}

TEST_F(WayOut, APartnerThatDoesNotKnowTheSessionAnyMoreEndsIt) {
  start(2);
  join(0);
  come_up(1);
  paths[1]->answer_first(JoinAnswer{JoinVerdict::over, kOurs, {}});
  EXPECT_TRUE(link->is_ending());
}

TEST_F(WayOut, APathToAProgramOfAnEarlierVersionEndsTheSession) {
  start(2);
  join(0);
  paths[1]->speaks = kSeveralPaths - 1;
  come_up(1);
  EXPECT_TRUE(link->is_ending());
}

TEST_F(WayOut, OfAPartnerOfAnEarlierVersionOnlyThePathThatIsUsedCounts) {
  start(2);
  for (const auto& path : paths) path->speaks = kSeveralPaths - 1;
  come_up(0);
  come_up(1);
  lose(1);
  EXPECT_EQ(mirror.downs, 0u);
  lose(0);
  EXPECT_EQ(mirror.downs, 1u);
}

// ---- a session ends ----

TEST_F(WayOut, AnAnswerThatMakesNoSenseEndsTheSessionAndIsCounted) {
  start_and_join(1);
  send();
  paths[0]->answer_first(std::span<const std::byte>{});
  EXPECT_TRUE(link->is_ending());
  EXPECT_EQ(link->faults(), 1u);
}

TEST_F(WayOut, ASessionsNumberIsNeverGivenAgain) {
  start(1);
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    come_up(0);
    const auto asked = decode_join(paths[0]->sent.front().header);
    ASSERT_TRUE(asked);
    EXPECT_GT(asked->session, last);
    last = asked->session;
    if (i == 1) paths[0]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}});
    if (i == 1) link->reset();
    lose(0);
  }
}

TEST_F(WayOut, IsUpUntilItsPathsAreDestroyedAndWhatTheyHadHasEnded) {
  start_and_join(1);
  send();
  link->reset();
  pass(25ms);
  EXPECT_TRUE(link->is_up());
  EXPECT_EQ(failed, 0u) << "the path may still read its buffers";
  lose(0);
  EXPECT_EQ(failed, 1u);
  EXPECT_FALSE(link->is_up());
  EXPECT_EQ(mirror.downs, 1u);
}

TEST_F(WayOut, WhatIsSentWhileTheSessionEndsEndsWithIt) {
  start_and_join(1);
  send();
  link->reset();
  send();
  lose(0);
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(mirror.downs, 1u);
}

TEST_F(WayOut, WhatIsSentByWhatEndsWithTheSessionEndsOnceWithIt) {
  start(1);
  for (const auto& [first, then] :
       {std::pair{MessageType::copy, MessageType::heartbeat}, std::pair{MessageType::heartbeat, MessageType::copy}}) {
    failed = 0;
    join(0);
    link->send(plain_frame(first), {}, {}, [&, then = then](const auto& result) {
      EXPECT_FALSE(result);
      send({}, then);
    });
    link->reset();
    lose(0);
    clock.advance(0ms);
    EXPECT_EQ(failed, 1u);
    EXPECT_EQ(link->tasks_in_use(), 0u);
  }
}

TEST_F(WayOut, ASessionThatIsGivenUpIsNoLossOfItsPaths) {
  start_and_join(1);
  link->reset();
  lose(0);
  EXPECT_EQ(link->paths().losses(slot(0)), 0u);
}

TEST_F(WayOut, APathThatDoesNotLastIsMadeAnewWithoutALossAndOneAtATime) {
  start_and_join(2);
  for (auto& path : paths) path->renewal = true;
  clock.advance(25ms);
  ASSERT_EQ(paths[0]->resets, 1u);
  clock.advance(50ms);
  EXPECT_EQ(paths[1]->resets, 0u) << "the other one is not back yet";
  lose(0);
  paths[0]->renewal = false;
  join(0);
  clock.advance(25ms);
  paths[0]->answer_proof();
  clock.advance(50ms);
  EXPECT_EQ(paths[1]->resets, 1u);
  lose(1);
  EXPECT_EQ(link->paths().losses(slot(0)) + link->paths().losses(slot(1)), 0u);
  EXPECT_EQ(mirror.downs, 0u);
}

TEST_F(WayOut, APathThatGoesDownByItselfIsLost) {
  start_and_join(1);
  lose(0);
  EXPECT_EQ(link->paths().losses(slot(0)), 1u);
}

TEST_F(WayOut, APathThatCameUpWhileASessionEndedBeginsTheNextOne) {
  start(2);
  join(0);
  link->reset();
  come_up(1);
  EXPECT_TRUE(paths[1]->sent.empty());
  lose(0);
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  EXPECT_TRUE(is_join(paths[1]->sent.front().header));
}

TEST_F(WayOut, ASessionWithoutAPathEndsOnceThoughOneComesAndGoesMeanwhile) {
  start_and_join(1);
  lose(0);
  link->reset();
  come_up(0);
  lose(0);
  EXPECT_EQ(mirror.downs, 1u);
  join(0);
  clock.advance(0ms);
  EXPECT_EQ(mirror.downs, 1u);
  EXPECT_EQ(mirror.ups, 2u);
}

TEST_F(WayOut, TheNextSessionCountsNothingOfTheOld) {
  start_and_join(1);
  std::vector<std::byte> in(kMiB);
  for (int session = 0; session < 3; ++session) {
    for (std::size_t sent = 0; sent < PathsLink::kMaxBytesUnderWay; sent += kMiB) send(in);
    EXPECT_EQ(paths[0]->count(FrameKind::numbered), PathsLink::kMaxBytesUnderWay / kMiB);
    EXPECT_EQ(paths[0]->sent.front().frame().number.value, 1u);
    send({}, MessageType::heartbeat);
    EXPECT_EQ(paths[0]->sent.back().frame(), (RequestFrame{FrameKind::ahead, {1}, {}}));
    link->reset();
    lose(0);
    join(0);
  }
}

TEST_F(WayOut, AfterStopNothingIsSentAndWhatIsOutstandingIsForgotten) {
  start_and_join(1);
  auto owned = std::make_shared<int>(0);
  link->send(plain_frame(MessageType::copy), {}, {}, [owned](const auto&) {});
  link->stop();
  EXPECT_EQ(owned.use_count(), 1);
  send();
  EXPECT_EQ(paths[0]->sent.size(), 1u);
}

}  // namespace
}  // namespace lockstep::replication
