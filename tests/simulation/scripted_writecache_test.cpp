// A volume's write cache: what a flush promises when the cache was put off meanwhile.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using engine::NodeSide;

void cached(Scenario& s) {
  s.volumes[0].write_cache = true;
  s.store_deadline = 60 * kSecond;
}

std::error_code flushed(ScriptedPair& pair, NodeSide through) {
  auto& io = pair.submit(through, DiskOpcode::flush, 0, 0, 0);
  if (!pair.wait_for([&] { return io.done; })) return engine::Errc::timed_out;
  return io.status();
}

int stable_value(ScriptedPair& pair, NodeSide side, std::uint64_t block) {
  return std::to_integer<int>(pair.host(side).data(0).stable()[block * kBlock]);
}

bool lose_power_together(ScriptedPair& pair) {
  for (const auto side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
  for (const auto side : {kA, kB}) pair.host(side).boot();
  return pair.wait_for([&] { return pair.in_sync(); });
}

TEST(WriteCache, AFlushAfterItWasPutOffCoversWhatWasCachedBefore) {
  constexpr std::uint64_t kBlocks = 8;
  for (const auto through : {kA, kB}) {
    ScriptedPair pair(pair_program(), cached);
    for (std::uint64_t block = 0; block < kBlocks; ++block) ASSERT_FALSE(pair.written(kA, block, 7));
    pair.host(kA).program()->set_write_cache(0, false);
    ASSERT_FALSE(flushed(pair, through));
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      for (const auto side : {kA, kB}) EXPECT_EQ(stable_value(pair, side, block), 7) << "block " << block;
    }
    ASSERT_TRUE(lose_power_together(pair));
    for (std::uint64_t block = 0; block < kBlocks; ++block) EXPECT_EQ(pair.value_at(through, block), 7);
  }
}

TEST(WriteCache, AFlushAfterItWasPutOffCoversWhatWasOnItsWayThen) {
  for (const auto through : {kA, kB}) {
    ScriptedPair pair(pair_program(), cached);
    ASSERT_FALSE(pair.written(kA, 8, 1));  // there is space for the next, and its region is dirty
    auto& write = pair.write(kA, 8, 7);
    ASSERT_GT(pair.host(kA).data(0).in_flight(), 0u);
    pair.host(kA).program()->set_write_cache(0, false);
    ASSERT_TRUE(pair.wait_for([&] { return write.done; }));
    ASSERT_FALSE(write.status());
    ASSERT_FALSE(flushed(pair, through));
    for (const auto side : {kA, kB}) EXPECT_EQ(stable_value(pair, side, 8), 7);
    ASSERT_TRUE(lose_power_together(pair));
    EXPECT_EQ(pair.value_at(through, 8), 7);
  }
}

}  // namespace
}  // namespace lockstep::simulation
