// A process that was killed while it wrote: what the next one finds in the machine's cache is not on the disk yet.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/metadata/layout.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

namespace layout = engine::layout;
using engine::NodeSide;
using replication::MirrorState;

/// A node alone, killed while it wrote the first bit of its dirty map.
struct KilledInABit {
  static constexpr std::uint64_t kBlock = 40;  ///< of 512 bytes; regions have eight
  /// `history`: how many writes went before, so that each has another disk's chance.
  explicit KilledInABit(int history) : pair(pair_program()) {
    for (int i = 0; i < history; ++i) EXPECT_EQ(pair.written(kA, 8 * (10 + i % 50), 1), std::error_code{});
    pair.run_for(5 * kSecond);  // their bits are cleared
    pair.host(kB).end(Host::End::killed);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
    pair.run_for(kSecond);
    StoreFaults stuck;
    stuck.hang = kAlways;
    metadata().set_faults(stuck);
    (void)pair.write(kA, kBlock, 1);
    EXPECT_TRUE(pair.wait_for([&] { return metadata().in_flight() > 0; }));
    pair.run_for(10 * kMillisecond);
    pair.host(kA).end(Host::End::killed);
    pair.mend(kA);
  }
  SimStore& metadata() { return pair.host(kA).metadata(0); }
  /// The region's bit, in a map block that is whole.
  static bool has_bit(std::span<const std::byte> image) {
    const layout::ConstBlock map = image.subspan<layout::kMapAt, layout::kBlock>();
    const auto word = engine::load_be<std::uint64_t>(map.data() + sizeof(layout::Header));
    return layout::unseal(map, layout::Kind::map, 0) && (word >> (kBlock / 8) & 1);
  }
  [[nodiscard]] bool only_visible() { return has_bit(metadata().visible()) && !has_bit(metadata().stable()); }

  ScriptedPair pair;
};

TEST(KilledInABit, WhatIsAcknowledgedUnderItReachesThePartnerAfterAPowerCut) {
  int played = 0;
  for (int history = 1; played < 6 && history <= 100; ++history) {
    KilledInABit world(history);
    if (!world.only_visible()) continue;  // torn, or not there: most of what a kill may leave
    ++played;
    ScriptedPair& pair = world.pair;
    pair.host(kA).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) && pair.status(kA).serving; }));
    ASSERT_EQ(pair.written(kA, KilledInABit::kBlock, 2), std::error_code{});
    pair.host(kA).end(Host::End::power_cut);
    for (const NodeSide side : {kA, kB}) pair.host(side).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(kB, KilledInABit::kBlock), 2) << history << " writes before";
    EXPECT_TRUE(std::ranges::equal(pair.host(kA).data(0).visible(), pair.host(kB).data(0).visible()))
        << history << " writes before";
    EXPECT_EQ(pair.violation(), "");
  }
  EXPECT_EQ(played, 6);
}

}  // namespace
}  // namespace lockstep::simulation
