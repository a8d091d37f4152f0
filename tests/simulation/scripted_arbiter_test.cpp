// Another arbiter for a pair in use: when its volumes take it, and that at no moment both nodes may go on alone.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::ArbiterKind;
using engine::NodeSide;
using replication::MirrorState;
using Told = ArbiterChanger::Told;

struct Change {
  Told from, to;
};
constexpr Change kChanges[] = {{Told::witness, Told::preferred_a},     {Told::witness, Told::preferred_b},
                               {Told::preferred_a, Told::witness},     {Told::preferred_b, Told::witness},
                               {Told::preferred_a, Told::preferred_b}, {Told::preferred_b, Told::preferred_a},
                               {Told::witness, Told::fence},           {Told::fence, Told::witness},
                               {Told::preferred_b, Told::fence},       {Told::fence, Told::preferred_b}};

engine::ArbiterSettings settings_of(Told told) {
  if (told == Told::witness) return {ArbiterKind::witness, kA, "http://192.0.2.1:2379"};
  if (told == Told::fence) return {ArbiterKind::fence, kA, {}};
  return {ArbiterKind::preferred, told == Told::preferred_a ? kA : kB, {}};
}

/// In sync, by its first arbiter, and with something written.
struct ArbitratedPair {
  ScriptedPair pair;

  explicit ArbitratedPair(Told first)
      : pair(pair_program(), [first](Scenario& s) {
          s.arbiter = settings_of(first);
          s.changes_arbiter = s.fences_in_use = true;
        }) {
    for (const auto side : {kA, kB}) pair.host(side).fence().hold();
    both_told(first);
    EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    pair.run_for(2 * kSecond);
  }
  [[nodiscard]] ArbiterChanger& changer() { return *pair.world().arbiter_changer; }
  void told(NodeSide side, Told what) { changer().tell(side, what); }
  void both_told(Told what) {
    told(kA, what);
    told(kB, what);
  }
  [[nodiscard]] engine::ArbiterSettings named(NodeSide side) { return pair.status(side).epoch.arbiter; }
  [[nodiscard]] bool solo(NodeSide side) { return pair.is(side, MirrorState::solo); }
  void cut() {
    for (const auto side : {kA, kB}) pair.world().cut(side, false);
  }
  /// A's device is the quicker one, where both nodes have their partner powered off.
  void carry_out_fencing() {
    for (const auto side : {kA, kB}) {
      if (!pair.host(side).running() || !pair.host(side).fence().waits()) continue;
      if (pair.host(other(side)).running()) pair.host(other(side)).end(Host::End::power_cut);
      pair.host(side).fence().answer("");
    }
  }
  void power_on() {
    for (const auto side : {kA, kB})
      if (!pair.host(side).running()) pair.host(side).boot();
  }
  void run_with_fences(Nanos time) {
    for (Nanos passed = 0; passed < time; passed += 100 * kMillisecond) {
      pair.run_for(100 * kMillisecond);
      carry_out_fencing();
    }
  }
  void mend() {
    for (const auto side : {kA, kB}) pair.world().cut(side, true);
  }
  /// A witness that is not asked knows of nothing: to the world, that is not all that it takes to be in sync.
  [[nodiscard]] bool mirrors() { return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync); }
  [[nodiscard]] bool both_named(ArbiterKind kind) {
    return mirrors() && named(kA).kind == kind && named(kB).kind == kind;
  }
};

TEST(AnotherArbiter, DecidesInTheEndAndOneNodeGoesOnByIt) {
  for (const auto& [from, to] : kChanges) {
    ArbitratedPair w(from);
    w.changer().change(to);
    ASSERT_TRUE(w.pair.wait_for([&] { return w.changer().satisfied(); }, 30 * kSecond));
    for (const auto side : {kA, kB}) {
      EXPECT_EQ(w.named(side).kind, settings_of(to).kind);
      if (to != Told::witness && to != Told::fence) {
        EXPECT_EQ(w.named(side).preferred, settings_of(to).preferred);
      }
    }
    w.cut();
    w.run_with_fences(15 * kSecond);
    EXPECT_EQ(w.pair.host(kA).fence().begun() > 0, to == Told::fence);
    ASSERT_TRUE(w.pair.wait_for([&] { return w.solo(kA) || w.solo(kB); }, 15 * kSecond));
    w.pair.run_for(10 * kSecond);
    EXPECT_NE(w.solo(kA), w.solo(kB));
    if (to != Told::witness) {
      EXPECT_TRUE(w.solo(settings_of(to).preferred));
    }
    EXPECT_EQ(w.pair.violation(), "");
  }
}

TEST(AnotherArbiter, IsTakenOnlyWhereBothNodesWereToldOfIt) {
  for (const auto& [from, to] : kChanges) {
    for (const auto first : {kA, kB}) {
      ArbitratedPair w(from);
      const auto before = w.named(kA);
      w.told(first, Told::nobody);
      w.pair.run_for(10 * kSecond);
      EXPECT_EQ(w.named(kA), before) << "the other one asks the witness, or is preferred";
      EXPECT_EQ(w.named(kB), before);
      w.told(other(first), Told::nobody);
      ASSERT_TRUE(w.pair.wait_for([&] { return w.both_named(ArbiterKind::witness); }, 10 * kSecond));
      if (to == Told::witness) continue;
      w.told(first, to);
      w.pair.run_for(10 * kSecond);
      EXPECT_TRUE(w.both_named(ArbiterKind::witness));
      EXPECT_EQ(w.pair.violation(), "");
    }
  }
}

/// Whoever holds the older record would go by it.
TEST(AnotherArbiter, IsNeverTakenInThePlaceOfAnotherOneWithoutAnEpochThatNobodyDecides) {
  for (const auto& [from, to] : {kChanges[4], kChanges[5], kChanges[8], kChanges[9]}) {
    ArbitratedPair w(from);
    w.both_told(to);
    w.pair.run_for(10 * kSecond);
    for (const auto side : {kA, kB}) EXPECT_EQ(w.named(side), settings_of(from));
    EXPECT_TRUE(w.pair.in_sync());
  }
}

TEST(AnotherArbiter, MeansThatNeitherGoesOnAloneWhileNobodyDecides) {
  for (const Told from : {Told::witness, Told::preferred_a, Told::preferred_b, Told::fence}) {
    ArbitratedPair w(from);
    w.both_told(Told::nobody);
    ASSERT_TRUE(w.pair.wait_for([&] { return w.both_named(ArbiterKind::witness); }, 10 * kSecond));
    w.pair.run_for(kSecond);
    w.cut();
    w.run_with_fences(20 * kSecond);
    EXPECT_FALSE(w.solo(kA) || w.solo(kB));
    for (const auto side : {kA, kB}) EXPECT_TRUE(w.pair.host(side).running()) << "nobody is powered off";
    w.mend();
    EXPECT_TRUE(w.pair.wait_for([&] { return w.mirrors(); })) << "and it goes on as if nothing had been";
    EXPECT_EQ(w.pair.violation(), "");
  }
}

/// The record of the node that orders is there, and the partner's is not, or is a moment later; at whichever moment of
/// the whole change the link breaks, and whether or not a node stops with it.
TEST(AnotherArbiter, LetsNoMomentBeWhenBothGoOn) {
  for (const auto& [from, to] : kChanges) {
    for (Nanos at = 0; at < 1600 * kMillisecond; at += 37 * kMillisecond) {
      ArbitratedPair w(from);
      w.changer().change(to);
      w.pair.run_for(at);
      w.cut();
      w.run_with_fences(12 * kSecond);
      ASSERT_FALSE(w.solo(kA) && w.solo(kB)) << at;
      w.power_on();
      w.mend();
      ASSERT_TRUE(w.pair.wait_for([&] { return w.changer().satisfied() && w.pair.in_sync(); })) << at;
      EXPECT_EQ(w.pair.violation(), "");
    }
  }
}

/// As a partner from before this was known: what is wished is not told, and a wish that is not known is none.
TEST(AnotherArbiter, IsNotTakenWithAPartnerThatTellsNoWish) {
  ArbitratedPair w(Told::preferred_a);
  w.told(kA, Told::nobody);
  w.told(kB, Told::witness);  // as to wishes: none
  w.pair.run_for(10 * kSecond);
  for (const auto side : {kA, kB}) EXPECT_EQ(w.named(side), settings_of(Told::preferred_a));
}

}  // namespace
}  // namespace lockstep::simulation
