// What the link or the partner will not take, though the way between the nodes never breaks.
#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using replication::MessageType;
using replication::MirrorState;

constexpr std::uint64_t kBlocksOfRegion = 8;

MessageFilter forwards_of(DiskOpcode opcode) {
  return [opcode](std::span<const std::byte> header) {
    const auto m = replication::decode(header);
    return m && m->type == MessageType::forward && m->opcode == opcode;
  };
}

MessageFilter first_order(bool& seen) {
  return [&seen](std::span<const std::byte> header) {
    const auto m = replication::decode(header);
    if (seen || !m || m->type != MessageType::replicate) return false;
    return seen = true;
  };
}

TEST(FullLinkQueue, AnOrderThatItRefusedDuringAResyncGoesOutAgain) {
  constexpr std::uint64_t kRegions = 20, kLast = (kRegions - 1) * kBlocksOfRegion;
  bool refused = false;
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.resync_ceiling = s.region_size; });  // a second
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (std::uint64_t r = 0; r < kRegions; ++r) ASSERT_FALSE(pair.written(kA, r * kBlocksOfRegion, 1));
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::syncing_source); }));
  pair.world().way_from(kA).refuse(first_order(refused));
  auto& write = pair.write(kA, kLast, 2);
  EXPECT_TRUE(pair.wait_for([&] { return write.done; }, 6 * kSecond));
  EXPECT_EQ(write.status(), std::error_code{});
  EXPECT_TRUE(refused);
  EXPECT_TRUE(pair.is(kA, MirrorState::syncing_source)) << "it does not wait for the end of the resync";
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.value_at(side, kLast), 2);
  EXPECT_EQ(pair.violation(), "");
}

/// One of an earlier version.
TEST(PartnerThatKnowsLess, NobodyWaitsForWhatItCannotRead) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, 8, 1, 8));
  pair.world().way_from(kB).garble(forwards_of(DiskOpcode::unmap));
  auto& unmap = pair.submit(kB, DiskOpcode::unmap, 8, 8, 0);
  ASSERT_TRUE(pair.wait_for([&] { return unmap.done; }));
  EXPECT_EQ(unmap.status(), make_error_code(engine::Errc::unknown_outcome)) << "ABORTED COMMAND";
  EXPECT_EQ(pair.value_at(kA, 8), 1);
  EXPECT_FALSE(pair.written(kB, 8, 2));
  EXPECT_TRUE(pair.in_sync());
  EXPECT_EQ(pair.violation(), "");
}

TEST(PartnerThatKnowsLess, WhatItCannotTellOfHolesCountsAsKept) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 1024; });
  ASSERT_TRUE(comes_back_slowly(pair, kB));  // everything goes through A
  pair.world().way_from(kB).garble(forwards_of(DiskOpcode::find_run));
  auto& io = pair.submit(kB, DiskOpcode::find_run, 4000, 64, 0);
  ASSERT_TRUE(pair.wait_for([&] { return io.done; }));
  EXPECT_EQ(io.status(), std::error_code{});
  ASSERT_EQ(io.request.transferred, engine::kRunSize);
  EXPECT_EQ(engine::decode_run(io.request.data.first(engine::kRunSize)), (engine::Run{64 * kBlock, false}));
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
