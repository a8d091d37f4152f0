#pragma once
// A pair of which one node is the only member by its own record, and copies that were set back to when they were.
#include <optional>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {

using engine::ArbiterKind;
using engine::MemberSet;
using engine::NodeSide;
using replication::MirrorState;

constexpr Nanos kLease = kSecond;  // of a scripted pair
constexpr std::uint64_t kBlockOfA = 8, kBlockOfB = 200;
constexpr int kBefore = 1, kByB = 2, kByOldA = 3;

struct OnlyMember {
  explicit OnlyMember(
      ArbiterKind kind = ArbiterKind::witness, const ScriptedPair::Adjust& adjust = [](Scenario&) {})
      : pair(pair_program(), [kind, &adjust](Scenario& s) {
          if (kind != ArbiterKind::witness) s.arbiter = {kind, kA, {}};
          adjust(s);
        }) {}

  void cut() { link(false); }
  void mend() { link(true); }
  void hide_witness(NodeSide side) { pair.host(side).witness().set_reachable(false); }
  void show_witness(NodeSide side) { pair.host(side).witness().set_reachable(true); }
  bool goes_alone(NodeSide side, Nanos patience) {
    return pair.wait_for([&] { return pair.is(side, MirrorState::solo); }, patience);
  }
  /// `side` leaves by agreement, so that the other is the only member, and its machine is off.
  void take_out(NodeSide side) {
    pair.host(side).program()->leave(0);
    ASSERT_TRUE(goes_alone(other(side), 10 * kLease));
    pair.run_for(2 * kLease);  // the witness is told
    pair.host(side).end(Host::End::power_cut);
  }
  /// A's machine is set back to when A was the only member, and has not started yet. B is, since a while.
  void set_a_back() {
    take_out(kB);
    ASSERT_FALSE(pair.written(kA, kBlockOfA, kBefore));
    pair.host(kA).take_snapshot();
    pair.host(kB).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    pair.run_for(10 * kLease);
    take_out(kA);
    ASSERT_FALSE(pair.written(kB, kBlockOfA, kByB));
    pair.run_for(2 * kLease);
    pair.host(kA).set_back();
  }
  void boot_unheard(NodeSide side) {
    cut();
    hide_witness(side);
    pair.host(side).boot();
  }
  /// Nobody was there to tell: the old copy goes on, beside B.
  void serve_beside_b() {
    pair.world().checkers->expect_split();
    set_a_back();
    boot_unheard(kA);
    ASSERT_TRUE(goes_alone(kA, 10 * kLease));
    ASSERT_FALSE(pair.written(kA, kBlockOfB, kByOldA));
  }
  bool parts_ways() {
    return pair.wait_for([&] { return pair.is(kA, MirrorState::split_brain) && pair.is(kB, MirrorState::split_brain); },
                         10 * kLease);
  }
  [[nodiscard]] bool gives_up(NodeSide side) {
    std::optional<bool> done;
    pair.host(side).program()->give_up(0, [&](engine::Result<void> r) { done = r.has_value(); });
    pair.wait_for([&] { return done.has_value(); });
    return done.value_or(false);
  }
  bool never_serves(NodeSide side, Nanos time) {
    return !pair.wait_for([&] { return pair.status(side).serving; }, time);
  }
  std::optional<replication::WitnessRecord> at_the_witness() {
    return pair.world().witness.view(pair.world().scenario.volumes[0].id).record;
  }
  void link(bool open) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, open);
  }
  ScriptedPair pair;
};

}  // namespace lockstep::simulation
