// The moments at which a node looks at the witness.
#include "replication/core/look_times.hpp"

#include <array>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using engine::Duration;
using engine::NodeSide;
using engine::TimePoint;
using namespace std::chrono_literals;

constexpr Duration kPeriod = 20s;

engine::Uuid pair(std::uint8_t number) {
  engine::Uuid id;
  id.bytes[15] = number;
  return id;
}

TEST(LookTimes, AreOnceInEachPeriodWhateverItIsCountedFrom) {
  for (const std::uint8_t number : {0, 1, 77, 255})
    for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
      const LookTimes times(pair(number), side);
      const TimePoint first = times.after({}, kPeriod);
      EXPECT_LE(first.since_origin, kPeriod);
      TimePoint last = first;
      for (Duration now = first.since_origin; now < 100s; now += 37ms) {
        const TimePoint next = times.after({now}, kPeriod);
        EXPECT_GT(next.since_origin, now);
        EXPECT_LE(next.since_origin, now + kPeriod) << "a witness that lost its data is noticed late";
        EXPECT_EQ((next - first) % kPeriod, 0s);
        EXPECT_GE(next, last);
        last = next;
      }
    }
}

TEST(LookTimes, OfALongerPeriodAreSomeOfAShorterOnes) {
  const LookTimes times(pair(7), NodeSide::a);
  EXPECT_EQ((times.after({100s}, 3 * kPeriod) - times.after({100s}, kPeriod)) % kPeriod, 0s);
}

TEST(LookTimes, OfTheTwoNodesAreHalfAPeriodApart) {
  for (const std::uint8_t number : {0, 1, 77, 255}) {
    const TimePoint a = LookTimes(pair(number), NodeSide::a).after({100s}, kPeriod);
    const TimePoint b = LookTimes(pair(number), NodeSide::b).after({100s}, kPeriod);
    EXPECT_EQ(a > b ? a - b : b - a, kPeriod / 2);
  }
}

/// A thousand pairs that one witness serves, and whose machines have the same clock: it is not asked by all at once.
TEST(LookTimes, OfPairsAreSpreadOverThePeriod) {
  std::array<unsigned, 10> in{};
  for (unsigned i = 0; i < 1000; ++i) {
    engine::Uuid id = pair(static_cast<std::uint8_t>(i));
    id.bytes[14] = static_cast<std::uint8_t>(i / 256);
    ++in[static_cast<std::size_t>((LookTimes(id, NodeSide::a).after({100s}, kPeriod) - TimePoint{100s}) * 9 / kPeriod)];
  }
  for (std::size_t i = 0; i < 9; ++i) EXPECT_LT(in[i], 200u) << i;
}

}  // namespace
}  // namespace lockstep::replication
