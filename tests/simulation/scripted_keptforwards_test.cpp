// Forwards that their sender keeps, at the node that orders them (crossing.hpp).
#include <algorithm>

#include "tests/simulation/crossing.hpp"

namespace lockstep::simulation {
namespace {

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

/// A host that thinks for so long before it writes again.
void write_one_after_the_other(PlayedB& world, Nanos thinks) {
  for (int value = 1; value <= 20; ++value) {
    ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, value));
    bool thought = false;
    world.pair.world().scheduler.after(
        thinks, Owner::world, [](void* it, std::uint64_t) { *static_cast<bool*>(it) = true; }, &thought);
    ASSERT_TRUE(world.pair.wait_for([&] { return thought; }, kSoon));
  }
}

/// Whoever writes again soon tells it, however long that goes on.
TEST(Watermark, IsToldByTheNextOrderWhereThatComesInTime) {
  PlayedB world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  world.pair.run_for(kSoon);
  const std::size_t before = told();
  write_one_after_the_other(world, 300 * kMicrosecond);
  EXPECT_EQ(told(), before);
  ASSERT_TRUE(world.pair.wait_for([&] { return told() == before + 1; }, 2 * kSoon)) << "timers may be late";
  EXPECT_EQ(world.b.received(MessageType::watermark).back().watermark,
            world.b.received(MessageType::replicate).back().sequence);
}

/// An alarm for each write would cost more than it is worth while orders tell it.
TEST(Watermark, IsToldByItselfLaterWhileOrdersTellIt) {
  PlayedB world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  world.pair.run_for(kSoon);
  const std::size_t before = told();
  write_one_after_the_other(world, 300 * kMicrosecond);
  write_one_after_the_other(world, 800 * kMicrosecond);
  EXPECT_EQ(told(), before);
  ASSERT_TRUE(world.pair.wait_for([&] { return told() == before + 1; }, kSoon));
}

TEST(Watermark, IsToldByItselfSoonWhereOrdersTellItNoMore) {
  PlayedB world;
  const auto told = [&] { return world.b.received(MessageType::watermark).size(); };
  write_one_after_the_other(world, 300 * kMicrosecond);
  world.pair.run_for(kSoon);
  const std::size_t before = told();
  for (int value = 1; value <= 10; ++value) {
    ASSERT_FALSE(world.pair.written(kA, kBlockOfBoth, value));
    world.pair.run_for(3 * kMillisecond / 2);
  }
  EXPECT_GE(told() - before, 8U) << "timers and messages may be late";
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
