// A machine's clock: it goes on while the machine is frozen, and stands still while it is paused.
#include "tests/simulation/sim_clock.hpp"

#include <gtest/gtest.h>

namespace lockstep::simulation {
namespace {

class SimulatedClock : public testing::Test {
 protected:
  void pass(Nanos time) {
    scheduler.at(
        scheduler.now() + time, Owner::world, [](void* end, std::uint64_t) { *static_cast<bool*>(end) = true; }, &over);
    for (over = false; !over && scheduler.step();) {
    }
  }
  Trace trace;
  Scheduler scheduler{trace, SimRandom(1)};
  SimClock clock{scheduler, SimRandom(2), Owner::node_a, 1'000'000};
  bool over = false;
  bool fired = false;
};

TEST_F(SimulatedClock, GoesOnWhileItsMachineIsFrozen) {
  (void)clock.call_after(std::chrono::seconds(1), [this] { fired = true; });
  const auto before = clock.now();
  scheduler.freeze(Owner::node_a);
  pass(5 * kSecond);
  EXPECT_FALSE(fired);
  scheduler.thaw(Owner::node_a);
  pass(kMillisecond);
  EXPECT_TRUE(fired);
  EXPECT_GE(clock.now() - before, std::chrono::seconds(5));
}

TEST_F(SimulatedClock, StandsStillWhileItsMachineIsPaused) {
  (void)clock.call_after(std::chrono::seconds(1), [this] { fired = true; });
  const auto before = clock.now();
  scheduler.freeze(Owner::node_a);
  clock.pause();
  pass(5 * kSecond);
  clock.resume();
  scheduler.thaw(Owner::node_a);
  pass(kMillisecond);
  EXPECT_FALSE(fired) << "its second is not over";
  EXPECT_LT(clock.now() - before, std::chrono::milliseconds(2));
  pass(kSecond + 30 * kMillisecond);
  EXPECT_TRUE(fired);
}

TEST_F(SimulatedClock, BeginsNearZeroWithEachBoot) {
  pass(5 * kSecond);
  const auto boot = clock.boot();
  clock.reboot();
  EXPECT_NE(clock.boot(), boot);
  EXPECT_LT(clock.now().since_origin, std::chrono::milliseconds(20));
  const auto before = clock.now();
  pass(5 * kSecond);
  EXPECT_GE(clock.now() - before, std::chrono::seconds(5));
}

}  // namespace
}  // namespace lockstep::simulation
