// How long a line is waited for, from what it took.
#include "replication/arbiter/line_estimate.hpp"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;

LineEstimate after(std::initializer_list<engine::Duration> answers) {
  LineEstimate line;
  for (const auto took : answers) line.on_answer(took, {});
  return line;
}

TEST(LineEstimate, ThatKnowsNothingIsAsPatientAsWithANearWitness) {
  const LineEstimate line;
  EXPECT_EQ(line.round_trip(), 0s);
  EXPECT_EQ(line.patience(), 500ms);
  EXPECT_EQ(line.limit(), 2s);
}

TEST(LineEstimate, OfAFastLineIsNotLessPatientThanABusyWitnessNeeds) {
  const LineEstimate line = after({2ms, 3ms, 2ms});
  EXPECT_EQ(line.round_trip(), 2ms);
  EXPECT_EQ(line.patience(), 500ms);
  EXPECT_EQ(line.limit(), 2s);
  EXPECT_FALSE(line.is_slow());
}

TEST(LineEstimate, OfASlowLineFollowsTheRoundTripAndLeavesRoomForLostPackets) {
  const LineEstimate line = after({3s, 3s, 9600ms, 3s});
  EXPECT_EQ(line.round_trip(), 3s) << "a packet that was lost is no longer line";
  EXPECT_EQ(line.patience(), 3750ms);
  EXPECT_EQ(line.limit(), 30s);
  EXPECT_TRUE(line.is_slow());
}

TEST(LineEstimate, KnowsWhatTheLineTakesAtLeastEvenWhileMostPacketsAreLost) {
  EXPECT_EQ(LineEstimate{}.fastest(), 0s);
  EXPECT_EQ(after({9600ms, 6300ms, 3s, 9600ms}).fastest(), 3s);
}

TEST(LineEstimate, GrowsPatientWithSilenceUpToABound) {
  LineEstimate unknown;
  unknown.on_silence();
  EXPECT_EQ(unknown.patience(), 500ms) << "a packet may be lost";
  unknown.on_silence();
  EXPECT_EQ(unknown.patience(), 1s);
  for (int i = 0; i < 10; ++i) unknown.on_silence();
  EXPECT_EQ(unknown.patience(), 4s);
  EXPECT_EQ(unknown.limit(), 12s);
  LineEstimate slow = after({3s});
  for (int i = 0; i < 10; ++i) slow.on_silence();
  EXPECT_EQ(slow.patience(), LineEstimate::kMostPatience);
  EXPECT_EQ(slow.limit(), 45s);
  LineEstimate fast = after({2ms});
  for (int i = 0; i < 10; ++i) fast.on_silence();
  EXPECT_EQ(fast.patience(), 2s) << "one that returns is found within seconds";
  fast.on_answer(2ms, {});
  EXPECT_EQ(fast.patience(), 500ms);
}

TEST(LineEstimate, OfALineAtTheBorderDoesNotFlap) {
  LineEstimate line;
  for (int i = 0; i < 40; ++i) line.on_answer(i % 2 == 0 ? 490ms : 480ms, {});
  EXPECT_FALSE(line.is_slow());
  for (int i = 0; i < 16; ++i) line.on_answer(510ms, {});
  EXPECT_TRUE(line.is_slow());
  for (int i = 0; i < 40; ++i) {
    line.on_answer(i % 2 == 0 ? 490ms : 260ms, {});
    EXPECT_TRUE(line.is_slow());
  }
  for (int i = 0; i < 16; ++i) line.on_answer(100ms, {});
  EXPECT_FALSE(line.is_slow());
}

TEST(LineEstimate, OfAWitnessThatHasMuchToDoIsSlowAndNotFar) {
  LineEstimate line;
  engine::TimePoint now{};
  for (int i = 0; i < 16; ++i) line.on_answer(3ms, now);
  for (int i = 0; i < 100; ++i) line.on_answer(2s, now = now + 1s);
  EXPECT_TRUE(line.is_slow());
  EXPECT_FALSE(line.is_far()) << "what is sent twice would only be more to do";
  EXPECT_EQ(line.patience(), 2500ms);
  for (int i = 0; i < 400; ++i) line.on_answer(3s, now = now + 1s);
  EXPECT_TRUE(line.is_far()) << "by now it is the line";
  line.on_answer(3ms, now);
  EXPECT_FALSE(line.is_far());
  EXPECT_TRUE(after({3s}).is_far());
  EXPECT_FALSE(LineEstimate().is_far());
}

/// All that it serves began at once, and it never answered fast.
TEST(LineEstimate, OfAWitnessThatHadMuchToDoFromTheFirstAnswerOnIsNotFar) {
  EXPECT_FALSE(after({600ms, 1500ms, 2s, 2500ms}).is_far());
  EXPECT_FALSE(after({20s, 20s, 20s}).is_far());
  EXPECT_TRUE(after({3s, 9600ms, 6600ms, 3s, 6600ms, 3s}).is_far()) << "packets are lost";
}

TEST(LineEstimate, ForgetsWhatWasLongAgo) {
  LineEstimate line = after({3s, 3s, 3s});
  for (int i = 0; i < 16; ++i) line.on_answer(1ms, {});
  EXPECT_EQ(line.round_trip(), 1ms);
}

}  // namespace
}  // namespace lockstep::replication
