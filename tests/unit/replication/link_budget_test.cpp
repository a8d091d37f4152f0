// What a node has on its way to the partner: bounded in all, and no volume takes all of it.
#include "replication/core/link_budget.hpp"

#include <deque>

#include <gtest/gtest.h>

#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace lockstep::replication {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Budget : public testing::Test {
 protected:
  struct Volume {
    Volume(LinkBudget& budget, std::uint64_t b) : share(budget, [this] { push(); }), bytes(b) {}
    void push() {
      ++turns;
      while (waiting > 0 && share.ready()) send();
    }
    void send() {
      --waiting, ++under_way;
      share.take(bytes);
    }
    void answer() {
      --under_way;
      share.give_back(bytes);
    }
    LinkShare share;
    std::uint64_t bytes;
    int waiting = 0, under_way = 0, turns = 0;
  };
  Volume& volume(std::uint64_t bytes, int waiting) {
    Volume& v = volumes.emplace_back(budget, bytes);
    v.waiting = waiting;
    v.push();
    return v;
  }
  void pass() { clock.advance(std::chrono::milliseconds(1)); }

  test::FakeClock clock;
  LinkBudget budget{clock, {8 * kMiB, 100}};
  std::deque<Volume> volumes;
};

TEST_F(Budget, OneVolumeHasThreeQuartersOfItAlone) {
  const Volume& small = volume(4096, 1000);
  EXPECT_EQ(small.under_way, 75);
}

TEST_F(Budget, OneVolumeHasThreeQuartersOfTheBytesAlone) {
  const Volume& large = volume(kMiB, 1000);
  EXPECT_EQ(large.under_way, 6);
}

TEST_F(Budget, EachVolumeThatStandsStillLeavesAQuarterForTheNext) {
  volume(4096, 1000);
  EXPECT_EQ(volume(4096, 1000).under_way, 19);
  EXPECT_EQ(volume(4096, 1000).under_way, 5);
  EXPECT_EQ(volume(4096, 1000).under_way, 1);
  EXPECT_EQ(budget.taken().requests, 100u);
  EXPECT_EQ(volume(4096, 1000).under_way, 0);
}

TEST_F(Budget, OneOperationMayEndAboveTheLimitSoThatALargeOneHasItsTurn) {
  volume(kMiB, 1000);          // 6 MiB
  volume(kMiB * 3 / 4, 1000);  // 1.5 MiB
  volume(kMiB, 1);             // begun with half a MiB left
  EXPECT_GT(budget.taken().bytes, 8 * kMiB);
  EXPECT_LT(budget.taken().bytes, 9 * kMiB);
  Volume& none = volume(512, 1);
  EXPECT_EQ(none.under_way, 0);
  volumes[0].answer();
  pass();
  EXPECT_EQ(none.under_way, 1);
}

TEST_F(Budget, AnOperationThatIsLargerThanAllOfItIsSentAlone) {
  const Volume& huge = volume(100 * kMiB, 3);
  EXPECT_EQ(huge.under_way, 1);
}

TEST_F(Budget, AnAnswerGivesTheNextItsTurnLaterAndInOrder) {
  Volume& first = volume(4096, 1000);
  for (int i = 0; i < 4; ++i) volume(4096, 1000);  // the last one has nothing
  Volume& last = volumes.back();
  ASSERT_EQ(last.under_way, 0);
  for (int i = 0; i < 40; ++i) first.answer();
  EXPECT_EQ(last.under_way, 0) << "never from inside the answer";
  const int before = last.turns;
  pass();
  EXPECT_GT(last.under_way, 0);
  EXPECT_EQ(last.turns, before + 1);
  EXPECT_LE(budget.taken().requests, 100u);
}

TEST_F(Budget, EverythingIsSentInTheEnd) {
  for (int i = 0; i < 20; ++i) volume((i % 3 + 1) * kMiB / 2, 50);
  const auto left = [&] {
    int n = 0;
    for (const Volume& v : volumes) n += v.waiting + v.under_way;
    return n;
  };
  for (int rounds = 0; left() > 0 && rounds < 10'000; ++rounds) {
    for (Volume& v : volumes) {
      if (v.under_way == 0) continue;
      v.answer();
      break;
    }
    EXPECT_LE(budget.taken().bytes, 8 * kMiB + 2 * kMiB);
    pass();
  }
  EXPECT_EQ(left(), 0);
  EXPECT_EQ(budget.taken().bytes, 0u);
  EXPECT_EQ(budget.taken().requests, 0u);
}

TEST_F(Budget, AVolumeThatEndsGivesBackWhatItHad) {
  volume(4096, 1000);
  volume(4096, 1000);
  Volume& waits = volume(4096, 1000);
  ASSERT_EQ(waits.under_way, 5);
  volumes.pop_front();
  pass();
  EXPECT_GT(waits.under_way, 15);
  EXPECT_GT(budget.taken().requests, 75u);
}

}  // namespace
}  // namespace lockstep::replication
