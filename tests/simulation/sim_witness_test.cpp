// The simulated witness says of itself what etcd says, and can be set back.
#include "tests/simulation/sim_witness.hpp"

#include <gtest/gtest.h>

namespace lockstep::simulation {
namespace {

using engine::MemberSet;
using replication::WitnessRecord;

engine::Uuid id(std::uint8_t n) {
  engine::Uuid u;
  u.bytes[15] = n;
  return u;
}
const engine::Uuid kVolume = id(1), kOther = id(2);
const WitnessRecord kFirst{1, id(3), MemberSet::both()};
const WitnessRecord kSecond{2, id(4), MemberSet::only(engine::NodeSide::a)};

TEST(SimulatedWitness, CountsEveryWriteOfAnyRecordAndNothingElse) {
  SimWitness witness;
  const auto empty = witness.view(kVolume);
  EXPECT_NE(empty.cluster, 0u);
  EXPECT_EQ(empty.revision, 1);
  const auto won = witness.swap(kVolume, 0, kFirst);
  EXPECT_TRUE(won.won);
  EXPECT_NE(won.current.cluster, empty.cluster) << "it also tells since when the record is there";
  EXPECT_EQ(won.current.revision, 2);
  EXPECT_EQ(won.current.mod_revision, 2);
  EXPECT_TRUE(witness.swap(kOther, 0, kFirst).won);
  const auto lost = witness.swap(kVolume, 0, kSecond);
  EXPECT_FALSE(lost.won);
  EXPECT_EQ(lost.current.revision, 3);
  EXPECT_EQ(lost.current.mod_revision, 2);
  witness.remove(kOther);
  witness.remove(kOther);
  EXPECT_EQ(witness.view(kVolume).revision, 4);
}

TEST(SimulatedWitness, SetBackItIsWhatItWasAndGoesAnotherWay) {
  SimWitness witness;
  (void)witness.swap(kVolume, 0, kFirst);
  const auto then = witness.snapshot();
  const auto before = witness.view(kVolume);
  (void)witness.swap(kVolume, before.mod_revision, kSecond);
  (void)witness.swap(kOther, 0, kFirst);
  witness.restore(then);
  const auto after = witness.view(kVolume);
  EXPECT_EQ(after.record, kFirst);
  EXPECT_EQ(after.mod_revision, before.mod_revision);
  EXPECT_EQ(after.revision, before.revision);
  EXPECT_EQ(after.cluster, before.cluster);
  EXPECT_FALSE(witness.view(kOther).record);
  EXPECT_EQ(witness.swap(kOther, 0, kSecond).current.revision, before.revision + 1);
}

TEST(SimulatedWitness, EmptiedItIsAnotherOneAndWithoutItsDiskTheSame) {
  for (const bool other : {true, false}) {
    SimWitness witness;
    const auto never_written = witness.view(kVolume).cluster;
    (void)witness.swap(kVolume, 0, kFirst);
    other ? witness.empty() : witness.lose_disk();
    const auto view = witness.view(kVolume);
    EXPECT_EQ(view.cluster != never_written, other);
    EXPECT_NE(view.cluster, 0u);
    EXPECT_FALSE(view.record);
    EXPECT_EQ(view.mod_revision, 0);
    EXPECT_EQ(view.revision, 1);
  }
}

}  // namespace
}  // namespace lockstep::simulation
