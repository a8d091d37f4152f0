// Both machines are set back to one moment, as a cluster of virtual machines that is restored from a backup, and the
// witness is not: it is all that knows.
#include <optional>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

constexpr Nanos kDecided = 20 * kSecond;
constexpr int kOld = 1, kNew = 2;

/// Both are set back, and boot.
struct BothSetBack {
  /// `late`: the witness answers this node a little later.
  explicit BothSetBack(std::optional<NodeSide> late) : pair(pair_program()) {
    pair.world().checkers->expect_loss();
    EXPECT_FALSE(pair.written(kA, 8, kOld));
    pair.run_for(10 * kSecond);
    for (const NodeSide side : {kA, kB}) pair.host(side).take_snapshot();
    for (int i = 0; i < 30; ++i) {
      EXPECT_FALSE(pair.written(kA, 8, kNew));
      pair.run_for(5 * kSecond);
    }
    for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
    for (const NodeSide side : {kA, kB}) pair.host(side).set_back();
    if (late) pair.host(*late).slow_witness().set_slowness(20 * kMillisecond);
    for (const NodeSide side : {kA, kB}) pair.host(side).boot();
  }
  [[nodiscard]] bool anyone_serves() { return pair.status(kA).serving || pair.status(kB).serving; }
  /// Of the one that is to be a member.
  [[nodiscard]] bool says_why() {
    for (const NodeSide side : {kA, kB}) {
      if (pair.status(side).reason.find("set back") != std::string::npos) return true;
    }
    return false;
  }
  template <class Command>
  [[nodiscard]] bool is_done(Command command) {
    std::optional<bool> done;
    command([&](engine::Result<void> r) { done = r.has_value(); });
    pair.wait_for([&] { return done.has_value(); });
    return done.value_or(false);
  }
  ScriptedPair pair;
};

class WhileBothAreSetBack : public testing::TestWithParam<std::optional<NodeSide>> {};

TEST_P(WhileBothAreSetBack, NobodyServesBeforeAnOperatorDecidesAndTheReasonIsTold) {
  BothSetBack world(GetParam());
  world.pair.run_for(kDecided);
  EXPECT_FALSE(world.anyone_serves());
  EXPECT_TRUE(world.says_why()) << world.pair.status(kA).reason << " | " << world.pair.status(kB).reason;
  // A restart of both changes nothing of that.
  for (const NodeSide side : {kA, kB}) world.pair.host(side).end(Host::End::killed);
  for (const NodeSide side : {kA, kB}) world.pair.host(side).boot();
  world.pair.run_for(kDecided);
  EXPECT_FALSE(world.anyone_serves());
  EXPECT_TRUE(world.says_why()) << world.pair.status(kA).reason << " | " << world.pair.status(kB).reason;
}

TEST_P(WhileBothAreSetBack, AnOperatorForcesOneAndTheOtherGivesUp) {
  for (const NodeSide kept : {kA, kB}) {
    BothSetBack world(GetParam());
    world.pair.run_for(kDecided);
    auto& host = world.pair.host(kept);
    ASSERT_TRUE(world.is_done([&](auto done) { host.program()->force_solo(0, true, std::move(done)); }));
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kept).serving; }));
    ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.is(other(kept), MirrorState::split_brain); }));
    auto& gives_up = world.pair.host(other(kept));
    ASSERT_TRUE(world.is_done([&](auto done) { gives_up.program()->give_up(0, std::move(done)); }));
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.in_sync(); })) << world.pair.status(kept).reason;
    EXPECT_EQ(world.pair.value_at(other(kept), 8), kOld);
  }
}

INSTANTIATE_TEST_SUITE_P(ByWhomTheWitnessIsHeardLate, WhileBothAreSetBack,
                         testing::Values(std::optional<NodeSide>(), std::optional<NodeSide>(kA),
                                         std::optional<NodeSide>(kB)),
                         [](const auto& it) { return it.param ? (*it.param == kA ? "A" : "B") : "Nobody"; });

}  // namespace
}  // namespace lockstep::simulation
