// Orders by reference, at the node that forwarded what they are of (crossing.hpp).
#include <algorithm>

#include "tests/simulation/crossing.hpp"

namespace lockstep::simulation {
namespace {

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

/// B's store was the slower one: it told of the end alone. A read that waited for the watermark might be in the way of
/// an earlier order, for which the watermark waits.
TEST(OrderByReference, IsShownWhenTheForwardIsAnsweredForGood) {
  Forwarded world;
  ASSERT_TRUE(world.b.ask(world.reference()).ended_with(Errc::ok));
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.write->done; }, kSoon));
  auto& read = world.pair.read(kA, kBlockOfBoth);
  ASSERT_TRUE(world.pair.wait_for([&] { return read.done; }, kSoon));
  EXPECT_EQ(read.first(), 7);
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
/// What was locked is what is written: another order by that number is of a process that was set back with its memory.
TEST(OrderByReference, IsNotCarriedOutWithDataForOtherBlocks) {
  enum class With : std::uint8_t { its_own, more_blocks, another_opcode };
  for (const With with : {With::its_own, With::more_blocks, With::another_opcode}) {
    Forwarded world;
    Message m = world.reference();
    m.tag += 1;
    ASSERT_TRUE(world.b.ask(m).ended_with(Errc::refused));
    m.flags = 0;
    m.forwarder = {};
    if (with == With::more_blocks) m.extent.length = 2 * kBlock;
    if (with == With::another_opcode) m.opcode = DiskOpcode::write_same;
    const bool fits = with == With::its_own;
    auto data = std::vector<std::byte>(m.extent.length, std::byte{9});
    EXPECT_TRUE(world.b.ask(m, std::move(data)).ended_with(fits ? Errc::ok : Errc::stale));
    EXPECT_EQ(world.stored(), fits ? 9 : 0);
  }
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
  world.have_a_leave();
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

}  // namespace
}  // namespace lockstep::simulation
