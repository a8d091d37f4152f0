// How fast secrets may be guessed, and that guessing keeps nobody out.
#include "iscsi_target/server/login_guard.hpp"

#include <gtest/gtest.h>

namespace lockstep::iscsi_target {
namespace {

using engine::Duration;
using engine::TimePoint;
using namespace std::chrono_literals;
constexpr Duration kNow{};

struct Guarded : testing::Test {
  /// Proofs of `name` from `address` that were looked at within `time`, by somebody who always has many waiting.
  unsigned guesses(const std::string& address, const std::string& name, Duration time) {
    unsigned looked_at = 0;
    for (const TimePoint end = now + time; now < end; now = now + 10ms) {
      for (int i = 0; i < 20; ++i) looked_at += guard.ask(address, name, 5s, now) == kNow;
    }
    return looked_at;
  }
  LoginGuard guard;
  TimePoint now{};
};

TEST_F(Guarded, AFewWrongProofsCostNothingAndManyAreSlowed) {
  EXPECT_EQ(guesses("thief", "mail", 10ms), LoginGuard::kFreeGuesses);
  EXPECT_LE(guesses("thief", "mail", 1h), 3600u / 8 + 5);
}

TEST_F(Guarded, TheSlowingIsForgottenAfterAWhile) {
  (void)guesses("thief", "mail", 1min);
  now = now + LoginGuard::kForgottenAfter;
  EXPECT_EQ(guard.ask("thief", "mail", kNow, now), kNow);
}

TEST_F(Guarded, ARightProofClearsItsSource) {
  for (unsigned i = 0; i + 1 < LoginGuard::kFreeGuesses; ++i) (void)guard.ask("host", "mail", kNow, now);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(guard.ask("host", "mail", kNow, now), kNow) << i;
    guard.proved("host", "mail", now);
  }
}

TEST_F(Guarded, AnotherAddressIsNotHeldUp) {
  (void)guesses("thief", "web", 10min);
  EXPECT_EQ(guard.ask("host", "mail", kNow, now), kNow);
}

TEST_F(Guarded, AHostThatProvedItselfIsNotHeldUpByGuessesAtItsNameFromElsewhere) {
  (void)guard.ask("host", "mail", kNow, now);
  guard.proved("host", "mail", now);
  (void)guesses("thief", "mail", 10min);
  EXPECT_EQ(guard.ask("host", "mail", kNow, now), kNow);
}

TEST_F(Guarded, AHostThatProvedItselfIsNotHeldUpByGuessesAtOtherNamesFromItsAddress) {
  (void)guard.ask("host", "mail", kNow, now);
  guard.proved("host", "mail", now);
  (void)guesses("host", "web", 10min);
  EXPECT_EQ(guard.ask("host", "mail", kNow, now), kNow);
}

TEST_F(Guarded, AHostThatProvedItselfDoesNotGuessItsOwnNameFasterForIt) {
  (void)guard.ask("host", "mail", kNow, now);
  guard.proved("host", "mail", now);
  EXPECT_LE(guesses("host", "mail", 1h), 3600u / 8 + 10);
}

TEST_F(Guarded, ANewHostWhoseNameIsGuessedFromEverywhereWaitsABoundedTime) {
  for (int i = 0; i < 10000; ++i) (void)guard.ask("thief " + std::to_string(i), "mail", kNow, now);
  EXPECT_EQ(guard.ask("host", "mail", kNow, now), LoginGuard::kNameWait);
  EXPECT_EQ(guard.ask("host", "mail", LoginGuard::kNameWait, now + LoginGuard::kNameWait), kNow);
}

TEST_F(Guarded, AProofThatWouldWaitTooLongIsRefused) {
  (void)guesses("thief", "mail", 10min);
  unsigned refused = 0;
  for (TimePoint end = now + LoginGuard::kLastGap; now < end; now = now + 1s)
    refused += !guard.ask("thief", "mail", 9s, now);
  EXPECT_GT(refused, 0u);
}

TEST_F(Guarded, StrangersNamesAndAddressesTakeABoundedRoom) {
  (void)guard.ask("host", "mail", kNow, now);
  guard.proved("host", "mail", now);
  now = now + 1s;
  for (std::size_t i = 0; i < 3 * LoginGuard::kMostKept; ++i)
    (void)guard.ask("thief " + std::to_string(i), "name " + std::to_string(i), kNow, now);
  EXPECT_EQ(guard.ask("host", "mail", kNow, now), kNow);
}

}  // namespace
}  // namespace lockstep::iscsi_target
