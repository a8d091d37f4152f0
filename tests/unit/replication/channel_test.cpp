// Numbered requests: in order and once, whatever path they take and whichever dies.
#include <algorithm>
#include <random>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tests/unit/replication/channel_world.hpp"

namespace lockstep::replication {
namespace {

using test::ChannelWorld;
constexpr PathSlot kP0{0}, kP1{1};

RequestHandle handle(unsigned n) { return static_cast<RequestHandle>(n); }

ChannelReceiver::Arrival come(ChannelReceiver& receiver, std::uint64_t number, std::uint64_t acknowledged = 0) {
  auto arrival = receiver.arrived({number}, {acknowledged}, handle(static_cast<unsigned>(number)));
  EXPECT_TRUE(arrival) << (arrival ? "" : arrival.error().message);
  return arrival ? *arrival : ChannelReceiver::Arrival{ChannelReceiver::Stale{}};
}

template <class T>
bool is(const ChannelReceiver::Arrival& arrival) {
  return std::holds_alternative<T>(arrival);
}

TEST(ChannelReceiver, DeliversInOrderOfNumberWhateverCameFirst) {
  ChannelReceiver receiver(8);
  EXPECT_TRUE(is<ChannelReceiver::NewRequest>(come(receiver, 2)));
  EXPECT_FALSE(receiver.next_to_deliver());
  EXPECT_TRUE(is<ChannelReceiver::NewRequest>(come(receiver, 1)));
  EXPECT_EQ(receiver.next_to_deliver(), handle(1));
  EXPECT_EQ(receiver.next_to_deliver(), handle(2));
  EXPECT_FALSE(receiver.next_to_deliver());
}

TEST(ChannelReceiver, ASecondCopyWaitsWithTheFirstAndIsGivenTheSameAnswerUntilItIsAcknowledged) {
  ChannelReceiver receiver(8);
  come(receiver, 1);
  EXPECT_TRUE(is<ChannelReceiver::UnderWay>(come(receiver, 1))) << "it waits for its turn";
  ASSERT_TRUE(receiver.next_to_deliver());
  EXPECT_TRUE(is<ChannelReceiver::UnderWay>(come(receiver, 1))) << "it waits for its answer";
  const AnswerNumber answer = receiver.answered({1});
  const auto again = come(receiver, 1);
  ASSERT_TRUE(is<ChannelReceiver::Answered>(again));
  EXPECT_EQ(std::get<ChannelReceiver::Answered>(again).answer, answer);
  EXPECT_FALSE(receiver.next_released());
  ASSERT_TRUE(receiver.acknowledge(answer));
  EXPECT_EQ(receiver.next_released(), handle(1));
  EXPECT_TRUE(is<ChannelReceiver::Stale>(come(receiver, 1)));
  EXPECT_FALSE(receiver.next_to_deliver()) << "it is not delivered again";
}

TEST(ChannelReceiver, ARequestThatIsNotAnsweredHoldsUpNoAcknowledgementOfLaterOnes) {
  ChannelReceiver receiver(4);
  come(receiver, 1);
  ASSERT_TRUE(receiver.next_to_deliver());
  for (std::uint64_t n = 2; n < 1000; ++n) {
    come(receiver, n, n - 2);
    ASSERT_TRUE(receiver.next_to_deliver());
    ASSERT_EQ(receiver.answered({n}).value, n - 1);
    ASSERT_LE(receiver.size(), 3u);
  }
}

TEST(ChannelReceiver, RefusesWhatNoSenderSays) {
  ChannelReceiver receiver(4);
  EXPECT_FALSE(receiver.arrived({0}, {0}, handle(0))) << "no number";
  EXPECT_FALSE(receiver.arrived({5}, {0}, handle(5))) << "beyond the window";
  EXPECT_FALSE(receiver.arrived({1}, {1}, handle(1))) << "acknowledges what was not given";
  EXPECT_FALSE(receiver.arrived({~std::uint64_t{0}}, {0}, handle(1)));
  EXPECT_FALSE(receiver.arrived({1}, {~std::uint64_t{0}}, handle(1)));
  EXPECT_FALSE(receiver.acknowledge({1}));
  EXPECT_EQ(receiver.size(), 0u);
}

TEST(ChannelReceiver, KeepsNoMoreThanItsWindowWhateverNumbersCome) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    ChannelReceiver receiver(8);
    std::vector<std::uint64_t> open;
    std::uint64_t delivered = 0, given = 0;
    for (int i = 0; i < 2000; ++i) {
      (void)receiver.arrived({random() % (given + 12)}, {random() % (given + 2)}, handle(0));
      while (receiver.next_to_deliver()) open.push_back(++delivered);
      while (receiver.next_released()) {
      }
      if (!open.empty() && random() % 2) {
        const auto at = open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
        (void)receiver.answered({*at});
        open.erase(at);
        ++given;
      }
      ASSERT_LE(receiver.size(), 8u);
    }
  }
}

TEST(ChannelSender, ARequestIsInHandAgainOnlyWhenItsPathIsDestroyed) {
  ChannelSender sender(8, Copies::one);
  const RequestNumber one = sender.take_number(), two = sender.take_number();
  EXPECT_EQ(sender.in_hand(), one);
  sender.sent(one, kP0);
  sender.sent(two, kP1);
  EXPECT_FALSE(sender.in_hand());
  sender.copy_destroyed(one, kP0);
  EXPECT_EQ(sender.in_hand(), one);
  EXPECT_FALSE(sender.in_hand(one)) << "the other one is on a path that lives";
  sender.sent(one, kP1);
  EXPECT_FALSE(sender.in_hand());
}

TEST(ChannelSender, AcknowledgesUpToTheFirstAnswerThatIsMissing) {
  ChannelSender sender(8, Copies::one);
  for (int i = 0; i < 3; ++i) sender.sent(sender.take_number(), kP0);
  ASSERT_EQ(sender.answered({3}, kP0, {1}), ChannelSender::Answer::first);
  EXPECT_EQ(sender.acknowledged().value, 1u);
  ASSERT_EQ(sender.answered({1}, kP0, {3}), ChannelSender::Answer::first);
  EXPECT_EQ(sender.acknowledged().value, 1u);
  ASSERT_EQ(sender.answered({2}, kP0, {2}), ChannelSender::Answer::first);
  EXPECT_EQ(sender.acknowledged().value, 3u);
}

TEST(ChannelSender, TheWindowCountsWhatIsNotAcknowledgedAndOneThatHangsTakesOnePlace) {
  ChannelSender sender(4, Copies::one);
  sender.sent(sender.take_number(), kP0);
  for (std::uint64_t n = 2; n < 1000; ++n) {
    ASSERT_TRUE(sender.has_room());
    sender.sent(sender.take_number(), kP0);
    ASSERT_TRUE(sender.answered({n}, kP0, {n - 1}));
  }
  for (int i = 0; i < 3; ++i) (void)sender.take_number();
  EXPECT_FALSE(sender.has_room());
}

TEST(ChannelSender, RefusesWhatNoReceiverSays) {
  ChannelSender sender(8, Copies::one);
  for (int i = 0; i < 4; ++i) sender.sent(sender.take_number(), kP0);
  EXPECT_FALSE(sender.answered({1}, kP0, {0})) << "it waits for that answer";
  EXPECT_FALSE(sender.answered({1}, kP0, {5})) << "more answers than requests";
  EXPECT_FALSE(sender.answered({1}, kP0, {~std::uint64_t{0}}));
  ASSERT_TRUE(sender.answered({1}, kP0, {1}));
  ASSERT_TRUE(sender.answered({2}, kP0, {3}));
  EXPECT_FALSE(sender.answered({3}, kP0, {1})) << "a number twice, acknowledged";
  EXPECT_FALSE(sender.answered({3}, kP0, {3})) << "… and not";
  EXPECT_TRUE(sender.answered({3}, kP0, {2}));
}

TEST(ChannelSender, OfCopiesOnEveryPathTheFirstAnswerCounts) {
  ChannelSender sender(8, Copies::every_path);
  const RequestNumber one = sender.take_number();
  sender.sent(one, kP0);
  sender.sent(one, kP1);
  EXPECT_EQ(sender.answered(one, kP1, {1}), ChannelSender::Answer::first);
  EXPECT_EQ(sender.answered(one, kP0, {1}), ChannelSender::Answer::again);
  const RequestNumber two = sender.take_number();
  sender.sent(two, kP0);
  sender.sent(two, kP1);
  sender.copy_destroyed(two, kP0);
  EXPECT_FALSE(sender.in_hand()) << "the other copy is still out";
  sender.copy_destroyed(two, kP1);
  EXPECT_EQ(sender.in_hand(), two);
}

/// Every world that can come about, each once.
struct Explorer {
  std::unordered_set<std::string> seen;
  std::size_t ends = 0;
  std::string problem;

  void explore(const ChannelWorld& world) {
    if (!problem.empty() || !seen.insert(world.text()).second) return;
    bool goes_on = false;
    for (const auto action : world.actions()) {
      ChannelWorld next(world);
      next.take(action);
      if (!next.problem.empty()) problem = next.problem;
      goes_on |= action.step != ChannelWorld::Step::die && action.step != ChannelWorld::Step::arrive_late;
      explore(next);
      if (!problem.empty()) return;
    }
    if (goes_on) return;
    ++ends;
    if (!world.complete()) problem = "nothing more happens, and not all is answered";
  }
};

TEST(Channel, EveryOrderOfArrivalOverTwoPathsOfWhichTwoDieDeliversOnceAndInOrder) {
  Explorer explorer;
  explorer.explore(ChannelWorld({.paths = 2, .window = 3, .requests = 3, .deaths = 2}));
  EXPECT_EQ(explorer.problem, "");
  EXPECT_GT(explorer.seen.size(), 10'000u);
  EXPECT_GT(explorer.ends, 10u);
}

TEST(Channel, ANarrowWindowIsNeverLeftWithAnythingUnanswered) {
  Explorer explorer;
  explorer.explore(ChannelWorld({.paths = 2, .window = 2, .requests = 4, .deaths = 1}));
  EXPECT_EQ(explorer.problem, "");
}

TEST(Channel, CopiesOnBothPathsAreDeliveredOnce) {
  Explorer explorer;
  explorer.explore(ChannelWorld({.paths = 2, .window = 2, .requests = 2, .deaths = 2, .copies = Copies::every_path}));
  EXPECT_EQ(explorer.problem, "");
  EXPECT_GT(explorer.ends, 1u);
}

TEST(Channel, AgreesWithAPlainListThroughRandomUse) {
  for (const Copies copies : {Copies::one, Copies::every_path}) {
    for (unsigned seed = 1; seed <= 300; ++seed) {
      std::mt19937_64 random(seed);
      ChannelWorld world(
          {.paths = 1 + seed % 4, .window = 1 + seed % 9, .requests = 200, .deaths = 40, .copies = copies});
      while (true) {
        auto actions = world.actions();
        if (actions.empty()) break;
        world.take(actions[random() % actions.size()]);
        ASSERT_EQ(world.problem, "") << seed;
      }
      ASSERT_TRUE(world.complete()) << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep::replication
