#include "engine/runtime/lone_events.hpp"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

struct LoneEventsTest : testing::Test {
  /// Whether the turn of the last of them followed at once.
  bool turn_of(int number) {
    for (int i = 1; i < number; ++i) events.came();
    events.came();
    const bool at_once = events.closes_turn();
    events.turned();
    return at_once;
  }
  LoneEvents events;
};

TEST_F(LoneEventsTest, TheTurnFollowsAtOnceWhereTheLastHadOneEvent) {
  EXPECT_FALSE(turn_of(1));
  EXPECT_TRUE(turn_of(1));
  EXPECT_TRUE(turn_of(1));
}

TEST_F(LoneEventsTest, ATurnThatNothingCameForSaysNothing) {
  (void)turn_of(1);
  events.turned();
  EXPECT_TRUE(turn_of(1));
}

TEST_F(LoneEventsTest, ManyEventsShareATurn) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(turn_of(2));
  EXPECT_FALSE(turn_of(1)) << "the last had two";
}

TEST_F(LoneEventsTest, EachSixteenthTurnLooksWhetherTheyStillAreAlone) {
  (void)turn_of(1);
  for (int i = 1; i < 16; ++i) EXPECT_TRUE(turn_of(1)) << i;
  EXPECT_FALSE(turn_of(1));
  for (int i = 1; i < 16; ++i) EXPECT_TRUE(turn_of(1)) << i;
  EXPECT_FALSE(turn_of(2));
  EXPECT_FALSE(turn_of(1));
}

}  // namespace
}  // namespace lockstep::engine
