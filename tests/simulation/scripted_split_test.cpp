// Split brain, made by force, and its remedy: one side gives up, the other's data is on both.
#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::Errc;
using engine::MemberSet;
using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint64_t kBothWrite = 8, kOnlyA = 100, kOnlyB = 200, kSameRegionA = 304, kSameRegionB = 305;
constexpr int kBefore = 1, kOfA = 0xa, kOfB = 0xb;

void prefers_a(Scenario& s) { s.arbiter = {engine::ArbiterKind::preferred, kA, {}}; }

struct Command {
  std::optional<engine::Result<void>> result;
  [[nodiscard]] bool done() const { return result.has_value(); }
  [[nodiscard]] bool good() const { return result && result->has_value(); }
  [[nodiscard]] std::string why() const { return result && !*result ? result->error().message : ""; }
};

class Split {
 public:
  explicit Split(const ScriptedPair::Adjust& adjust = prefers_a) : pair(pair_program(), adjust) {
    pair.world().checkers->expect_split();
  }
  void talk(bool can) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, can);
  }
  /// A goes on alone as its arbiter says, B by force: one epoch number, two epochs.
  void part() {
    for (const auto block : {kBothWrite, kOnlyA, kOnlyB, kSameRegionA}) {
      ASSERT_EQ(pair.written(kA, block, kBefore, 2), std::error_code{});
    }
    pair.run_for(5 * kSecond);  // the regions are clean again
    talk(false);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && !pair.status(kB).serving; }));
    Command force;
    pair.host(kB).program()->force_solo(0, false, [&](engine::Result<void> r) { force.result = std::move(r); });
    ASSERT_TRUE(pair.wait_for([&] { return force.done() && pair.is(kB, MirrorState::solo); })) << force.why();
    ASSERT_EQ(pair.status(kA).epoch.number, pair.status(kB).epoch.number);
    for (const auto block : {kBothWrite, kOnlyA, kSameRegionA}) ASSERT_FALSE(pair.written(kA, block, kOfA));
    for (const auto block : {kBothWrite, kOnlyB, kSameRegionB}) ASSERT_FALSE(pair.written(kB, block, kOfB));
  }
  void meet() {
    talk(true);
    pair.run_for(2 * kSecond);  // an earlier split is shown until they have talked again
    ASSERT_TRUE(split_is_seen());
  }
  [[nodiscard]] bool split_is_seen() {
    return pair.is(kA, MirrorState::split_brain) && pair.is(kB, MirrorState::split_brain);
  }
  Command& give_up(NodeSide side) {
    Command& command = commands_.emplace_back();
    pair.host(side).program()->give_up(0, [&](engine::Result<void> r) { command.result = std::move(r); });
    return command;
  }
  Command& give_up_and_wait(NodeSide side) {
    Command& command = give_up(side);
    pair.wait_for([&] { return command.done(); });
    return command;
  }
  /// In sync, byte for byte, with what `kept` had.
  void expect_all_of(NodeSide kept) {
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }))
        << state_name(pair.status(kA).state) << ", " << state_name(pair.status(kB).state);
    const bool a = kept == kA;
    for (const NodeSide side : {kA, kB}) {
      EXPECT_EQ(stored(side, kBothWrite), a ? kOfA : kOfB);
      EXPECT_EQ(stored(side, kOnlyA), a ? kOfA : kBefore);
      EXPECT_EQ(stored(side, kOnlyB), a ? kBefore : kOfB);
      EXPECT_EQ(stored(side, kSameRegionA), a ? kOfA : kBefore);
      EXPECT_EQ(stored(side, kSameRegionB), a ? kBefore : kOfB);
      EXPECT_EQ(pair.value_at(side, kBothWrite), a ? kOfA : kOfB);
    }
    expect_equal();
    EXPECT_EQ(pair.written(kA, kOnlyB, 7), std::error_code{});
    EXPECT_EQ(pair.written(kB, kOnlyA, 8), std::error_code{});
    expect_equal();
    EXPECT_EQ(pair.violation(), "");
  }
  void expect_equal() {
    pair.run_for(100 * kMillisecond);
    EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
  }
  [[nodiscard]] int stored(NodeSide side, std::uint64_t block) {
    return std::to_integer<int>(pair.host(side).data(0).visible()[block * kBlock]);
  }

  ScriptedPair pair;

 private:
  std::deque<Command> commands_;
};

class GiveUp : public testing::TestWithParam<NodeSide> {
 protected:
  const NodeSide victim = GetParam(), kept = other(GetParam());
};
INSTANTIATE_TEST_SUITE_P(EitherSide, GiveUp, testing::Values(kA, kB),
                         [](const auto& side) { return std::string(side.param == kA ? "A" : "B"); });

TEST_P(GiveUp, BothHaveWhatTheOtherHadAndItsInitiatorsNoticeNothing) {
  Split world;
  world.part();
  world.meet();
  const auto before = world.pair.status(kept).epoch.number;
  const unsigned fences = world.pair.host(kept).fences();
  const unsigned victims_fences = world.pair.host(victim).fences();
  const Command& gave_up = world.give_up_and_wait(victim);
  ASSERT_TRUE(gave_up.good()) << gave_up.why();
  EXPECT_EQ(world.pair.status(victim).epoch.members, MemberSet::only(kept)) << "done was said before it was recorded";
  EXPECT_GT(world.pair.status(victim).epoch.number, before);
  EXPECT_EQ(world.pair.host(victim).fences(), victims_fences + 1)
      << "its initiators hold answers of a truth that ended";
  world.expect_all_of(kept);
  EXPECT_EQ(world.pair.host(kept).fences(), fences);
}

/// Its operator is told what to do first: in the state of a split alone it would be to give up, which it can't.
TEST_P(GiveUp, OneWhoseMetadataFailedSaysThatAndIsRestartedFirst) {
  Split world;
  world.part();
  SimStore& metadata = world.pair.host(victim).metadata(0);
  const StoreFaults whole = metadata.faults();
  StoreFaults broken = whole;
  broken.write_error = kAlways;
  metadata.set_faults(broken);
  EXPECT_NE(world.pair.written(victim, 480, 1), std::error_code{});
  world.talk(true);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kept, MirrorState::split_brain); }));
  world.pair.run_for(2 * kSecond);
  EXPECT_TRUE(world.pair.is(victim, MirrorState::failed));
  EXPECT_NE(world.pair.status(victim).reason.find("map can't be written"), std::string::npos);
  EXPECT_FALSE(world.give_up_and_wait(victim).good());
  metadata.set_faults(whole);
  world.pair.host(victim).end(Host::End::killed);
  world.pair.host(victim).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(victim, MirrorState::split_brain); }));
  const Command& gave_up = world.give_up_and_wait(victim);
  ASSERT_TRUE(gave_up.good()) << gave_up.why();
  world.expect_all_of(kept);
}

TEST_P(GiveUp, WhatItsStoreHasNotReturnedYetDoesNotLandOnTheResync) {
  Split world;
  world.part();
  world.meet();
  for (const NodeSide side : {kA, kB}) world.pair.spoil(side, [](StoreFaults& f) { f.slowest = 400 * kMillisecond; });
  for (unsigned i = 0; i < 8; ++i) world.pair.write(victim, kBothWrite, 0xee);
  for (unsigned i = 0; i < 8; ++i) world.pair.write(victim, 400 + 8 * i, 0xee);
  auto& of_the_kept = world.pair.write(kept, 480, 5);  // what it has under way when it takes over is not disturbed
  world.pair.run_for(5 * kMillisecond);
  const Command& gave_up = world.give_up_and_wait(victim);
  ASSERT_TRUE(gave_up.good()) << gave_up.why();
  world.expect_all_of(kept);
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(world.stored(victim, 400 + 8 * i), 0);
  EXPECT_TRUE(of_the_kept.done);
  EXPECT_EQ(of_the_kept.status(), std::error_code{});
  EXPECT_EQ(world.stored(victim, 480), 5);
}

TEST_P(GiveUp, SurvivesTheEndOfEitherProcessOrOfBothBeforeTheResync) {
  for (const auto how : {Host::End::killed, Host::End::power_cut}) {
    for (unsigned who = 1; who < 4; ++who) {
      Split world;
      world.part();
      world.meet();
      const Command& gave_up = world.give_up(victim);
      ASSERT_TRUE(world.pair.wait_for([&] { return gave_up.done(); }));
      ASSERT_TRUE(gave_up.good()) << gave_up.why();
      ASSERT_FALSE(world.pair.in_sync());
      if (who & 1) world.pair.host(victim).end(how);
      if (who & 2) world.pair.host(kept).end(how);
      world.pair.run_for(3 * kSecond);
      if (who & 1) world.pair.host(victim).boot();
      if (who & 2) world.pair.host(kept).boot();
      world.expect_all_of(kept);
    }
  }
}

TEST_P(GiveUp, InTheMiddleOfTheResyncAnEndOfEitherProcessLosesNothing) {
  for (unsigned who = 1; who < 4; ++who) {
    Split world([](Scenario& s) {
      prefers_a(s);
      s.resync_ceiling = s.region_size;  // a region a second
    });
    world.part();
    world.meet();
    ASSERT_TRUE(world.give_up_and_wait(victim).good());
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kept).resync.bytes_done > 0; }));
    if (who & 1) world.pair.host(victim).end(Host::End::power_cut);
    if (who & 2) world.pair.host(kept).end(Host::End::power_cut);
    if (who & 1) world.pair.host(victim).boot();
    if (who & 2) world.pair.host(kept).boot();
    world.expect_all_of(kept);
  }
}

TEST_P(GiveUp, ThatEndsBeforeTheOtherHeardOfItHoldsWhenTheOtherWentOnMeanwhile) {
  Split world;
  world.part();
  world.meet();
  const Command& gave_up = world.give_up(victim);
  ASSERT_TRUE(world.pair.wait_for([&] { return gave_up.done(); }));
  world.talk(false);
  ASSERT_TRUE(gave_up.good()) << gave_up.why();
  world.pair.host(kept).end(Host::End::killed);
  world.pair.host(kept).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kept, MirrorState::solo); }));
  EXPECT_FALSE(world.pair.status(victim).serving);
  ASSERT_FALSE(world.pair.written(kept, 500, 5));
  world.talk(true);
  world.expect_all_of(kept);
  EXPECT_EQ(world.stored(victim, 500), 5);
}

TEST_P(GiveUp, WithoutThePartnerIsRefusedAndChangesNothing) {
  Split world;
  world.part();
  world.meet();
  world.talk(false);
  world.pair.run_for(5 * kSecond);
  const auto before = world.pair.status(victim).epoch;
  const unsigned fences = world.pair.host(victim).fences();
  const Command& gave_up = world.give_up_and_wait(victim);
  EXPECT_FALSE(gave_up.good());
  EXPECT_NE(gave_up.why().find("The partner is away"), std::string::npos) << gave_up.why();
  EXPECT_EQ(world.pair.status(victim).epoch, before);
  EXPECT_EQ(world.pair.host(victim).fences(), fences);
  EXPECT_EQ(world.pair.value_at(victim, kBothWrite), victim == kA ? kOfA : kOfB);
}

TEST_P(GiveUp, WhoseQuestionThePartnerNeverAnswersChangesNothing) {
  Split world;
  world.part();
  world.meet();
  const auto before = world.pair.status(victim).epoch;
  world.pair.world().cut(kept, false);  // it hears, and is not heard
  const Command& gave_up = world.give_up_and_wait(victim);
  EXPECT_TRUE(gave_up.done());
  EXPECT_FALSE(gave_up.good());
  EXPECT_EQ(world.pair.status(victim).epoch, before);
  EXPECT_EQ(world.pair.value_at(victim, kBothWrite), victim == kA ? kOfA : kOfB);
  world.meet();
  ASSERT_TRUE(world.give_up_and_wait(victim).good());
  world.expect_all_of(kept);
}

TEST_P(GiveUp, ThatCannotBeRecordedIsNotDone) {
  Split world;
  world.part();
  world.meet();
  StoreFaults faults = world.pair.host(victim).metadata(0).faults();
  faults.write_error = kAlways;
  world.pair.host(victim).metadata(0).set_faults(faults);
  const Command& gave_up = world.give_up_and_wait(victim);
  EXPECT_FALSE(gave_up.good());
  EXPECT_FALSE(world.pair.status(victim).serving);
  world.pair.host(victim).end(Host::End::killed);
  world.pair.mend(victim);
  world.pair.host(victim).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.split_is_seen() || world.pair.in_sync(); }));
  if (!world.pair.in_sync()) {
    ASSERT_TRUE(world.give_up_and_wait(victim).good());
  }
  world.expect_all_of(kept);
}

/// It was stale, and was forced all the same: its line begins with itself.
TEST_P(GiveUp, EndsTheSplitThatAStaleReplicaMade) {
  Split world([](Scenario& s) {
    prefers_a(s);
    s.regions = 256;
  });
  ScriptedPair& pair = world.pair;
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  world.talk(false);
  Command force;
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::waiting); }));
  pair.run_for(5 * kSecond);
  pair.host(kB).program()->force_solo(0, true, [&](engine::Result<void> r) { force.result = std::move(r); });
  ASSERT_TRUE(pair.wait_for([&] { return force.done(); }));
  ASSERT_TRUE(force.good()) << force.why();
  pair.mend(kB);
  ASSERT_FALSE(pair.written(kB, kOnlyB, kOfB));
  ASSERT_FALSE(pair.written(kA, kOnlyA, kOfA));
  world.meet();
  const Command& gave_up = world.give_up_and_wait(victim);
  ASSERT_TRUE(gave_up.good()) << gave_up.why();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, 3 * ScriptedPair::kPatience));
  world.expect_equal();
  EXPECT_EQ(world.stored(kA, kOnlyB) == kOfB, kept == kB);
  EXPECT_EQ(world.stored(kB, kOnlyA) == kOfA, kept == kA);
  EXPECT_EQ(pair.violation(), "");
}

/// The second command comes while the first one asks, records, or is just done.
TEST(GiveUpTwice, NeverBothLetGo) {
  bool second_refused = false;
  for (Nanos later = 0; later < 12 * kMillisecond; later += kMillisecond / 2) {
    Split world;
    world.part();
    world.meet();
    const Command& a = world.give_up(kA);
    world.pair.run_for(later);
    const Command& b = world.give_up(kB);
    ASSERT_TRUE(world.pair.wait_for([&] { return a.done() && b.done(); }));
    EXPECT_FALSE(a.good() && b.good());
    second_refused |= a.good();
    if (!a.good() && !b.good()) {
      world.pair.run_for(kSecond);
      EXPECT_TRUE(world.split_is_seen());
      ASSERT_TRUE(world.give_up_and_wait(kB).good());
    }
    world.expect_all_of(a.good() ? kB : kA);
  }
  EXPECT_TRUE(second_refused);
}

TEST(GiveUpWithoutSplit, IsRefused) {
  ScriptedPair pair(pair_program(), prefers_a);
  std::optional<engine::Result<void>> said;
  pair.host(kB).program()->give_up(0, [&](engine::Result<void> r) { said = std::move(r); });
  ASSERT_TRUE(pair.wait_for([&] { return said.has_value(); }));
  EXPECT_FALSE(said->has_value());
  EXPECT_TRUE(pair.in_sync());
}

/// The witness let A go on and names it; the one that is kept is served by word of the epoch that it took over.
TEST_P(GiveUp, UnderAWitnessLeavesTheWitnessWithTheEpochOfBoth) {
  Split world([](Scenario&) {});
  world.pair.host(kB).witness().set_reachable(false);
  world.part();
  world.pair.host(kB).witness().set_reachable(true);
  world.meet();
  ASSERT_TRUE(world.give_up_and_wait(victim).good());
  world.expect_all_of(kept);
  const auto record = world.pair.world().witness.view(world.pair.world().scenario.volumes[0].id).record;
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->epoch, world.pair.status(kept).epoch.id);
}

}  // namespace
}  // namespace lockstep::simulation
