// Which commands a reset, or a nexus that preempts another, has ended.
#include "lu_fixture.hpp"

#include "engine/scsi/ended_tasks.hpp"

namespace lockstep::scsi::test {
namespace {

engine::TimePoint at(int second) { return {std::chrono::seconds(second)}; }
constexpr engine::TimePoint kBegun{std::chrono::seconds(-1)};

LuEvent of_all(LuAttention kind) { return {.kind = kind}; }
LuEvent preempted(const NexusKey& nexus) {
  return {.kind = LuAttention::registrations_preempted, .for_others = false, .nexuses = {nexus}};
}

TEST(LuEndedTasks, ThereAreNoneBeforeAnythingEndsSome) {
  EndedTasks ended(kBegun);
  EXPECT_FALSE(ended.covers(port_of('a'), at(0)));
  ended.note(std::vector{of_all(LuAttention::mode_parameters_changed), of_all(LuAttention::reservations_released)},
             at(5));
  EXPECT_FALSE(ended.covers(port_of('a'), at(1)));
}

/// What changed before nobody here knows.
TEST(LuEndedTasks, WhatCameBeforeTheyBeganCountsAsEnded) {
  const EndedTasks ended(at(3));
  EXPECT_TRUE(ended.covers(port_of('a'), at(2)));
  EXPECT_TRUE(ended.covers(port_of('b'), at(3)));
  EXPECT_FALSE(ended.covers(port_of('a'), at(4)));
}

TEST(LuEndedTasks, AResetEndsEverybodysThatCameBefore) {
  for (const auto kind : {LuAttention::unit_reset, LuAttention::bus_reset}) {
    EndedTasks ended(kBegun);
    ended.note(std::vector{of_all(kind)}, at(5));
    for (const char name : {'a', 'b'}) {
      EXPECT_TRUE(ended.covers(port_of(name), at(4)));
      EXPECT_TRUE(ended.covers(port_of(name), at(5)));
      EXPECT_FALSE(ended.covers(port_of(name), at(6)));
    }
  }
}

TEST(LuEndedTasks, PreemptingEndsThoseOfWhoIsPreempted) {
  EndedTasks ended(kBegun);
  ended.note(std::vector{preempted(port_of('a'))}, at(5));
  EXPECT_TRUE(ended.covers(port_of('a'), at(5)));
  EXPECT_FALSE(ended.covers(port_of('a'), at(6)));
  EXPECT_FALSE(ended.covers(port_of('b'), at(4)));
  NexusKey all_of_b = port_of('b');
  all_of_b.any_isid = true;
  ended.note(std::vector{preempted(all_of_b)}, at(7));
  EXPECT_TRUE(ended.covers(port_of('b'), at(6)));
  EXPECT_FALSE(ended.covers(port_of('a'), at(6)));
}

/// Rather than for ever: who is told that a command was aborted sends it again.
TEST(LuEndedTasks, OfManyThatPreemptNoneIsForgottenWhateverElseEndsWithThem) {
  EndedTasks ended(kBegun);
  for (int i = 0; i < 1000; ++i) {
    NexusKey one = port_of('a');
    one.isid[5] = static_cast<std::uint8_t>(i);
    one.isid[4] = static_cast<std::uint8_t>(i >> 8);
    ended.note(std::vector{preempted(one)}, at(i));
    EXPECT_TRUE(ended.covers(one, at(i)));
  }
  NexusKey first = port_of('a');
  first.isid[5] = first.isid[4] = 0;
  EXPECT_TRUE(ended.covers(first, at(0)));
  EXPECT_FALSE(ended.covers(port_of('b'), at(999)));
}

}  // namespace
}  // namespace lockstep::scsi::test
