// The answer to a proposal was lost: the partner has recorded the epoch and serves it, and the two go on in it.
#include <algorithm>

#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

/// B lets nothing pass before.
TEST(LateResume, AgreesOnTheUnitsState) {
  PlayedB world;
  world.keep_a_proposal();
  world.pair.world().way_from(kA).reset();
  world.pair.run_for(kSoon);
  world.b.state.record = world.b.proposals.back();
  world.b.state.attempted = 0;
  world.b.state.serving = true;
  world.back_in_touch();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::in_sync); }, kLease));
  EXPECT_EQ(world.pair.status(kA).epoch.id, world.b.state.record.id);
  const auto told = [&] {
    return std::ranges::any_of(world.b.received(MessageType::lu_state), [&](const Message& m) {
      return m.epoch == world.b.state.record.id && (m.flags & replication::kFlagAgree);
    });
  };
  EXPECT_TRUE(world.pair.wait_for(told, kLease));
}

/// A gave its record up, which was durable after all: it has served, and not in this epoch.
TEST(LateResume, AfterALateRecordLetsNothingPassBeforeTheUnitsStateIsAgreed) {
  PlayedB world(b_orders);
  world.hang_metadata();
  const engine::EpochRecord next = world.next(MemberSet::both());
  auto& both = world.b.propose(next);
  ASSERT_TRUE(world.pair.wait_for([&] { return both.done; }));
  ASSERT_FALSE(both.ended_with(Errc::ok));
  world.b.state.record = next;
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.id == next.id; }));
  const auto resumes = [&] { return world.b.ask(world.b.message(MessageType::resume)).ended_with(Errc::ok); };
  ASSERT_TRUE(world.pair.wait_for(resumes, 4 * kLease));
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(5 * kSoon);
  EXPECT_TRUE(world.b.received(MessageType::forward).empty());
  scsi::LuState unit;
  unit.version = world.version;
  EXPECT_TRUE(world.b.tell_unit_state(unit).ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::forward).empty(); }, kLease));
}

TEST(LateResume, OfAnEpochInWhichTheVolumeGrewLosesNothing) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.grown_regions = 96; });
  const std::uint64_t grown = pair.world().scenario.grown_size();
  unsigned made = 0;
  for (const auto side : {kA, kB}) {
    pair.host(side).program()->make_room(0, grown, [&](engine::Result<void> room) { made += room.has_value(); });
  }
  ASSERT_TRUE(pair.wait_for([&] { return made == 2; }));
  pair.world().way_from(kA).hold_answers(
      [](auto header) { return replication::decode(header)->type == MessageType::propose; });
  pair.world().wanted_size = grown;
  for (const auto side : {kA, kB}) pair.host(side).program()->want_size(0, grown);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::in_sync) && pair.status(kB).epoch.size == grown; }));
  ASSERT_FALSE(pair.status(kA).serving);
  pair.world().way_from(kA).hold_answers(nullptr);
  pair.world().way_from(kA).break_session();
  const std::uint64_t epoch = pair.status(kB).epoch.number;
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync); }, 3 * kSecond));
  EXPECT_EQ(pair.status(kA).epoch.number, epoch) << "they agreed anew, and this shows nothing";
  for (const auto side : {kA, kB}) {
    auto& write = pair.write(side, grown / kBlock - 1, 1);
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }, 5 * kSecond)) << "through " << pair.host(side).name();
    EXPECT_EQ(write.status(), std::error_code{});
  }
  EXPECT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == grown; }, 5 * kSecond));
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, 3 * kSecond)) << "the witness was not told";
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
