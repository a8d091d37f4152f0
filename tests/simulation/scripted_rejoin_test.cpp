// On the way back into the pair: what happened to a partner between two steps of it is not overlooked.
#include <algorithm>

#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MessageType;
using replication::MirrorState;

constexpr std::uint64_t kStep = 16;  // blocks: two regions
constexpr std::uint64_t kBlocks = 24;
constexpr int kOld = 1, kNew = 2;

bool is_forward(std::span<const std::byte> header) {
  const auto message = replication::decode(header);
  return message && message->type == MessageType::forward;
}

bool holds(ScriptedPair& pair, NodeSide side, std::uint64_t block, int fill) {
  return std::to_integer<int>(pair.host(side).data(0).visible()[block * kBlock]) == fill;
}

bool holds_all(ScriptedPair& pair, NodeSide side, int fill) {
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    if (!holds(pair, side, i * kStep, fill)) return false;
  }
  return true;
}

/// Everything is on the target, and nothing flushed there, when the source begins to record that both are members
/// again; its disk takes its time, and the target loses power meanwhile.
TEST(Rejoin, IsNotAgreedWithATargetThatLostItsPowerMeanwhile) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.store_deadline = 30 * kSecond; });
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t i = 0; i < kBlocks; ++i) ASSERT_FALSE(pair.written(kA, i * kStep, kNew));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  pair.host(kA).metadata(0).stand_still();
  ASSERT_TRUE(pair.wait_for([&] { return holds_all(pair, kB, kNew); }));
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).metadata(0).in_flight() > 0; })) << "the record of the join";
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_FALSE(holds_all(pair, kB, kNew)) << "the copies were flushed: this shows nothing";
  pair.host(kB).boot();
  pair.run_for(kSecond / 2);
  pair.host(kA).metadata(0).go_on();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_EQ(pair.value_at(kB, i * kStep), kNew) << "block " << i * kStep;
  EXPECT_EQ(pair.violation(), "");
}

/// What a target writes by order is written over by the next copy of the region, when the source could not write it
/// itself. Its host was told nothing, and is not told later, by a member, that it is done.
TEST(Rejoin, AWriteThatFailedAtTheSourceIsNotDoneBecauseTheTargetHadIt) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.store_deadline = 30 * kSecond;
    s.regions = 128;
  });
  ASSERT_FALSE(pair.written(kA, 0, kOld));
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  pair.world().way_from(kB).hold_answers(is_forward);
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  auto& write = pair.write(kB, 1, kNew);
  ASSERT_TRUE(pair.wait_for([&] { return holds(pair, kB, 1, kNew); })) << "it came back as an order";
  pair.run_for(kSecond / 2);
  ASSERT_FALSE(write.done);
  pair.mend(kA);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  ASSERT_FALSE(holds(pair, kB, 1, kNew)) << "no copy came over it: this shows nothing";
  pair.host(kA).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
  EXPECT_TRUE(write.status() || pair.value_at(kB, 1) == kNew);
  EXPECT_EQ(pair.violation(), "");
}

/// Without a witness, a node whose disk stands still from its start on keeps in its machine what it left. Its first
/// flush returns before the record that it had given up does.
TEST(Rejoin, WhatWasLeftIsRecordedWhenTheDiskReturnsWhateverReturnsFirst) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.arbiter = {engine::ArbiterKind::preferred, kB, {}}; });
  ASSERT_FALSE(pair.written(kA, 8, kOld));
  pair.run_for(2 * kSecond);
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::killed);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).data(0).in_flight() > 0; }));
  pair.host(kA).data(0).stand_still();
  pair.host(kA).metadata(0).stand_still();
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  ASSERT_FALSE(pair.written(kB, 8, kNew));
  pair.host(kA).data(0).go_on();
  pair.run_for(5 * kMillisecond);
  pair.host(kA).metadata(0).go_on();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); })) << pair.status(kA).reason;
  EXPECT_EQ(pair.value_at(kA, 8), kNew);
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
