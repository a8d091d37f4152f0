// Orders and forwards between a node and a partner that the test plays.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

// ---- orders --------------------------------------------------------------------------------------------------------

TEST(Order, OfAnotherEpochIsRefused) {
  PlayedB world(b_orders);
  Message m = world.order(1);
  m.epoch.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 1);
}

/// What this node holds for its own initiators must not come after what the partner acknowledges.
TEST(Order, IsRefusedWhileSessionsAreKept) {
  PlayedB world(b_orders);
  world.suspend();
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
}

TEST(Order, IsRefusedByANodeWhoseStoreFailed) {
  PlayedB world(b_orders);
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::io_error));
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = 0; });
  Message m = world.order(2);
  m.extent.offset += kBlock;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(2)).ended_with(Errc::stale));
}

TEST(Order, IsNotCarriedOutWhenTheDirtyMapCannotBeWritten) {
  PlayedB world(b_orders);
  world.spoil_metadata([](StoreFaults& f) { f.write_error = kAlways; });
  Message m = world.order(1);
  m.tag = 1;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::io_error));
  EXPECT_EQ(world.stored(), 0);
}

TEST(Order, IsShownWhenTheWatermarkCoversItAndNotBefore) {
  PlayedB world(b_orders);
  ASSERT_TRUE(world.b.ask(world.order(5), PlayedB::block_of(1)).ended_with(Errc::ok));
  auto& read = world.pair.read(kA, kBlockOfBoth);
  Message m = world.b.message(MessageType::watermark);
  m.watermark = PlayedB::kNumbers + 4;
  world.b.ask(m);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(read.done) << "B may have lost it";
  m.watermark = PlayedB::kNumbers + 5;
  world.b.ask(m);
  EXPECT_TRUE(world.pair.wait_for([&] { return read.done; }, kSoon));
  EXPECT_EQ(read.first(), 1);
}

TEST(Order, ThatIsUnderWayKeepsTheBitOfItsRegion) {
  PlayedB world(b_orders);
  hang(world.pair, kA);
  world.b.send(world.order(1), PlayedB::block_of(1));
  world.pair.run_for(kSoon);
  ASSERT_GT(world.pair.status(kA).dirty_bytes, 0u);
  std::vector<std::byte> region(8);
  region[7] = static_cast<std::byte>(kBlockOfBoth * kBlock / world.pair.world().scenario.region_size);
  world.b.ask(world.b.message(MessageType::clear), std::move(region));
  world.pair.run_for(kSoon);
  EXPECT_GT(world.pair.status(kA).dirty_bytes, 0u);
}

/// It waits for one that may be taken back.
TEST(Order, ThatWaitsWhenItsWayBreaksIsNotCarriedOut) {
  PlayedB world(b_orders);
  hang(world.pair, kA);
  world.b.send(world.order(1), PlayedB::block_of(1));
  world.pair.run_for(kSoon);
  world.b.send(world.order(2), PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  world.pair.world().way_from(kB).reset();
  world.pair.run_for(10 * kSoon);
  world.pair.mend(kA);
  Message m = world.b.message(MessageType::watermark);
  m.watermark = PlayedB::kNumbers + 1;
  world.b.ask(m);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.stored(), 1);
}

TEST(Order, OfANewProcessIsNotTakenForOneOfTheOld) {
  PlayedB world(b_orders);
  Message m = world.order(5);
  m.watermark = PlayedB::kNumbers + 4;
  ASSERT_TRUE(world.b.ask(m, PlayedB::block_of(5)).ended_with(Errc::ok));
  m = world.b.message(MessageType::watermark);
  m.watermark = PlayedB::kNumbers + 5;
  world.b.ask(m);
  world.b.restart();
  EXPECT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 1);
}

/// What was read of it on the other member must not be gone after both lost power.
TEST(Order, ThatMakesAMemberEqualIsDurableWhenItIsAnswered) {
  PlayedB world(b_orders);
  Message m = world.order(0);
  m.type = MessageType::copy;
  ASSERT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(std::to_integer<int>(world.pair.host(kA).data(0).stable()[kBlockOfBoth * kBlock]), 1);
}

// ---- forwards, where they are ordered ------------------------------------------------------------------------------

TEST(ForwardToThis, IsCarriedOutInItsEpochOnly) {
  PlayedB world;
  Message m = world.forward(1);
  m.epoch.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 1);
}

TEST(ForwardToThis, IsRefusedWhileATransitionIsUnderWay) {
  PlayedB world;
  world.keep_a_proposal();
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
}

TEST(ForwardToThis, ThatItsSenderMayHaveDroppedSinceIsRefused) {
  PlayedB world;
  Message m = world.forward(1);
  world.pair.run_for(kLease);
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
}

TEST(ForwardToThis, OfAChangeThatItsSenderMayHaveDroppedSinceIsRefused) {
  PlayedB world([](Scenario& s) {
    a_orders(s);
    s.reservations = true;
  });
  Message m = world.forward(1);
  m.opcode = DiskOpcode::change_state;
  m.extent = {};
  world.pair.run_for(kLease);
  EXPECT_TRUE(world.b.ask(m, registration().encode(), scsi::kLuAnswerSize).ended_with(Errc::stale));
}

TEST(ForwardToThis, OfACommandThatWasOldWhenItWasSentIsRefused) {
  PlayedB world;
  Message m = world.forward(1);
  m.number = 2 * kLease;
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 0);
}

TEST(ForwardToThis, ThatGrewTooOldInTheQueueIsNotStarted) {
  PlayedB world;
  hang(world.pair, kA);
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  Message m = world.forward(1);
  m.number = kLease / 2;
  auto& waits = world.b.send(m, PlayedB::block_of(2));
  world.pair.run_for(kLease / 2);  // the clocks' drift is off both
  EXPECT_FALSE(waits.done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return waits.done; }));
  EXPECT_TRUE(waits.ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 1);
}

TEST(ForwardToThis, BelowTheLowestOpenOneWasAnsweredAndIsNotBegunAgain) {
  PlayedB world;
  ASSERT_TRUE(world.b.ask(world.forward(5), PlayedB::block_of(5)).ended_with(Errc::ok));
  Message again = world.forward(3);
  EXPECT_TRUE(world.b.ask(again, PlayedB::block_of(3)).ended_with(Errc::stale));
  EXPECT_EQ(world.stored(), 5);
}

/// Behind a write that this node's store has not returned.
struct Queued : PlayedB {
  Queued() {
    hang(pair, kA);
    pair.write(kA, kBlockOfBoth, 1);
    pair.run_for(kSoon);
    b.send(forward(1), block_of(2));
    pair.run_for(kSoon);
  }
  void expect_not_started() {
    pair.mend(kA);
    pair.run_for(kSoon);
    EXPECT_EQ(stored(), 1);
  }
};

TEST(ForwardToThis, ThatWaitsWhenItsWayBreaksIsNotStarted) {
  Queued world;
  world.pair.world().way_from(kB).reset();
  world.pair.run_for(10 * kSoon);
  world.expect_not_started();
}

TEST(ForwardToThis, ThatWaitsWhenAnotherProcessIsThereIsNotStarted) {
  Queued world;
  world.b.restart_unseen();
  world.pair.run_for(kSoon);
  world.expect_not_started();
}

/// A change of the unit's state has no range to wait for: nothing looks at its age when its turn comes.
TEST(ForwardToThis, OfAChangeThatWaitsWhenContactIsLostIsRefused) {
  PlayedB world([](Scenario& s) {
    a_orders(s);
    s.store_deadline = 60 * kSecond;
    s.reservations = true;
  });
  world.hang_metadata();
  world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  Message m = world.forward(1);
  m.opcode = DiskOpcode::change_state;
  m.extent = {};
  auto& waits = world.b.send(m, registration().encode(), scsi::kLuAnswerSize);
  world.pair.run_for(kSoon);
  ASSERT_FALSE(waits.done);
  world.suspend();
  world.pair.run_for(kSoon);
  EXPECT_TRUE(waits.ended_with(Errc::stale));
}

TEST(ForwardToThis, OfANewProcessIsNotTakenForOneOfTheOld) {
  PlayedB world;
  ASSERT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  world.b.restart();
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(2)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 2);
}

// ---- forwards, where they come from --------------------------------------------------------------------------------

/// B orders, and answers no forward.
struct Forwards : PlayedB {
  Forwards() : PlayedB(b_orders) { b.keeps = forwards_only; }
  static bool forwards_only(const Message& m) { return is(m, MessageType::forward); }
  [[nodiscard]] std::vector<Message> sent() const { return b.received(MessageType::forward); }
  ScriptedPair::Io& write(std::uint64_t block = kBlockOfBoth) {
    const std::size_t before = sent().size();
    auto& io = pair.write(kA, block, 2);
    EXPECT_TRUE(pair.wait_for([&] { return sent().size() > before; }));
    return io;
  }
  /// The way out is a new one, on which B answers no state: what it holds by the old one may not be over.
  void unsettle() { lose_the_way(MessageType::state); }
  void lose_the_way(MessageType unanswered) {
    b.keeps = [unanswered](const Message& m) { return forwards_only(m) || is(m, unanswered); };
    pair.world().way_from(kA).reset();
    const std::size_t before = b.received(unanswered).size();
    ASSERT_TRUE(pair.wait_for([&] { return b.received(unanswered).size() > before; }));
  }
  void settle() {
    b.keeps = forwards_only;
    b.let_go(Errc::ok);
  }
};

TEST(ForwardOfThis, NamesTheLowestThatIsOpenAndItsAge) {
  Forwards world;
  world.write(kBlockOfBoth);
  world.write(kBlockOfBoth + 1);
  EXPECT_EQ(world.sent()[1].lowest_tag, world.sent()[0].tag);
  world.pair.run_for(kLease / 4);
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.sent().size() == 4; }));
  EXPECT_GE(world.sent()[2].number, static_cast<std::uint64_t>(kLease / 4));
  EXPECT_LT(world.sent()[2].number, static_cast<std::uint64_t>(kLease));
}

TEST(ForwardOfThis, IsNotSentBeforeTheStatesWereExchanged) {
  Forwards world;
  world.unsettle();
  world.pair.write(kA, kBlockOfBoth, 2);
  world.pair.run_for(10 * kSoon);
  EXPECT_TRUE(world.sent().empty()) << "B may carry out older ones after it";
  world.settle();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.sent().size() == 1; }, 10 * kSoon));
}

/// Its host may have sent it again through the other node.
TEST(ForwardOfThis, ThatWaitedForLongerThanALeaseIsNotSent) {
  Forwards world;
  world.unsettle();
  auto& write = world.pair.write(kA, kBlockOfBoth, 2);
  world.pair.run_for(kLease + kLease / 4);
  ASSERT_FALSE(write.done);
  world.settle();
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 10 * kSoon));
  EXPECT_EQ(write.status(), make_error_code(Errc::resource_exhausted));
  EXPECT_TRUE(world.sent().empty());
}

/// B may be reading its buffer, and begin it, until the new way is agreed on.
TEST(ForwardOfThis, ThatWasGivenUpAndLostWithTheWayEndsWhenThereIsANewOne) {
  Forwards world;
  auto& write = world.write();
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  world.pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  world.lose_the_way(MessageType::hello);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(write.done);
  world.settle();
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 10 * kSoon));
}

/// A write that its host gave up, and one that B ordered since: perhaps what the host sent again.
struct GivenUp : Forwards {
  GivenUp() : write(Forwards::write()) { pair.host(kA).program()->disk(0)->cancel(write.request); }
  PlayedPartner::Exchange& order_another() {
    Message m = order(1);
    m.extent.offset += kBlock;
    auto& other = b.send(m, block_of(1));
    pair.run_for(10 * kSoon);
    return other;
  }
  ScriptedPair::Io& write;
};

TEST(ForwardOfThis, ThatWasGivenUpHoldsBackAnswersToOrdersUntilItIsAnswered) {
  GivenUp world;
  auto& other = world.order_another();
  EXPECT_FALSE(other.done) << "B may begin the forward after it";
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return other.done; }, 10 * kSoon));
  EXPECT_TRUE(other.ended_with(Errc::ok));
}

/// The other way broke for a moment: B has no answer to its order, and asks with the same one.
TEST(ForwardOfThis, ThatWasGivenUpHoldsBackTheAnswerToAnOrderThatComesAgain) {
  GivenUp world;
  Message m = world.order(1);
  m.extent.offset += kBlock;
  auto& first = world.b.send(m, PlayedB::block_of(1));
  world.pair.run_for(10 * kSoon);
  auto& again = world.b.send(m, PlayedB::block_of(1));
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(first.done || again.done) << "B may begin the forward after it";
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return again.done; }, 10 * kSoon));
  EXPECT_TRUE(again.ended_with(Errc::ok));
}

/// What has come by the old way may be begun until the new one is agreed on.
TEST(ForwardOfThis, ThatWasGivenUpAndLostWithTheWayHoldsBackAnswersToOrders) {
  GivenUp world;
  world.lose_the_way(MessageType::hello);
  auto& other = world.order_another();
  EXPECT_FALSE(other.done);
  world.settle();
  EXPECT_TRUE(world.pair.wait_for([&] { return other.done; }, 10 * kSoon));
  EXPECT_TRUE(other.ended_with(Errc::ok));
}

/// B has begun it: what its host sends again is ordered after it.
TEST(ForwardOfThis, ThatWasGivenUpHoldsBackNothingWhenItsOrderHasCome) {
  for (const bool came_before : {false, true}) {
    GivenUp world;
    Message m = world.order(2);
    m.tag = world.sent()[0].tag;
    if (came_before) world.b.ask(m, PlayedB::block_of(2));
    auto& other = world.order_another();
    EXPECT_EQ(other.done, came_before);
    if (!came_before) world.b.ask(m, PlayedB::block_of(2));
    EXPECT_TRUE(world.pair.wait_for([&] { return other.done; }, 10 * kSoon));
    EXPECT_TRUE(other.ended_with(Errc::ok));
    EXPECT_FALSE(world.write.done) << "B has not answered the forward";
  }
}

/// What B refuses may be begun when it comes again.
TEST(ForwardOfThis, ThatIsSentAgainAndGivenUpHoldsBackAnswersThoughItsOrderHasComeBefore) {
  Forwards world;
  auto& write = world.write();
  Message m = world.order(2);
  m.tag = world.sent()[0].tag;
  world.b.ask(m, PlayedB::block_of(2));
  world.b.let_go(Errc::stale);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.sent().size() == 2; }, kLease / 4));
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  m = world.order(3);
  m.extent.offset += kBlock;
  auto& other = world.b.send(m, PlayedB::block_of(1));
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(other.done);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return other.done; }, 10 * kSoon));
}

TEST(ForwardOfThis, ThatAProcessMayHaveCarriedOutIsNotSentToTheNextOne) {
  Forwards world;
  auto& write = world.write();
  world.b.restart();
  world.pair.run_for(kLease / 4);
  EXPECT_TRUE(world.sent().empty());
  EXPECT_FALSE(write.done) << "what was carried out came here as an order: it is known when this node takes over";
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  ASSERT_TRUE(leave.ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 10 * kSoon)) << "as no member it will never know";
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
  EXPECT_TRUE(world.sent().empty());
}

TEST(ForwardOfThis, OfAReplicaThatIsNoMemberHasAnUnknownOutcomeWhenItsPartnerIsReplaced) {
  Forwards world;
  world.leave_a_behind();
  auto& write = world.write();
  world.b.restart();
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kLease));
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
  EXPECT_TRUE(world.sent().empty());
}

/// It need not have seen the order.
TEST(ForwardOfThis, ThatWasSentByNoMemberHasAnUnknownOutcomeWhenItTakesOver) {
  Forwards world;
  world.leave_a_behind();
  auto& write = world.write();
  auto& join = world.b.propose(world.next(MemberSet::both()));
  ASSERT_TRUE(world.pair.wait_for([&] { return join.done; }));
  ASSERT_TRUE(join.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  world.b.state.record = world.next(MemberSet::only(kA));
  world.b.state.able = world.b.state.serving = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 3 * kLease));
  EXPECT_EQ(write.status(), make_error_code(Errc::unknown_outcome));
}

TEST(ForwardOfThis, ThatWasCheckedUnderAnotherStateIsCheckedAnew) {
  Forwards world;
  world.b.keeps = [](const Message&) { return false; };
  world.b.says = [](const Message& m) { return is(m, MessageType::forward) ? Errc::aborted : Errc::ok; };
  auto& write = world.write();
  scsi::LuState newer;
  newer.version = world.version + 1;
  ASSERT_TRUE(world.b.change_unit_state(newer).ended_with(Errc::ok));
  world.b.says = [&](const Message& m) {
    return is(m, MessageType::forward) && m.sequence != newer.version ? Errc::aborted : Errc::ok;
  };
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kLease / 2));
  EXPECT_EQ(write.status(), std::error_code{});
}

TEST(ForwardOfThis, IsOneOfAWindowOfResultsThatAreKeptForIt) {
  constexpr std::size_t kWindow = 1024;
  PlayedB world([](Scenario& s) {
    b_orders(s);
    s.link_forwards = {std::uint64_t{1} << 30, 2 * kWindow};
  });
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  for (std::size_t i = 0; i < kWindow + 10; ++i) world.pair.write(kA, i % 500, 1);
  world.pair.run_for(10 * kSoon);
  EXPECT_EQ(world.b.received(MessageType::forward).size(), kWindow);
}

}  // namespace
}  // namespace lockstep::simulation
