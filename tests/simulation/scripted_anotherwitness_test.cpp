// Another witness for a pair in use, as management orders it: both nodes ask none, then both the new one. And what
// becomes of a node that is told of the old one once more.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

/// A pair in sync that its witness knows, and another witness.
struct TwoWitnesses {
  ScriptedPair pair{pair_program()};
  SimWitness another;

  TwoWitnesses() {
    another.empty();  // so that it is another cluster
    EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
    EXPECT_TRUE(pair.wait_for([this] { return known(); }));
  }
  bool known() { return !pair.status(kA).failover_limited && !pair.status(kB).failover_limited; }
  void use(engine::NodeSide side, SimWitness* witness) {
    pair.host(side).witness().use(witness);
    if (pair.host(side).running()) pair.host(side).program()->look_at_witness_again();
  }
  void both_use(SimWitness* witness) {
    use(kA, witness);
    use(kB, witness);
  }
  void cut() {
    for (const auto side : {kA, kB}) pair.world().cut(side, false);
  }
  bool solo(engine::NodeSide side) { return pair.is(side, MirrorState::solo); }
};

TEST(AnotherWitness, IsKnownToBothWithinSecondsAndOneNodeGoesOnByIt) {
  TwoWitnesses w;
  w.both_use(nullptr);
  EXPECT_FALSE(w.known()) << "what the old one held counts no more";
  w.pair.run_for(3 * kSecond);
  w.both_use(&w.another);
  EXPECT_FALSE(w.known());
  EXPECT_TRUE(w.pair.wait_for([&] { return w.known(); }, 4 * kSecond)) << w.pair.status(kB).reason;
  w.pair.host(kA).end(Host::End::power_cut);
  EXPECT_TRUE(w.pair.wait_for([&] { return w.solo(kB); }, 10 * kSecond)) << w.pair.status(kB).reason;
  EXPECT_EQ(w.pair.violation(), "");
}

TEST(AnotherWitness, GrantsNothingWhileNoneIsAskedNorBeforeItIsKnown) {
  TwoWitnesses w;
  w.both_use(nullptr);
  w.cut();
  w.pair.run_for(15 * kSecond);
  EXPECT_FALSE(w.solo(kA) || w.solo(kB)) << "nobody could be asked";
  w.both_use(&w.another);  // management does not do that: it has no record of the pair
  w.pair.run_for(15 * kSecond);
  EXPECT_FALSE(w.solo(kA) || w.solo(kB));
  w.both_use(&w.pair.world().witness);
  EXPECT_TRUE(w.pair.wait_for([&] { return w.solo(kA) || w.solo(kB); }, 15 * kSecond)) << "the old one knows them";
  EXPECT_EQ(w.pair.violation(), "");
}

/// Its management's database was set back, and it has heard of nothing since. (Whoever asks a witness is not given
/// another one in its place without having let go of it: mgmt/data_plane/witness_slot.hpp.)
TEST(AnotherWitness, IsTheOnlyOneThatGrantsAnythingToWhoeverIsNotInSyncOnceBothKnowIt) {
  for (const auto set_back : {kA, kB}) {
    for (const bool restarted : {false, true}) {
      TwoWitnesses w;
      w.both_use(nullptr);
      w.pair.run_for(kSecond);
      w.both_use(&w.another);
      ASSERT_TRUE(w.pair.wait_for([&] { return w.known(); }, 4 * kSecond));
      w.cut();
      w.use(set_back, nullptr);
      if (restarted) w.pair.host(set_back).end(Host::End::power_cut);
      if (restarted) w.pair.host(set_back).boot();
      ASSERT_TRUE(w.pair.wait_for([&] { return w.solo(other(set_back)); }, 10 * kSecond));
      w.use(set_back, &w.pair.world().witness);
      w.pair.run_for(20 * kSecond);
      EXPECT_TRUE(w.solo(other(set_back))) << w.pair.status(other(set_back)).reason;
      EXPECT_FALSE(w.pair.status(set_back).serving) << w.pair.status(set_back).reason;
      EXPECT_EQ(w.pair.violation(), "");
    }
  }
}

/// One node has put its record there, the other one has not looked yet.
TEST(AnotherWitness, ThatOneNodeKnowsLetsNobodyElseWin) {
  for (const auto first : {kA, kB}) {
    TwoWitnesses w;
    w.both_use(nullptr);
    w.pair.run_for(kSecond);
    w.use(first, &w.another);
    w.pair.run_for(3 * kSecond);
    w.cut();
    w.pair.run_for(kSecond);
    w.use(other(first), &w.another);
    w.pair.run_for(20 * kSecond);
    EXPECT_FALSE(w.solo(other(first))) << "it has not seen its epoch there in sync";
    EXPECT_EQ(w.pair.violation(), "");
  }
}

}  // namespace
}  // namespace lockstep::simulation
