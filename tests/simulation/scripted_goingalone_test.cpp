// Between the loss of the partner, whom the test plays, and going on alone: which sessions stay, and what comes first.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

// ---- sessions that are kept ----------------------------------------------------------------------------------------

TEST(KeptSessions, EndWhenTheWitnessLetThePartnerGoOn) {
  PlayedB world;
  engine::Uuid its{};
  its.bytes[0] = 1;
  world.at_the_witness({world.b.state.record.number + 5, its, MemberSet::only(kB)});
  world.suspend();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease / 4));
}

TEST(KeptSessions, EndWhenTheWitnessCannotBeAsked) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease * 3 / 4));
}

/// Its store may be only slow.
TEST(KeptSessions, EndWhenALeaseWasNotEnoughToDecide) {
  PlayedB world(patient);
  hang(world.pair, kA);
  world.pair.read(kA, kBlockOfBoth);
  world.suspend();
  world.pair.run_for(kLease / 2);
  EXPECT_EQ(world.fences(), 0u);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease));
}

/// What its host may have sent again through B, B may have overwritten with this node's help.
TEST(KeptSessions, WhatCameALeaseBeforeIsNotCarriedOutWhenTheNodeGoesOn) {
  PlayedB world(b_orders);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  auto& old = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kLease * 3 / 4);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward) || PlayedB::silent(m); };
  world.pair.run_for(kSoon);
  auto& young = world.pair.write(kA, kBlockOfBoth + 8, 2);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(world.pair.wait_for([&] { return old.done && young.done; }, kLease));
  EXPECT_TRUE(old.status());
  EXPECT_EQ(world.stored(), 0);
  EXPECT_EQ(young.status(), std::error_code{});
  EXPECT_EQ(world.fences(), 0u);
}

TEST(KeptSessions, EndWhenTheTwoAgreeAgain) {
  for (const bool proposed : {true, false}) {
    PlayedB world(b_orders);
    if (!proposed) world.pair.host(kA).witness().set_reachable(false);
    world.suspend();
    auto& held = world.pair.write(kA, kBlockOfBoth, 1);
    world.pair.run_for(kSoon);
    ASSERT_FALSE(held.done);
    auto& agreed = proposed ? world.b.propose(world.next(MemberSet::both(), 10))
                            : world.b.send(world.b.message(MessageType::resume));
    ASSERT_TRUE(world.pair.wait_for([&] { return agreed.done; }));
    EXPECT_TRUE(agreed.ended_with(Errc::ok));
    EXPECT_EQ(world.fences(), 1u) << "B may have served what its initiators gave up here";
    EXPECT_TRUE(held.done);
    EXPECT_EQ(held.status(), make_error_code(Errc::not_serving));
  }
}

/// B is back, and at a step that may wait for what A does not take meanwhile.
TEST(KeptSessions, EndWhenThePartnerIsAtAStep) {
  PlayedB world(b_orders);
  world.pair.run_for(kSoon);
  world.b.keeps = PlayedB::silent;
  world.b.state.serving = false;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  world.pair.write(kA, kBlockOfBoth, 2);
  EXPECT_EQ(world.fences(), 0u);
  world.b.state.changing = true;
  world.b.keeps = [](const Message&) { return false; };
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease / 4));
}

TEST(KeptSessions, EndWhenThisNodeResumes) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  auto& held = world.pair.write(kA, kBlockOfBoth, 1);
  world.back_in_touch();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::resume).empty(); }, kLease / 4));
  EXPECT_EQ(world.fences(), 1u);
  EXPECT_TRUE(held.done);
  EXPECT_EQ(held.status(), make_error_code(Errc::not_serving));
}

// ---- going on alone ------------------------------------------------------------------------------------------------

TEST(GoingAlone, HasTheNumberThatTheWitnessHolds) {
  PlayedB world;
  engine::Uuid its{};
  its.bytes[0] = 1;
  world.at_the_witness({world.b.state.record.number + 5, its, MemberSet::only(kA)});
  world.suspend();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_GT(world.witnessed()->number, world.b.state.record.number + 5);
  EXPECT_EQ(world.pair.status(kA).epoch.number, world.witnessed()->number);
}

/// B may have seen the record: another one of the same number would make the witness one that was set back.
TEST(GoingAlone, IsAboveWhatAnEarlierProcessWonAndDidNotRecord) {
  PlayedB world;
  world.let_a_win();
  const auto first = *world.witnessed();
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_GT(world.witnessed()->number, first.number);
}

/// By a clock that is as slow as it may be.
TEST(GoingAlone, WaitsForTheLeasesOfAProcessBeforeThisOne) {
  PlayedB world;
  world.pair.host(kA).end(Host::End::killed);
  world.b.keeps = [](const Message&) { return true; };
  world.pair.host(kA).boot();
  const Nanos booted = world.pair.world().scheduler.now();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_GE(world.pair.world().scheduler.now() - booted, kLease * 12 / 10);
}

/// A flush that failed is the store's last word, one that hangs is none.
TEST(GoingAlone, IsNotForANodeWhoseStoreDoesNotFlush) {
  for (const bool witnessed : {true, false}) {
    for (const bool fails : {true, false}) {
      PlayedB world([&](Scenario& s) {
        a_orders(s);
        s.store_deadline = 60 * kSecond;
        if (!witnessed) s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
      });
      world.pair.spoil(kA, [&](StoreFaults& f) { (fails ? f.flush_error : f.hang) = kAlways; });
      world.suspend();
      world.pair.run_for(5 * kLease);
      EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
      if (witnessed) {
        EXPECT_TRUE(world.witnessed()->members.is_both()) << "B could go on";
      }
    }
  }
}

/// It would win, and serve nothing; and B would have lost.
TEST(GoingAlone, IsNotAskedForByANodeThatCannotWriteItsRecord) {
  for (const bool fails : {true, false}) {
    PlayedB world;
    world.spoil_metadata([&](StoreFaults& f) { (fails ? f.write_error : f.hang) = kAlways; });
    world.suspend();
    world.pair.run_for(5 * kLease);
    EXPECT_FALSE(world.pair.status(kA).serving);
    EXPECT_TRUE(world.witnessed()->members.is_both()) << "B could go on";
    EXPECT_GE(world.fences(), 1u) << "its hosts are sent to B";
    if (fails) continue;
    EXPECT_EQ(world.pair.status(kA).reason, "The metadata's store did not complete a write in time.");
    world.pair.mend(kA);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, 3 * kLease)) << "it was slow";
  }
}

TEST(GoingAlone, IsNotAskedForByAProcessThatStartsAndCannotWriteItsRecord) {
  PlayedB world;
  world.pair.host(kA).end(Host::End::killed);
  world.b.keeps = [](const Message&) { return true; };
  world.pair.host(kA).boot();
  world.pair.run_for(kSoon);
  world.spoil_metadata([&](StoreFaults& f) { f.write_error = kAlways; });
  world.pair.run_for(5 * kLease);
  EXPECT_FALSE(world.pair.status(kA).serving);
  EXPECT_TRUE(world.witnessed()->members.is_both()) << "B could go on";
}

/// Whichever of the two asks first.
TEST(GoingAlone, IsForWhoeverCanWriteItsRecord) {
  for (const engine::NodeSide broken : {kA, kB}) {
    ScriptedPair pair(pair_program());
    ASSERT_FALSE(pair.written(kA, kBlockOfBoth, 1));
    pair.run_for(kSecond);
    StoreFaults faults = pair.host(broken).metadata(0).faults();
    faults.write_error = kAlways;
    pair.host(broken).metadata(0).set_faults(faults);
    for (const engine::NodeSide side : {kA, kB}) pair.world().cut(side, false);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(other(broken), MirrorState::solo); }, 3 * kSecond));
    for (const engine::NodeSide side : {kA, kB}) pair.world().cut(side, true);
    pair.run_for(3 * kSecond);
    EXPECT_TRUE(pair.status(other(broken)).serving);
    EXPECT_EQ(pair.value_at(other(broken), kBlockOfBoth), 1);
    EXPECT_EQ(pair.violation(), "");
  }
}

/// A proof of an earlier suspension says nothing.
TEST(GoingAlone, NeedsAFlushOfSinceThePartnerWasLost) {
  PlayedB world(patient);
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  world.pair.run_for(kSoon);
  world.back_in_touch();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }));
  world.b.state.serving = true;
  world.pair.run_for(kLease);
  ASSERT_TRUE(world.pair.status(kA).serving);
  world.pair.host(kA).witness().set_reachable(true);
  hang(world.pair, kA);
  world.suspend();
  world.pair.run_for(kLease / 2);
  EXPECT_TRUE(world.witnessed()->members.is_both());
}

TEST(GoingAlone, IsNotDoneWhenItsRecordFailed) {
  PlayedB world;
  world.spoil_metadata([](StoreFaults& f) { f.write_error = kAlways; });
  world.suspend();
  world.pair.run_for(3 * kLease);
  EXPECT_FALSE(world.pair.status(kA).serving);
}

TEST(GoingAlone, ByPreferenceEndsWhenThePartnerIsBack) {
  PlayedB world([](Scenario& s) {
    a_orders(s);
    s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
  });
  world.suspend();
  world.pair.run_for(kSoon);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  world.b.let_go(Errc::ok);
  world.pair.run_for(3 * kLease);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
}

/// A's store proves itself while A follows B into the next epoch of both: what A decides then is of the one before.
struct DecidedDuringAStep : PlayedB {
  DecidedDuringAStep()
      : PlayedB([](Scenario& s) {
          b_orders(s);
          s.store_deadline = 60 * kSecond;
          s.arbiter = {engine::ArbiterKind::preferred, kA, {}};
        }) {
    suspend([&] { hang(pair, kA); });
    pair.run_for(kLease / 2);  // its contact is lost, too
    const engine::EpochRecord both = next(MemberSet::both());
    auto& proposal = b.propose(both);
    pair.run_for(kMillisecond);
    EXPECT_FALSE(proposal.done);
    pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
    pair.host(kA).data(0).release_hung();
    EXPECT_TRUE(pair.wait_for([&] { return proposal.done; }));
    EXPECT_TRUE(proposal.ended_with(Errc::ok));
    b.state.record = both;
  }
};

TEST(GoingAlone, DecidedDuringAStepOfThePartnersKeepsNobodyFromResuming) {
  DecidedDuringAStep world;
  world.pair.world().way_from(kA).reset();
  world.back_in_touch();
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::resume)).ended_with(Errc::ok));
}

TEST(GoingAlone, DecidedDuringAStepOfThePartnersIsDecidedAnew) {
  DecidedDuringAStep world;
  const unsigned fences = world.fences();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, 3 * kLease));
  EXPECT_TRUE(world.pair.status(kA).epoch.descends_from(world.b.state.record));
  EXPECT_EQ(world.fences(), fences) << "it stopped for a record that could not be";
}

/// It may be about to fail: B, if its store works, is to go on.
TEST(GoingAlone, ASuspendedNodeWhoseStoreCompletesNothingSaysThatItIsNotAble) {
  for (const bool hangs : {false, true}) {
    PlayedB world(patient);
    if (hangs) hang(world.pair, kA);
    world.pair.host(kA).witness().set_reachable(false);
    world.pair.read(kA, kBlockOfBoth);
    world.suspend();
    EXPECT_EQ(world.told().able, !hangs);
  }
}

TEST(GoingAlone, ByForceIsRefusedWhenItCannotBeRecorded) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  world.spoil_metadata([](StoreFaults& f) { f.write_error = kAlways; });
  std::optional<bool> forced;
  world.pair.host(kA).program()->force_solo(0, false, [&](engine::Result<void> r) { forced = r.has_value(); });
  ASSERT_TRUE(world.pair.wait_for([&] { return forced.has_value(); }, 3 * kLease));
  EXPECT_FALSE(*forced);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
  EXPECT_FALSE(world.pair.status(kA).serving);
}

/// The only member starts anew; meanwhile B was forced, or A's disks are from before.
TEST(GoingAlone, IsNotForAProcessOfWhichTheWitnessSaysThatThePartnerWon) {
  PlayedB world;
  world.go_on_alone();
  world.pair.host(kA).end(Host::End::killed);
  engine::Uuid its{};
  its.bytes[0] = 1;
  world.at_the_witness({world.b.state.record.number + 5, its, MemberSet::only(kB)});
  world.b.keeps = [](const Message&) { return true; };
  world.pair.host(kA).boot();
  world.pair.run_for(2 * kLease);
  EXPECT_FALSE(world.pair.status(kA).serving);
  world.pair.host(kA).witness().set_reachable(false);
  world.pair.run_for(2 * kLease);
  EXPECT_FALSE(world.pair.status(kA).serving) << "what it said holds";
}

/// It asked, and won, before its store failed: alone it would be nothing, and B may take over meanwhile.
TEST(GoingAlone, IsPutOffWhileTheStoreHangs) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.store_deadline = 3 * kSecond;
  });
  world.hang_an_order();
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.let_a_win();
  world.pair.run_for(3 * kLease);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
  auto& leave = world.b.propose(world.next(MemberSet::only(kB), 10));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  EXPECT_TRUE(leave.ended_with(Errc::ok));
}

/// What it returns late would land on what is written since. It fails in the middle of the step.
TEST(GoingAlone, WaitsForAllThatTheStoreWasGiven) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.store_deadline = 6 * kSecond;
  });
  hang(world.pair, kA);
  for (const std::uint64_t sequence : {1, 2}) {
    Message m = world.order(sequence);
    m.extent.offset += sequence * kBlock;
    world.b.send(m, PlayedB::block_of(1));
  }
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.let_a_win();
  world.pair.run_for(5 * kSecond);
  world.pair.host(kA).data(0).release_first_hung();
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
}

// ---- a partner that stands in a later epoch of both ----------------------------------------------------------------

/// One of the two was set back, and no generation tells. A has acknowledged nothing yet.
TEST(OnlyMember, StopsBesideAPartnerThatStandsInALaterEpoch) {
  PlayedB world;
  world.go_on_alone();
  world.b.state.record = world.next(MemberSet::both());
  world.b.tell_state();
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, kLease));
  world.b.keeps = PlayedB::silent;
  EXPECT_FALSE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }, 20 * kLease)) << "it remembers";
}

/// What both acknowledged in B's epoch is not here.
TEST(OnlyMember, ThatWasLeftBehindIsForcedByASecondConfirmationOnlyAndInALineOfItsOwn) {
  PlayedB world;
  world.go_on_alone();
  world.b.state.record = world.next(MemberSet::both());
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, kLease));
  EXPECT_NE(world.pair.status(kA).reason.find("later epoch"), std::string::npos) << world.pair.status(kA).reason;
  const auto force = [&](bool accepts) {
    std::optional<bool> done;
    world.pair.host(kA).program()->force_solo(0, accepts, [&](engine::Result<void> r) { done = r.has_value(); });
    EXPECT_TRUE(world.pair.wait_for([&] { return done.has_value(); }));
    return done.value_or(false);
  };
  EXPECT_FALSE(force(false));
  ASSERT_TRUE(force(true));
  EXPECT_TRUE(world.pair.status(kA).epoch.ancestors.empty()) << "B would take it for what follows its own";
}

TEST(OnlyMember, ThatWasLeftBehindDoesNotStartBesideAnotherProcessOfItsPartners) {
  PlayedB world;
  world.go_on_alone();
  world.b.state.record = world.next(MemberSet::both());
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }, kLease));
  world.b.says = [](const Message& m) { return is(m, MessageType::state) ? Errc::foreign : Errc::ok; };  // not attached
  world.b.restart();
  EXPECT_FALSE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }, 20 * kLease)) << "it remembers";
}

/// What it has begun with may be acknowledged while it ends what is under way.
TEST(OnlyMember, ThatServesAgreesToNoEpochWithoutItself) {
  PlayedB world;
  world.go_on_alone();
  auto& proposal = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return proposal.done; }));
  EXPECT_TRUE(proposal.ended_with(Errc::refused));
}

/// B would bring it up to date: what A acknowledged is nowhere else.
TEST(OnlyMember, ThatWroteAgreesToNoEpochWithoutItself) {
  PlayedB world;
  world.go_on_alone();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::map); };
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 1));
  auto& proposal = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return proposal.done; }));
  EXPECT_TRUE(proposal.ended_with(Errc::refused));
  world.b.state.record = world.next(MemberSet::both());
  world.b.tell_state();
  const auto parted = [&] {
    const auto& epoch = world.pair.status(kA).epoch;
    return epoch.members == MemberSet::only(kB) && epoch.ancestors.empty();
  };
  EXPECT_TRUE(world.pair.wait_for(parted, 3 * kLease));
  EXPECT_FALSE(world.pair.status(kA).serving);
}

}  // namespace
}  // namespace lockstep::simulation
