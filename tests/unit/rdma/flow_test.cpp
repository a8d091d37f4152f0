#include "engine/rdma/real/flow.hpp"

#include <deque>
#include <random>

#include <gtest/gtest.h>

namespace lockstep::rdma {
namespace {

TEST(SendFlow, AsksForACompletionOfWhatHasAnIdAndOfEveryRead) {
  SendFlow flow(64, 4);
  EXPECT_TRUE(flow.post(Work::send, 7).signalled);
  EXPECT_TRUE(flow.post(Work::write, 8).signalled);
  EXPECT_TRUE(flow.post(Work::read, 9).signalled);
  EXPECT_FALSE(flow.post(Work::send, 0).signalled);
  EXPECT_EQ(flow.awaited(), 3u);
}

TEST(SendFlow, AsksForEverySixteenthOfWhatNobodyIsTold) {
  SendFlow flow(1024, 0);
  for (int i = 1; i <= 160; ++i) EXPECT_EQ(flow.post(Work::send, 0).signalled, i % 16 == 0) << i;
}

TEST(SendFlow, CountsTheSixteenFromTheLastThatAsked) {
  SendFlow flow(1024, 0);
  for (int i = 0; i < 10; ++i) (void)flow.post(Work::write, 0);
  EXPECT_TRUE(flow.post(Work::send, 1).signalled);
  for (int i = 1; i <= 15; ++i) EXPECT_FALSE(flow.post(Work::send, 0).signalled);
  EXPECT_TRUE(flow.post(Work::send, 0).signalled);
}

TEST(SendFlow, AsksForTheOneThatFillsTheQueueSoThatThereIsRoomAgain) {
  SendFlow flow(5, 0);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(flow.post(Work::send, 0).signalled);
  const auto last = flow.post(Work::send, 0);
  EXPECT_TRUE(last.signalled);
  EXPECT_FALSE(flow.may_post(Work::send));
  ASSERT_TRUE(flow.complete(last.sequence));
  EXPECT_EQ(flow.count(), 0u);
  EXPECT_TRUE(flow.may_post(Work::send));
}

TEST(SendFlow, OneCompletionEndsAllBeforeIt) {
  SendFlow flow(64, 0);
  for (int i = 0; i < 9; ++i) (void)flow.post(Work::write, 0);
  const auto asked = flow.post(Work::send, 42);
  (void)flow.post(Work::send, 0);
  const auto entry = flow.complete(asked.sequence);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->id, 42u);
  EXPECT_EQ(entry->work, Work::send);
  EXPECT_EQ(flow.count(), 1u);
  EXPECT_EQ(flow.awaited(), 0u);
}

TEST(SendFlow, ReadsBeyondThoseGrantedHaveNoPlaceWhileSendsHave) {
  SendFlow flow(64, 2);
  const auto first = flow.post(Work::read, 1);
  (void)flow.post(Work::read, 2);
  EXPECT_FALSE(flow.may_post(Work::read));
  EXPECT_TRUE(flow.may_post(Work::send));
  EXPECT_TRUE(flow.may_post(Work::write));
  (void)flow.complete(first.sequence);
  EXPECT_TRUE(flow.may_post(Work::read));
}

TEST(SendFlow, WhereNoReadIsGrantedNoneHasAPlace) {
  SendFlow flow(64, 0);
  EXPECT_FALSE(flow.may_post(Work::read));
}

TEST(SendFlow, ACompletionOfWhatIsNotInTheQueueSaysNothing) {
  SendFlow flow(64, 0);
  EXPECT_FALSE(flow.complete(0));
  const auto posted = flow.post(Work::send, 1);
  EXPECT_TRUE(flow.complete(posted.sequence));
  EXPECT_FALSE(flow.complete(posted.sequence));
  EXPECT_FALSE(flow.complete(posted.sequence + 1));
}

// What a device does: completes in order, tells only of what asked, and at the end gives back what is left one by one.
TEST(SendFlow, TellsEachIdOnceInOrderWhateverIsPostedAndHoweverLateItCompletes) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    SendFlow flow(1 + random() % 40, 1 + random() % 4);
    std::deque<std::pair<SendFlow::Posted, std::uint64_t>> device;
    std::deque<std::uint64_t> expected;
    std::uint64_t next = 1;
    for (int step = 0; step < 2000; ++step) {
      const Work work = std::array{Work::send, Work::write, Work::read}[random() % 3];
      if (random() % 2 == 0 && flow.may_post(work)) {
        const std::uint64_t id = work == Work::read || random() % 3 == 0 ? next++ : 0;
        device.emplace_back(flow.post(work, id), id);
        if (id != 0) expected.push_back(id);
      }
      if (random() % 2 == 0 && !device.empty()) {
        const auto [posted, id] = device.front();
        device.pop_front();
        if (!posted.signalled) continue;
        const auto entry = flow.complete(posted.sequence);
        ASSERT_TRUE(entry);
        ASSERT_EQ(entry->id, id);
        if (id != 0) {
          ASSERT_EQ(expected.front(), id);
          expected.pop_front();
        }
      }
    }
    for (const auto& [posted, id] : device) {
      const auto entry = flow.complete(posted.sequence);
      ASSERT_TRUE(entry);
      ASSERT_EQ(entry->id, id);
      if (id != 0) expected.pop_front();
    }
    EXPECT_TRUE(expected.empty());
    EXPECT_EQ(flow.awaited(), 0u);  // those that asked for nothing and were carried out are known of by none
  }
}

TEST(ReceiveFlow, GivesIdsBackInTheOrderOfTheirPostsAndHoldsNoMoreThanWereGranted) {
  ReceiveFlow flow(3);
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) flow.post(round * 3 + i);
    EXPECT_FALSE(flow.may_post());
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(flow.complete(), round * 3 + i);
    EXPECT_EQ(flow.complete(), std::nullopt);
  }
}

TEST(WorkTag, ComesBackAsItWasGiven) {
  for (const WorkTag tag : {WorkTag{}, WorkTag{0xffff, 0xffff, true, 0x7fff'ffff}, WorkTag{3, 9, false, 77},
                            WorkTag{0, 1, true, 0}, WorkTag{1, 0, false, 0x7fff'ffff}}) {
    EXPECT_EQ(WorkTag::unpack(tag.pack()), tag);
  }
}

}  // namespace
}  // namespace lockstep::rdma
