// The sessions of several shards' initiators are closed when every shard is ready, and the fence's orders of several
// shards are carried out one after the other.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mgmt/data_plane/fence_orders.hpp"
#include "mgmt/data_plane/session_fence.hpp"

namespace lockstep::data_plane {
namespace {

struct Sessions : testing::Test {
  std::vector<unsigned> joined, told;
  std::vector<engine::Callback<>> closings;
  SessionFence fence{{.join = [this](unsigned shard) { joined.push_back(shard); },
                      .close = [this](engine::Callback<> closed) { closings.push_back(std::move(closed)); }}};

  Sessions() {
    for (int i = 0; i < 3; ++i) fence.add_shard();
  }
  void ready(unsigned shard) {
    fence.ready(shard, [this, shard] { told.push_back(shard); });
  }
  using Shards = std::vector<unsigned>;
};

TEST_F(Sessions, AreClosedWhenEveryShardIsReady) {
  fence.begin();
  EXPECT_EQ(joined, (Shards{0, 1, 2}));
  ready(1);
  ready(0);
  EXPECT_TRUE(closings.empty()) << "what came for a volume of the third may still be started";
  ready(2);
  ASSERT_EQ(closings.size(), 1U);
  EXPECT_TRUE(told.empty());
  closings[0]();
  EXPECT_EQ(told, (Shards{0, 1, 2}));
}

TEST_F(Sessions, AreClosedOnceForShardsThatBeginTogether) {
  fence.begin();
  fence.begin();
  EXPECT_EQ(joined.size(), 3U);
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  fence.begin();  // of a shard that is ready: it begins anew when it has heard that they are closed
  EXPECT_EQ(joined.size(), 3U);
  EXPECT_EQ(closings.size(), 1U);
}

TEST_F(Sessions, AreClosedAgainForAShardThatBeginsAfterwards) {
  fence.begin();
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  closings[0]();
  fence.begin();
  EXPECT_EQ(joined, (Shards{0, 1, 2, 0, 1, 2}));
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  EXPECT_EQ(closings.size(), 2U);
}

/// As the home reactor's own, which hears of it, begins anew and is ready in one call.
TEST_F(Sessions, AreClosedAgainForAShardThatBeginsWhenItHears) {
  fence.begin();
  fence.ready(0, [this] {
    told.push_back(0);
    fence.begin();
    ready(0);
  });
  ready(1);
  ready(2);
  closings[0]();
  EXPECT_EQ(told, (Shards{0, 1, 2})) << "every shard has heard of it, then they are asked";
  EXPECT_EQ(joined, (Shards{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(closings.size(), 1U);
  ready(1);
  ready(2);
  EXPECT_EQ(closings.size(), 2U);
}

TEST_F(Sessions, AreNotWaitedForByAShardThatIsMadeWhileTheyAreClosed) {
  fence.begin();
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  fence.add_shard();
  EXPECT_EQ(joined.size(), 3U);
  closings[0]();
  fence.begin();
  EXPECT_EQ(joined.size(), 7U);
}

TEST_F(Sessions, WaitForAShardThatIsMadeMeanwhile) {
  fence.begin();
  fence.add_shard();
  EXPECT_EQ(joined, (Shards{0, 1, 2, 3}));
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  EXPECT_TRUE(closings.empty());
  ready(3);
  EXPECT_EQ(closings.size(), 1U);
}

struct Hours final : engine::Clock {
  engine::TimePoint at{std::chrono::hours(1)};
  [[nodiscard]] engine::TimePoint now() const override { return at; }
  engine::TimerId call_after(engine::Duration, engine::Callback<>) override { return {}; }
  void cancel(engine::TimerId) override {}
};

struct Orders : testing::Test, replication::Fence {
  Hours clock;
  std::vector<std::string> heard;
  std::vector<engine::TimePoint> began;  ///< of the commands that they heard of
  std::optional<engine::Callback<const replication::FenceEnd&>> running;
  bool in_use = true;
  int begun = 0, stopped = 0;
  FenceOrders orders{clock, *this};

  [[nodiscard]] bool configured() const override { return in_use; }
  void power_off(engine::TimePoint, engine::Callback<const replication::FenceEnd&> done) override {
    EXPECT_FALSE(running) << "two at a time";
    ++begun;
    running = std::move(done);
  }
  void stop() override {
    ++stopped;
    running.reset();
  }
  void order(unsigned shard, engine::TimePoint since) {
    orders.power_off(shard, since, [this, shard](const replication::FenceEnd& how) {
      heard.push_back(std::to_string(shard) + how.problem);
      began.push_back(how.began.value_or(engine::TimePoint()));
    });
  }
  /// It wants to know of now.
  void order(unsigned shard) { order(shard, clock.at); }
  void later() { clock.at = clock.at + std::chrono::seconds(1); }
  void ends(const std::string& why) {
    auto done = std::move(*running);
    running.reset();
    done({why, clock.at});
  }
  using Words = std::vector<std::string>;
};

TEST_F(Orders, AreAnsweredByACommandThatBeganAfterThem) {
  order(0);
  later();
  order(1);
  order(2);
  EXPECT_EQ(begun, 1);
  ends("");
  EXPECT_EQ(heard, Words{"0"}) << "the partner may have been off before the others were ordered";
  EXPECT_EQ(begun, 2);
  ends(" failed");
  EXPECT_EQ(heard, (Words{"0", "1 failed", "2 failed"}));
  EXPECT_EQ(begun, 2);
}

TEST_F(Orders, AreAnsweredByOneThatRunsWhereItBeganAfterWhatTheyAskAbout) {
  order(0);
  later();
  const engine::TimePoint lost = clock.at;
  order(1);
  later();
  ends("");
  EXPECT_EQ(begun, 2);
  later();
  order(0, lost);  // another volume of the first shard, which had to wait for the first command
  ends("");
  EXPECT_EQ(heard, (Words{"0", "0", "1"}));
  EXPECT_EQ(begun, 2);
}

TEST_F(Orders, AreCalledOffWhenNobodyWantsThemAnyMore) {
  order(0);
  later();
  order(1);
  orders.stop(1);
  EXPECT_EQ(stopped, 0) << "the first still wants it";
  orders.stop(0);
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(begun, 1);
  EXPECT_TRUE(heard.empty());
}

TEST_F(Orders, OfAnotherShardWaitForACommandThatNobodyWantsAnyMore) {
  order(0);
  later();
  order(1);
  orders.stop(0);
  EXPECT_EQ(stopped, 0) << "two agents at one device get into one another's way";
  ends("");
  EXPECT_TRUE(heard.empty());
  EXPECT_EQ(begun, 2);
  ends("");
  EXPECT_EQ(heard, Words{"1"});
}

TEST_F(Orders, EndWhenTheFenceIsPutOutOfUse) {
  order(0);
  later();
  order(1);
  in_use = false;
  orders.end_all();
  EXPECT_EQ(heard, (Words{"0The fence is not in use any more.", "1The fence is not in use any more."}));
  order(2);
  EXPECT_EQ(begun, 1) << "nobody is powered off by what comes late";
  EXPECT_EQ(heard.back(), "2The fence is not in use any more.");
}

struct AskedSince final : replication::Fence {
  std::vector<engine::TimePoint> asked;
  [[nodiscard]] bool configured() const override { return true; }
  void power_off(engine::TimePoint since, engine::Callback<const replication::FenceEnd&>) override {
    asked.push_back(since);
  }
  void stop() override {}
};

TEST(AFencing, AsksForACommandThatBeganSinceThePartnerWasHeardOf) {
  Hours clock;
  AskedSince fence;
  replication::Fencing fencing(clock, fence, std::chrono::seconds(1));
  const engine::TimePoint lost = clock.at;
  EXPECT_FALSE(fencing.is_off(lost));
  clock.at = clock.at + std::chrono::seconds(1);
  fencing.on_contact();
  const engine::TimePoint heard = clock.at;
  clock.at = clock.at + std::chrono::seconds(1);
  EXPECT_FALSE(fencing.is_off(lost)) << "of a volume that is in the same epoch still";
  EXPECT_EQ(fence.asked, (std::vector{lost, heard}));
}

TEST_F(Sessions, OfAShardThatIsReadyWhileTheyAreClosedAreClosedAgain) {
  fence.begin();
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  fence.add_shard();
  fence.begin();
  ready(3);
  EXPECT_FALSE(fence.is_idle());
  closings[0]();
  EXPECT_EQ(told, (Shards{0, 1, 2})) << "it took no part in that";
  for (const unsigned shard : {0U, 1U, 2U}) ready(shard);
  closings[1]();
  EXPECT_EQ(told, (Shards{0, 1, 2, 0, 1, 2, 3}));
  EXPECT_TRUE(fence.is_idle());
}

}  // namespace
}  // namespace lockstep::data_plane
