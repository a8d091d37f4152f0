// Forwards, where they are ordered and where they come from, beside a partner that the test plays: what is carried out
// once, what becomes of one that waits, and which answers count.
#include <algorithm>

#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kAnotherBlock = 64;

bool is_forward(const Message& m) { return is(m, MessageType::forward); }

// ---- where they are ordered ----------------------------------------------------------------------------------------

/// What B orders is shown here when B says so: B's own read is B's to answer.
TEST(ForwardToThis, OfAReadIsRefusedByANodeThatDoesNotOrder) {
  PlayedB world(b_orders);
  Message m = world.forward(1);
  m.opcode = DiskOpcode::read;
  EXPECT_TRUE(world.b.ask(m, {}, kBlock).ended_with(Errc::stale));
}

TEST(ForwardToThis, ThatWasCarriedOutIsAnsweredAgainAndNotCarriedOutAgain) {
  PlayedB world;
  ASSERT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 2));
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 2);
}

/// Its sender asked whether it is still refused, and did not hear that it is not.
TEST(ForwardToThis, IsNotDoneByHavingBeenAllowed) {
  PlayedB world;
  Message asks = world.forward(1);
  asks.opcode = DiskOpcode::check_access;
  ASSERT_TRUE(world.b.ask(asks).ended_with(Errc::ok));
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(7)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 7);
}

TEST(ForwardToThis, ThatMiscomparedDidSoForGood) {
  PlayedB world;
  Message m = world.forward(1);
  m.opcode = DiskOpcode::compare_and_write;
  std::vector<std::byte> bytes = PlayedB::block_of(7);
  bytes.insert(bytes.end(), kBlock, std::byte{8});
  ASSERT_TRUE(world.b.ask(m, bytes).ended_with(Errc::miscompare));
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 7));
  EXPECT_TRUE(world.b.ask(m, bytes).ended_with(Errc::miscompare));
  EXPECT_EQ(world.stored(), 7);
}

TEST(ForwardToThis, OfANewProcessMayHaveALowerTagThanThoseOfTheOld) {
  PlayedB world;
  ASSERT_TRUE(world.b.ask(world.forward(5), PlayedB::block_of(5)).ended_with(Errc::ok));
  world.b.restart();
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 1);
}

TEST(ForwardToThis, ThatWasCheckedUnderAnotherStateOfTheUnitIsSentBackToBeCheckedAnew) {
  PlayedB world;
  Message m = world.forward(1);
  m.sequence = world.version + 1;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::aborted));
  EXPECT_EQ(world.stored(), 0);
}

/// Nothing is said of the unit's state meanwhile: another may come with the next epoch.
TEST(ForwardToThis, DuringATransitionIsRefusedWhateverItWasCheckedUnder) {
  PlayedB world(patient);
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.b.state.attempted = 50;
  world.b.tell_state();
  Message m = world.forward(1);
  m.sequence = world.version + 1;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::stale));
}

/// B sends it again under the epoch that follows; this node's own wait for that here.
TEST(ForwardToThis, ThatWaitsWhenATransitionBeginsIsSentBack) {
  PlayedB world(patient);
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  auto& own = world.pair.write(kA, kBlockOfBoth, 3);
  world.pair.run_for(kSoon);
  auto& waits = world.b.send(world.forward(1), PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  ASSERT_FALSE(waits.done);
  world.b.state.attempted = 50;
  world.b.tell_state();
  world.pair.run_for(kSoon);
  EXPECT_TRUE(waits.ended_with(Errc::stale));
  EXPECT_FALSE(own.done);
}

/// It has lost its lease, and is in touch.
TEST(ForwardToThis, IsNotKeptWithTheSessionsOfASuspendedNode) {
  PlayedB world(patient);
  hang(world.pair, kA);
  Message m = world.forward(1);
  m.opcode = DiskOpcode::read;
  auto& read = world.b.send(m, {}, kBlock);
  world.pair.run_for(kSoon);
  world.b.grants_leases = false;
  world.b.keeps = [](const Message& asked) { return is(asked, MessageType::state); };
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  EXPECT_EQ(world.fences(), 0u);
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  EXPECT_TRUE(read.done);
  EXPECT_FALSE(read.ended_with(Errc::ok));
}

/// B may be what goes on: what waits here is its own again.
TEST(ForwardToThis, ThatWaitsWhenTheNodeIsSuspendedIsSentBack) {
  PlayedB world(patient);
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.b.grants_leases = false;
  world.pair.run_for(kLease / 2);
  auto& waits = world.b.send(world.forward(1), PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  ASSERT_FALSE(waits.done);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.fences(), 0u);
  EXPECT_TRUE(waits.ended_with(Errc::stale));
}

/// A orders, and writes a change of the unit's state for as long as the test likes; meanwhile it leaves.
struct LeavesInTheMiddleOfAChange : PlayedB {
  LeavesInTheMiddleOfAChange() : PlayedB(reserves) { hang_metadata(); }
  static void reserves(Scenario& s) {
    patient(s);
    s.reservations = true;
  }
  void leave_and_write() {
    pair.run_for(kSoon);
    spoil_metadata([](StoreFaults& f) { f.hang = 0; });
    auto& left = b.propose(next(MemberSet::only(kB)));
    ASSERT_TRUE(pair.wait_for([&] { return left.done; }));
    ASSERT_TRUE(left.ended_with(Errc::ok));
    b.state.record = pair.status(kA).epoch;
    b.tell_state();
    pair.mend(kA);
    pair.run_for(kSoon);
  }
  [[nodiscard]] bool has_forwarded() const { return !b.received(MessageType::forward).empty(); }
};

TEST(ForwardToThis, OfAChangeDoesNotGoBackToWhereItCameFrom) {
  LeavesInTheMiddleOfAChange world;
  Message m = world.forward(1);
  m.opcode = DiskOpcode::change_state;
  m.extent = {};
  auto& change = world.b.send(m, registration().encode(), scsi::kLuAnswerSize);
  world.leave_and_write();
  EXPECT_TRUE(change.ended_with(Errc::stale));
  EXPECT_FALSE(world.has_forwarded());
}

TEST(Cancelled, AChangeThatIsBeingWrittenIsNotBegunAgainElsewhere) {
  LeavesInTheMiddleOfAChange world;
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(change.request);
  ASSERT_FALSE(change.done) << "nobody knows yet whether it is in force";
  world.leave_and_write();
  EXPECT_TRUE(change.done && change.status());
  EXPECT_FALSE(world.has_forwarded());
}

TEST(ForwardToThis, IsCancelledAlone) {
  PlayedB world(patient);
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  auto& first = world.b.send(world.forward(1), PlayedB::block_of(2));
  Message m = world.forward(2);
  m.lowest_tag = 1;
  auto& second = world.b.send(m, PlayedB::block_of(3));
  world.pair.run_for(kSoon);
  m = world.b.message(MessageType::cancel);
  m.tag = 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::ok));
  world.pair.run_for(kSoon);
  EXPECT_TRUE(first.done);
  EXPECT_FALSE(second.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return second.done; }));
  EXPECT_TRUE(second.ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 3);
}

/// B's sessions are B's: that this node closed its own, for another volume's sake, is nothing to them.
TEST(ForwardToThis, OutlivesTheSessionsOfThisNode) {
  PlayedB world([](Scenario& s) {
    patient(s);
    s.reservations = true;
    s.volumes.push_back(s.volumes[0]);
    s.volumes[1].id.bytes[0] ^= 1;
    s.volumes[1].size = s.volume_size();
  });
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  auto& own = world.pair.write(kA, kBlockOfBoth, 2);
  world.pair.run_for(kSoon);
  auto& waits = world.b.send(world.forward(1), PlayedB::block_of(3));
  world.pair.run_for(kSoon);
  StoreFaults faults;
  faults.write_error = kAlways;
  world.pair.host(kA).metadata(1).set_faults(faults);
  world.pair.change_state(kA, registration(), 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.fences() == 1; }, kLease / 2));
  world.pair.run_for(kSoon);
  EXPECT_TRUE(own.done && own.status());
  EXPECT_FALSE(waits.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return waits.done; }));
  EXPECT_TRUE(waits.ended_with(Errc::ok));
}

/// Who holds the budget may wait for this forward.
TEST(ForwardToThis, IsOrderedThoughTheLinkTakesNoMoreOrders) {
  PlayedB world([](Scenario& s) {
    patient(s);
    s.link_orders = {std::uint64_t{1} << 20, 1};
  });
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate); };
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.write(kA, kAnotherBlock, 1);
  world.pair.run_for(kSoon);
  ASSERT_EQ(world.b.received(MessageType::replicate).size(), 1u);
  Message m = world.forward(7);
  m.extent.offset = 2 * kAnotherBlock * kBlock;
  world.b.send(m, PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  ASSERT_EQ(world.b.received(MessageType::replicate).size(), 2u);
  EXPECT_EQ(world.b.received(MessageType::replicate).back().tag, 7u);
}

// ---- where they come from ------------------------------------------------------------------------------------------

/// A host that ended its session here may have sent its write again through B, and this order be it.
TEST(ForwardOfThis, ThatWasGivenUpAndIsOnItsWayHoldsBackAnswersToOrders) {
  PlayedB world(b_orders);
  world.b.keeps = is_forward;
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  Message m = world.order(1);
  m.extent.offset = kAnotherBlock * kBlock;
  auto& order = world.b.send(m, PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  EXPECT_FALSE(order.done);
  world.b.let_go(Errc::stale);
  EXPECT_TRUE(world.pair.wait_for([&] { return order.done; }, kSoon));
  EXPECT_TRUE(order.ended_with(Errc::ok));
}

/// B may have carried it out, and end with it on its disk.
TEST(ForwardOfThis, ThatLostItsWayBeforeItWasGivenUpIsNotOverYet) {
  PlayedB world(b_orders);
  world.b.keeps = [](const Message& m) { return is_forward(m) || is(m, MessageType::hello); };
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.pair.world().way_from(kA).reset();
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(write.done);
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 2 * kLease)) << "contact was lost";
}

/// The way is there again, and it was not sent again yet.
TEST(ForwardOfThis, ThatWasGivenUpOnItsNextWayIsOverWhenThePartnerSaysSo) {
  PlayedB world(b_orders);
  world.b.keeps = is_forward;
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state) || is(m, MessageType::cancel); };
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.received(MessageType::state).size() > 1; }, kLease / 2));
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  world.pair.run_for(kMillisecond);
  ASSERT_EQ(world.b.received(MessageType::cancel).size(), 1u);
  EXPECT_FALSE(write.done);
  world.b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
}

/// It is decided later what becomes of it, whatever B makes of it meanwhile.
TEST(KeptSessions, AForwardThatWasNotUnderstoodIsNotAnsweredMeanwhile) {
  PlayedB world(b_orders);
  world.b.keeps = is_forward;
  auto& write = world.pair.write(kA, kBlockOfBoth, 2);
  world.b.grants_leases = false;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }));
  ASSERT_FALSE(world.b.received(MessageType::forward).empty());
  world.b.let_go(Errc::corrupt);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(write.done);
}

/// What came a lease before contact was lost is dropped; but this was carried out, and may have been read.
TEST(KeptSessions, WhatCameBackAsAnOrderIsDoneWhenTheNodeGoesOn) {
  PlayedB world(b_orders);
  world.b.keeps = is_forward;
  auto& old = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  Message m = world.order(1);
  m.tag = world.b.received(MessageType::forward).back().tag;
  ASSERT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::ok));
  world.pair.run_for(kLease * 3 / 4);
  world.b.keeps = [](const Message& asked) { return is_forward(asked) || PlayedB::silent(asked); };
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(world.pair.wait_for([&] { return old.done; }, kLease));
  EXPECT_EQ(old.status(), std::error_code{});
  EXPECT_EQ(world.stored(), 1);
}

/// As no member this replica holds a copy of B's truth, and B may have lost what it ordered.
TEST(ForwardOfThis, WhoseOrderCameBackHasAnUnknownOutcomeOnceTheReplicaWasNoMember) {
  PlayedB world(b_orders);
  world.b.keeps = is_forward;
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  Message m = world.order(1);
  m.tag = world.b.received(MessageType::forward).back().tag;
  ASSERT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::ok));
  world.have_a_leave();
  auto& join = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return join.done; }));
  ASSERT_TRUE(join.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.state.record = world.next(MemberSet::only(kA));
  world.b.state.able = world.b.state.serving = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(world.pair.wait_for([&] { return write.done; }, 3 * kLease));
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
}

/// B keeps each result until it hears that the answer came: that word is carried by a later forward.
TEST(ForwardOfThis, ThatIsLostWithItsWordOfAnAnswerLeavesThatToTheNextOne) {
  PlayedB world(b_orders);
  constexpr std::uint64_t kAnswered = 2 * kAnotherBlock;
  world.b.keeps = [](const Message& m) { return is_forward(m) && m.extent.offset != kAnswered * kBlock; };
  const auto forwarded = [&](std::uint64_t block) {
    auto& io = world.pair.write(kA, block, 1);
    world.pair.run_for(kSoon);
    EXPECT_EQ(world.b.received(MessageType::forward).back().extent.offset, block * kBlock);
    return &io;
  };
  forwarded(kBlockOfBoth);  // stays open: results above its tag are told one by one
  ASSERT_TRUE(forwarded(kAnswered)->done);
  const std::uint64_t answered = world.b.received(MessageType::forward).back().tag;
  auto* carrier = forwarded(3 * kAnotherBlock);
  ASSERT_EQ(world.b.received(MessageType::forward).back().watermark, answered);
  const std::size_t before = world.b.received(MessageType::forward).size();
  world.pair.host(kA).program()->disk(0)->cancel(carrier->request);
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return carrier->done; }, kLease / 2));
  for (const std::uint64_t block : {4 * kAnotherBlock, 5 * kAnotherBlock}) forwarded(block);
  const auto all = world.b.received(MessageType::forward);
  const auto tells = [&](const Message& m) { return m.watermark == answered; };
  EXPECT_GT(std::ranges::count_if(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(), tells), 0);
}

}  // namespace
}  // namespace lockstep::simulation
