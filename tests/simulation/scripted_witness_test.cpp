// What a node asks of the witness and makes of its answers, whose order the test decides, beside a partner that the
// test plays; and what it says of a split, or to an operator who gives up or leaves.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;

/// B is lost, and requests to the witness and its answers go one by one.
struct AsksTheWitness : PlayedB {
  AsksTheWitness() : PlayedB(patient) {
    slow().hold();
    suspend();
    is_held(1);  // the question for the record
  }
  [[nodiscard]] SlowWitness& slow() { return pair.host(kA).slow_witness(); }
  void is_held(std::size_t count) {
    EXPECT_TRUE(pair.wait_for([&] { return slow().held() == count; }, kLease / 2)) << slow().held();
  }
  /// The request that waits first, and its answer.
  void answer_first() {
    const std::size_t others = slow().held() - 1;
    slow().let_go(0);
    is_held(others + 1);
    slow().let_go(others);
  }
  /// Above this epoch's number.
  [[nodiscard]] replication::WitnessRecord record_of(MemberSet members, std::uint64_t above = 1) const {
    engine::Uuid its{};
    its.bytes[0] = 1;
    return {b.state.record.number + above, its, members};
  }
};

/// It looked, and B was faster.
TEST(Witness, WhoseRecordChangedMeanwhileLetsNobodyGoOn) {
  AsksTheWitness world;
  world.answer_first();
  world.is_held(1);  // the swap
  world.at_the_witness(world.record_of(MemberSet::only(kB)));
  world.answer_first();
  world.pair.host(kA).witness().set_reachable(false);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.host(kA).program()->learnt(0)->record_members, MemberSet::only(kB))
      << "a witness that forgets it would let this node win";
  world.pair.run_for(2 * kLease);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
}

/// The two agreed between themselves; what the node asked for before that is void.
TEST(Witness, ThatAnswersWhatWasAbandonedIsAskedForNothingMore) {
  AsksTheWitness world;
  world.answer_first();
  world.is_held(1);
  world.at_the_witness(world.record_of(MemberSet::both()));
  world.slow().let_go(0);
  world.is_held(1);  // the answer: it lost
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  world.b.state.record = world.b.proposals.back();
  world.b.state.serving = true;
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }));
  const std::size_t others = world.slow().held() - 1;
  world.slow().let_go(0);
  world.pair.run_for(kSoon);
  if (world.slow().held() > others) world.slow().let_go(others);
  world.pair.run_for(10 * kSoon);
  EXPECT_TRUE(world.witnessed()->members.is_both());
}

/// Without one B may have gone on alone already.
TEST(Witness, IsToldOfAnEpochOfBothUnderALeaseOnly) {
  for (const bool leased : {true, false}) {
    PlayedB world;
    world.b.grants_leases = leased;
    world.b.state.attempted = world.b.state.record.number + 50;
    world.b.tell_state();
    ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
    world.b.state.record = world.b.proposals.back();
    world.b.state.attempted = 0;
    world.b.state.serving = true;
    world.pair.run_for(5 * kSoon);
    EXPECT_EQ(world.witnessed()->number == world.b.state.record.number, leased);
  }
}

/// Which may be far behind: nobody could tell it of the epochs since.
TEST(Witness, IsAskedForANumberAboveTheEpochs) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  auto& proposal = world.b.propose(world.next(MemberSet::both(), 10));
  ASSERT_TRUE(world.pair.wait_for([&] { return proposal.done; }));
  ASSERT_TRUE(proposal.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.tell_state();
  world.suspend();
  world.pair.host(kA).witness().set_reachable(true);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.witnessed()->members == MemberSet::only(kA); }, kLease));
  EXPECT_GT(world.witnessed()->number, world.b.state.record.number);
}

/// Of a node that follows: the epoch of both is on its way to its disk.
TEST(Witness, ThatWasAskedBeforeTheNodeFollowsIsAskedForNothingMore) {
  AsksTheWitness world;
  world.hang_metadata();
  world.b.propose(world.next(MemberSet::both()));
  world.pair.run_for(kMillisecond);
  world.answer_first();
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.slow().held(), 0u) << "a win while both agree shuts B out of a failover";
}

TEST(Witness, ThatWasAskedBeforeTheNodeAdoptsIsAskedForNothingMore) {
  AsksTheWitness world;
  world.hang_metadata();
  world.b.state.record = world.next(MemberSet::only(kB));
  world.b.state.serving = true;
  const std::size_t told = world.b.received(MessageType::state).size();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::heartbeat); };
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.received(MessageType::state).size() > told; }, kLease));
  world.pair.run_for(kMillisecond);
  world.answer_first();
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.slow().held(), 0u) << "B goes on alone, and this node knows";
}

/// An answer that was overtaken by a later one shows less than what is known by now: it was all that there was.
TEST(Witness, IsJudgedByWhatWasKnownWhenItWasAsked) {
  PlayedB world(patient);
  auto& slow = world.pair.host(kA).slow_witness();
  const auto is_held = [&](std::size_t count) {
    return world.pair.wait_for([&] { return slow.held() == count; }, 30 * kSecond);
  };
  slow.hold();
  ASSERT_TRUE(is_held(1)) << "a node in sync looks now and then";
  world.suspend();
  ASSERT_TRUE(is_held(2));
  slow.let_go(1);
  ASSERT_TRUE(is_held(2)) << "the answer to the second question";
  engine::Uuid another{};
  another.bytes[0] = 7;
  ASSERT_TRUE(world.pair.world().witness.swap(another, 0, {1, another, MemberSet::both()}).won);
  slow.let_go(0);
  ASSERT_TRUE(is_held(2)) << "the answer to the first";
  slow.let_go(1);
  slow.let_go(0);
  world.pair.run_for(kSoon);
  EXPECT_EQ(slow.held(), 1u) << "it asks to go on alone: " << world.pair.status(kA).reason;
}

/// It looked in sync. The epoch of both that it has recorded since B has not agreed to, and B won meanwhile.
TEST(Witness, IsToldOfNoEpochThatIsNotServedYet) {
  PlayedB world(patient);
  auto& slow = world.pair.host(kA).slow_witness();
  slow.hold();
  ASSERT_TRUE(world.pair.wait_for([&] { return slow.held() == 1; }, 30 * kSecond));
  world.keep_a_proposal();
  engine::Uuid its{};
  its.bytes[0] = 1;
  world.at_the_witness({world.b.state.record.number + 1, its, MemberSet::only(kB)});
  slow.let_go(0);
  ASSERT_TRUE(world.pair.wait_for([&] { return slow.held() == 1; }, kSoon)) << "the answer";
  slow.let_go(0);
  world.pair.run_for(kSoon);
  EXPECT_EQ(slow.held(), 0u) << "it would take B's word back, by which B goes on alone";
}

/// Volumes that were made one after the other, or whose answers were: what they ask for at one moment is one request.
TEST(Witness, IsLookedAtByAllVolumesOfANodeAtOnce) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.volumes.push_back(s.volumes[0]);
    s.volumes[1].id.bytes[0] ^= 1;
    s.volumes[1].size = s.volume_size();
  });
  auto& slow = pair.host(kA).slow_witness();
  const auto is_held = [&](std::size_t count, Nanos patience) {
    return pair.wait_for([&] { return slow.held() >= count; }, patience);
  };
  const auto answer = [&] {  // the one that waits longest
    const std::size_t others = slow.held() - 1;
    slow.let_go(0);
    ASSERT_TRUE(is_held(others + 1, kSoon));
    slow.let_go(others);
  };
  slow.hold();
  ASSERT_TRUE(is_held(2, 30 * kSecond));
  answer();
  pair.run_for(7 * kSecond);
  answer();
  for (int looks = 0; looks < 3; ++looks) {
    ASSERT_TRUE(is_held(1, 20 * kSecond + kSoon));
    pair.run_for(kSoon);
    ASSERT_EQ(slow.held(), 2u) << "one looks without the other";
    answer();
    answer();
  }
}

/// All pairs that it serves may have lost a node at once.
TEST(Witness, ThatTakesLongToAnswerIsAskedLessOftenByANodeThatIsAlone) {
  PlayedB world(patient);
  world.go_on_alone();
  world.pair.run_for(10 * kSecond);  // it hears of the generations
  auto& slow = world.pair.host(kA).slow_witness();
  const auto is_held = [&](Nanos patience) { return world.pair.wait_for([&] { return slow.held() == 1; }, patience); };
  slow.hold();
  ASSERT_TRUE(is_held(kSecond)) << "one that answers at once is looked at twice a second";
  slow.let_go(0);
  ASSERT_TRUE(is_held(kSoon)) << "the answer";
  world.pair.run_for(200 * kMillisecond);
  slow.let_go(0);
  EXPECT_FALSE(is_held(1900 * kMillisecond));
  EXPECT_TRUE(is_held(kSecond));
  world.pair.run_for(10 * kSecond);
  slow.let_go(0);
  ASSERT_TRUE(is_held(kSoon));
  slow.let_go(0);
  EXPECT_FALSE(is_held(4900 * kMillisecond));
  EXPECT_TRUE(is_held(200 * kMillisecond)) << "but not too seldom: a partner may know nothing of the record";
}

TEST(Witness, WhatWasWonThereIsKnownWithTheEpochThatFollows) {
  PlayedB world;
  world.let_a_win();
  world.pair.host(kA).witness().set_reachable(false);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  const auto learnt = *world.pair.host(kA).program()->learnt(0);
  EXPECT_EQ(learnt.record_epoch, world.pair.status(kA).epoch.id);
  EXPECT_EQ(learnt.record_members, MemberSet::only(kA));
}

/// What was won before an agreement is not won again after it.
TEST(Witness, IsAskedAnewAfterAnAgreementThatItHasNotHeardOf) {
  PlayedB world;
  world.let_a_win();
  world.pair.host(kA).witness().set_reachable(false);
  auto& agreed = world.b.propose(world.next(MemberSet::both(), 10));
  ASSERT_TRUE(world.pair.wait_for([&] { return agreed.done; }));
  ASSERT_TRUE(agreed.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.state.serving = true;
  world.back_in_touch();
  world.pair.run_for(kLease);
  ASSERT_TRUE(world.pair.is(kA, MirrorState::in_sync));
  world.suspend();
  world.pair.host(kA).witness().set_reachable(true);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, 4 * kLease));
  EXPECT_GT(world.pair.status(kA).epoch.number, world.b.state.record.number);
}

/// Made anew by somebody who kept what the nodes wrote there. B may go by it.
TEST(Witness, ThatIsAnotherOneIsNotPutRightByANodeThatIsAlone) {
  PlayedB world;
  world.pair.host(kA).witness().set_reachable(false);
  world.go_on_alone();
  SimRandom first_record(1);
  world.pair.world().witness.make_anew(first_record);
  world.pair.host(kA).witness().set_reachable(true);
  const auto there = world.witnessed();
  ASSERT_LT(there->number, world.pair.status(kA).epoch.number) << "the test shows nothing";
  world.pair.run_for(10 * kSecond);
  EXPECT_EQ(world.witnessed(), there);
}

TEST(Witness, WhoseRecordIsAboveTheEpochIsNotOverwritten) {
  PlayedB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  engine::Uuid its{};
  its.bytes[0] = 1;
  const std::uint64_t number = world.b.state.record.number + 1;
  world.at_the_witness({number, its, MemberSet::only(kB)});
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); })) << "the two agree on a higher one";
  EXPECT_GT(world.b.proposals.back().number, number);
  EXPECT_EQ(world.witnessed()->epoch, its);
}

/// Its copy is new, and the witness could not be reached since: what a witness says now may be of before.
TEST(Witness, ThatWasNeverSeenInSyncGrantsNothing) {
  ScriptedPair pair(pair_program());
  pair.host(kA).witness().set_reachable(false);
  pair.host(kA).program()->leave(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo) && pair.is(kA, MirrorState::left); }));
  pair.host(kA).replace_copy(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync); }));
  pair.run_for(kSecond);
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::suspended); }));
  pair.host(kA).witness().set_reachable(true);
  pair.run_for(20 * kSecond);
  EXPECT_FALSE(pair.status(kA).serving);
  EXPECT_NE(pair.status(kA).reason.find("had not seen the witness"), std::string::npos) << pair.status(kA).reason;
}

// ---- operators -----------------------------------------------------------------------------------------------------

TEST(Leaving, OfTheOnlyMemberIsRefusedForNobodyWouldBeLeft) {
  ScriptedPair pair(pair_program());
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  std::optional<engine::Result<void>> said;
  pair.host(kA).program()->leave(0, [&](engine::Result<void> r) { said = std::move(r); });
  ASSERT_TRUE(pair.wait_for([&] { return said.has_value(); }));
  ASSERT_FALSE(said->has_value());
  EXPECT_EQ(said->error().code, make_error_code(Errc::refused));
  EXPECT_NE(said->error().message.find("only member"), std::string::npos) << said->error().message;
  EXPECT_TRUE(pair.status(kA).serving);
}

/// B is of another line: neither record descends from the other.
struct SplitFromB : PlayedB {
  SplitFromB() {
    pair.run_for(2 * kSoon);  // states are not exchanged at every moment
    b.state.record = next(MemberSet::only(kB));
    b.state.record.ancestors.clear();
    b.tell_state();
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::split_brain); }));
    before = pair.status(kA).epoch;
  }
  void give_up() {
    pair.host(kA).program()->give_up(0, [this](engine::Result<void> r) { said = r.has_value(); });
  }
  engine::EpochRecord before;
  std::optional<bool> said;
};

/// B may give up as well: nobody's data would be kept.
TEST(GivingUp, IsRefusedWhileThePartnerIsInAChange) {
  SplitFromB world;
  world.b.state.changing = true;
  world.give_up();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.said.has_value(); }));
  EXPECT_FALSE(*world.said);
  EXPECT_EQ(world.pair.status(kA).epoch, world.before);
}

/// B may have begun to give up since it gave an answer that is on its way.
TEST(GivingUp, GoesByAnAnswerToAQuestionOfThisMoment) {
  SplitFromB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  const auto asked = [&] { return world.b.received(MessageType::state).size(); };
  const std::size_t until_now = asked();
  ASSERT_TRUE(world.pair.wait_for([&] { return asked() == until_now + 1; }));
  world.give_up();
  ASSERT_TRUE(world.pair.wait_for([&] { return asked() == until_now + 2; }, kSoon));
  world.b.let_go_first(Errc::ok);
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.said.has_value());
  EXPECT_EQ(world.pair.status(kA).epoch, world.before);
  world.b.state.changing = true;
  world.b.let_go_first(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.said.has_value(); }));
  EXPECT_FALSE(*world.said);
}

}  // namespace
}  // namespace lockstep::simulation
