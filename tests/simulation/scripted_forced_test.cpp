// What an operator forces is perhaps not what he takes it for: a copy that was set back, one that left, one of which
// the witness knows more.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint64_t kOld = 8, kSince = 200;  // blocks of regions of their own
constexpr int kBefore = 1, kAfter = 2;

void many_regions(Scenario& s) { s.regions = 32; }
void prefers_a(Scenario& s) {
  many_regions(s);
  s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
}

struct Force {
  explicit Force(ScriptedPair& of, NodeSide side, bool accept_inconsistent) : pair(of) {
    pair.host(side).program()->force_solo(0, accept_inconsistent, [this](engine::Result<void> r) { result = r; });
    pair.wait_for([this] { return result.has_value(); });
  }
  [[nodiscard]] bool done() const { return result && result->has_value(); }
  [[nodiscard]] std::string why() const { return result && !*result ? result->error().message : ""; }
  ScriptedPair& pair;
  std::optional<engine::Result<void>> result;
};

void expect_equal_copies(ScriptedPair& pair) {
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  pair.run_for(100 * kMillisecond);
  EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
}

bool see_a_split(ScriptedPair& pair) {
  return pair.is(kA, MirrorState::split_brain) && pair.is(kB, MirrorState::split_brain);
}

/// B's disks are those of an earlier day, on which what was written since was clean; A is off.
void set_b_back(ScriptedPair& pair) {
  pair.world().checkers->expect_split();
  ASSERT_FALSE(pair.written(kA, kOld, kBefore));
  pair.run_for(10 * kSecond);
  pair.host(kB).take_snapshot();
  ASSERT_FALSE(pair.written(kA, kSince, kAfter));
  pair.run_for(70 * kSecond);  // its region is clean, and the witness has heard of the generation
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::killed);
  pair.host(kB).set_back();
  pair.host(kB).boot();
}

/// No record tells, since both were in one epoch all the while, and the one that knows the generation is off.
TEST(Forced, ACopyThatWasSetBackUnknownToAnybodyIsTheSameAsTheOtherInTheEnd) {
  ScriptedPair pair(pair_program(), prefers_a);
  set_b_back(pair);
  pair.run_for(5 * kSecond);
  ASSERT_FALSE(pair.status(kB).serving);
  Force force(pair, kB, false);
  ASSERT_TRUE(force.done()) << force.why();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  pair.host(kA).boot();
  expect_equal_copies(pair);
}

TEST(Forced, ACopyThatIsKnownToHaveBeenSetBackNeedsASecondWordAndBeginsALineOfItsOwn) {
  ScriptedPair pair(pair_program(), many_regions);
  set_b_back(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).reason.find("set back") != std::string::npos; }));
  Force refused(pair, kB, false);
  EXPECT_FALSE(refused.done());
  EXPECT_NE(refused.why().find("--accept-inconsistent"), std::string::npos) << refused.why();
  Force force(pair, kB, true);
  ASSERT_TRUE(force.done()) << force.why();
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return see_a_split(pair); })) << "A has what B lacks";
  std::optional<engine::Result<void>> given_up;
  pair.host(kB).program()->give_up(0, [&](engine::Result<void> r) { given_up = r; });
  ASSERT_TRUE(pair.wait_for([&] { return given_up.has_value(); }));
  ASSERT_TRUE(given_up->has_value()) << given_up->error().message;
  expect_equal_copies(pair);
  EXPECT_EQ(pair.value_at(kB, kSince), kAfter);
}

/// Epochs came since that its record knows nothing of, and the witness does.
TEST(Forced, AReplicaOfWhichTheWitnessHasAHigherNumberStartsAgainByItself) {
  ScriptedPair pair(pair_program(), many_regions);
  pair.world().checkers->expect_split();
  pair.run_for(5 * kSecond);
  pair.host(kB).take_snapshot();
  const std::uint64_t then = pair.status(kB).epoch.number;
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  ASSERT_GT(pair.status(kA).epoch.number, then + 1);
  pair.run_for(5 * kSecond);
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  pair.host(kB).set_back();
  pair.host(kB).boot();
  pair.run_for(10 * kSecond);  // it has read what the witness holds
  Force force(pair, kB, true);
  ASSERT_TRUE(force.done()) << force.why();
  ASSERT_FALSE(pair.written(kB, kOld, kAfter));
  pair.run_for(5 * kSecond);
  pair.host(kB).end(Host::End::power_cut);
  pair.host(kB).boot();
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); })) << pair.status(kB).reason;
  EXPECT_EQ(pair.value_at(kB, kOld), kAfter);
}

/// For maintenance; and then the one that went on was lost for good.
TEST(Forced, AReplicaThatLeftIsAWholeMemberAgain) {
  ScriptedPair pair(pair_program(), many_regions);
  pair.world().checkers->expect_split();
  ASSERT_FALSE(pair.written(kA, kOld, kBefore));
  bool left = false;
  pair.host(kB).program()->leave(0, [&](engine::Result<void> r) { left = r.has_value(); });
  ASSERT_TRUE(pair.wait_for([&] { return left; }));
  pair.host(kA).end(Host::End::power_cut);
  pair.run_for(5 * kSecond);
  Force force(pair, kB, true);
  ASSERT_TRUE(force.done()) << force.why();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  ASSERT_FALSE(pair.written(kB, kSince, kAfter));
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return see_a_split(pair); }));
  std::optional<engine::Result<void>> given_up;
  pair.host(kA).program()->give_up(0, [&](engine::Result<void> r) { given_up = r; });
  ASSERT_TRUE(pair.wait_for([&] { return given_up.has_value(); }));
  EXPECT_TRUE(given_up->has_value()) << given_up->error().message;
  expect_equal_copies(pair);
  EXPECT_EQ(pair.value_at(kA, kSince), kAfter);
}

/// What the simulator's judges have to look away from.
TEST(Forced, TheSplitThatItMadeIsOverWhenBothCopiesAreOneAgain) {
  ScriptedPair pair(pair_program(), prefers_a);
  Checkers& checkers = *pair.world().checkers;
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && !pair.status(kB).serving; }));
  checkers.force_ordered(pair.host(kB), 0);
  Force force(pair, kB, false);
  checkers.force_answered(0);
  ASSERT_TRUE(force.done()) << force.why();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  for (const NodeSide side : {kA, kB}) ASSERT_FALSE(pair.written(side, kOld, kBefore));
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
  ASSERT_TRUE(pair.wait_for([&] { return see_a_split(pair); }));
  EXPECT_TRUE(checkers.split(0));
  pair.host(kB).program()->give_up(0, [](engine::Result<void>) {});
  expect_equal_copies(pair);
  EXPECT_FALSE(checkers.split(0));
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
