// A volume that grows: what each node answers for the new blocks, and when.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint64_t kNewBlock =
    64 * 4096 / kBlock;  ///< the first that a volume of 64 regions has when it has grown

void has_room(ScriptedPair& pair) {
  unsigned made = 0;
  for (const NodeSide side : {kA, kB}) {
    pair.host(side).program()->make_room(0, pair.world().scenario.grown_size(),
                                         [&](engine::Result<void> room) { made += room.has_value() ? 1 : 0; });
  }
  ASSERT_TRUE(pair.wait_for([&] { return made == 2; }));
}

/// Room is made by has_room() alone.
void wants_more(ScriptedPair& pair) {
  pair.world().wanted_size = pair.world().scenario.grown_size();
  for (const NodeSide side : {kA, kB}) {
    if (pair.host(side).running()) pair.host(side).program()->want_size(0, pair.world().wanted_size);
  }
}

void grows(Scenario& s) { s.grown_regions = 96; }

TEST(Growth, BothNodesAnswerForTheNewBlocksFromTheMomentThatEitherTellsOfThem) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  EXPECT_EQ(pair.written(kA, kNewBlock, 1), make_error_code(engine::Errc::out_of_range)) << "nobody was told of it";
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  auto& through_a = pair.write(kA, kNewBlock, 1);
  auto& through_b = pair.write(kB, kNewBlock + 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return through_a.done && through_b.done; }));
  EXPECT_EQ(through_a.status(), std::error_code{});
  EXPECT_EQ(through_b.status(), std::error_code{});
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync() && pair.world().grower->satisfied(); }));
}

/// Its partner grew alone and told initiators; they come here and must go on to the other path, not fail.
TEST(Growth, ANodeThatDoesNotServeCallsNothingOutOfRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  pair.host(kB).end(Host::End::killed);
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).program()->disk(0) != nullptr; }));
  ASSERT_LT(pair.status(kB).epoch.size, pair.world().wanted_size) << "it has heard of it: the test shows nothing";
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::not_serving));
}

/// It can't record the epoch in which the volume is larger, so its partner grows alone. Initiators go on there.
TEST(Growth, ANodeThatCannotRecordItNeitherHoldsWhatComesNorCallsItOutOfRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  StoreFaults faults = pair.host(kB).metadata(0).faults();
  faults.write_error = kAlways;
  pair.host(kB).metadata(0).set_faults(faults);
  wants_more(pair);
  ASSERT_TRUE(pair.wait_for([&] { return pair.world().grower->told(0) == pair.world().wanted_size; }));
  ASSERT_LT(pair.status(kB).epoch.size, pair.world().wanted_size);
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::not_serving));
  EXPECT_EQ(pair.written(kA, kNewBlock, 1), std::error_code{});
}

/// Configured to be larger than it is made for here.
TEST(Growth, ANodeThatIsAloneGrowsOnlyIntoItsRoom) {
  ScriptedPair pair(pair_program(), grows);
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  const auto before = pair.status(kA).epoch;
  wants_more(pair);
  pair.run_for(5 * kSecond);
  EXPECT_EQ(pair.status(kA).epoch, before);
  EXPECT_TRUE(pair.status(kA).serving);
}

TEST(Growth, WaitsForRoomOnBothNodes) {
  for (const NodeSide first : {kA, kB}) {
    ScriptedPair pair(pair_program(), grows);
    const auto makes_room = [&](NodeSide side) {
      bool made = false;
      pair.host(side).program()->make_room(0, pair.world().scenario.grown_size(),
                                           [&](engine::Result<void> room) { made = room.has_value(); });
      return pair.wait_for([&] { return made; });
    };
    const auto before = pair.status(kA).epoch;
    ASSERT_TRUE(makes_room(first));
    wants_more(pair);
    pair.run_for(5 * kSecond);
    EXPECT_EQ(pair.status(kA).epoch, before);
    EXPECT_TRUE(pair.in_sync());
    ASSERT_TRUE(makes_room(other(first)));
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kB).epoch.size == pair.world().wanted_size; }));
  }
}

/// Its data store failed and its record is of before: whoever carries an operation out knows how large the volume is.
TEST(Growth, ANodeThatForwardsLetsItsPartnerSayWhatIsInRange) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = kAlways; });
  pair.write(kA, 0, 1);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kB).serving; }));
  wants_more(pair);
  pair.run_for(10 * kSecond);
  EXPECT_LT(pair.world().grower->told(0), pair.world().wanted_size) << "alone it grows only without a partner there";
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), make_error_code(engine::Errc::out_of_range));
  EXPECT_EQ(pair.written(kB, kNewBlock - 1, 1), std::error_code{});
}

/// One that was made before took another's place before the size was published: the node makes room in it, as lockstepd
/// does with each volume that it is told of.
TEST(Growth, ACopyThatHasNoRoomYetMakesItWhenTheSizeIsWanted) {
  ScriptedPair pair(pair_program(), grows);
  has_room(pair);
  pair.host(kB).program()->leave(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.is(kB, MirrorState::left); }));
  pair.host(kB).replace_copy(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  wants_more(pair);
  pair.run_for(kSecond);
  ASSERT_FALSE(pair.world().grower->satisfied()) << "the test shows nothing";
  for (const NodeSide side : {kA, kB}) pair.host(side).program()->take_size(0, pair.world().wanted_size);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync() && pair.world().grower->satisfied(); }));
  EXPECT_EQ(pair.written(kB, kNewBlock, 1), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
