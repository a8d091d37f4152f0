// Promises of the configuration's epochs, over thousands of histories (configuration_world.hpp).
#include "tests/unit/mgmt/configuration_world.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using Plan = ConfigurationWorld::Plan;

int seeds(int usual) {
  const char* asked = std::getenv("LOCKSTEP_SEEDS");
  return asked ? std::atoi(asked) : usual;
}

// The first broken promise, or nothing.
std::string first_broken(const Plan& plan, int count, ConfigurationWorld::Marks* marks = nullptr) {
  for (int seed = 1; seed <= count; ++seed) {
    ConfigurationWorld world(static_cast<std::uint64_t>(seed), plan);
    world.run(120);
    const std::string broken = world.verdict();
    if (!broken.empty()) return "seed " + std::to_string(seed) + ": " + broken;
    if (!marks) continue;
    const auto& m = world.marks;
    marks->alone += m.alone;
    marks->together += m.together;
    marks->unknown += m.unknown;
    marks->refused += m.refused;
    marks->crashes += m.crashes;
    marks->late += m.late;
    marks->joined += m.joined;
    marks->set_back += m.set_back;
    marks->conflicts += m.conflicts;
    marks->mended += m.mended;
    marks->tentative_taken += m.tentative_taken;
    marks->forced += m.forced;
    marks->given_up += m.given_up;
    marks->volumes_alone += m.volumes_alone;
    marks->deleted_alone += m.deleted_alone;
    marks->grown_alone += m.grown_alone;
    marks->copies_owed += m.copies_owed;
    marks->removals_owed += m.removals_owed;
  }
  return "";
}

TEST(ConfigurationWorld, WithAWitnessThereIsOneLineAndNothingPromisedIsLost) {
  ConfigurationWorld::Marks seen;
  EXPECT_EQ(first_broken({.witness = true}, seeds(1000), &seen), "");
  EXPECT_EQ(seen.conflicts, 0);
  EXPECT_GT(seen.alone, 1000);
  EXPECT_GT(seen.together, 1000);
  EXPECT_GT(seen.unknown, 100);
  EXPECT_GT(seen.crashes, 100);
  EXPECT_GT(seen.late, 100);
  EXPECT_GT(seen.joined, 500);
  EXPECT_GT(seen.tentative_taken, 20);
}

TEST(ConfigurationWorld, WithAPreferredNodeThereIsOneLineAndNothingPromisedIsLost) {
  ConfigurationWorld::Marks seen;
  EXPECT_EQ(first_broken({.witness = false}, seeds(500), &seen), "");
  EXPECT_EQ(seen.conflicts, 0);
  EXPECT_GT(seen.alone, 500);
}

// What nobody has any more is lost; what anybody has is in the end with both, or the two say that they have parted.
TEST(ConfigurationWorld, WhateverIsSetBackNothingIsThrownAwaySilently) {
  ConfigurationWorld::Marks seen;
  EXPECT_EQ(first_broken({.witness = true, .set_back = true}, seeds(1000), &seen), "");
  EXPECT_GT(seen.set_back, 500);
  EXPECT_GT(seen.conflicts, 0) << "two that parted say so";
  EXPECT_EQ(first_broken({.witness = false, .set_back = true}, seeds(500)), "");
}

// Made, written, grown and deleted by both or by one, with a crash, a cut and a return at every step.
TEST(ConfigurationWorld, VolumesOfOneNodeComeToBothAndNothingThatIsServedIsRemoved) {
  ConfigurationWorld::Marks seen;
  EXPECT_EQ(first_broken({.witness = true, .volumes = true}, seeds(1000), &seen), "");
  EXPECT_GT(seen.volumes_alone, 300);
  EXPECT_GT(seen.deleted_alone, 100);
  EXPECT_GT(seen.grown_alone, 30);
  EXPECT_GT(seen.copies_owed, 200);
  EXPECT_GT(seen.removals_owed, 5);
  EXPECT_EQ(first_broken({.witness = false, .volumes = true}, seeds(500)), "");
}

TEST(ConfigurationWorld, ADatabaseThatWasSetBackRemovesNothingThatIsServed) {
  EXPECT_EQ(first_broken({.witness = true, .set_back = true, .volumes = true}, seeds(500)), "");
}

// Two lines stay two until an operator ends one; what the other one has is all there, and data of volumes that were
// made on the one that ended is untouched.
TEST(ConfigurationWorld, AfterAForceTwoLinesNeverMergeAndGivingOneUpDestroysNoVolume) {
  ConfigurationWorld::Marks seen;
  EXPECT_EQ(first_broken({.witness = true, .volumes = true, .force = true}, seeds(1000), &seen), "");
  EXPECT_GT(seen.forced, 200);
  EXPECT_GT(seen.given_up, 5);
  EXPECT_EQ(first_broken({.witness = false, .volumes = true, .force = true}, seeds(500)), "");
}

TEST(ConfigurationWorld, EachPlantedDefectOfVolumesAndForcesBreaksAPromise) {
  const std::pair<const char*, Defect> defects[] = {
      {"deletes_without_looking", Defect::deletes_without_looking},
      {"removes_before_adoption", Defect::removes_before_adoption},
      {"makes_it_for_both", Defect::makes_it_for_both},
      {"decides_together_at_work", Defect::decides_together_at_work},
      {"forgets_what_is_owed", Defect::forgets_what_is_owed},
      {"merges_after_a_force", Defect::merges_after_a_force},
  };
  for (const auto& [name, defect] : defects) {
    const bool force = defect == Defect::merges_after_a_force;
    EXPECT_NE(first_broken({.witness = true, .volumes = true, .force = force, .defect = defect}, seeds(3000)), "")
        << name;
  }
}

TEST(ConfigurationWorld, EachPlantedDefectBreaksAPromise) {
  const std::pair<const char*, Defect> defects[] = {
      {"believes_any_witness", Defect::believes_any_witness},
      {"believes_an_old_database", Defect::believes_an_old_database},
      {"overrules_the_partner", Defect::overrules_the_partner},
      {"forgets_what_was_tentative", Defect::forgets_what_was_tentative},
      {"goes_on_without_asking", Defect::goes_on_without_asking},
      {"takes_over_what_follows", Defect::takes_over_what_follows},
      {"cannot_follow", Defect::cannot_follow},
  };
  for (const auto& [name, defect] : defects) {
    const bool set_back = defect == Defect::believes_any_witness || defect == Defect::believes_an_old_database ||
                          defect == Defect::takes_over_what_follows;
    EXPECT_NE(first_broken({.witness = true, .set_back = set_back, .defect = defect}, seeds(3000)), "") << name;
  }
}

}  // namespace
}  // namespace lockstep::test
