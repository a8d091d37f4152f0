// A node that is no member, brought up to date and forwarding, has sessions, too: what they hold ends with it.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using scsi::LuRequestKind;
using Sanitizing = scsi::SanitizeState::Phase;

constexpr Nanos kLease = kSecond;  // of a scripted pair
constexpr std::uint16_t kPortOfA = 1, kPortOfB = 2;

/// B is a target for long. Its sessions reserved the unit, keep the medium in and sanitize.
class NoMember : public testing::Test {
 protected:
  NoMember() : pair(pair_program(), slow_resync) {
    EXPECT_TRUE(comes_back_slowly(pair, kB));
    pair.mend(kB);
    change(kB, of_a_session(LuRequestKind::prevent));
    scsi::LuRequest sanitize = of_a_session(LuRequestKind::sanitize);
    sanitize.sanitize.port = kPortOfB;
    change(kB, sanitize);
    change(kB, of_a_session(LuRequestKind::reserve));
    expect_held();
  }

  static void slow_resync(Scenario& s) {
    s.regions = 256;
    s.resync_ceiling = s.region_size;
  }
  static scsi::LuRequest of_a_session(LuRequestKind kind) {
    scsi::LuRequest request;
    request.kind = kind;
    request.nexus = registration().nexus;
    request.nexus.port = kPortOfB;
    return request;
  }
  void change(engine::NodeSide side, const scsi::LuRequest& request) {
    auto& io = pair.change_state(side, request);
    ASSERT_TRUE(pair.wait_for([&] { return io.done; }));
    ASSERT_EQ(io.status(), std::error_code{});
  }
  scsi::LuState state() {
    auto& io = pair.read_state(kA);
    EXPECT_TRUE(pair.wait_for([&] { return io.done; }));
    return scsi::LuState::decode(io.request.data.first(io.request.transferred)).value_or(scsi::LuState{});
  }
  void expect_held() {
    const auto now = state();
    EXPECT_TRUE(now.reserved_by);
    EXPECT_EQ(now.preventions.size(), 1u);
    EXPECT_EQ(now.sanitize.phase, Sanitizing::running);
    EXPECT_EQ(now.sanitize.port, kPortOfB);
  }
  void expect_released() {
    const auto now = state();
    EXPECT_FALSE(now.reserved_by);
    EXPECT_TRUE(now.preventions.empty());
    EXPECT_EQ(now.sanitize.port, kPortOfA) << "who is left takes it up";
  }

  ScriptedPair pair;
};

TEST_F(NoMember, ThatIsGoneForGoodHoldsNothing) {
  pair.host(kB).end(Host::End::killed);
  pair.run_for(2 * kLease);
  expect_held();
  pair.run_for(8 * kLease);
  expect_released();
}

TEST_F(NoMember, ThatCanNotBeHeardHasClosedItsSessionsBefore) {
  const unsigned before = pair.host(kB).fences();
  for (const auto side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return !state().reserved_by; }, 10 * kLease));
  EXPECT_GT(pair.host(kB).fences(), before);
  expect_released();
}

TEST_F(NoMember, ThatIsHeardHoldsWhatItHolds) {
  pair.run_for(10 * kLease);
  ASSERT_TRUE(pair.is(kB, replication::MirrorState::syncing_target));
  expect_held();
}

/// Its process lives, and is heard.
TEST_F(NoMember, ThatCanServeNobodyAnyMoreHoldsNothing) {
  auto& metadata = pair.host(kB).metadata(0);
  StoreFaults faults = metadata.faults();
  faults.write_error = kAlways;
  metadata.set_faults(faults);
  change(kA, of_a_session(LuRequestKind::space_low));  // B keeps it, too
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, replication::MirrorState::failed); }));
  pair.run_for(2 * kLease);
  expect_held();
  pair.run_for(8 * kLease);
  ASSERT_TRUE(pair.is(kB, replication::MirrorState::failed));
  expect_released();
}

/// Whose answers do not come back still sends what its sessions ask, and is answered.
TEST_F(NoMember, ThatIsHeardOneWayHoldsNothingOnceItsSessionsAreClosed) {
  const unsigned before = pair.host(kB).fences();
  pair.world().cut(kA, false);
  ASSERT_TRUE(pair.wait_for([&] { return !state().reserved_by; }, 10 * kLease));
  EXPECT_GT(pair.host(kB).fences(), before);
}

/// A session that came when the two could talk again is none of those.
TEST_F(NoMember, ThatIsBackHoldsWhatItsNewSessionsAskFor) {
  for (const auto side : {kA, kB}) pair.world().cut(side, false);
  ASSERT_TRUE(pair.wait_for([&] { return !state().reserved_by; }, 10 * kLease));
  for (const auto side : {kA, kB}) pair.world().cut(side, true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, replication::MirrorState::syncing_target); }));
  change(kB, of_a_session(LuRequestKind::reserve));
  pair.run_for(10 * kLease);
  EXPECT_TRUE(state().reserved_by);
}

TEST_F(NoMember, ThatDiesWithTheMemberHoldsNothingWhenTheMemberIsBack) {
  for (const auto side : {kA, kB}) pair.host(side).end(Host::End::killed);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).serving; }));
  pair.run_for(10 * kLease);
  expect_released();
}

}  // namespace
}  // namespace lockstep::simulation
