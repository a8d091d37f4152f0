// Between the loss of the lease and the decision: whose initiators notice nothing but a pause, and whose are sent away.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

bool wait_suspended(ScriptedPair& pair, NodeSide side) {
  return pair.wait_for([&] { return pair.is(side, MirrorState::suspended); });
}

TEST(KeptSessions, WhoGoesOnAloneKeepsItsInitiators) {
  for (const NodeSide survivor : {kA, kB}) {
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(survivor, 8, 1), std::error_code{});
    pair.world().cut(other(survivor), false);
    auto& under_way = pair.write(survivor, 8, 2);
    auto& read = pair.read(survivor, 40);
    pair.run_for(5 * kMillisecond);
    pair.host(other(survivor)).end(Host::End::power_cut);
    auto& behind = pair.write(survivor, 8, 3);
    ASSERT_TRUE(wait_suspended(pair, survivor));
    auto& late = pair.write(survivor, 16, 4);
    ASSERT_TRUE(pair.wait_for([&] { return under_way.done && behind.done && late.done && read.done; }, 2 * kSecond));
    for (const auto* io : {&under_way, &behind, &late, &read}) EXPECT_EQ(io->status(), std::error_code{});
    EXPECT_EQ(pair.host(survivor).fences(), 0u);
    EXPECT_EQ(pair.value_at(survivor, 8), 3);
    EXPECT_EQ(pair.value_at(survivor, 16), 4);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(KeptSessions, AChangeOfTheUnitsStateIsMadeOnceByWhoGoesOnAlone) {
  for (const NodeSide survivor : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
    pair.world().cut(other(survivor), false);
    auto& change = pair.change_state(survivor, registration());
    pair.run_for(5 * kMillisecond);
    pair.host(other(survivor)).end(Host::End::power_cut);
    ASSERT_TRUE(pair.wait_for([&] { return change.done; }, 3 * kSecond));
    EXPECT_EQ(change.status(), std::error_code{});
    EXPECT_EQ(pair.host(survivor).fences(), 0u);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(KeptSessions, WhoCannotAskTheWitnessSendsItsInitiatorsAway) {
  for (const NodeSide loser : {kA, kB}) {
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.host(loser).witness().set_reachable(false);
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
    ASSERT_TRUE(wait_suspended(pair, loser));
    auto& waits = pair.write(loser, 8, 2);
    ASSERT_TRUE(pair.wait_for([&] { return waits.done; }, 2 * kSecond));
    EXPECT_EQ(waits.status(), make_error_code(engine::Errc::not_serving));
    EXPECT_EQ(pair.host(loser).fences(), 1u);
    pair.run_for(8 * kSecond);
    EXPECT_EQ(pair.host(loser).program()->disk(0)->access_state(), engine::AccessState::unavailable)
        << "whoever sees it in transition waits for it";
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(loser), MirrorState::solo); }, 3 * kSecond));
    EXPECT_EQ(pair.host(other(loser)).fences(), 0u);
    EXPECT_EQ(pair.written(other(loser), 8, 3), std::error_code{});
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
    pair.host(loser).witness().set_reachable(true);
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(loser, 8), 3);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(KeptSessions, WhoLosesAtTheWitnessSendsItsInitiatorsAwayAtOnce) {
  ScriptedPair pair(pair_program());
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).fences() + pair.host(kB).fences() == 1; }, 4 * kSecond));
  const NodeSide loser = pair.host(kA).fences() == 1 ? kA : kB;
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(loser), MirrorState::solo); }, 2 * kSecond));
  EXPECT_EQ(pair.host(other(loser)).fences(), 0u);
}

/// The partner may have taken what an initiator sent there when it had given up here.
TEST(KeptSessions, WhoAgreesWithItsPartnerAgainStartsNothingThatItHeld) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  for (const NodeSide side : {kA, kB}) pair.host(side).witness().set_reachable(false);
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(wait_suspended(pair, kA));
  auto& held = pair.write(kA, 8, 2);
  pair.run_for(20 * kMillisecond);
  ASSERT_FALSE(held.done);
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
  for (const NodeSide side : {kA, kB}) pair.host(side).witness().set_reachable(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_TRUE(held.done);
  EXPECT_EQ(held.status(), make_error_code(engine::Errc::not_serving));
  EXPECT_EQ(pair.host(kA).fences(), 1u);
  EXPECT_EQ(pair.value_at(kB, 8), 1);
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
