// A write through the node that does not order crosses the link once: its order comes back as a reference to what that
// node keeps, and it is answered when both stores have it. Beside a partner that the test plays.
#include <algorithm>

#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::kFlagByReference;
using replication::kFlagHalfDone;

void of_version_2(Scenario& s) { s.link_version = 2; }

// ---- the node that forwards ----------------------------------------------------------------------------------------

/// A forwards a write, and B has not answered it yet.
struct Forwarded : PlayedB {
  explicit Forwarded(const ScriptedPair::Adjust& adjust = b_orders) : PlayedB(adjust) {
    b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
    write = &pair.write(kA, kBlockOfBoth, 7);
    pair.run_for(kSoon);
    forward = b.received(MessageType::forward).back();
  }
  [[nodiscard]] Message reference(std::uint64_t sequence = 1) const {
    Message m = order(sequence);
    m.flags = kFlagByReference;
    m.tag = forward.tag;
    m.forwarder = forward.process;
    return m;
  }
  /// B's store has it, B says.
  void half_done() {
    b.amends = [this](const Message& question, Message& header, auto&) {
      if (!is(question, MessageType::forward)) return;
      header.flags = kFlagHalfDone;
      header.epoch = epoch_said.value_or(b.state.record.id);
    };
    b.let_go(Errc::ok);
    pair.run_for(kSoon);
  }
  void cancel() { pair.host(kA).program()->disk(0)->cancel(write->request); }

  ScriptedPair::Io* write;
  Message forward;
  std::optional<engine::Uuid> epoch_said;
};

TEST(OrderByReference, IsCarriedOutFromWhatWasForwarded) {
  Forwarded world;
  ASSERT_TRUE(world.forward.flags & kFlagByReference);
  EXPECT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 7);
}

TEST(OrderByReference, DoesNotEndTheWriteBeforeTheSequencerHasIt) {
  Forwarded world;
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.write->done);
  world.half_done();
  ASSERT_TRUE(world.write->done);
  EXPECT_FALSE(world.write->status());
}

TEST(OrderByReference, ThatComesAfterTheSequencersWordEndsTheWrite) {
  Forwarded world;
  world.half_done();
  EXPECT_FALSE(world.write->done) << "this store has not got it";
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.pair.run_for(kSoon);
  ASSERT_TRUE(world.write->done);
  EXPECT_FALSE(world.write->status());
}

/// Both have it, and no watermark has said so.
TEST(OrderByReference, IsShownAsSoonAsTheWriteIsAcknowledged) {
  Forwarded world;
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  auto& early = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(early.done) << "B may lose it yet";
  world.half_done();
  world.pair.run_for(kSoon);
  ASSERT_TRUE(early.done);
  EXPECT_EQ(early.first(), 7);
}

TEST(OrderByReference, ThatComesAgainAfterItWasShownIsNotCarriedOutAgain) {
  Forwarded world;
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.half_done();
  ASSERT_TRUE(world.write->done);
  EXPECT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok)) << "the data are gone, but it is known";
}

TEST(OrderByReference, ToWhatIsNotKnownIsSentAgainWithItsData) {
  Forwarded world;
  Message m = world.reference();
  m.tag += 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::refused));
  EXPECT_EQ(world.stored(), 0);
  m.flags = 0;
  m.forwarder = {};
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(9)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 9);
}

/// A read that waits for the watermark to cover a later order must not stand before this one.
TEST(OrderByReference, KeepsItsPlaceUntilItsDataCome) {
  Forwarded world;
  Message m = world.reference(1);
  m.tag += 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::refused));
  auto& read = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(read.done);
  m.flags = 0;
  m.forwarder = {};
  ASSERT_TRUE(world.b.ask(m, PlayedB::block_of(9)).ended_with(Errc::ok));
  Message covers = world.b.message(MessageType::watermark);
  covers.watermark = m.sequence;
  world.b.ask(covers);
  ASSERT_TRUE(world.pair.wait_for([&] { return read.done; }, kSoon));
  EXPECT_EQ(read.first(), 9);
}

TEST(OrderByReference, ToATagOfAnEarlierProcessIsNotTakenForOneOfThis) {
  Forwarded world;
  Message m = world.reference();
  m.forwarder.bytes[0] ^= 1;
  EXPECT_TRUE(world.b.ask(m).ended_with(Errc::refused));
  EXPECT_EQ(world.stored(), 0);
}

TEST(OrderByReference, OfOtherBlocksThanTheForwardsIsNotCarriedOutFromIt) {
  Forwarded world;
  Message m = world.reference();
  m.extent.offset += kBlock;
  EXPECT_TRUE(world.b.ask(m).ended_with(Errc::refused));
}

/// What was locked and marked is what is written.
TEST(OrderByReference, IsNotCarriedOutWithDataForOtherBlocks) {
  Forwarded world;
  Message m = world.reference();
  m.tag += 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::refused));
  m.flags = 0;
  m.forwarder = {};
  Message larger = m;
  larger.extent.length = 2 * kBlock;
  EXPECT_TRUE(world.b.ask(larger, std::vector<std::byte>(2 * kBlock, std::byte{9})).ended_with(Errc::corrupt));
  Message same = m;
  same.opcode = DiskOpcode::write_same;
  EXPECT_TRUE(world.b.ask(same, PlayedB::block_of(9)).ended_with(Errc::corrupt));
  EXPECT_EQ(world.stored(), 0);
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(9)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 9);
}

TEST(OrderByReference, WhoseDataNeverComeHoldsNoDetachUp) {
  PlayedB world(b_orders);
  Message m = world.order(1);
  m.flags = kFlagByReference;
  m.tag = 1;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::refused));
  bool detached = false;
  world.pair.host(kA).program()->detach(0, [&] { detached = true; });
  EXPECT_TRUE(world.pair.wait_for([&] { return detached; }, 10 * kLease));
}

/// Its data come over the link after all, into memory that is kept for that.
TEST(OrderByReference, ThatFindsNoMemoryIsSentAgainWithItsData) {
  Forwarded world;
  hang(world.pair, kA);
  Message m = world.b.message(MessageType::fetch);
  m.extent = {0, world.pair.world().scenario.volume_size()};
  const std::uint64_t all = (std::uint64_t{64} << 20) / m.extent.length;  // of the memory that a program has
  for (std::uint64_t i = 0; i < all; ++i) world.b.send(m, {}, m.extent.length);
  world.pair.run_for(kSoon);
  const auto& exchange = world.b.send(world.reference());
  world.pair.run_for(kSoon);
  EXPECT_TRUE(exchange.ended_with(Errc::refused));
}

TEST(OrderByReference, OfAComparedWriteIsCarriedOutFromWhatItWrites) {
  PlayedB world(b_orders);
  world.b.keeps = [](const Message& asked) { return is(asked, MessageType::forward); };
  auto& write = world.pair.submit(kA, DiskOpcode::compare_and_write, kBlockOfBoth, 1, 0);
  std::ranges::fill(write.request.data.subspan(kBlock), std::byte{6});
  world.pair.run_for(kSoon);
  const Message forward = world.b.received(MessageType::forward).back();
  Message m = world.order(1);
  m.flags = kFlagByReference;
  m.tag = forward.tag;
  m.forwarder = forward.process;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 6);
}

TEST(OrderByReference, OfAWriteSameIsCarriedOutFromItsOneBlock) {
  PlayedB world(b_orders);
  world.b.keeps = [](const Message& asked) { return is(asked, MessageType::forward); };
  auto& write = world.pair.submit(kA, DiskOpcode::write_same, kBlockOfBoth - 1, 1, 5);
  world.pair.run_for(kSoon);
  const Message forward = world.b.received(MessageType::forward).back();
  Message m = world.order(1);
  m.opcode = DiskOpcode::write_same;
  m.extent = write.request.extent;
  m.flags = kFlagByReference;
  m.tag = forward.tag;
  m.forwarder = forward.process;
  ASSERT_TRUE(world.b.ask(m).ended_with(Errc::ok));
  EXPECT_EQ(world.pair.host(kA).data(0).visible()[(kBlockOfBoth - 1) * kBlock], std::byte{5});
}

/// The way broke between the sequencer's word and the order: the forward is sent again, and the order finds its data.
TEST(OrderByReference, AfterTheWayBrokeIsCarriedOutFromWhatIsKept) {
  Forwarded world;
  world.half_done();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  world.pair.world().way_from(kA).reset();
  const auto came_again = [&] { return world.b.received(MessageType::forward).size() > 1; };
  ASSERT_TRUE(world.pair.wait_for(came_again, kLease / 2));
  EXPECT_EQ(world.b.received(MessageType::forward).back().tag, world.forward.tag);
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 7);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.write->done) << "what B said, it said on the way before";
  world.half_done();
  ASSERT_TRUE(world.write->done);
  EXPECT_FALSE(world.write->status());
}

/// The order was lost with the way, and B says when it is sent again that all is over.
TEST(OrderByReference, ThatNeverComesIsAnsweredByTheForwardThatIsSentAgain) {
  Forwarded world;
  world.half_done();
  world.b.amends = [](const auto&, auto&, auto&) {};
  world.b.keeps = [](const Message&) { return false; };
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kLease / 2));
  EXPECT_FALSE(world.write->status());
  EXPECT_EQ(world.b.received(MessageType::forward).size(), 2u);
}

TEST(OrderByReference, ThatNeverComesIsCarriedOutByWhoGoesOnAlone) {
  Forwarded world;
  world.half_done();
  ASSERT_FALSE(world.write->done);
  world.b.keeps = PlayedB::silent;
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  ASSERT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kLease));
  EXPECT_FALSE(world.write->status());
  EXPECT_EQ(world.stored(), 7);
  const auto& late = world.b.ask(world.reference());
  EXPECT_FALSE(late.ended_with(Errc::ok)) << "its epoch is over";
}

/// The next process of B's knows nothing of it: it is neither sent there nor done by what that one orders.
TEST(OrderByReference, ThatNeverComesFromAProcessThatIsGoneIsNotAskedForAtTheNext) {
  Forwarded world;
  world.half_done();
  world.b.restart();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  world.pair.run_for(kLease / 4);
  EXPECT_FALSE(world.write->done);
  EXPECT_EQ(world.b.received(MessageType::forward).size(), 0u);
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  ASSERT_TRUE(leave.ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kSoon));
  EXPECT_EQ(world.write->status(), make_error_code(Errc::unknown_outcome));
}

/// B has left: what its store has counts for nothing, and this node carries the write out.
TEST(OrderByReference, ThatIsHalfDoneWhenTheSequencerLeavesIsCarriedOutHere) {
  Forwarded world;
  world.half_done();
  world.b.state.record = world.next(MemberSet::only(kA));
  world.b.state.able = world.b.state.serving = false;
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::solo); }));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kLease));
  EXPECT_FALSE(world.write->status());
  EXPECT_EQ(world.stored(), 7);
}

/// The node that was no member meanwhile holds a copy of B's, and B's word was of another epoch.
TEST(OrderByReference, ThatIsHalfDoneWhenThisNodeLeavesIsAskedForAgain) {
  Forwarded world;
  world.half_done();
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  ASSERT_TRUE(world.pair.wait_for([&] { return leave.done; }));
  ASSERT_TRUE(leave.ended_with(Errc::ok));
  world.b.state.record = world.pair.status(kA).epoch;
  scsi::LuState unit;
  unit.version = world.version;
  ASSERT_TRUE(world.b.tell_unit_state(unit).ended_with(Errc::ok));
  const auto came_again = [&] { return world.b.received(MessageType::forward).size() > 1; };
  ASSERT_TRUE(world.pair.wait_for(came_again, kLease));
  EXPECT_FALSE(world.write->done);
  world.b.amends = [](const auto&, auto&, auto&) {};
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kSoon));
  EXPECT_FALSE(world.write->status());
}

/// Early answers are for what asked for them.
TEST(Forward, OfNothingThatIsStoredIsNotHalfDone) {
  PlayedB world(b_orders);
  world.b.amends = [&](const Message& question, Message& header, auto&) {
    if (!is(question, MessageType::forward)) return;
    header.flags = kFlagHalfDone;
    header.epoch = world.b.state.record.id;
  };
  auto& flush = world.pair.submit(kA, DiskOpcode::flush, 0, 0, 0);
  EXPECT_TRUE(world.pair.wait_for([&] { return flush.done; }, kSoon));
}

TEST(OrderByReference, WithDataOfItsOwnMakesNoSense) {
  Forwarded world;
  world.b.ask(world.reference(), PlayedB::block_of(1));
  EXPECT_EQ(world.stored(), 0);
}

/// B has begun it: it lands here all the same, and the host is not told that it is over before.
TEST(OrderByReference, OfAWriteThatWasAbortedIsCarriedOutFromWhatIsKept) {
  Forwarded world;
  world.b.says = [](const Message& m) { return is(m, MessageType::cancel) ? Errc::unknown_outcome : Errc::ok; };
  world.cancel();
  world.half_done();
  EXPECT_FALSE(world.write->done);
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 7);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kSoon));
  EXPECT_TRUE(world.write->status());
}

TEST(OrderByReference, OfAWriteThatIsAbortedBetweenTheSequencersWordAndTheOrderIsCarriedOut) {
  Forwarded world;
  world.b.says = [](const Message& m) { return is(m, MessageType::cancel) ? Errc::unknown_outcome : Errc::ok; };
  world.half_done();
  world.cancel();
  world.pair.run_for(kSoon);
  EXPECT_FALSE(world.write->done);
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kSoon));
}

/// The sequencer's word counts in the epoch that it was given in.
TEST(OrderByReference, IsNotEndedByAWordOfAnotherEpoch) {
  Forwarded world;
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.epoch_said = world.b.state.record.id;
  world.epoch_said->bytes[3] ^= 1;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  world.half_done();
  EXPECT_FALSE(world.write->done);
  EXPECT_GT(world.b.received(MessageType::forward).size(), 1u) << "it is asked again";
}

/// What this node has under way is bounded also while it waits for orders.
TEST(Forward, ThatIsHalfDoneCountsAsUnderWay) {
  Forwarded world([](Scenario& s) {
    b_orders(s);
    s.link_forwards = {std::uint64_t{1} << 20, 1};
  });
  world.half_done();
  world.pair.write(kA, 2 * kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.b.received(MessageType::forward).size(), 1u);
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.b.received(MessageType::forward).size(), 2u);
}

TEST(Forward, ToAPartnerOfVersion2AsksForNoReference) {
  Forwarded world([](Scenario& s) {
    b_orders(s);
    of_version_2(s);
  });
  EXPECT_EQ(world.forward.flags & kFlagByReference, 0);
}

// ---- the node that orders ------------------------------------------------------------------------------------------

bool is_order(const Message& m) { return is(m, MessageType::replicate); }

/// A orders what B forwarded, and may refer to; B does not answer the order.
struct Ordered : PlayedB {
  explicit Ordered(const ScriptedPair::Adjust& adjust = a_orders, bool hangs = false) : PlayedB(adjust) {
    if (hangs) hang(pair, kA);
    b.keeps = is_order;
    forwarded = forward(5);
    forwarded.flags = kFlagByReference;
    exchange = &b.send(forwarded, block_of(3));
    pair.run_for(kSoon);
  }
  [[nodiscard]] Message last_order() const { return b.received(MessageType::replicate).back(); }
  [[nodiscard]] bool is_half_done(const PlayedPartner::Exchange& e) const {
    return e.ended_with(Errc::ok) && e.answer->flags == kFlagHalfDone && e.answer->epoch == b.state.record.id;
  }
  Message forwarded;
  PlayedPartner::Exchange* exchange;
};

TEST(ForwardThatIsKept, IsOrderedByReference) {
  Ordered world;
  EXPECT_EQ(world.last_order().flags & kFlagByReference, kFlagByReference);
  EXPECT_EQ(world.last_order().payload, 0u);
  EXPECT_EQ(world.last_order().tag, 5u);
  EXPECT_FALSE(world.last_order().forwarder.is_nil());
}

TEST(ForwardThatIsKept, IsAnsweredWhenItIsDurableHere) {
  Ordered world;
  EXPECT_TRUE(world.is_half_done(*world.exchange));
  EXPECT_EQ(world.stored(), 3);
}

TEST(ForwardThatIsKept, IsNotAnsweredBeforeItIsDurableHere) {
  Ordered world(patient, true);
  EXPECT_FALSE(world.exchange->done);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.exchange->done; }));
  EXPECT_TRUE(world.is_half_done(*world.exchange));
}

TEST(ForwardThatIsKept, ThatTheStoreFailedIsNotAnsweredAsDurable) {
  PlayedB world;
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  world.b.keeps = is_order;
  Message m = world.forward(5);
  m.flags = kFlagByReference;
  auto& exchange = world.b.send(m, PlayedB::block_of(3));
  world.pair.run_for(kSoon);
  EXPECT_FALSE(exchange.ended_with(Errc::ok));
}

TEST(ForwardThatIsKept, IsOrderedWithItsDataWhenThePartnerHasThemNoMore) {
  Ordered world;
  const Message first = world.last_order();
  world.b.let_go(Errc::refused);
  world.pair.run_for(kSoon);
  ASSERT_EQ(world.b.received(MessageType::replicate).size(), 2u);
  EXPECT_EQ(world.last_order().flags & kFlagByReference, 0);
  EXPECT_EQ(world.last_order().payload, kBlock);
  EXPECT_EQ(world.last_order().sequence, first.sequence);
}

/// B has not got it: a read here could show what B's loss, and this one's, undoes.
TEST(ForwardThatIsKept, IsNotShownHereBeforeThePartnerHasIt) {
  Ordered world;
  auto& read = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(read.done);
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return read.done; }, kSoon));
  EXPECT_EQ(read.first(), 3);
}

TEST(ForwardThatIsKept, ThatComesAgainWhileItIsHalfDoneIsAnsweredSo) {
  Ordered world;
  EXPECT_TRUE(world.is_half_done(world.b.ask(world.forwarded, PlayedB::block_of(3))));
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  auto& over = world.b.ask(world.forwarded, PlayedB::block_of(3));
  EXPECT_TRUE(over.ended_with(Errc::ok));
  EXPECT_EQ(over.answer->flags, 0);
}

/// The order goes out as it was, under its number: B knows whether it was carried out.
TEST(ForwardThatIsKept, IsOrderedByReferenceAgainWhenTheWayBroke) {
  Ordered world;
  const Message first = world.last_order();
  world.pair.world().way_from(kA).reset();
  const auto came_again = [&] { return world.b.received(MessageType::replicate).size() > 1; };
  ASSERT_TRUE(world.pair.wait_for(came_again, kLease / 2));
  EXPECT_EQ(world.last_order().sequence, first.sequence);
  EXPECT_EQ(world.last_order().flags & kFlagByReference, kFlagByReference);
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfBoth), 3);
}

TEST(ForwardThatIsKept, WhoseDataWereAskedForIsOrderedWithThemAlsoWhenTheWayBreaks) {
  Ordered world;
  world.b.let_go(Errc::refused);
  world.pair.run_for(kSoon);
  const auto orders = [&] { return world.b.received(MessageType::replicate).size(); };
  ASSERT_EQ(orders(), 2u);
  world.pair.world().way_from(kA).reset();
  ASSERT_TRUE(world.pair.wait_for([&] { return orders() > 2; }, kLease / 2));
  EXPECT_EQ(world.last_order().payload, kBlock);
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfBoth), 3);
}

/// Its data are A's until the order is answered, whatever became of who sent it.
TEST(ForwardThatIsKept, IsOrderedWithItsDataWhenTheProcessThatSentItIsGone) {
  Ordered world;
  world.pair.world().way_from(kB).break_session();
  world.pair.run_for(kSoon);
  world.b.let_go(Errc::refused);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.last_order().payload == kBlock; }, kLease / 2));
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.pair.value_at(kA, kBlockOfBoth), 3);
}

/// Nobody at B waits for a watermark that covers nothing else; reads there do for one that covers what A wrote.
TEST(ForwardThatIsKept, IsCoveredByAWatermarkThatTakesItsTime) {
  Ordered world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  const std::size_t before = told();
  world.b.let_go(Errc::ok);
  world.pair.run_for(5 * kMillisecond);
  EXPECT_EQ(told(), before);
  world.pair.run_for(kSoon);
  ASSERT_EQ(told(), before + 1);
  EXPECT_EQ(world.b.received(MessageType::watermark).back().watermark, world.last_order().sequence);
}

TEST(Watermark, OfAWriteOfTheSequencersIsToldAtOnceAlsoBehindOneThatTakesItsTime) {
  Ordered world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  const std::size_t before = told();
  world.b.keeps = [](const Message&) { return false; };
  world.b.let_go(Errc::ok);
  auto& own = world.pair.write(kA, 2 * kBlockOfBoth, 1);
  ASSERT_TRUE(world.pair.wait_for([&] { return own.done; }, kSoon));
  world.pair.run_for(2 * kMillisecond);
  EXPECT_EQ(told(), before + 1);
  EXPECT_EQ(world.b.received(MessageType::watermark).back().watermark, world.last_order().sequence);
}

TEST(Watermark, ThatAnOrderToldIsToldByItselfWhenTheOrderWasNotTaken) {
  PlayedB world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, 1));
  world.b.keeps = is_order;
  const std::size_t before = told();
  world.pair.write(kA, kBlockOfBoth, 2);
  world.pair.run_for(3 * kMillisecond);
  const Message order = world.b.received(MessageType::replicate).back();
  ASSERT_EQ(order.watermark + 1, order.sequence);
  EXPECT_EQ(told(), before);
  world.b.let_go(Errc::stale);
  ASSERT_TRUE(world.pair.wait_for([&] { return told() > before; }, 3 * kMillisecond));
  EXPECT_EQ(world.b.received(MessageType::watermark).back().watermark, order.watermark);
}

TEST(ForwardThatIsKept, ByAPartnerOfVersion2IsOrderedWithItsData) {
  Ordered world([](Scenario& s) {
    a_orders(s);
    of_version_2(s);
  });
  EXPECT_EQ(world.last_order().payload, kBlock);
}

TEST(ForwardThatIsNotKept, IsOrderedWithItsDataAndAnsweredWhenBothHaveIt) {
  PlayedB world;
  world.b.keeps = is_order;
  auto& exchange = world.b.send(world.forward(5), PlayedB::block_of(3));
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.b.received(MessageType::replicate).back().payload, kBlock);
  EXPECT_FALSE(exchange.done);
  world.b.let_go(Errc::ok);
  world.pair.run_for(kSoon);
  EXPECT_TRUE(exchange.ended_with(Errc::ok));
  EXPECT_EQ(exchange.answer->flags, 0);
}

}  // namespace
}  // namespace lockstep::simulation
