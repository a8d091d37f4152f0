// What a step from one epoch to the next drains, waits for and leaves behind, beside a partner that the test plays.
#include <algorithm>

#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kRegion = 4096, kRegionBlocks = kRegion / kBlock;

void b_orders_patient(Scenario& s) {
  b_orders(s);
  s.store_deadline = 60 * kSecond;
}

Message order_at(const PlayedB& world, std::uint64_t sequence, std::uint64_t block) {
  Message m = world.order(sequence);
  m.extent.offset = block * kBlock;
  return m;
}

bool store_has_failed(PlayedB& world) {
  return world.pair.wait_for([&] { return !world.pair.status(kA).reason.empty(); });
}

// ---- orders of an epoch that ends ----------------------------------------------------------------------------------

TEST(Order, IsRefusedWhileATransitionDrains) {
  PlayedB world(b_orders_patient);
  world.hang_an_order();
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(kSoon);
  EXPECT_TRUE(world.b.ask(order_at(world, 2, 64), PlayedB::block_of(2)).ended_with(Errc::stale));
}

TEST(Order, ThatWaitsForItsRangeEndsWithItsEpoch) {
  PlayedB world(b_orders_patient);
  world.hang_an_order();
  auto& waits = world.b.send(world.order(2), PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  ASSERT_FALSE(waits.done);
  world.b.propose(world.next(MemberSet::only(kB)));
  world.pair.run_for(kSoon);
  EXPECT_TRUE(waits.ended_with(Errc::stale));
}

/// A replica that leaves does not wait for its store. It holds no epoch's truth any more, in touch with B or not.
TEST(Order, ThatAHungStoreReturnsWhenItsEpochIsOverIsNotAcknowledged) {
  for (const bool in_touch : {true, false}) {
    PlayedB world(b_orders);
    hang(world.pair, kA);
    auto& late = world.b.send(world.order(1), PlayedB::block_of(1));
    ASSERT_TRUE(store_has_failed(world));
    auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
    ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
    ASSERT_TRUE(leave.ended_with(Errc::ok));
    world.b.state.record = world.pair.status(kA).epoch;
    world.b.tell_state();
    if (!in_touch) {
      const unsigned before = world.fences();
      world.b.keeps = PlayedB::silent;
      ASSERT_TRUE(world.pair.wait_for([&] { return world.fences() > before; }));
    }
    ASSERT_FALSE(late.done);
    world.pair.mend(kA);
    world.pair.run_for(kSoon);
    EXPECT_TRUE(late.ended_with(Errc::stale)) << (in_touch ? "in touch" : "out of touch");
  }
}

/// B's writes of the old epoch would land on those of the new one. The store fails in the middle of the step.
TEST(Joining, WaitsForAllThatTheStoreWasGiven) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.store_deadline = 3 * kSecond;
  });
  hang(world.pair, kA);
  for (const std::uint64_t sequence : {1, 2}) {
    world.b.send(order_at(world, sequence, 64 * sequence), PlayedB::block_of(1));
  }
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  auto& join = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(store_has_failed(world));
  ASSERT_FALSE(join.done);
  world.pair.host(kA).data(0).release_first_hung();
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(join.done);
}

/// It may be gone with the next power cut: what is shown of it is made durable first.
TEST(Order, ThatFailedIsSettledBeforeItIsShown) {
  constexpr std::uint64_t kFirst = 64, kSome = 16;
  PlayedB world(b_orders);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  for (std::uint64_t i = 0; i < kSome; ++i) world.b.send(order_at(world, i + 1, kFirst + i), PlayedB::block_of(1));
  ASSERT_TRUE(store_has_failed(world));
  world.pair.run_for(kSoon);
  world.pair.mend(kA);
  world.b.state.able = world.b.state.serving = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  const auto stable = [&](std::uint64_t block) {
    return std::to_integer<int>(world.pair.host(kA).data(0).stable()[block * kBlock]);
  };
  bool left_something = false;
  for (std::uint64_t block = kFirst; block < kFirst + kSome; ++block) {
    const int before = stable(block);
    const int shown = world.pair.value_at(kA, block);
    left_something |= shown != before;
    EXPECT_EQ(shown, stable(block)) << "block " << block;
  }
  EXPECT_TRUE(left_something) << "the test shows nothing";
}

/// The sequencer vouches for the range: it is equal, or the bytes of either may be taken.
TEST(Fetch, IsAnsweredByAMemberWhoseStoreIsBeingMadeEqual) {
  PlayedB world(b_orders);
  auto& agreed = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return agreed.done; }));
  ASSERT_TRUE(agreed.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  Message m = world.b.message(MessageType::fetch);
  m.extent = {0, kBlock};
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::ok));
  ASSERT_TRUE(world.b.ask(world.b.message(MessageType::equal)).ended_with(Errc::ok));
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::ok));
}

TEST(Fetch, IsRefusedByATarget) {
  PlayedB world;
  world.b.state.serving = true;
  world.leave_a_behind();
  Message m = world.b.message(MessageType::fetch);
  m.extent = {0, kBlock};
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::stale));
}

// ---- stores that failed --------------------------------------------------------------------------------------------

/// What it still holds could land on what is written since.
TEST(FailedStore, IsFitToGoOnAloneOnlyWhenItHoldsNothing) {
  PlayedB world(b_orders_patient);
  hang(world.pair, kA);
  world.pair.read(kA, 64);
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) {
    f.hang = 0;
    f.write_error = kAlways;
  });
  ASSERT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  EXPECT_FALSE(world.told().only_failed_operations);
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_TRUE(world.told().only_failed_operations);
}

/// What the process before wrote may be lost.
TEST(FailedStore, ThatFailedItsFirstFlushIsNotFitToGoOnAlone) {
  PlayedB world(b_orders);
  world.pair.host(kA).end(Host::End::killed);
  world.pair.spoil(kA, [](StoreFaults& f) { f.flush_error = kAlways; });
  world.pair.host(kA).boot();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.in_touch(); }));
  world.pair.run_for(kLease / 4);
  const auto told = world.told();
  EXPECT_FALSE(told.able);
  EXPECT_FALSE(told.only_failed_operations);
}

TEST(FailedStore, BesideAnotherThatFailedIsToldToTheOperator) {
  PlayedB world(b_orders);
  world.pair.spoil(kA, [](StoreFaults& f) { f.flush_error = kAlways; });
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::flush)).ended_with(Errc::io_error));
  world.b.state.able = false;
  world.b.tell_state();
  world.pair.run_for(kLease / 4);
  EXPECT_TRUE(world.pair.is(kA, MirrorState::failed)) << world.pair.status(kA).reason;
}

TEST(FailedMetadata, LeavesNobodyWaiting) {
  PlayedB world(b_orders);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  ASSERT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  auto& held = world.pair.read(kA, 64);
  world.pair.run_for(kSoon);
  ASSERT_FALSE(held.done) << "its partner is to go on alone, and answers it then";
  world.spoil_metadata([](StoreFaults& f) { f.write_error = kAlways; });
  scsi::LuState newer;
  newer.version = world.version + 1;
  EXPECT_TRUE(world.b.tell_unit_state(newer).ended_with(Errc::io_error));
  auto& late = world.pair.read(kA, 64);
  world.pair.run_for(kSoon);
  EXPECT_TRUE(held.done && held.status());
  EXPECT_TRUE(late.done && late.status());
}

/// What it wrote last, and did not answer for, may be half there.
TEST(Leaver, WhoseMetadataFailedMeanwhileCouldNotRecord) {
  PlayedB world(b_orders_patient);
  world.hang_metadata();
  scsi::LuState newer;
  newer.version = world.version + 1;
  world.b.send_unit_state(newer);
  world.pair.run_for(kLease / 8);
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::failed); }));
  ASSERT_FALSE(leave.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  EXPECT_TRUE(leave.ended_with(Errc::io_error));
}

/// It was given up; B asks again, and the node notes elsewhere that it has left. Meanwhile the record is durable.
TEST(LateRecord, ThatReturnsDuringAStepCountsWhenThatIsOver) {
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.arbiter = {engine::ArbiterKind::preferred, kB, {}};
  });
  world.hang_metadata();
  const engine::EpochRecord next = world.next(MemberSet::only(kB));
  auto& leave = world.b.propose(next);
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done && world.pair.is(kA, MirrorState::failed); }));
  world.spoil_metadata([](StoreFaults& f) { f.hang = 0; });
  auto& again = world.b.propose(next);
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.host(kA).left_records().records.empty(); }));
  world.pair.host(kA).metadata(0).release_first_hung();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.id == next.id; }));
  ASSERT_FALSE(again.done) << "the test shows nothing";
  EXPECT_TRUE(world.pair.wait_for([&] { return !world.pair.is(kA, MirrorState::failed); }, kLease));
}

// ---- steps that this node drives -----------------------------------------------------------------------------------

/// B may have lost, with its power, what its store had not flushed: that the two are equal is not certain any more.
TEST(Driver, ProposesNothingThatItRecordedWhileItsPartnerWasAway) {
  PlayedB world(patient);
  world.pair.run_for(2 * kSoon);  // states are not exchanged at every moment
  world.hang_metadata();
  world.b.state.attempted = 50;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).metadata(0).in_flight() > 0; }, kLease / 4));
  const std::size_t asked = world.b.received(MessageType::state).size();
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.received(MessageType::state).size() > asked; }));
  world.pair.run_for(kSoon);
  ASSERT_TRUE(world.b.proposals.empty());
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).epoch.number > 50; }));
  const auto recorded = world.pair.status(kA).epoch.id;
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  for (const auto& proposed : world.b.proposals) EXPECT_NE(proposed.id, recorded);
}

/// B may go on alone: what this node wanted to agree on is over.
TEST(Driver, ThatLosesItsLeaseWhileItDrainsRecordsNothing) {
  PlayedB world(patient);
  const auto before = world.pair.status(kA).epoch.id;
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.b.state.attempted = 50;
  world.b.tell_state();
  world.pair.run_for(kSoon);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  world.b.grants_leases = false;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.status(kA).epoch.id, before);
  EXPECT_TRUE(world.b.proposals.empty());
}

/// What it still holds could land on what is written since. It fails in the middle of the step.
TEST(GoingAlone, ByAgreementWaitsForAllThatTheStoreWasGiven) {
  PlayedB world;
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  world.b.state.able = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  ASSERT_TRUE(store_has_failed(world));
  world.b.let_go(Errc::ok);
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.pair.is(kA, MirrorState::solo));
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }, kLease));
}

TEST(Adopting, ARecordThatIsNotAboveItsOwnChangesNothing) {
  PlayedB world;
  world.pair.run_for(2 * kSoon);  // states are not exchanged at every moment
  const auto before = world.pair.status(kA).epoch;
  world.b.state.record = world.next(MemberSet::only(kB));
  world.b.state.record.number = before.number;
  world.b.tell_state();
  world.pair.run_for(10 * kSoon);
  EXPECT_EQ(world.pair.status(kA).epoch, before);
  EXPECT_EQ(world.fences(), 0u);
}

TEST(Adopting, EndsWhatTheNodeWantedAlone) {
  PlayedB world;
  world.let_a_win();
  world.b.state.record = world.next(MemberSet::only(kB), 10);
  world.b.state.serving = true;
  world.back_in_touch();
  const auto its = world.b.state.record.id;
  ASSERT_TRUE(
      world.pair.wait_for([&] { return world.pair.status(kA).epoch.id == its && world.pair.status(kA).serving; }));
  const unsigned before = world.fences();
  world.pair.run_for(3 * kLease);
  EXPECT_EQ(world.fences(), before);
  EXPECT_TRUE(world.pair.status(kA).serving);
}

/// It has granted leases that run, and B may be only slow to start with it.
TEST(Starting, TheWitnessIsAskedWhenThePartnerHadTimeToCall) {
  PlayedB world;
  world.pair.host(kA).end(Host::End::killed);
  world.b.keeps = [](const Message&) { return true; };
  world.pair.host(kA).boot();
  world.pair.run_for(kLease * 3 / 4);
  EXPECT_TRUE(world.witnessed()->members.is_both());
  EXPECT_TRUE(world.pair.wait_for([&] { return world.witnessed()->members == MemberSet::only(kA); }, kLease));
}

// ---- orders and targets over a way that breaks ---------------------------------------------------------------------

TEST(Order, ThatWasLostWithItsWayGoesOutAgainEachTimeThatTheStatesWereExchanged) {
  PlayedB world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate); };
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  for (std::size_t sent = 1; sent <= 3; ++sent) {
    ASSERT_EQ(world.b.received(MessageType::replicate).size(), sent);
    world.pair.world().way_from(kA).reset();
    world.pair.wait_for([&] { return world.b.received(MessageType::replicate).size() > sent; }, 12 * kSoon);
  }
}

/// A alone, with B as its target, which answers no copy: the first region differs, the third one does not.
struct WithTarget : PlayedB {
  WithTarget() {
    b.keeps = [](const Message& m) { return is(m, MessageType::copy); };
    go_on_alone();
    b.proposals.clear();
    EXPECT_FALSE(pair.written(kA, 0, 1));
    EXPECT_TRUE(pair.wait_for([&] { return !b.received(MessageType::copy).empty(); }));
  }
  [[nodiscard]] bool is_copied(std::uint64_t region) const {
    return std::ranges::any_of(b.received(MessageType::copy),
                               [&](const Message& m) { return m.extent.offset == region * kRegion; });
  }
};
constexpr std::uint64_t kEqual = 2;

TEST(Source, BringsATargetUpToDateAnewWhenTheWayToItBroke) {
  WithTarget world;
  ASSERT_FALSE(world.is_copied(kEqual));
  world.b.keeps = [](const Message& m) { return is(m, MessageType::copy) || is(m, MessageType::replicate); };
  auto& write = world.pair.write(kA, kEqual * kRegionBlocks, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::replicate).empty(); }));
  world.pair.world().way_from(kA).reset();
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  EXPECT_TRUE(world.is_copied(kEqual)) << "it joins, and lacks a write";
}

TEST(Joining, IsNotForATargetThatRefusedAnOrderMeanwhile) {
  WithTarget world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::propose) || is(m, MessageType::replicate); };
  world.b.let_go(Errc::ok);
  auto& write = world.pair.write(kA, kEqual * kRegionBlocks, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.received(MessageType::replicate).empty(); }));
  world.pair.run_for(kSoon);
  ASSERT_FALSE(world.is_copied(kEqual));
  ASSERT_TRUE(world.b.proposals.empty());
  world.b.let_go(Errc::stale);
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.b.proposals.empty(); }));
  EXPECT_TRUE(world.is_copied(kEqual)) << "it joins, and lacks a write";
}

}  // namespace
}  // namespace lockstep::simulation
