// A write that the node which orders has begun ends with the epoch's decision, which may be long in coming. Its session
// ends before, and the initiator's port is free again.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using replication::MirrorState;

constexpr Nanos kLease = kSecond;  // of a scripted pair

/// A has begun a write, neither node hears the other or the witness, and A has closed its sessions.
class Outlived : public testing::Test {
 protected:
  Outlived() : pair(pair_program()) {
    EXPECT_EQ(pair.written(kA, kAt, 1, kCount), std::error_code{});
    reach_witness(false);
    talk(false);
    write = &pair.write(kA, kAt, 2, kCount);
    EXPECT_TRUE(pair.wait_for([&] { return pair.host(kA).fences() > 0; }, 5 * kLease));
    give_up(*write);
  }
  static constexpr std::uint64_t kAt = 8;
  static constexpr std::uint32_t kCount = 64;

  void reach_witness(bool can) {
    for (const auto side : {kA, kB}) pair.host(side).witness().set_reachable(can);
  }
  void talk(bool can) {
    for (const auto side : {kA, kB}) pair.world().cut(side, can);
  }
  void give_up(ScriptedPair::Io& io) { pair.host(kA).program()->disk(0)->cancel(io.request); }
  bool ends() {
    return pair.wait_for([&] { return write->done; }, 8 * kLease);
  }

  ScriptedPair pair;
  ScriptedPair::Io* write = nullptr;
};

TEST_F(Outlived, AWriteWhoseSessionWasClosedEndsThoughNobodyDecides) {
  EXPECT_FALSE(write->done);
  ASSERT_TRUE(ends());
  EXPECT_EQ(write->status(), make_error_code(engine::Errc::unknown_outcome));
  EXPECT_TRUE(pair.is(kA, MirrorState::suspended));
}

TEST_F(Outlived, ItsMemoryIsItsSubmittersAgain) {
  ASSERT_TRUE(ends());
  std::ranges::fill(write->memory, std::byte{7});
  talk(true);
  reach_witness(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.value_at(side, kAt), 2);
}

/// Whoever was told that it is over may read what was there before, and must not see it come later.
TEST_F(Outlived, BothHaveItBeforeEitherServes) {
  ASSERT_TRUE(ends());
  const auto before = pair.status(kA).epoch.number;
  talk(true);
  const auto serves = [&] { return pair.status(kA).serving || pair.status(kB).serving; };
  ASSERT_TRUE(pair.wait_for(serves));
  EXPECT_GT(pair.status(kA).epoch.number, before) << "they resumed the epoch in which it has yet to be sent";
  EXPECT_EQ(pair.value_at(kB, kAt), 2);
}

TEST_F(Outlived, WhoGoesOnAloneHasIt) {
  ASSERT_TRUE(ends());
  pair.host(kB).end(Host::End::killed);
  reach_witness(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  EXPECT_EQ(pair.value_at(kA, kAt), 2);
  EXPECT_EQ(pair.written(kA, kAt, 3), std::error_code{}) << "its range is free";
}

TEST_F(Outlived, IsForgottenWhenThePartnerWentOnAlone) {
  ASSERT_TRUE(ends());
  pair.host(kB).witness().set_reachable(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  talk(true);
  reach_witness(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  for (const auto side : {kA, kB}) EXPECT_EQ(pair.value_at(side, kAt), 1);
}

TEST(BegunWrite, WaitsForTheDecisionWhileNobodyGivesItUp) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  for (const auto side : {kA, kB}) pair.host(side).witness().set_reachable(false);
  for (const auto side : {kA, kB}) pair.world().cut(side, false);
  auto& write = pair.write(kA, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).fences() > 0; }, 5 * kLease));
  pair.run_for(10 * kLease);
  EXPECT_FALSE(write.done) << "nobody gave it up";
}

}  // namespace
}  // namespace lockstep::simulation
