// Another key for both copies of an encrypted volume.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using engine::Errc;
using engine::NodeSide;
using replication::MirrorState;

void is_encrypted(Scenario& scenario) { scenario.volumes[0].encrypted = true; }

std::uint32_t blocks_of(ScriptedPair& pair) {
  return static_cast<std::uint32_t>(pair.world().scenario.volume_size() / kBlock);
}

std::error_code done(ScriptedPair& pair, NodeSide side, DiskOpcode opcode) {
  auto& io = pair.submit(side, opcode, 0, blocks_of(pair), 0);
  EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
  return io.status();
}

/// What the node's own store has, whoever may read it.
std::byte kept(ScriptedPair& pair, NodeSide side, std::uint64_t block) {
  return pair.host(side).data(0).visible()[block * kBlock];
}

TEST(Key, AnotherOneReachesBothCopiesThroughEitherNodeAndLeavesNothingReadable) {
  for (const NodeSide through : {kA, kB}) {
    ScriptedPair pair(pair_program(), is_encrypted);
    ASSERT_EQ(pair.written(kA, 8, 1, 8), std::error_code{});
    EXPECT_EQ(done(pair, through, DiskOpcode::renew_key), std::error_code{});
    const auto a = pair.host(kA).data(0).visible().subspan(8 * kBlock, kBlock);
    const auto b = pair.host(kB).data(0).visible().subspan(8 * kBlock, kBlock);
    for (const auto& image : {a, b}) EXPECT_NE(std::ranges::count(image, std::byte{1}), std::ssize(image));
    EXPECT_FALSE(std::ranges::equal(a, b)) << "each copy has a key of its own";
    EXPECT_EQ(done(pair, through, DiskOpcode::unmap), std::error_code{});
    for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.value_at(side, 8), 0);
    ASSERT_EQ(pair.written(kB, 9, 3), std::error_code{});
    for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.value_at(side, 9), 3);
    EXPECT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes == 0 && pair.status(kB).dirty_bytes == 0; }));
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Key, AVolumeThatIsNotEncryptedHasNone) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  for (const NodeSide through : {kA, kB}) EXPECT_EQ(done(pair, through, DiskOpcode::renew_key), Errc::refused);
  EXPECT_EQ(pair.value_at(kB, 8), 1);
}

TEST(Key, ACopyThatWasAwayIsMadeEqualToWhatWasErased) {
  for (const NodeSide stays : {kA, kB}) {
    ScriptedPair pair(pair_program(), is_encrypted);
    const NodeSide goes = engine::other(stays);
    ASSERT_EQ(pair.written(kA, 8, 1, 8), std::error_code{});
    pair.host(goes).end(Host::End::power_cut);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(stays, MirrorState::solo); }));
    EXPECT_EQ(done(pair, stays, DiskOpcode::renew_key), std::error_code{});
    EXPECT_EQ(done(pair, stays, DiskOpcode::unmap), std::error_code{});
    ASSERT_EQ(pair.written(stays, 20, 2), std::error_code{});
    EXPECT_EQ(kept(pair, goes, 8), std::byte{1});
    pair.host(goes).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    for (const NodeSide side : {kA, kB}) {
      EXPECT_EQ(kept(pair, side, 8), std::byte{0});
      EXPECT_EQ(pair.value_at(side, 20), 2);
    }
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Key, ThePartnersFailureToReplaceItsOwnMakesItLeaveAndTheRestIsErased) {
  ScriptedPair pair(pair_program(), is_encrypted);
  ASSERT_EQ(pair.written(kA, 8, 1, 8), std::error_code{});
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_EQ(done(pair, kA, DiskOpcode::renew_key), std::error_code{});
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  EXPECT_EQ(done(pair, kA, DiskOpcode::unmap), std::error_code{});
  EXPECT_EQ(pair.value_at(kA, 8), 0);
  EXPECT_EQ(pair.violation(), "");
}

TEST(Key, APowerCutBetweenTheKeyAndTheZerosLeavesCopiesThatAreMadeEqual) {
  ScriptedPair pair(pair_program(), is_encrypted);
  ASSERT_EQ(pair.written(kA, 8, 1, 8), std::error_code{});
  EXPECT_EQ(done(pair, kA, DiskOpcode::renew_key), std::error_code{});
  for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes == 0 && pair.status(kB).dirty_bytes == 0; }));
  const auto a = pair.host(kA).data(0).visible(), b = pair.host(kB).data(0).visible();
  EXPECT_TRUE(std::ranges::equal(a.subspan(8 * kBlock, 8 * kBlock), b.subspan(8 * kBlock, 8 * kBlock)));
  EXPECT_EQ(done(pair, kB, DiskOpcode::unmap), std::error_code{}) << "whoever erases goes on from the start";
  for (const NodeSide side : {kA, kB}) EXPECT_EQ(pair.value_at(side, 8), 0);
  EXPECT_EQ(pair.violation(), "");
}

/// Whoever erases gave up after the key, or in the middle of the zeros: what is left of the noise is not the same on
/// both, and nothing but its bits tells.
TEST(Key, NoiseThatIsLeftIsMadeEqualWhenACopyComesBack) {
  for (const bool begun : {false, true}) {
    for (const NodeSide goes : {kA, kB}) {
      ScriptedPair pair(pair_program(), is_encrypted);
      ASSERT_EQ(pair.written(kA, 8, 1, 8), std::error_code{});
      ASSERT_EQ(pair.written(kA, 200, 1, 8), std::error_code{});
      EXPECT_EQ(done(pair, kA, DiskOpcode::renew_key), std::error_code{});
      if (begun) {
        auto& zeros = pair.submit(kA, DiskOpcode::unmap, 0, 100, 0);
        ASSERT_TRUE(pair.wait_for([&] { return zeros.done; }));
      }
      ASSERT_EQ(pair.written(kA, 300, 2), std::error_code{});
      pair.run_for(10 * kSecond);
      EXPECT_EQ(pair.status(kA).dirty_bytes < pair.world().scenario.volume_size(), begun);
      pair.host(goes).end(Host::End::power_cut);
      ASSERT_TRUE(pair.wait_for([&] { return pair.is(engine::other(goes), MirrorState::solo); }));
      pair.host(goes).boot();
      ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
      EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()));
      const NodeSide orders = engine::other(goes);
      EXPECT_TRUE(pair.wait_for([&] { return pair.status(orders).dirty_bytes == 0; })) << "it is noise no more";
      EXPECT_EQ(pair.violation(), "");
    }
  }
}

}  // namespace
}  // namespace lockstep::simulation
