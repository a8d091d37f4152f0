// A node that stands still for a moment, of any length, at any moment: to a host that tries both paths it is a pause of
// less than two seconds, and afterwards both nodes are in sync again.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;

constexpr Nanos kLongestPause = 2 * kSecond;

void as_shipped(Scenario& s) {
  s.lease = 1500 * kMillisecond;
  s.heartbeat = s.lease / 6;
  s.store_deadline = 8 * kSecond;
}

/// One host, one write at a time; one that fails, or whose node stands still, is tried on the other path.
class HostOnTwoPaths {
 public:
  HostOnTwoPaths(ScriptedPair& pair, NodeSide stalled, Nanos length)
      : pair_(pair), stalled_(stalled), goes_on_(now() + length), last_(now()) {
    pair.host(stalled).freeze();
  }
  void write_until(Nanos end) {
    while (now() < end) {
      if (pair_.host(path_).frozen()) path_ = other(path_);
      auto& io = pair_.write(path_, 8, 1);
      wait_for([&] { return io.done; });
      if (!io.done || io.status()) path_ = other(path_);
      if (io.done && !io.status()) longest_ = std::max(longest_, now() - std::exchange(last_, now()));
      const Nanos next = now() + 5 * kMillisecond;
      wait_for([&] { return now() >= next; });
    }
  }
  [[nodiscard]] Nanos longest_pause() const { return longest_; }

 private:
  [[nodiscard]] Nanos now() { return pair_.world().scheduler.now(); }
  void wait_for(const std::function<bool()>& what) {
    pair_.wait_for([&] {
      if (now() >= goes_on_) pair_.host(stalled_).thaw();
      return what();
    });
  }

  ScriptedPair& pair_;
  NodeSide stalled_;
  Nanos goes_on_, last_, longest_ = 0;
  NodeSide path_ = kA;
};

class Stall : public testing::TestWithParam<NodeSide> {};

TEST_P(Stall, OfAnyLengthIsAShortPause) {
  for (Nanos length = kSecond / 2; length <= 3 * kSecond; length += kSecond / 20) {
    for (int phase = 0; phase < 5; ++phase) {
      ScriptedPair pair(pair_program(), as_shipped);
      pair.run_for(2 * kSecond + phase * 50 * kMillisecond);
      HostOnTwoPaths host(pair, GetParam(), length);
      host.write_until(pair.world().scheduler.now() + 8 * kSecond);
      EXPECT_LT(host.longest_pause(), kLongestPause) << "of a stall of " << length / kMillisecond << " ms";
      EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }))
          << "after a stall of " << length / kMillisecond << " ms";
      EXPECT_EQ(pair.violation(), "");
    }
  }
}

/// What the store completed meanwhile is read a moment after the clock shows how long it took.
TEST_P(Stall, IsNotTakenForOneOfTheStore) {
  for (Nanos length = 2 * kSecond; length <= 12 * kSecond; length += kSecond) {
    ScriptedPair pair(pair_program(), as_shipped);
    pair.run_for(2 * kSecond);
    pair.spoil(GetParam(), [](StoreFaults& f) { f.slowest = kSecond; });
    for (std::uint64_t block = 0; block < 8; ++block) pair.write(kA, block, 1);
    pair.run_for(30 * kMillisecond);
    pair.host(GetParam()).freeze();
    pair.run_for(length);
    pair.host(GetParam()).thaw();
    bool failed = false;
    EXPECT_TRUE(pair.wait_for([&] {
      failed |= pair.is(GetParam(), replication::MirrorState::failed);
      return pair.in_sync();
    }));
    EXPECT_FALSE(failed) << "after a stall of " << length / kSecond << " s";
  }
}

INSTANTIATE_TEST_SUITE_P(EitherNode, Stall, testing::Values(kA, kB),
                         [](const auto& it) { return it.param == kA ? "TheOneThatOrders" : "TheOther"; });

}  // namespace
}  // namespace lockstep::simulation
