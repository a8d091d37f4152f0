// Leases and steps of a node whose partner the test plays: what it takes of it at which moment, and what it tells it.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

// ---- leases --------------------------------------------------------------------------------------------------------

TEST(GrantedLease, IsOfTheEpochInForce) {
  PlayedB world;
  engine::Uuid another = world.b.state.record.id;
  EXPECT_TRUE(world.b.is_granted(another));
  another.bytes[0] ^= 1;
  EXPECT_FALSE(world.b.is_granted(another));
}

TEST(GrantedLease, IsNoneWhileTheNodeIsSuspended) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).fences() == 1; })) << "it holds nothing any more";
  EXPECT_FALSE(world.b.is_granted(world.b.state.record.id)) << "B may be what goes on alone after it";
}

TEST(GrantedLease, IsNoneWhileTheNodeIsInATransition) {
  PlayedB world;
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.b.is_granted(world.b.state.record.id));
}

TEST(Lease, ThatWasRefusedIsNone) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  world.b.grants_leases = false;
  world.back_in_touch();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::resume).empty(); }));
  auto& read = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kLease / 2);
  EXPECT_FALSE(read.done && !read.status());
}

/// It is decided later what becomes of a forward: what was carried out came here as an order, too.
TEST(KeptSessions, AnAnswerToAForwardIsNotPassedOnMeanwhile) {
  PlayedB world(b_orders);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  auto& write = world.pair.write(kA, kBlockOfBoth, 2);
  world.b.grants_leases = false;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  ASSERT_FALSE(world.b.received(MessageType::forward).empty());
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(write.done);
}

// ---- steps ---------------------------------------------------------------------------------------------------------

TEST(Proposal, OfANumberThatThisNodeAskedTheWitnessForIsRefused) {
  PlayedB world;
  world.let_a_win();
  EXPECT_GT(world.told().attempted, world.b.state.record.number) << "B would propose what may be there already";
  auto& low = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return low.done; }));
  EXPECT_TRUE(low.ended_with(Errc::refused));
}

TEST(Proposal, DuringAStepOfThisNodesOwnIsRefused) {
  PlayedB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  world.b.state.able = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  auto& late = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return late.done; }));
  EXPECT_TRUE(late.ended_with(Errc::refused));
}

/// What was asked may be carried out after the agreement.
TEST(Proposal, IsAboveEveryNumberThatThePartnerAskedTheWitnessFor) {
  constexpr std::uint64_t kAsked = 50;
  for (const bool able : {true, false}) {
    PlayedB world;
    world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
    world.b.state.able = able;
    world.b.state.attempted = kAsked;
    world.b.tell_state();
    ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
    EXPECT_EQ(world.b.proposals.back().members, able ? MemberSet::both() : MemberSet::only(kA));
    EXPECT_GT(world.b.proposals.back().number, kAsked);
  }
}

/// B still keeps its sessions when A begins to agree with it, and takes no order meanwhile.
TEST(Driver, SendsAgainWhatItsPartnerCouldNotTakeYet) {
  PlayedB world;
  world.come_back_after_an_attempt(world.b.state.record.number + 1);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }, kLease / 4)) << "it waits for the write";
}

/// A waits for orders that B, which won at the witness, takes no more.
TEST(Driver, TakesOverWhatItsPartnerRecordedMeanwhile) {
  PlayedB world;
  const engine::EpochRecord won = world.next(MemberSet::only(kB));
  world.come_back_after_an_attempt(won.number);
  world.b.state.record = won;
  world.b.state.attempted = 0;
  world.b.state.serving = true;
  world.b.tell_state();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.id == won.id; }, kLease / 4));
}

TEST(Proposal, ThatNobodyKnowsToBeTakenLetsNobodyServe) {
  PlayedB world;
  world.keep_a_proposal();
  world.pair.world().way_from(kA).reset();
  EXPECT_FALSE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }, 10 * kSoon))
      << "B may have won what is below, and serve";
}

TEST(Proposal, ToLeaveThatNobodyKnowsToBeTakenLetsNobodyGoOnAlone) {
  PlayedB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  world.b.state.able = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  world.pair.world().way_from(kA).reset();
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo)) << "B may answer reads still";
}

TEST(Leaver, AnswersWhenItsRecordIsDurable) {
  PlayedB world;
  world.hang_metadata();
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(200 * kMillisecond);
  EXPECT_FALSE(leave.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  EXPECT_TRUE(leave.ended_with(Errc::ok));
}

TEST(Leaver, ThatCannotRecordSaysSo) {
  PlayedB world;
  world.spoil_metadata([](StoreFaults& f) { f.write_error = kAlways; });
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  EXPECT_TRUE(leave.ended_with(Errc::io_error));
}

/// From before it records: whatever happens until that is durable.
TEST(Leaver, ThatLosesTouchWhileItRecordsIsNoMember) {
  PlayedB world(patient);
  world.hang_metadata();
  world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(kSoon);
  world.b.keeps = PlayedB::silent;
  auto& read = world.pair.read(kA, kBlockOfBoth);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).fences() == 1; }, 2 * kLease))
      << "its initiators wait for a node that has left";
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.pair.status(kA).epoch.members.contains(kA));
  EXPECT_TRUE(read.done && read.status());
}

/// Copies of a resync, and what came by the mirror, may stand in a cache.
TEST(Joining, ATargetThatCannotFlushIsNoMember) {
  PlayedB world(b_orders);
  world.leave_a_behind();
  world.pair.spoil(kA, [](StoreFaults& f) { f.flush_error = kAlways; });
  auto& join = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return join.done; }));
  EXPECT_FALSE(join.ended_with(Errc::ok));
  EXPECT_FALSE(world.pair.status(kA).epoch.members.contains(kA));
}

TEST(Resuming, IsNotForAProcessThatHasJustStarted) {
  PlayedB world(b_orders);
  world.pair.host(kA).end(Host::End::killed);
  world.pair.host(kA).boot();
  world.pair.run_for(kLease / 2);
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::resume)).ended_with(Errc::refused));
  EXPECT_FALSE(world.pair.status(kA).serving);
}

TEST(Resuming, IsNotForWhoAskedTheWitnessForAnotherEpoch) {
  PlayedB world(b_orders);
  world.let_a_win();
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::resume)).ended_with(Errc::refused));
}

// ---- records that come late ----------------------------------------------------------------------------------------

TEST(LateRecord, ThatFailedMakesNothingGood) {
  PlayedB world;
  world.let_a_win();
  ASSERT_EQ(world.pair.host(kA).metadata(0).in_flight(), 0u) << "its record is not begun yet";
  world.spoil_metadata([](StoreFaults& f) { f.hang = f.write_error = kAlways; });
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::failed); }));
  world.pair.mend(kA);
  EXPECT_FALSE(world.pair.wait_for([&] { return !world.pair.is(kA, MirrorState::failed); }, 10 * kSoon));
}

/// A won at the witness, then followed B into a later epoch, whose record came so late that nothing of it was agreed.
TEST(LateRecord, OfALaterEpochMakesAnEarlierWinVoid) {
  PlayedB world;
  world.let_a_win();
  world.hang_metadata();
  const engine::EpochRecord both = world.next(MemberSet::both(), 10);
  auto& proposal = world.b.propose(both);
  ASSERT_TRUE(world.pair.wait_for([&] { return proposal.done; }));
  ASSERT_FALSE(proposal.ended_with(Errc::ok));
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.id == both.id; }));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, 3 * kLease));
  EXPECT_GT(world.witnessed()->number, both.number);
}

TEST(LateRecord, MakesNothingGoodButItsOwnLateness) {
  PlayedB world(b_orders);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  world.hang_metadata();
  const engine::EpochRecord next = world.next(MemberSet::only(kB));
  auto& leave = world.b.propose(next);
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  ASSERT_FALSE(leave.ended_with(Errc::ok));
  world.b.state.record = next;
  world.pair.mend(kA);
  world.b.tell_state();
  world.pair.run_for(kLease);
  EXPECT_FALSE(world.pair.status(kA).serving) << "its data store failed, too";
}

// ---- more of what is proposed --------------------------------------------------------------------------------------

TEST(Proposal, ThatIsFollowedEndsWhatThisNodeWantedAlone) {
  PlayedB world;
  world.let_a_win();
  auto& both = world.b.propose(world.next(MemberSet::both(), 10));
  ASSERT_TRUE(world.pair.wait_for([&] { return both.done; }));
  ASSERT_TRUE(both.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.state.serving = true;
  world.back_in_touch();
  world.pair.run_for(2 * kLease);
  EXPECT_EQ(world.pair.status(kA).epoch, world.b.state.record);
  EXPECT_EQ(world.fences(), 1u) << "it was in sync again, and went on from there";
}

TEST(Proposal, FromAnotherRecordThanThisNodesIsRefused) {
  PlayedB world;
  engine::Uuid base = world.b.state.record.id;
  base.bytes[0] ^= 1;
  auto& late = world.b.propose(world.next(MemberSet::only(kB)), base);
  ASSERT_TRUE(world.pair.wait_for([&] { return late.done; }));
  EXPECT_TRUE(late.ended_with(Errc::refused));
}

TEST(Joining, IsNotForAReplicaWhoseStoreFailed) {
  PlayedB world(b_orders);
  world.leave_a_behind();
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = 0; });
  auto& join = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return join.done; }));
  EXPECT_TRUE(join.ended_with(Errc::refused));
}

/// The order that waits for its store keeps it from leaving, and not from taking others once that was given up.
TEST(Leaver, ThatGaveItUpTakesOrdersAgain) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.store_deadline = 60 * kSecond;
  });
  world.hang_an_order();
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }, 4 * kLease));
  ASSERT_TRUE(leave.ended_with(Errc::refused));
  world.pair.mend(kA);
  Message m = world.order(2);
  m.extent.offset += kBlock;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(2)).ended_with(Errc::ok));
}

TEST(Leaver, ThatLostContactMeanwhileResumes) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.store_deadline = 60 * kSecond;
  });
  world.pair.host(kA).witness().set_reachable(false);
  world.hang_an_order();
  world.b.propose(world.next(MemberSet::only(kB)));
  world.b.state.serving = false;
  world.b.keeps = PlayedB::silent;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).fences() == 1; })) << "it holds nothing any more";
  world.b.keeps = [](const Message&) { return false; };
  world.b.let_go(Errc::ok);
  const auto resumes = [&] { return world.b.ask(world.b.message(MessageType::resume)).ended_with(Errc::ok); };
  EXPECT_TRUE(world.pair.wait_for(resumes, 4 * kLease));
}

/// A read that its store returns when this node has left is of no member's.
TEST(Leaver, AnswersNothingThatAHungStoreReturnsLate) {
  PlayedB world;
  hang(world.pair, kA);
  auto& read = world.pair.read(kA, kBlockOfBoth);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).reason.empty(); }));
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  ASSERT_TRUE(leave.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.tell_state();
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(read.done && !read.status());
}

TEST(Resuming, IsOfTheEpochThatIsRecordedHere) {
  PlayedB world(b_orders);
  Message m = world.b.message(MessageType::resume);
  m.epoch.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m).ended_with(Errc::refused));
}

TEST(Resuming, IsOverWhenThePartnerAgreed) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.suspend();
  world.b.says = [](const Message& m) { return is(m, MessageType::resume) ? Errc::refused : Errc::ok; };
  world.back_in_touch();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::resume).empty(); }, kLease));
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.pair.status(kA).serving);
}

/// What it records may be durable any moment: it serves nothing from before that.
TEST(Driver, ThatLosesTouchWhileItRecordsSendsItsInitiatorsAway) {
  PlayedB world(patient);
  world.hang_metadata();
  world.b.state.attempted = 50;
  world.b.tell_state();
  world.pair.run_for(10 * kSoon);
  world.b.keeps = PlayedB::silent;
  EXPECT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, 2 * kLease));
}

/// This node stood still, by the partner's clock: what the target holds and does not answer is taken back.
TEST(Source, ThatStoodStillGoesOnWithoutItsTarget) {
  PlayedB world;
  world.go_on_alone();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate) || is(m, MessageType::propose); };
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::syncing_source); }));
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  world.b.state.able = false;
  world.b.clock_ahead = 3 * kLease;
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 3 * kLease));
}

}  // namespace
}  // namespace lockstep::simulation
