// Another witness for a pair in use, as management orders it: both nodes ask none, then both the new one. What becomes
// of a node that is told of the old one once more, and of two whose endpoint leads to different ones.
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
    for (int i = 0; i < 100; ++i) another.empty();  // so that it is another cluster, whenever its records are made
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
  bool both_serve() { return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync); }
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

/// The endpoint is a name, and leads elsewhere now; a connection that stands goes on to the old one.
TEST(AnotherWitness, ThatOnlyOneNodesEndpointLeadsToLetsNotBothGoOn) {
  for (const auto moved : {kA, kB}) {
    for (const bool restarted : {false, true}) {
      TwoWitnesses w;
      w.use(moved, &w.another);
      w.pair.run_for(45 * kSecond);
      EXPECT_TRUE(w.both_serve());
      EXPECT_TRUE(w.pair.status(kA).failover_limited || w.pair.status(kB).failover_limited) << "somebody says so";
      w.cut();
      for (const auto side : {kA, kB}) {
        if (restarted) w.pair.host(side).end(Host::End::power_cut);
        if (restarted) w.pair.host(side).boot();
      }
      w.pair.run_for(30 * kSecond);
      EXPECT_FALSE(w.solo(kA) && w.solo(kB));
      EXPECT_TRUE(restarted || w.solo(kA) || w.solo(kB)) << w.pair.status(kA).reason << w.pair.status(kB).reason;
      EXPECT_EQ(w.pair.violation(), "");
    }
  }
}

TEST(AnotherWitness, ThatBothNodesEndpointsLeadToOneAfterTheOtherIsTaken) {
  for (const auto first : {kA, kB}) {
    TwoWitnesses w;
    w.use(first, &w.another);
    w.pair.run_for(30 * kSecond);
    w.use(other(first), &w.another);
    ASSERT_TRUE(w.pair.wait_for([&] { return w.known(); }, 30 * kSecond))
        << w.pair.status(kA).reason << " " << w.pair.status(kB).reason;
    w.pair.host(first).end(Host::End::power_cut);
    EXPECT_TRUE(w.pair.wait_for([&] { return w.solo(other(first)); }, 10 * kSecond));
    EXPECT_EQ(w.pair.violation(), "");
  }
}

/// As an etcd on each of the two machines is, which both call "localhost".
TEST(AnotherWitness, OfEachNodesOwnIsTakenByOneNodeAtMostWhoeverOrders) {
  TwoWitnesses w;
  SimWitness third;
  for (int i = 0; i < 200; ++i) third.empty();  // another cluster again
  w.both_use(nullptr);
  w.pair.run_for(kSecond);
  w.use(kA, &w.another);
  w.use(kB, &third);
  w.pair.run_for(30 * kSecond);
  for (const auto restarted : {kA, kB, kA}) {  // the other one orders, from then on
    w.pair.host(restarted).end(Host::End::killed);
    w.pair.host(restarted).boot();
    ASSERT_TRUE(w.pair.wait_for([&] { return w.both_serve(); }));
    w.pair.run_for(30 * kSecond);
    EXPECT_FALSE(w.known());
  }
  w.cut();
  w.pair.run_for(30 * kSecond);
  EXPECT_FALSE(w.solo(kA) && w.solo(kB));
  EXPECT_EQ(w.pair.violation(), "");
}

/// What a node won while it was alone is known to a later partner by what it tells.
TEST(AnotherWitness, IsNotTheOneOfWhoeverJoinsAndKnowsAnOlder) {
  TwoWitnesses w;
  w.pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(w.pair.wait_for([&] { return w.solo(kA); }, 10 * kSecond));
  w.use(kB, nullptr);
  w.pair.host(kB).boot();
  ASSERT_TRUE(w.pair.wait_for([&] { return w.both_serve(); }));
  w.use(kA, &w.another);
  w.pair.run_for(30 * kSecond);
  w.cut();
  w.use(kB, &w.pair.world().witness);
  w.pair.run_for(20 * kSecond);
  EXPECT_FALSE(w.solo(kA) && w.solo(kB));
  EXPECT_EQ(w.pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
