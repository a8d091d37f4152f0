// A disk that is full: writes to new space are refused on both nodes and nothing of them is anywhere; all else goes on.
#include <gtest/gtest.h>

#include "replication/core/marks.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using engine::Errc;
using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint32_t kRegion = 8;  ///< blocks
const std::error_code kNoSpace = make_error_code(Errc::no_space);

struct FullDisk : testing::Test {
  ScriptedPair pair{pair_program()};

  void fill(NodeSide side) {
    pair.spoil(side, [](StoreFaults& f) { f.full = true; });
  }
  std::error_code done(NodeSide side, DiskOpcode opcode, std::uint64_t block, std::uint32_t count, int fill_with) {
    auto& io = pair.submit(side, opcode, block, count, fill_with);
    return pair.wait_for([&] { return io.done; }) ? io.status() : make_error_code(Errc::timed_out);
  }
  [[nodiscard]] int kept(NodeSide side, std::uint64_t block) {
    return std::to_integer<int>(pair.host(side).data(0).visible()[block * kBlock]);
  }
  void expect_equal() {
    const auto a = pair.host(kA).data(0).visible(), b = pair.host(kB).data(0).visible();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
    EXPECT_EQ(pair.violation(), "");
  }
};

TEST_F(FullDisk, OfEitherMemberRefusesNewSpaceThroughBothAndTheMembersStay) {
  std::uint64_t fresh = 80;
  ASSERT_EQ(pair.written(kA, 0, 1), std::error_code{});
  const auto epoch = pair.status(kA).epoch.number;
  for (const NodeSide full : {kA, kB}) {
    fill(full);
    for (const NodeSide through : {kA, kB}) {
      EXPECT_EQ(pair.written(through, fresh, 7), kNoSpace);
      EXPECT_EQ(pair.written(through, 1, 2), std::error_code{}) << "in a region that has its space";
      EXPECT_EQ(pair.value_at(kA, fresh), 0);
      EXPECT_EQ(pair.value_at(kB, fresh), 0);
      EXPECT_TRUE(pair.status(full).full);
      EXPECT_NE(pair.status(full).reason.find("Free or add space"), std::string::npos) << pair.status(full).reason;
    }
    pair.run_for(5 * kSecond);
    EXPECT_TRUE(pair.in_sync());
    pair.mend(full);
    EXPECT_EQ(pair.written(engine::other(full), fresh, 7), std::error_code{});
    EXPECT_TRUE(pair.wait_for([&] { return !pair.status(full).full; }));
    fresh += kRegion;
  }
  EXPECT_EQ(pair.status(kA).epoch.number, epoch) << "nobody left";
  expect_equal();
}

TEST_F(FullDisk, RefusesWhateverTakesSpaceAndNothingThatGivesItBack) {
  ASSERT_EQ(pair.written(kA, 0, 1, kRegion), std::error_code{});
  fill(kB);
  for (const NodeSide through : {kA, kB}) {
    EXPECT_EQ(done(through, DiskOpcode::write_same, 64, 4, 7), kNoSpace);
    EXPECT_EQ(done(through, DiskOpcode::write_zeroes, 64, 128, 0), kNoSpace);
    EXPECT_EQ(done(through, DiskOpcode::compare_and_write, 64, 1, 0), kNoSpace);
    EXPECT_EQ(done(through, DiskOpcode::compare_and_write, 64, 1, 9), make_error_code(Errc::miscompare));
    EXPECT_EQ(done(through, DiskOpcode::write, 4, 8, 7), kNoSpace) << "half of it has its space";
    EXPECT_EQ(pair.value_at(through, 4), 1) << "nothing of it was written";
    EXPECT_EQ(done(through, DiskOpcode::unmap, 65, 30, 0), std::error_code{});
  }
  EXPECT_EQ(done(kB, DiskOpcode::unmap, 0, 2, 0), std::error_code{});
  EXPECT_TRUE(pair.in_sync());
  expect_equal();
}

TEST_F(FullDisk, WhatWasGivenBackIsAskedForAgain) {
  ASSERT_EQ(pair.written(kA, 64, 1, kRegion), std::error_code{});
  EXPECT_EQ(done(kB, DiskOpcode::unmap, 64, kRegion, 0), std::error_code{});
  fill(kB);
  EXPECT_EQ(pair.written(kA, 64, 2), kNoSpace);
  EXPECT_TRUE(pair.in_sync());
  expect_equal();
}

TEST_F(FullDisk, AWriteThatWaitsForSpaceIsNotOvertakenByOneThatOverlapsIt) {
  hang(pair, kB);
  auto& first = pair.write(kA, 64, 1, 2);
  pair.run_for(20 * kMillisecond);
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  auto& second = pair.write(kB, 65, 2, 2);
  pair.run_for(100 * kMillisecond);
  EXPECT_FALSE(first.done || second.done);
  EXPECT_EQ(kept(kA, 64), 0) << "written before the partner had the space";
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return first.done && second.done; }));
  EXPECT_EQ(first.status(), std::error_code{});
  EXPECT_EQ(second.status(), std::error_code{});
  EXPECT_EQ(pair.value_at(kA, 65), 2);
  EXPECT_TRUE(pair.in_sync());
  expect_equal();
}

TEST_F(FullDisk, WhenTheWayBreaksThePartnerIsAskedAgain) {
  hang(pair, kB);
  auto& write = pair.write(kA, 64, 1);
  pair.run_for(20 * kMillisecond);
  pair.world().way_from(kA).break_session();
  pair.run_for(20 * kMillisecond);
  EXPECT_FALSE(write.done);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_EQ(write.status(), std::error_code{});
  EXPECT_TRUE(pair.in_sync());
  expect_equal();
}

TEST_F(FullDisk, AWriteThatWaitsForThePartnersSpaceGoesOnWithoutOneWhoLeaves) {
  hang(pair, kB);
  auto& write = pair.write(kA, 64, 1);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_EQ(write.status(), std::error_code{});
  EXPECT_EQ(pair.value_at(kA, 64), 1);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
  expect_equal();
}

TEST_F(FullDisk, AWriteThatWaitsForOwnSpaceGoesToThePartnerWhenThisReplicaLeaves) {
  hang(pair, kA);
  auto& write = pair.write(kA, 64, 1);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  pair.run_for(kSecond);
  EXPECT_EQ(kept(kB, 64), 0);
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kA).state);
  EXPECT_EQ(pair.value_at(kA, 64), write.status() ? 0 : 1);
  expect_equal();
}

TEST_F(FullDisk, AWriteThatWaitsWhenThePartnerDiesHasAnEnd) {
  for (const NodeSide through : {kA, kB}) {
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    const NodeSide victim = engine::other(through);
    hang(pair, kB);
    const std::uint64_t block = through == kA ? 64 : 128;
    auto& write = pair.write(through, block, 1);
    pair.run_for(20 * kMillisecond);
    pair.host(victim).end(Host::End::power_cut);
    pair.mend(kB);
    ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(through, MirrorState::solo); }));
    EXPECT_EQ(pair.value_at(through, block), write.status() ? 0 : 1);
    pair.host(victim).boot();
  }
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  expect_equal();
}

/// The space was set aside here when the partner died; before the write goes on, another one gives it back.
TEST_F(FullDisk, AWriteThatComesAgainAsksForItsSpaceAgain) {
  hang(pair, kB);
  auto& write = pair.write(kA, 64, 1);
  pair.run_for(20 * kMillisecond);
  fill(kA);
  auto& unmap = pair.submit(kA, DiskOpcode::unmap, 64, kRegion, 0);
  pair.run_for(20 * kMillisecond);
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return write.done && unmap.done; }));
  EXPECT_EQ(unmap.status(), std::error_code{});
  EXPECT_EQ(pair.violation(), "") << "written to what the unmapping gave back";
}

TEST_F(FullDisk, OfTheOnlyMemberRefusesNewSpaceAndReadsAsBefore) {
  ASSERT_EQ(pair.written(kA, 0, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  fill(kA);
  EXPECT_EQ(pair.written(kA, 64, 7, 4), kNoSpace);
  EXPECT_EQ(pair.value_at(kA, 64), 0);
  EXPECT_EQ(pair.written(kA, 0, 2), std::error_code{});
  EXPECT_TRUE(pair.is(kA, MirrorState::solo));
  pair.mend(kA);
  EXPECT_EQ(pair.written(kA, 64, 7, 4), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

TEST_F(FullDisk, OfATargetEndsItsResyncWithAReasonUntilThereIsSpace) {
  ASSERT_EQ(pair.written(kA, 0, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_EQ(pair.written(kA, 64, 2, 4 * kRegion), std::error_code{});
  fill(kB);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::failed); }));
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  unsigned returns = 0;
  bool was = true;
  pair.wait_for(
      [&] {
        const bool failed = pair.is(kB, MirrorState::failed);
        returns += was && !failed;
        was = failed;
        return false;
      },
      30 * kSecond);
  EXPECT_EQ(returns, 0u) << "it comes and goes";
  EXPECT_NE(pair.status(kB).reason.find("Free or add space"), std::string::npos) << pair.status(kB).reason;
  for (const NodeSide through : {kA, kB}) {
    EXPECT_EQ(pair.written(through, 200, 3), std::error_code{}) << "a target that is full stops nobody";
    EXPECT_EQ(pair.value_at(through, 64), 2);
  }
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.status(kB).reason, "");
  expect_equal();
}

TEST_F(FullDisk, ATargetThatFillsWhileItIsKeptUpToDateStopsNoWrite) {
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  ASSERT_EQ(pair.written(kA, 0, 1), std::error_code{});
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  fill(kB);
  EXPECT_EQ(pair.written(kA, 64, 2), std::error_code{});
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::failed) || pair.in_sync(); }));
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
  EXPECT_EQ(pair.value_at(kB, 64), 2);
  expect_equal();
}

/// Part of a region is a hole and all of it must be made equal: a member that has no room for that leaves, so that
/// nobody waits for it.
TEST(FullMember, ThatIsMadeEqualAfterBothLostPowerHoldsUpNobody) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.region_size = 2 * SimStore::kGranule; });
  ASSERT_EQ(pair.written(kA, 64, 7, 16), std::error_code{});
  auto& hole = pair.submit(kA, DiskOpcode::unmap, 72, 8, 0);
  ASSERT_TRUE(pair.wait_for([&] { return hole.done; }));
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  pair.spoil(kB, [](StoreFaults& f) { f.full = true; });
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); })) << to_string(pair.status(kA).state);
  for (const NodeSide through : {kA, kB}) EXPECT_EQ(pair.value_at(through, 64), 7);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << to_string(pair.status(kB).state);
  const auto a = pair.host(kA).data(0).visible(), b = pair.host(kB).data(0).visible();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  EXPECT_EQ(pair.violation(), "");
}

TEST_F(FullDisk, NobodyAsksAgainForARegionThatHasItsSpace) {
  const auto asked = [&] {
    for (const auto& [name, count] : replication::all_marks()) {
      if (name == "space.asked_the_partner") return count;
    }
    return std::uint64_t{0};
  };
  ASSERT_EQ(pair.written(kA, 64, 1), std::error_code{});
  const auto before = asked();
  for (std::uint64_t block = 64; block < 64 + kRegion; ++block) {
    ASSERT_EQ(pair.written(kA, block, 2), std::error_code{});
    ASSERT_EQ(pair.written(kB, block, 3), std::error_code{});
  }
  EXPECT_EQ(asked(), before);
  ASSERT_EQ(pair.written(kB, 64 + kRegion, 3), std::error_code{});
  EXPECT_EQ(asked(), before + 1);
}

/// Its partner has called and brings it up to date, while its own call to the partner is still to come. False when that
/// came first: then this history shows nothing. Each `course` is another one.
bool fill_a_target_that_has_not_called(int course) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 256; });
  for (int i = 0; i < course; ++i) EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
  EXPECT_TRUE(comes_back_slowly(pair, kB));
  pair.host(kA).end(Host::End::killed);
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::waiting); })) << to_string(pair.status(kB).state);
  pair.spoil(kB, [](StoreFaults& f) { f.full = true; });
  pair.host(kA).boot();
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  if (pair.is(kB, MirrorState::syncing_target)) return false;
  EXPECT_EQ(pair.written(kA, 1600, 2), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.violation(), "");
  return true;
}

TEST(Space, ATargetThatHasNotCalledItsPartnerYetIsAskedForRoomToo) {
  int shown = 0;
  for (int course = 0; course < 20; ++course) shown += fill_a_target_that_has_not_called(course);
  EXPECT_GT(shown, 0);
}

}  // namespace
}  // namespace lockstep::simulation
