// Orders that wait, for their data or their range: which keep their place, and what they hold up (crossing.hpp).
#include "tests/simulation/crossing.hpp"

namespace lockstep::simulation {
namespace {

/// Two orders, of which the first waits and the second is carried out, and a read of what both write.
struct WaitingOrder : Forwarded {
  void second_and_read() {
    ASSERT_TRUE(b.ask(six, PlayedB::block_of(6)).ended_with(Errc::ok));
    read = &pair.read(kA, kBlockOfBoth, 2);
    pair.run_for(kSoon);
    ASSERT_FALSE(read->done);
  }
  void way_breaks() {
    pair.world().way_from(kB).reset();
    pair.run_for(10 * kSoon);
  }
  /// B sends what is not finished again, by rising numbers.
  void expect_both_come_again(const Message& five) {
    auto& again = b.send(five, PlayedB::block_of(9));
    auto& six_again = b.send(six, PlayedB::block_of(6));
    ASSERT_TRUE(pair.wait_for([&] { return again.done; }, 5 * kLease)) << "behind the read, which waits for the other";
    EXPECT_TRUE(again.ended_with(Errc::ok));
    EXPECT_TRUE(six_again.ended_with(Errc::ok));
    EXPECT_TRUE(pair.is(kA, MirrorState::in_sync));
    Message covers = b.message(MessageType::watermark);
    covers.watermark = six.sequence;
    b.ask(covers);
    ASSERT_TRUE(pair.wait_for([&] { return read->done; }, kSoon));
    EXPECT_EQ(read->first(), 9);
  }
  Message six = [this] {
    Message m = order(6);
    m.extent.offset += kBlock;
    return m;
  }();
  ScriptedPair::Io* read = nullptr;
};

TEST(OrderByReference, WhoseDataLackKeepsItsPlaceAlsoWhenTheWayBreaks) {
  WaitingOrder world;
  Message five = world.reference(5);
  five.tag += 1;
  ASSERT_TRUE(world.b.ask(five).ended_with(Errc::refused));
  world.second_and_read();
  world.way_breaks();
  five.flags = 0;
  five.forwarder = {};
  world.expect_both_come_again(five);
}

/// Behind a read that the disk takes its time for.
TEST(Order, ThatWaitsKeepsItsPlaceWhenTheWayBreaks) {
  WaitingOrder world;
  hang(world.pair, kA);
  auto& slow = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  const Message five = world.order(5);
  world.b.send(five, PlayedB::block_of(9));
  world.second_and_read();
  ASSERT_FALSE(slow.done);
  world.way_breaks();
  world.pair.mend(kA);
  world.pair.run_for(kSoon);
  ASSERT_TRUE(slow.done);
  world.expect_both_come_again(five);
}

/// Its data are here after all.
TEST(OrderByReference, ThatComesAgainByReferenceIsCarriedOutWhereItHasKeptItsPlace) {
  WaitingOrder world;
  Message five = world.reference(5);
  five.forwarder.bytes[0] ^= 1;
  ASSERT_TRUE(world.b.ask(five).ended_with(Errc::refused));
  ASSERT_TRUE(world.b.ask(five).ended_with(Errc::refused));
  EXPECT_TRUE(world.b.ask(world.reference(5)).ended_with(Errc::ok));
  EXPECT_EQ(world.stored(), 7);
}

/// A is a target, and whoever orders goes on without it before it hears that the data lack: it does not send them.
struct Target : PlayedB {
  Target() : PlayedB(b_orders) {
    leave_a_behind();
    learn_map();
  }
  void learn_map() {
    Message map = b.message(MessageType::map);
    const std::uint64_t words = (pair.world().scenario.regions + 63) / 64;
    map.extent = {0, words};
    EXPECT_TRUE(b.ask(map, {}, words * 8).ended_with(Errc::ok));
  }
  void lack_data() {
    Message m = order(1);
    m.flags = kFlagByReference;
    m.tag = 1;
    EXPECT_TRUE(b.ask(m).ended_with(Errc::refused));
  }
  void expect_copies_are_taken() {
    learn_map();  // a resync begins anew
    Message copy = order(0);
    copy.type = MessageType::copy;
    copy.sequence = 0;
    EXPECT_TRUE(b.ask(copy, PlayedB::block_of(4)).ended_with(Errc::ok));
  }
};

TEST(OrderByReference, WhoseDataLackHoldsNoResyncUpAtATarget) {
  Target world;
  world.lack_data();
  world.expect_copies_are_taken();
}

TEST(OrderByReference, WhoseDataLackHoldsNoResyncUpAtATargetThatWasSuspended) {
  Target world;
  world.b.keeps = PlayedB::silent;
  ASSERT_TRUE(world.pair.wait_for([&] { return !world.pair.status(kA).serving; }));
  world.lack_data();
  world.back_in_touch();
  world.b.tell_state();
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).serving; }));
  world.expect_copies_are_taken();
}

// ---- a volume that is detached while the partner is gone -----------------------------------------------------------

struct DetachedWithoutPartner : Forwarded {
  void way_breaks_for_good() {
    b.keeps = [](const Message& m) { return is(m, MessageType::forward) || PlayedB::silent(m); };
    pair.world().way_from(kA).reset();
  }
  void detach() {
    pair.host(kA).program()->detach(0, [this] { detached = true; });
  }
  bool detached = false;
};

TEST(Detach, OfAForwardThatWasLostWithTheWayEndsWhenContactIsLost) {
  DetachedWithoutPartner world;
  world.detach();
  world.way_breaks_for_good();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.detached; }, 10 * kLease));
}

TEST(Detach, OfAForwardThatIsHalfDoneEndsWhenContactIsLost) {
  DetachedWithoutPartner world;
  world.half_done();
  world.way_breaks_for_good();
  world.pair.run_for(kSoon);
  world.detach();
  EXPECT_TRUE(world.pair.wait_for([&] { return world.detached; }, 10 * kLease));
}

}  // namespace
}  // namespace lockstep::simulation
