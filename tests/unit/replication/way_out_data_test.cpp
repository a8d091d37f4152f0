// The sending end of a link session over several paths: whether data pass, and not only heartbeats.
#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---- a path proves itself ----

constexpr auto kJustBefore = 975ms, kThen = 50ms;  // a second

TEST_F(WayOut, APathIsProvenWhenItHasCarriedSomethingLargeAndNotByTimeAlone) {
  start_and_join(1);
  pass(kJustBefore);
  EXPECT_EQ(paths[0]->count(FrameKind::measure), 0u) << "first what waited for the path, and what makes contact";
  pass(kThen);
  ASSERT_EQ(paths[0]->count(FrameKind::measure), 1u);
  EXPECT_EQ(paths[0]->sent.back().out.size(), PathsLink::kProof);
  EXPECT_FALSE(frame_goes_ahead(paths[0]->sent.back().header));
  pass(10s);
  EXPECT_FALSE(link->paths().is_proven(slot(0)));
  EXPECT_EQ(paths[0]->count(FrameKind::measure), 1u) << "one at a time";
  paths[0]->answer_proof();
  pass(25ms);
  EXPECT_TRUE(link->paths().is_proven(slot(0)));
  pass(1s);
  EXPECT_EQ(paths[0]->count(FrameKind::measure), 0u) << "once is enough";
}

TEST_F(WayOut, AProofThatFoundNoRoomIsSentAgain) {
  start_and_join(1);
  pass(kJustBefore + kThen);
  paths[0]->end_proof(std::unexpected(make_error_code(engine::Errc::resource_exhausted)));
  EXPECT_EQ(paths[0]->count(FrameKind::measure), 0u);
  pass(25ms);
  EXPECT_EQ(paths[0]->count(FrameKind::measure), 1u);
  EXPECT_EQ(paths[0]->resets, 0u);
}

TEST_F(WayOut, APathThatComesAgainProvesItselfAgain) {
  start_and_join(2);
  for (int i = 0; i < 3; ++i) {
    lose(0);
    join(0);
    pass(kJustBefore);
    EXPECT_EQ(paths[0]->count(FrameKind::measure), 0u);
    pass(kThen);
    EXPECT_EQ(paths[0]->count(FrameKind::measure), 1u);
  }
}

/// What holds up its heartbeats, and is its end, comes ever more seldom.
TEST_F(WayOut, APathThatIsLostAgainAndAgainProvesItselfLaterEachTimeWhileAnotherCarries) {
  start_and_join(2);
  pass(kJustBefore + kThen);
  paths[1]->answer_proof();
  for (const auto later : {0ms, 1000ms, 3000ms, 7000ms}) {
    lose(0);
    join(0);
    pass_and_hear(later + kJustBefore);
    EXPECT_EQ(paths[0]->count(FrameKind::measure), 0u) << later.count();
    pass_and_hear(kThen);
    EXPECT_EQ(paths[0]->count(FrameKind::measure), 1u) << later.count();
  }
}

TEST_F(WayOut, RequestsGoByThePathThatHasCarriedSomethingLargeWhileNoneIsProven) {
  start_and_join(2);
  pass(kJustBefore + kThen);
  paths[1]->answer_proof();
  ASSERT_FALSE(link->paths().is_proven(slot(1)));
  for (int i = 0; i < 4; ++i) send();
  EXPECT_EQ(paths[0]->count(FrameKind::numbered), 0u);
  EXPECT_EQ(paths[1]->count(FrameKind::numbered), 4u);
}

TEST_F(WayOut, APartnerThatAnswersAProofWithTheSessionsEndEndsIt) {
  start_and_join(1);
  pass(kJustBefore + kThen);
  paths[0]->answer_proof(AnswerKind::over);
  EXPECT_TRUE(link->is_ending());
  EXPECT_EQ(link->faults(), 0u);
}

TEST_F(WayOut, AnAnswerToAProofThatMakesNoSenseEndsTheSessionAndIsCounted) {
  start_and_join(1);
  pass(kJustBefore + kThen);
  paths[0]->end_proof(LinkAnswer{{}, 0});
  EXPECT_TRUE(link->is_ending());
  EXPECT_EQ(link->faults(), 1u);
}

TEST_F(WayOut, OfAPartnerThatKnowsNoNumbersNothingIsProven) {
  start(1);
  paths[0]->speaks = kSeveralPaths - 1;
  come_up(0);
  pass(5s);
  EXPECT_TRUE(paths[0]->sent.empty());
}

// ---- data is lost, and heartbeats are not ----

/// Two paths, by which heartbeats are answered, and a request is not.
struct WayOutThatLosesData : WayOut {
  static constexpr auto kLease = 1500ms;
  /// Of contact, and of what was granted on a clock that runs slow.
  static constexpr auto kRest = 2 * kLease * 120 / 100;

  void SetUp() override {
    start_and_join(2);
    send();
  }
  /// With the path that has it; another one takes its place.
  void lose_it() {
    const std::size_t path = paths[0]->count(FrameKind::numbered) != 0 ? 0 : 1;
    ASSERT_EQ(paths[path]->count(FrameKind::numbered), 1u);
    lose(path);
    if (!link->is_ending()) join(path);
  }
  void lose_it_for_good() {
    for (const auto time : {0ms, 1600ms, 1600ms}) {
      pass(time);
      lose_it();
    }
    ASSERT_TRUE(link->is_ending());
    for (std::size_t path : {0, 1}) {
      if (paths[path]->up) lose(path);
    }
  }
  /// So often that contact by heartbeats alone is worth nothing.
  void lose_all_for_good() {
    lose_it_for_good();
    for (int i = 0; i < 3; ++i) {
      pass(kRest);
      for (std::size_t path : {0, 1}) join(path);
      ASSERT_TRUE(link->is_up()) << i;
      send();
      lose_it_for_good();
    }
    ASSERT_EQ(mirror.ups, 4u);
  }
  void welcome(std::size_t path) { paths[path]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}}); }
};

TEST_F(WayOutThatLosesData, EndsTheSessionWhenARequestIsLostWithAThirdPathAndTwoLeasesAfterTheFirst) {
  lose_it_for_good();
  EXPECT_EQ(mirror.downs, 1u);
  EXPECT_EQ(failed, 1u);
  EXPECT_TRUE(link->loses_data());
  EXPECT_NE(link->problem().find("Data"), std::string::npos) << link->problem();
  EXPECT_EQ(link->faults(), 0u) << "the partner has done nothing wrong";
}

TEST_F(WayOutThatLosesData, GoesOnWhileTheLossesCameWithinTwoLeases) {
  for (const auto time : {0ms, 200ms, 200ms, 200ms, 200ms}) {
    pass(time);
    lose_it();
  }
  EXPECT_FALSE(link->is_ending());
  pass(kLease);
  lose_it();
  EXPECT_FALSE(link->is_ending());
}

TEST_F(WayOutThatLosesData, GoesOnWhenARequestIsLostTwiceHoweverLongAfterTheFirst) {
  lose_it();
  pass(20s);
  lose_it();
  EXPECT_FALSE(link->is_ending());
}

TEST_F(WayOutThatLosesData, CountsForARequestOnlyItsOwnLosses) {
  for (int i = 0; i < 5; ++i) {
    pass(1600ms);
    lose_it();
    const std::size_t path = paths[0]->count(FrameKind::numbered) != 0 ? 0 : 1;
    while (paths[path]->sent.front().frame().kind != FrameKind::numbered) paths[path]->sent.pop_front();
    paths[path]->answer_first(AnswerFrame{AnswerKind::answer, {static_cast<std::uint64_t>(i) + 1}});
    send();
  }
  EXPECT_FALSE(link->is_ending());
  EXPECT_EQ(done, 5u);
}

TEST_F(WayOutThatLosesData, WaitsLongerWhereTheLeaseIsLonger) {
  link->set_lease(3 * kLease);
  for (const auto time : {0ms, 1600ms, 1600ms, 1600ms}) {
    pass(time);
    lose_it();
  }
  EXPECT_FALSE(link->is_ending());
  pass(4500ms);
  lose_it();
  EXPECT_TRUE(link->is_ending());
}

TEST_F(WayOutThatLosesData, BeginsNoSessionBeforeContactHasRunOut) {
  lose_it_for_good();
  come_up(0);
  pass(kRest - 50ms);
  EXPECT_TRUE(paths[0]->sent.empty());
  pass(50ms);
  ASSERT_EQ(paths[0]->sent.size(), 1u);
  EXPECT_TRUE(is_join(paths[0]->sent.front().header));
}

TEST_F(WayOutThatLosesData, AfterManySuchEndsBeginsTheNextSessionWhenSomethingLargeHasComeThrough) {
  lose_all_for_good();
  pass(kRest);
  come_up(0);
  welcome(0);
  pass(100ms);
  EXPECT_EQ(mirror.ups, 4u) << "those of before";
  EXPECT_FALSE(link->is_up());
  EXPECT_NE(link->problem(), "");
  paths[0]->answer_proof();
  EXPECT_EQ(mirror.ups, 5u);
  EXPECT_TRUE(link->is_up());
  EXPECT_EQ(link->problem(), "");
  link->reset();
  lose(0);
  come_up(0);
  welcome(0);
  EXPECT_EQ(mirror.ups, 6u) << "the one after that begins as ever";
}

TEST_F(WayOutThatLosesData, CountsNoSuchEndsOfBeforeSomethingLargeCameThrough) {
  lose_it_for_good();
  for (int i = 0; i < 5; ++i) {
    pass(kRest);
    for (std::size_t path : {0, 1}) join(path);
    ASSERT_TRUE(link->is_up()) << i;
    pass(kJustBefore + kThen);
    paths[1]->answer_proof();
    send();
    lose_it_for_good();
  }
}

TEST_F(WayOutThatLosesData, LeavesThePathByWhichNothingLargeComesForAnother) {
  lose_all_for_good();
  pass(kRest);
  come_up(0);
  come_up(1);
  welcome(0);
  const unsigned before = paths[0]->resets;
  pass(1975ms);
  EXPECT_EQ(paths[0]->resets, before);
  pass(50ms);
  ASSERT_EQ(paths[0]->resets, before + 1);
  lose(0);
  ASSERT_EQ(paths[1]->sent.size(), 1u);
  welcome(1);
  paths[1]->answer_proof();
  EXPECT_EQ(mirror.ups, 5u);
}

TEST_F(WayOutThatLosesData, TakesTheWordThatTheSessionIsOverForNoProof) {
  lose_all_for_good();
  pass(kRest);
  come_up(0);
  welcome(0);
  const unsigned before = paths[0]->resets;
  paths[0]->answer_proof(AnswerKind::over);
  EXPECT_EQ(mirror.ups, 4u);
  EXPECT_EQ(paths[0]->resets, before + 1);
}

// ---- where each path that is stuck takes longer to come back than a session lasts without one ----

/// One path. Each session ends for want of it, with the request that the mirror sends anew in the next one.
struct WayOutThatLosesDataWithEachSession : WayOut {
  static constexpr auto kLease = 3000ms;
  /// The path is stuck, its transport gives it up, and it comes back after the session's end.
  static constexpr auto kEach = 2s;

  void SetUp() override {
    start(1);
    link->set_lease(kLease);
    join(0);
    send_some(kData);
  }
  void send_some(std::span<std::byte> data) {
    link->send(plain_frame(MessageType::copy), data, {}, [this](const auto& result) { ++(result ? done : failed); });
  }
  void lose_it() {
    lose(0);
    if (link->is_ending()) return;
    pass(350ms);
    ASSERT_FALSE(link->is_up()) << "no path was left";
  }
  void lose_it_and_go_on(const engine::Uuid& partner = kOurs) {
    pass(kEach - 350ms);
    lose_it();
    ASSERT_FALSE(link->loses_data());
    come_up(0);
    paths[0]->answer_first(JoinAnswer{JoinVerdict::welcome, partner, {}});
    ASSERT_TRUE(link->is_up());
    send_some(kData);
  }
  void answer_first_request(std::uint64_t number) {
    while (paths[0]->sent.front().frame().kind != FrameKind::numbered) paths[0]->sent.pop_front();
    paths[0]->answer_first(AnswerFrame{AnswerKind::answer, {number}});
  }
  void lose_it_for_good() {
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(lose_it_and_go_on()) << i;
    pass(kEach - 350ms);
    lose(0);
    pass(5ms);
  }

  std::vector<std::byte> kData = std::vector<std::byte>(std::size_t{256} << 10);
};

TEST_F(WayOutThatLosesDataWithEachSession, EndsContactWhenARequestWasLostInThreeOfThemForTwoLeases) {
  lose_it_for_good();
  EXPECT_TRUE(link->loses_data());
  EXPECT_NE(link->problem().find("Data"), std::string::npos) << link->problem();
  come_up(0);
  EXPECT_TRUE(paths[0]->sent.empty()) << "nothing is said before contact has run out";
}

TEST_F(WayOutThatLosesDataWithEachSession, GoesOnWhenAnythingAsLargeAsAProofCameThroughInBetween) {
  std::vector<std::byte> enough(PathsLink::kProof);
  for (int i = 0; i < 6; ++i) {
    send_some(enough);
    answer_first_request(1);
    answer_first_request(2);
    send_some(kData);
    ASSERT_NO_FATAL_FAILURE(lose_it_and_go_on()) << i;
  }
}

TEST_F(WayOutThatLosesDataWithEachSession, GoesOnWhenTheProofCameThroughInBetween) {
  for (int i = 0; i < 6; ++i) {
    pass(1050ms);
    paths[0]->answer_proof();
    ASSERT_NO_FATAL_FAILURE(lose_it_and_go_on()) << i;
  }
}

TEST_F(WayOutThatLosesDataWithEachSession, CountsOnWhenOnlyWhatIsSmallCameThrough) {
  std::vector<std::byte> small(512);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(lose_it_and_go_on()) << i;
    send_some(small);
    std::swap(paths[0]->sent[0], paths[0]->sent[1]);
    answer_first_request(1);
  }
  pass(kEach - 350ms);
  lose(0);
  pass(5ms);
  EXPECT_TRUE(link->loses_data());
}

TEST_F(WayOutThatLosesDataWithEachSession, CountsForAPartnersProcessAlone) {
  for (std::uint8_t i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(lose_it_and_go_on(process(201 + i))) << int{i};
}

TEST_F(WayOutThatLosesDataWithEachSession, CountsAnewAfterContactWasEnded) {
  lose_it_for_good();
  pass(2 * kLease * 120 / 100);
  join(0);
  ASSERT_TRUE(link->is_up());
  send_some(kData);
  pass(kEach);
  lose(0);
  EXPECT_FALSE(link->is_ending());
}

}  // namespace
}  // namespace lockstep::replication
