// The link over several paths, whole pairs above it: what happens to one path is not seen while another is left.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "replication/link/channel/channel_frames.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

ScriptedPair::Adjust over(std::size_t paths, std::uint16_t version = replication::kSeveralPaths) {
  return [=](Scenario& s) {
    s.paths = paths;
    s.link_version = version;
  };
}

void cut(ScriptedPair& pair, std::size_t path, bool open) {
  for (const auto side : {kA, kB}) pair.world().cut_path(path, side, open);
}

/// Writes through both nodes end in time, and nobody leaves the epoch.
void expect_all_goes_on(ScriptedPair& pair, Nanos patience) {
  for (const auto side : {kA, kB}) {
    auto& write = pair.write(side, side == kA ? 3 : 5, 7);
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }, patience));
    EXPECT_FALSE(write.status());
    EXPECT_TRUE(pair.in_sync());
  }
  EXPECT_EQ(pair.violation(), "");
}

TEST(SeveralPaths, CarryWritesThroughBothNodes) {
  ScriptedPair pair(pair_program(), over(3));
  expect_all_goes_on(pair, kSecond);
  EXPECT_EQ(pair.value_at(kB, 3), 7);
  EXPECT_EQ(pair.value_at(kA, 5), 7);
}

TEST(SeveralPaths, OneThatIsCutHoldsUpWritesForLessThanHalfASecond) {
  for (std::size_t path = 0; path < 2; ++path) {
    ScriptedPair pair(pair_program(), over(2));
    pair.run_for(4 * kSecond);
    cut(pair, path, false);
    expect_all_goes_on(pair, 500 * kMillisecond);
    pair.run_for(10 * kSecond);
    EXPECT_TRUE(pair.in_sync());
    cut(pair, path, true);
    pair.run_for(10 * kSecond);
    cut(pair, 1 - path, false);
    expect_all_goes_on(pair, 500 * kMillisecond);
  }
}

TEST(SeveralPaths, OneThatCarriesOneWayOnlyIsNotUsed) {
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) {
    ScriptedPair pair(pair_program(), over(2));
    pair.run_for(4 * kSecond);
    for (const auto side : {kA, kB}) pair.world().paths_from(side)[0]->hold(flow, true);
    expect_all_goes_on(pair, 500 * kMillisecond);
    for (const auto side : {kA, kB}) pair.world().paths_from(side)[0]->hold(flow, false);
    pair.run_for(10 * kSecond);
    expect_all_goes_on(pair, 500 * kMillisecond);
  }
}

TEST(SeveralPaths, AreAllLostTogetherAsOneIs) {
  ScriptedPair pair(pair_program(), over(2));
  pair.run_for(4 * kSecond);
  for (std::size_t path = 0; path < 2; ++path) cut(pair, path, false);
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo) || pair.is(kB, MirrorState::solo); }));
  for (std::size_t path = 0; path < 2; ++path) cut(pair, path, true);
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.violation(), "");
}

TEST(SeveralPaths, OfAPartnerThatKnowsNoNumbersTheFirstIsUsedAsItIs) {
  ScriptedPair pair(pair_program(), over(2, replication::kSeveralPaths - 1));
  expect_all_goes_on(pair, kSecond);
}

TEST(SeveralPaths, OneOfTwoIsEnoughToBeginWith) {
  ScriptedPair pair(pair_program(), over(2));
  cut(pair, 0, false);
  pair.host(kB).end(Host::End::killed);
  pair.run_for(5 * kSecond);
  pair.host(kB).boot();
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.violation(), "");
}

/// Two networks; over each goes a path over TCP (0, 1) and one over RDMA (2, 3), which is preferred.
class PathsOverRdma : public testing::Test {
 protected:
  static constexpr std::uint32_t kLargeWrite = 16;  // blocks; by a window
  static constexpr Nanos kSoon = 1500 * kMillisecond;

  void remove_devices(bool away) {
    for (const auto side : {kA, kB}) {
      for (const std::size_t path : {2, 3}) pair.world().paths_from(side)[path]->take_device(away);
    }
  }
  void hold_rdma(SimLink::Flow flow, bool held) {
    for (const auto side : {kA, kB}) {
      for (const std::size_t path : {2, 3}) pair.world().paths_from(side)[path]->hold(flow, held);
    }
  }
  /// Writes through both nodes, of which these paths and no other carry what is more than heartbeats.
  void expect_carried_by(std::initializer_list<std::size_t> paths) {
    std::array<std::uint64_t, 4> before{}, after{};
    for (std::size_t path = 0; path < 4; ++path) before[path] = pair.world().paths_from(kA)[path]->carried();
    for (int i = 0; i < 200; ++i) ASSERT_FALSE(pair.written(kA, 20, 9, kLargeWrite));
    for (std::size_t path = 0; path < 4; ++path) after[path] = pair.world().paths_from(kA)[path]->carried();
    std::uint64_t by_these = 0;
    for (const std::size_t path : paths) by_these += after[path] - before[path];
    EXPECT_GE(by_these, 200u);
    for (std::size_t path = 0; path < 4; ++path) {
      const bool is_one = std::ranges::find(paths, path) != paths.end();
      EXPECT_TRUE(is_one || after[path] - before[path] < 100) << "path " << path;
    }
  }
  void expect_done(std::span<ScriptedPair::Io* const> writes) {
    const auto all_are = [&] { return std::ranges::all_of(writes, &ScriptedPair::Io::done); };
    EXPECT_TRUE(pair.wait_for(all_are, kSoon));
    for (const auto* write : writes) EXPECT_FALSE(write->status());
    EXPECT_TRUE(pair.in_sync());
    EXPECT_EQ(pair.violation(), "");
  }
  std::vector<ScriptedPair::Io*> large_writes() {
    std::vector<ScriptedPair::Io*> writes;
    for (std::uint64_t i = 0; i < 8; ++i) writes.push_back(&pair.write(i % 2 == 0 ? kA : kB, 16 * i, 5, kLargeWrite));
    return writes;
  }

  ScriptedPair pair{pair_program(), [](Scenario& s) {
                      over(4)(s);
                      s.rdma_paths = 2;
                      s.rdma_payload = 1024;
                    }};
};

TEST_F(PathsOverRdma, AreUsedBeforeTcp) {
  pair.run_for(4 * kSecond);
  expect_carried_by({2, 3});
}

TEST_F(PathsOverRdma, LostWithLargeRequestsUnderWayGiveThemToTcpAndAreUsedAgainWhenTheyAreProven) {
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) {
    pair.run_for(70 * kSecond);  // what was lost before proves itself for longer
    hold_rdma(flow, true);
    const auto writes = large_writes();
    pair.run_for(20 * kMillisecond);
    EXPECT_TRUE(std::ranges::none_of(writes, &ScriptedPair::Io::done));
    remove_devices(true);
    hold_rdma(flow, false);
    expect_done(writes);
    expect_carried_by({0, 1});
    remove_devices(false);
    pair.run_for(kSecond);
    expect_carried_by({0, 1});
    pair.run_for(70 * kSecond);
    expect_carried_by({2, 3});
    EXPECT_EQ(pair.value_at(kB, 16 * 7), 5);
  }
  EXPECT_EQ(pair.violation(), "");
}

TEST_F(PathsOverRdma, ThatFallSilentAreLeftForTcp) {
  pair.run_for(4 * kSecond);
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) hold_rdma(flow, true);
  expect_done(large_writes());
  expect_carried_by({0, 1});
}

TEST_F(PathsOverRdma, LostTogetherWithTcpOfTheirNetworkLeaveTheOtherNetwork) {
  pair.run_for(4 * kSecond);
  for (const std::size_t path : {0, 2}) cut(pair, path, false);
  expect_done(large_writes());
  expect_carried_by({3});
  pair.world().paths_from(kA)[3]->take_device(true);
  pair.world().paths_from(kB)[3]->take_device(true);
  expect_done(large_writes());
  expect_carried_by({1});
  for (const std::size_t path : {0, 2}) cut(pair, path, true);
  pair.run_for(70 * kSecond);
  expect_carried_by({2});
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
