// What one address may have of the memory for messages, and what it leaves to the others.
#include <gtest/gtest.h>

#include "tests/unit/iser/iser_fixture.hpp"

namespace lockstep::test {
namespace {

/// A session's at its beginning.
const std::size_t kSession =
    engine::BufferPool::block_size(iser::kHosts.memory()) + std::size_t{iser::kHosts.first} * 8192;

class IserShare : public testing::TestWithParam<std::uint64_t> {
 protected:
  IserShare() { world.messages.set_limit(std::size_t{4} << 20); }

  [[nodiscard]] int sessions_from(const std::string& address, int tried) {
    int count = 0;
    for (int i = 0; i < tried; ++i) {
      count += world.add_initiator(address).logged_in() ? 1 : 0;
      world.clock.run_for(std::chrono::milliseconds(20));
    }
    return count - lost_meanwhile();
  }
  /// Of those whose login was answered and who had no room then.
  [[nodiscard]] int lost_meanwhile() const {
    return static_cast<int>(
        std::ranges::count_if(world.more_initiators, [](const auto& one) { return one->logged_in() && one->lost(); }));
  }

  IserWorld world{GetParam()};
};

TEST_P(IserShare, OneAddressLeavesTheOthersTheirSessions) {
  const int greedy = sessions_from("10.0.0.2", 40);
  EXPECT_GT(greedy, 4);
  EXPECT_LE(static_cast<std::size_t>(greedy) * kSession, world.messages.limit() / 2);
  for (const char* from : {"10.0.0.3", "10.0.0.4", "10.0.0.5"}) {
    IserInitiator& one = world.add_initiator(from);
    world.clock.run_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(one.logged_in() && !one.lost()) << from;
  }
}

// Those who never log in share what there is for them in the same way.
TEST_P(IserShare, StrangersFromOneAddressLeaveRoomForCallsOfOthers) {
  for (int i = 0; i < 40; ++i) world.add_caller("10.0.0.2", false);
  world.clock.run_for(std::chrono::milliseconds(50));
  EXPECT_GT(world.refused, 0);
  IserInitiator& other = world.add_initiator("10.0.0.3");
  world.clock.run_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(other.logged_in() && !other.lost());
}

INSTANTIATE_TEST_SUITE_P(Seeds, IserShare, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace lockstep::test
