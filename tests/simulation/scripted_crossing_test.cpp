// A write through the node that does not order crosses the link once: its order comes back as a reference to what that
// node keeps, and it is answered when both stores have it. Beside a partner that the test plays.
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
