// What keeps a copy that was set back to when it was the only member from serving, or from being overwritten unasked:
// all that it may have read or heard before it starts.
#include <gtest/gtest.h>

#include "tests/simulation/only_member.hpp"

namespace lockstep::simulation {
namespace {

// ---- the witness ---------------------------------------------------------------------------------------------------

TEST(OldCopy, IsNotStartedByAWitnessThatFallsSilentAfterWhatItSaid) {
  OnlyMember world;
  world.set_a_back();
  world.cut();
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.never_serves(kA, 3 * kLease));
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).slow_witness().hold();
  world.pair.host(kA).boot();
  EXPECT_TRUE(world.never_serves(kA, 20 * kLease));
  EXPECT_NE(world.pair.status(kA).reason.find("without this replica"), std::string::npos);
  EXPECT_EQ(world.pair.violation(), "");
}

/// Its partner, a target of the same epoch, knows of no later state of it.
TEST(OldCopy, IsNotStartedByItsTargetWhenTheWitnessKnowsOfALaterState) {
  OnlyMember world;
  world.take_out(kB);
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore));
  world.pair.host(kA).take_snapshot();
  for (int i = 0; i < 30; ++i) {
    ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore + 1));
    world.pair.run_for(5 * kLease);
  }
  world.pair.host(kA).end(Host::End::power_cut);
  world.pair.host(kA).set_back();
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  EXPECT_TRUE(world.never_serves(kA, 5 * kLease));
  EXPECT_NE(world.pair.status(kA).reason.find("set back"), std::string::npos) << world.pair.status(kA).reason;
}

/// He takes A for dead, of whose epoch B knows.
TEST(OnlyMember, ByAgreementStopsWhenItReadsThatItsPartnerWasForced) {
  OnlyMember world;
  world.pair.world().checkers->expect_split();
  world.pair.host(kB).program()->leave(0);
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  world.pair.run_for(2 * kLease);
  world.cut();
  world.pair.run_for(2 * kLease);
  world.pair.host(kB).program()->force_solo(0, true, [](engine::Result<void>) {});
  ASSERT_TRUE(world.goes_alone(kB, 20 * kLease));
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, 5 * kLease));
  EXPECT_TRUE(world.never_serves(kA, 10 * kLease));
  EXPECT_TRUE(world.pair.is(kB, MirrorState::solo));
}

// ---- the partner ---------------------------------------------------------------------------------------------------

/// B stands in an epoch of both, in which it was suspended when A lost its power.
TEST(OldCopy, ReportsASplitWhenItWroteAloneBesideAPartnerThatIsSuspended) {
  for (const ArbiterKind kind : {ArbiterKind::preferred, ArbiterKind::witness}) {
    OnlyMember world(kind);
    world.pair.world().checkers->expect_split();
    world.take_out(kB);
    world.pair.host(kA).take_snapshot();
    world.pair.host(kB).boot();
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
    world.pair.run_for(10 * kLease);
    world.hide_witness(kB);
    world.pair.host(kA).end(Host::End::power_cut);
    world.pair.host(kA).set_back();
    world.boot_unheard(kA);
    ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
    ASSERT_FALSE(world.pair.written(kA, kBlockOfB, kByOldA));
    world.mend();
    ASSERT_TRUE(world.parts_ways()) << world.pair.status(kA).reason;
    EXPECT_FALSE(world.pair.status(kA).serving);
    ASSERT_TRUE(world.gives_up(kA));
    for (const NodeSide side : {kA, kB}) world.show_witness(side);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
    EXPECT_EQ(world.pair.value_at(kB, kBlockOfB), 0);
  }
}

/// In the dark it counts no generations: it stays below what its partner knows of it, and all of it is compared.
void compares_an_old_copy_that_was_in_the_dark(bool restarts) {
  OnlyMember world;
  world.pair.world().checkers->expect_split();
  world.take_out(kB);
  world.pair.host(kA).take_snapshot();
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kByB));
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kB).dirty_bytes == 0; }));
  world.pair.host(kA).end(Host::End::power_cut);
  ASSERT_TRUE(world.goes_alone(kB, 20 * kLease));
  world.pair.host(kA).set_back();
  world.boot_unheard(kA);
  ASSERT_TRUE(world.goes_alone(kA, 10 * kLease));
  for (int i = 0; i < 20; ++i) {
    ASSERT_FALSE(world.pair.written(kA, kBlockOfB, kByOldA));
    world.pair.run_for(6 * kLease);
  }
  if (restarts) world.pair.host(kA).end(Host::End::killed);
  world.mend();
  if (restarts) world.pair.host(kA).boot();
  ASSERT_TRUE(restarts || (world.parts_ways() && world.gives_up(kA))) << world.pair.status(kA).reason;
  world.show_witness(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); })) << world.pair.status(kA).reason;
  EXPECT_EQ(world.pair.value_at(kB, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfB), 0);
}

TEST(OldCopy, IsComparedAsAWholeHoweverLongItWroteInTheDark) { compares_an_old_copy_that_was_in_the_dark(false); }

TEST(OldCopy, IsComparedAsAWholeByItsNextProcess) { compares_an_old_copy_that_was_in_the_dark(true); }

/// By its record the old copy is no member any more.
TEST(OldCopy, ThatPartedWaysLetsItsPartnerStartAgain) {
  for (const ArbiterKind kind : {ArbiterKind::preferred, ArbiterKind::witness}) {
    OnlyMember world(kind);
    world.serve_beside_b();
    world.mend();
    ASSERT_TRUE(world.parts_ways()) << world.pair.status(kA).reason;
    world.pair.host(kB).end(Host::End::killed);
    world.pair.host(kB).boot();
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kB).serving; }, 5 * kLease));
    EXPECT_FALSE(world.pair.status(kA).serving);
    world.pair.run_for(kLease);
    ASSERT_TRUE(world.parts_ways());
    ASSERT_TRUE(world.gives_up(kA));
    world.show_witness(kA);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  }
}

void attaches_first(Scenario& s) {
  s.attaches_first = true;
  s.volumes.push_back(s.volumes.front());
  s.volumes.back().id = engine::Uuid{{9}};
  s.volumes.back().size = s.volume_size();
}

/// Its link begins when all its volumes are attached, which takes longer for some.
TEST(OldCopy, HearsItsPartnerThoughAnotherVolumeTakesLongToAttach) {
  OnlyMember world(ArbiterKind::preferred, attaches_first);
  world.set_a_back();
  world.cut();
  world.pair.host(kA).metadata(1).stand_still();
  world.pair.host(kA).boot();
  world.pair.run_for(3 * kLease);
  world.pair.host(kA).metadata(1).go_on();
  EXPECT_TRUE(world.never_serves(kA, kLease / 2));
  world.mend();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.violation(), "");
}

TEST(OldCopy, WaitsForAPartnerThatIsStillAttaching) {
  OnlyMember world(ArbiterKind::preferred, [](Scenario& s) { s.attaches_first = true; });
  world.set_a_back();
  world.pair.host(kB).end(Host::End::killed);
  world.pair.host(kB).metadata(0).stand_still();
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  EXPECT_TRUE(world.never_serves(kA, 3 * kLease));
  world.pair.host(kB).metadata(0).go_on();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.violation(), "");
}

/// Many volumes take longer than a disk is waited for.
TEST(OldCopy, WaitsForAPartnerThatAttachesOneAfterTheOther) {
  constexpr Nanos kEach = 8 * kSecond;
  OnlyMember world(ArbiterKind::preferred, attaches_first);
  world.set_a_back();
  world.pair.host(kB).end(Host::End::killed);
  for (const unsigned volume : {0U, 1U}) world.pair.host(kB).metadata(volume).stand_still();
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  EXPECT_TRUE(world.never_serves(kA, kEach));
  world.pair.host(kB).metadata(1).go_on();
  EXPECT_TRUE(world.never_serves(kA, kEach));
  world.pair.host(kB).metadata(0).go_on();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
  EXPECT_EQ(world.pair.violation(), "");
}

/// Its disk may hang for good.
TEST(OnlyMember, WaitsForAPartnerThatIsStillAttachingForABoundedTime) {
  OnlyMember world(ArbiterKind::preferred, [](Scenario& s) { s.attaches_first = true; });
  world.take_out(kB);
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kB).metadata(0).stand_still();
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  EXPECT_TRUE(world.goes_alone(kA, 15 * kLease));
}

/// Nothing of what it attached goes on there, and nothing of it watches its stores.
TEST(OldCopy, IsNoMemberWhereItsNodeNeverBegins) {
  OnlyMember world(ArbiterKind::witness, [](Scenario& s) {
    attaches_first(s);
    s.first_sequencer = kB;
  });
  world.pair.run_for(2 * kLease);  // both see the witness's record
  for (const NodeSide side : {kA, kB}) world.pair.host(side).end(Host::End::power_cut);
  world.pair.host(kB).metadata(1).stand_still();
  for (const NodeSide side : {kB, kA}) world.pair.host(side).boot();
  ASSERT_TRUE(world.goes_alone(kA, 15 * kLease)) << world.pair.status(kA).reason;
  world.pair.run_for(10 * kLease);
  EXPECT_TRUE(world.pair.is(kA, MirrorState::solo));
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore));
  world.pair.host(kB).metadata(1).go_on();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.value_at(kB, kBlockOfA), kBefore);
  EXPECT_EQ(world.pair.violation(), "");
}

/// While it has not begun it is brought up to date by nobody: it could not be a member.
TEST(OldCopy, IsNoTargetWhereItsNodeHasNotBegun) {
  OnlyMember world(ArbiterKind::preferred, attaches_first);
  world.pair.host(kB).end(Host::End::killed);
  world.pair.host(kB).metadata(1).stand_still();
  world.pair.host(kB).boot();
  ASSERT_TRUE(world.goes_alone(kA, 5 * kLease));
  ASSERT_FALSE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::in_sync); }, 20 * kLease));
  ASSERT_FALSE(world.pair.written(kA, kBlockOfA, kBefore));
  world.pair.host(kB).metadata(1).go_on();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
  EXPECT_EQ(world.pair.violation(), "");
}

/// Many volumes may take minutes, and this one's hosts wait at a partner that can't go on by itself.
TEST(OldCopy, WhoseDiskHangsLetsItsPartnerGoOnThoughItsNodeHasNotBegun) {
  for (const bool metadata : {false, true}) {
    SCOPED_TRACE(metadata ? "its record" : "its first flush");
    OnlyMember world(ArbiterKind::preferred, attaches_first);
    Host& a = world.pair.host(kA);
    a.end(Host::End::killed);
    a.metadata(1).stand_still();
    if (!metadata) hang(world.pair, kA);
    a.boot();
    if (metadata) {
      ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).status(0).has_value(); }));
      a.metadata(0).stand_still();
    }
    EXPECT_TRUE(world.goes_alone(kB, 8 * kLease)) << world.pair.status(kB).reason;
    ASSERT_FALSE(world.pair.written(kB, kBlockOfA, kByB));
    world.pair.mend(kA);
    for (const unsigned volume : {0U, 1U}) a.metadata(volume).go_on();
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); }));
    EXPECT_EQ(world.pair.value_at(kA, kBlockOfA), kByB);
    EXPECT_EQ(world.pair.violation(), "");
  }
}

/// Nothing differs from a copy that is not there any more.
TEST(OldCopy, ThatIsTakenAwayAfterTheyPartedWaysEndsTheSplit) {
  OnlyMember world;
  world.serve_beside_b();
  world.mend();
  ASSERT_TRUE(world.parts_ways()) << world.pair.status(kA).reason;
  world.pair.host(kA).program()->detach(0, [] {});
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kB, MirrorState::solo); }, 5 * kLease));
  EXPECT_TRUE(world.pair.status(kB).serving);
  EXPECT_EQ(world.pair.status(kB).reason, "");
}

}  // namespace
}  // namespace lockstep::simulation
