// The link over several paths, whole pairs above it: what happens to one path is not seen while another is left.
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

}  // namespace
}  // namespace lockstep::simulation
