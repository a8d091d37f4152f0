// What one volume's disk at the partner holds up on the link: itself.
#include <array>

#include <gtest/gtest.h>

#include "replication/core/marks.hpp"
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;

constexpr Nanos kLong = 20 * kSecond;

void two_volumes(Scenario& s) {
  s.volumes.push_back(s.volumes[0]);
  s.volumes[1].id.bytes[0] ^= 1;
  s.volumes[1].size = s.volume_size();
}

/// In the proportions of the real link.
void narrow(Scenario& s) {
  s.regions = 256;
  two_volumes(s);
  s.store_deadline = 10 * kSecond;
  s.link_orders = s.link_forwards = {64 * 1024, 6};
  s.link_copies = {16 * 1024, 2};
  s.link_window = 3 * 6 + 2 + 4;
}

bool is(ScriptedPair& pair, NodeSide side, unsigned volume, MirrorState state) {
  return pair.host(side).status(volume)->state == state;
}

/// Ten times what the link takes at once, each on blocks of its own.
void write_much(ScriptedPair& pair, NodeSide side) {
  for (unsigned i = 0; i < 200; ++i) pair.write(side, i * 8, 1);
}

/// Volume 1 is written on both nodes for as long as that takes, and stays in sync all the time.
void expect_untouched(ScriptedPair& pair, Nanos time) {
  const Nanos until = pair.world().scheduler.now() + time;
  for (int fill = 2; pair.world().scheduler.now() < until; ++fill) {
    for (const NodeSide side : {kA, kB}) {
      auto& write = pair.write(side, 8, fill, 1, 1);
      ASSERT_TRUE(pair.wait_for([&] { return write.done; }, kSecond)) << "a write through " << (side == kA ? "A" : "B");
      ASSERT_EQ(write.status(), std::error_code{});
    }
    pair.run_for(20 * kMillisecond);
    for (const NodeSide side : {kA, kB}) ASSERT_TRUE(is(pair, side, 1, MirrorState::in_sync));
  }
}

TEST(NarrowLink, ADiskThatStandsStillAtThePartnerLeavesTheOtherVolumeInSync) {
  for (const NodeSide stuck : {kA, kB}) {
    ScriptedPair pair(pair_program(), narrow);
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    hang(pair, stuck);
    write_much(pair, other(stuck));
    pair.run_for(5 * kMillisecond);
    expect_untouched(pair, 6 * kSecond);
    for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.host(side).fences(), 0u);
    EXPECT_TRUE(pair.wait_for([&] { return is(pair, other(stuck), 0, MirrorState::solo); }, kLong));
    expect_untouched(pair, kSecond);
    pair.mend(stuck);
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.violation(), "");
  }
}

/// Its target's disk stands still in the middle of it.
TEST(NarrowLink, AResyncThatStandsStillLeavesTheOtherVolumeInSync) {
  ScriptedPair pair(pair_program(), narrow);
  pair.host(kB).program()->leave(0);
  ASSERT_TRUE(pair.wait_for([&] { return is(pair, kA, 0, MirrorState::solo); }, kLong));
  write_much(pair, kA);
  pair.host(kB).program()->attach_again(0);
  ASSERT_TRUE(pair.wait_for([&] { return is(pair, kA, 0, MirrorState::syncing_source); }, kLong));
  hang(pair, kB);
  pair.run_for(5 * kMillisecond);
  expect_untouched(pair, 4 * kSecond);
  EXPECT_EQ(pair.violation(), "");
}

/// What waits for its turn when the way breaks is sent on the next one, in the same order as ever.
TEST(NarrowLink, WhatWaitsForItsTurnOutlivesABrokenWay) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), narrow);
    write_much(pair, side);
    auto& last = pair.write(side, 8, 7);
    pair.run_for(kMillisecond);
    pair.world().way_from(side).reset();
    pair.run_for(300 * kMillisecond);
    pair.world().way_from(other(side)).reset();
    EXPECT_TRUE(pair.wait_for([&] { return last.done; }, kLong));
    EXPECT_EQ(last.status(), std::error_code{});
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(other(side), 8), 7);
    EXPECT_EQ(pair.violation(), "");
  }
}

/// Hosts give up what waits: it ends at once where it was not sent, and nothing of it is carried out later.
TEST(NarrowLink, WhatWaitsForItsTurnIsCancelledAtOnce) {
  ScriptedPair pair(pair_program(), narrow);
  hang(pair, kA);
  std::vector<ScriptedPair::Io*> writes;
  for (unsigned i = 0; i < 40; ++i) writes.push_back(&pair.write(kB, i * 8, 1));
  pair.run_for(50 * kMillisecond);
  for (auto* io : writes) {
    if (!io->done) pair.host(kB).program()->disk(0)->cancel(io->request);
  }
  unsigned ended = 0;
  for (auto* io : writes) ended += io->done;
  EXPECT_GE(ended, 30u) << "all but what is on the link";
  EXPECT_EQ(pair.violation(), "");
}

std::uint64_t forwards_sent_again() {
  for (const auto& [name, count] : replication::all_marks()) {
    if (name == "forward.sent_again") return count;
  }
  return 0;
}

/// The only member, whose metadata failed, refuses what the other node forwards until it is started anew.
TEST(NarrowLink, WhatThePartnerRefusesIsNotSentAgainEachTimeThatItsTurnHasCome) {
  ScriptedPair pair(pair_program(), narrow);
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  ASSERT_TRUE(pair.wait_for([&] { return is(pair, kA, 0, MirrorState::syncing_source); }));
  StoreFaults faults = pair.host(kA).metadata(0).faults();
  faults.write_error = kAlways;
  faults.slowest = 100 * kMillisecond;
  pair.host(kA).metadata(0).set_faults(faults);
  pair.write(kA, 1500, 2);
  pair.run_for(kMillisecond);
  for (unsigned i = 0; i < 20; ++i) pair.read(kB, 1500);
  ASSERT_TRUE(pair.wait_for([&] { return is(pair, kA, 0, MirrorState::failed); })) << pair.status(kA).reason;
  const auto before = forwards_sent_again();
  pair.run_for(kSecond);
  const auto sent = forwards_sent_again() - before;
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, 2000u) << "200 times what the link takes at once";
}

/// A orders, B answers no order, and the way breaks: on the new one the other volume has its turn first.
struct OrdersBehindAnotherVolume : PlayedB {
  OrdersBehindAnotherVolume() : PlayedB(narrow) {
    b.keeps = [](const Message& m) { return m.type == MessageType::replicate; };
    for (unsigned i = 0; i < kOrders; ++i) pair.write(kA, i * 8, 1);
    EXPECT_TRUE(pair.wait_for([&] { return orders(0).size() == kOrders; }, kSoon));
    for (unsigned i = 0; i < 20; ++i) pair.write(kA, i * 8, 1, 1, 1);
    pair.run_for(kSoon);
  }
  void lose_the_way() {
    lost_after = {orders(0).size(), orders(1).size()};
    b.keeps = [this](const Message& m) {
      return m.type == MessageType::replicate || (m.type == MessageType::state && m.volume == id(0));
    };
    pair.world().way_from(kA).reset();
    EXPECT_TRUE(pair.wait_for([&] { return on_the_new_way(1).size() == 5; }, kLease / 2)) << "all that it may have";
  }
  void agree_on_the_new_way() {
    b.let_go_first(Errc::ok);
    pair.run_for(kSoon);
  }
  [[nodiscard]] engine::Uuid id(unsigned volume) { return pair.world().scenario.volumes[volume].id; }
  /// The numbers of that volume's orders, as they came.
  [[nodiscard]] std::vector<std::uint64_t> orders(unsigned volume) {
    std::vector<std::uint64_t> numbers;
    for (const Message& m : b.received(MessageType::replicate)) {
      if (m.volume == id(volume)) numbers.push_back(m.sequence);
    }
    return numbers;
  }
  [[nodiscard]] std::vector<std::uint64_t> on_the_new_way(unsigned volume) {
    auto numbers = orders(volume);
    numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(lost_after[volume]));
    return numbers;
  }

  static constexpr unsigned kOrders = 3;
  std::array<std::size_t, 2> lost_after{};
};

/// Reads of the other member wait for the watermark to cover the later one, and it would wait for the earlier.
TEST(NarrowLink, OrdersThatComeAgainAreNotPassedThoughAnotherVolumeHasTakenTheirTurn) {
  OrdersBehindAnotherVolume world;
  auto expected = world.orders(0);
  world.lose_the_way();
  ASSERT_TRUE(world.on_the_new_way(0).empty());
  world.agree_on_the_new_way();
  Message forward = world.forward(1);
  forward.extent.offset = 100 * kBlock;  // its order waits for no turn
  world.b.send(forward, PlayedB::block_of(2));
  world.pair.run_for(kSoon);
  expected.push_back(expected.back() + 1);
  EXPECT_EQ(world.on_the_new_way(0), expected);
}

}  // namespace
}  // namespace lockstep::simulation
