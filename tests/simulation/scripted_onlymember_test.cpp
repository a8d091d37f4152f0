// A process that starts as the only member by its own record: alone for good it goes on by itself, and soon. A copy
// that was set back has such a record, too: whoever knows better is heard first, and at any later moment.
#include <gtest/gtest.h>

#include "tests/simulation/only_member.hpp"

namespace lockstep::simulation {
namespace {

class AnyArbiter : public testing::TestWithParam<ArbiterKind> {};
INSTANTIATE_TEST_SUITE_P(Arbiters, AnyArbiter,
                         testing::Values(ArbiterKind::witness, ArbiterKind::preferred, ArbiterKind::fence),
                         [](const auto& kind) {
                           return kind.param == ArbiterKind::witness     ? "witness"
                                  : kind.param == ArbiterKind::preferred ? "preferred"
                                                                         : "fence";
                         });

// ---- alone for good ------------------------------------------------------------------------------------------------

TEST_P(AnyArbiter, LetsTheOnlyMemberStartByItself) {
  for (const NodeSide side : {kA, kB}) {
    for (const bool witness_answers : {true, false}) {
      OnlyMember world(GetParam());
      world.take_out(other(side));
      world.pair.run_for(60 * kLease);
      world.pair.host(side).end(Host::End::power_cut);
      if (!witness_answers) world.hide_witness(side);
      world.pair.host(side).boot();
      // A witness is asked when the partner had time to call, and may be silent.
      const bool silent = GetParam() == ArbiterKind::witness && !witness_answers;
      EXPECT_TRUE(world.goes_alone(side, silent ? kLease * 9 / 2 : kLease * 3 / 2)) << world.pair.status(side).reason;
      world.show_witness(side);
      world.pair.host(other(side)).boot();
      EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
      EXPECT_EQ(world.pair.violation(), "");
    }
  }
}

/// The witness holds the record of the old copy, for nobody has told it yet of the one that names both.
TEST(OnlyMember, HearsItsPartnerWhateverTheWitnessHolds) {
  OnlyMember world;
  world.take_out(kB);
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore));
  world.pair.host(kA).take_snapshot();
  for (const NodeSide side : {kA, kB}) world.hide_witness(side);
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kB, MirrorState::in_sync); }));
  world.pair.run_for(10 * kLease);
  ASSERT_EQ(world.at_the_witness()->members, MemberSet::only(kA));
  world.pair.host(kA).end(Host::End::power_cut);
  world.pair.host(kA).set_back();
  world.cut();
  world.show_witness(kA);
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.never_serves(kA, kLease / 2));
  world.mend();
  world.show_witness(kB);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kBefore);
  EXPECT_EQ(world.pair.violation(), "");
}

TEST_P(AnyArbiter, LetsTheOnlyMemberStartAtOnceWhenItsPartnerIsThere) {
  OnlyMember world(GetParam());
  world.take_out(kB);
  world.pair.host(kA).end(Host::End::power_cut);
  world.hide_witness(kA);
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  // A witness that is silent is waited for a little: it may know of a later state.
  EXPECT_TRUE(world.goes_alone(kA, GetParam() == ArbiterKind::witness ? kLease * 3 / 4 : kLease / 4));
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
}

// ---- a copy that was set back --------------------------------------------------------------------------------------

/// The link comes up a little later than the process.
TEST_P(AnyArbiter, LetsNoOldCopyStartBesideAPartnerThatIsHeardWithinALease) {
  OnlyMember world(GetParam());
  world.set_a_back();
  world.boot_unheard(kA);
  EXPECT_TRUE(world.never_serves(kA, kLease / 2));
  world.mend();
  world.pair.run_for(kLease);
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.violation(), "");
}

/// Its network comes up late; or it elects a leader, or packets are lost: it is asked again.
TEST(OldCopy, DoesNotStartWhenTheWitnessIsHeardBeforeFourLeasesAreOver) {
  for (const Nanos silence : {kLease / 2, 3 * kLease}) {
    OnlyMember world;
    world.set_a_back();
    world.boot_unheard(kA);
    EXPECT_TRUE(world.never_serves(kA, silence));
    world.show_witness(kA);
    EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
    EXPECT_EQ(world.pair.violation(), "");
  }
}

/// Who stood still has not asked all the time.
TEST(OldCopy, DoesNotStartForWhatTheWitnessMissedLongAgo) {
  OnlyMember world;
  world.set_a_back();
  world.pair.host(kB).end(Host::End::power_cut);
  world.boot_unheard(kA);
  EXPECT_TRUE(world.never_serves(kA, 2 * kLease));
  world.pair.host(kA).freeze();
  world.pair.run_for(20 * kLease);
  world.pair.host(kA).thaw();
  EXPECT_TRUE(world.never_serves(kA, 2 * kLease));
  world.show_witness(kA);
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
}

/// Before it acknowledges much, and without its partner.
TEST(OldCopy, StopsWhenItReadsThatThePartnerWon) {
  OnlyMember world;
  world.serve_beside_b();
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, 2 * kLease));
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
  world.hide_witness(kA);
  EXPECT_TRUE(world.never_serves(kA, 5 * kLease)) << "what it said holds";
  EXPECT_TRUE(world.pair.is(kB, MirrorState::solo));
}

/// Set back within the epoch that the witness holds: its generation tells.
TEST(OldCopy, StopsWhenItReadsOfALaterStateOfItsOwn) {
  OnlyMember world;
  world.take_out(kB);
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore));
  world.pair.host(kA).take_snapshot();
  for (int i = 0; i < 30; ++i) {
    ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore + 1));
    world.pair.run_for(5 * kLease);
  }
  const auto known = world.at_the_witness();
  world.pair.host(kA).end(Host::End::power_cut);
  world.pair.host(kA).set_back();
  world.boot_unheard(kA);
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, 2 * kLease));
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
  EXPECT_NE(world.pair.status(kA).reason.find("set back"), std::string::npos) << world.pair.status(kA).reason;
  EXPECT_EQ(world.at_the_witness()->generations, known->generations) << "what it knows is not overwritten";
}

TEST(OldCopy, IsNotStartedByAWitnessThatForgotWhatItSaid) {
  OnlyMember world;
  world.take_out(kB);
  world.pair.run_for(2 * kLease);
  world.pair.host(kA).take_snapshot();
  const auto before = world.pair.world().witness.snapshot();
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  world.pair.run_for(10 * kLease);
  world.take_out(kA);
  world.pair.host(kA).set_back();
  world.cut();
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.never_serves(kA, 2 * kLease)) << "it reads that it lost";
  world.pair.host(kA).end(Host::End::killed);
  world.pair.world().witness.restore(before);
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
  EXPECT_TRUE(world.pair.is(kB, MirrorState::solo));
}

/// What the old copy acknowledged is nowhere else.
TEST_P(AnyArbiter, ReportsASplitWhenAnOldCopyWroteAlone) {
  OnlyMember world(GetParam());
  world.serve_beside_b();
  world.mend();
  ASSERT_TRUE(world.parts_ways()) << world.pair.status(kA).reason;
  EXPECT_FALSE(world.pair.status(kA).serving);
  EXPECT_TRUE(world.pair.status(kB).serving);
  // It starts nothing by itself any more.
  world.pair.host(kA).end(Host::End::killed);
  world.cut();
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.never_serves(kA, 10 * kLease));
  world.mend();
  ASSERT_TRUE(world.parts_ways());
  EXPECT_FALSE(world.gives_up(kB)) << "the old copy may not serve";
  ASSERT_TRUE(world.gives_up(kA));
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.value_at(kB, kBlockOfB), 0);
}

/// There is nothing of its own to be kept.
TEST_P(AnyArbiter, LetsAnOldCopyThatWroteNothingBeBroughtUpToDate) {
  OnlyMember world(GetParam());
  world.pair.world().checkers->expect_split();
  world.set_a_back();
  world.boot_unheard(kA);
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  world.mend();
  world.show_witness(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
}

// ---- what the partner won and never recorded -----------------------------------------------------------------------

/// B lost its power with that, and agreed to an epoch of the same number since.
TEST(OnlyMember, ByAgreementStartsThoughThePartnerHadWonThatNumber) {
  OnlyMember world;
  world.hide_witness(kA);
  world.take_out(kB);
  auto& witness = world.pair.world().witness;
  const engine::Uuid volume = world.pair.world().scenario.volumes[0].id;
  const replication::WitnessRecord won{world.pair.status(kA).epoch.number, engine::Uuid{{7}}, MemberSet::only(kB)};
  ASSERT_TRUE(witness.swap(volume, witness.view(volume).mod_revision, won).won);
  world.show_witness(kA);
  world.pair.run_for(20 * kLease);
  EXPECT_TRUE(world.pair.is(kA, MirrorState::solo));
  EXPECT_EQ(world.at_the_witness()->members, MemberSet::only(kA)) << "it was told";
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.goes_alone(kA, 5 * kLease));
}

// ---- an operator's word --------------------------------------------------------------------------------------------

TEST(OnlyMember, ByForceGoesOnThoughTheWitnessSaysOtherwise) {
  OnlyMember world;
  world.pair.world().checkers->expect_split();
  world.hide_witness(kA);
  world.cut();
  ASSERT_TRUE(world.goes_alone(kB, 10 * kLease));
  std::optional<bool> forced;
  world.pair.host(kA).program()->force_solo(0, false, [&](engine::Result<void> r) { forced = r.has_value(); });
  ASSERT_TRUE(world.pair.wait_for([&] { return forced.has_value(); }));
  ASSERT_TRUE(*forced);
  world.show_witness(kA);
  world.pair.run_for(20 * kLease);
  EXPECT_TRUE(world.pair.is(kA, MirrorState::solo));
  EXPECT_EQ(world.at_the_witness()->members, MemberSet::only(kA)) << "it was told";
}

/// He takes A for dead, which serves and is cut off: whoever reads of it stops.
TEST(OnlyMember, StopsWhenItReadsThatItsPartnerWasForced) {
  OnlyMember world;
  world.pair.world().checkers->expect_split();
  world.hide_witness(kB);
  world.cut();
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  world.pair.run_for(5 * kLease);
  world.pair.host(kB).program()->force_solo(0, false, [](engine::Result<void>) {});
  ASSERT_TRUE(world.goes_alone(kB, 20 * kLease));
  world.show_witness(kB);
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, 5 * kLease));
  EXPECT_TRUE(world.pair.is(kB, MirrorState::solo));
  world.pair.host(kB).end(Host::End::killed);
  world.pair.host(kB).boot();
  EXPECT_TRUE(world.goes_alone(kB, kLease * 3 / 2)) << "his word holds";
  EXPECT_TRUE(world.never_serves(kA, 10 * kLease));
}

/// Each goes above the other once, and not for ever.
TEST(OnlyMember, ByForceOfBothTakesNumbersThatEnd) {
  OnlyMember world;
  world.pair.world().checkers->expect_split();
  for (const NodeSide side : {kA, kB}) world.hide_witness(side);
  world.cut();
  for (const NodeSide side : {kA, kB}) {
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(side, MirrorState::suspended); }));
  }
  world.pair.run_for(kLease);
  for (const NodeSide side : {kA, kB}) world.pair.host(side).program()->force_solo(0, false, [](auto) {});
  for (const NodeSide side : {kA, kB}) ASSERT_TRUE(world.goes_alone(side, 20 * kLease));
  for (const NodeSide side : {kA, kB}) world.show_witness(side);
  world.pair.run_for(20 * kLease);
  const auto number = world.pair.status(kA).epoch.number;
  for (const NodeSide side : {kA, kB}) EXPECT_TRUE(world.pair.is(side, MirrorState::solo));
  world.pair.run_for(20 * kLease);
  EXPECT_EQ(world.pair.status(kA).epoch.number, number);
}

}  // namespace
}  // namespace lockstep::simulation
