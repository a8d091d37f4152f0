// A medium that can't be read while the partner is out of reach for a moment: initiators are told to come again, or
// wait. A medium error is the last word to them, also on their other path.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::DiskOpcode;
using engine::Errc;
using engine::NodeSide;
using replication::MirrorState;

constexpr std::uint64_t kHere = 8;  // the block

/// Longer than a way to the partner takes to break and to come back.
void long_lease(Scenario& s) { s.lease = 4 * kSecond; }

void make_unreadable(ScriptedPair& pair, NodeSide side) {
  pair.spoil(side, [](StoreFaults& f) { f.read_error = kAlways; });
}

/// The session breaks while the partner takes nothing in; A notices first.
void break_way_of_a(ScriptedPair& pair) {
  pair.host(kB).freeze();
  pair.world().way_from(kA).break_session();
}

/// As an initiator that comes again until it has an answer.
bool reads_in_the_end(ScriptedPair& pair, NodeSide side, int value) {
  auto* io = &pair.read(side, kHere);
  const auto answered = [&] {
    if (!io->done) return false;
    if (!io->status()) return true;
    EXPECT_NE(io->status(), make_error_code(Errc::io_error));
    pair.run_for(20 * kMillisecond);
    io = &pair.read(side, kHere);
    return false;
  };
  return pair.wait_for(answered) && io->first() == value;
}

void is_told_busy_and_reads_in_the_end(ScriptedPair& pair, ScriptedPair::Io& read) {
  ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kSecond));
  EXPECT_EQ(read.status(), make_error_code(Errc::resource_exhausted)) << "BUSY: the initiator comes again";
  pair.host(kB).thaw();
  EXPECT_TRUE(reads_in_the_end(pair, kA, 7));
  EXPECT_EQ(pair.host(kA).fences() + pair.host(kB).fences(), 0u);
  EXPECT_EQ(pair.violation(), "");
}

TEST(ReadError, IsNoMediumErrorWhenTheWayBreaksWhileThePartnerIsAsked) {
  ScriptedPair pair(pair_program(), long_lease);
  ASSERT_FALSE(pair.written(kA, kHere, 7));
  make_unreadable(pair, kA);
  auto& read = pair.read(kA, kHere);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).data(0).in_flight() == 0; })) << "the store failed it";
  ASSERT_FALSE(read.done) << "the partner is asked";
  break_way_of_a(pair);
  is_told_busy_and_reads_in_the_end(pair, read);
}

/// A power cut in the midst of it leaves anything there: the two are compared then.
TEST(ReadError, ThatIsMendedFromThePartnerIsMarkedBeforeItIsRewritten) {
  ScriptedPair pair(pair_program(), long_lease);
  ASSERT_FALSE(pair.written(kA, kHere, 7));
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes == 0; })) << "it is cleaned";
  make_unreadable(pair, kA);
  auto& read = pair.read(kA, kHere);
  ASSERT_TRUE(pair.wait_for([&] { return read.done; }, kSecond));
  EXPECT_EQ(read.first(), 7);
  EXPECT_GT(pair.status(kA).dirty_bytes, 0u);
}

TEST(ReadError, IsNoMediumErrorWhileTheWayToThePartnerIsDown) {
  ScriptedPair pair(pair_program(), long_lease);
  ASSERT_FALSE(pair.written(kA, kHere, 7));
  break_way_of_a(pair);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.world().way_from(kA).is_up(); }, kSecond));
  make_unreadable(pair, kA);
  auto& read = pair.read(kA, kHere);
  is_told_busy_and_reads_in_the_end(pair, read);
}

/// The partner sends again what it forwarded: its initiator notices nothing.
TEST(ReadError, OfAForwardedOperationIsTriedAgainUntilThePartnerCanBeAsked) {
  ScriptedPair pair(pair_program(), long_lease);
  ASSERT_FALSE(pair.written(kA, kHere, 7));
  make_unreadable(pair, kA);
  auto& swap = pair.submit(kB, DiskOpcode::compare_and_write, kHere, 1, 7);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).data(0).in_flight() == 1; }));
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kA).data(0).in_flight() == 0; })) << "the store failed it";
  break_way_of_a(pair);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.world().way_from(kA).is_up(); }, kSecond));
  pair.host(kB).thaw();
  ASSERT_TRUE(pair.wait_for([&] { return swap.done; }));
  EXPECT_EQ(swap.status(), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

/// It waits with all that was not started, and is read anew by whoever goes on alone.
TEST(ReadError, OfAReadThatWasInTheStoreWhenTheLeaseWasLostIsNotTold) {
  for (const NodeSide survivor : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.store_deadline = 60 * kSecond; });
    ASSERT_FALSE(pair.written(kA, kHere, 7));
    ASSERT_EQ(pair.value_at(survivor, kHere), 7);
    make_unreadable(pair, survivor);
    hang(pair, survivor);
    auto& read = pair.read(survivor, kHere);
    ASSERT_EQ(pair.host(survivor).data(0).in_flight(), 1u);
    pair.host(other(survivor)).end(Host::End::power_cut);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(survivor, MirrorState::suspended); }));
    pair.mend(survivor);  // what it has kept comes back with the error that it was to end with
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }));
    EXPECT_EQ(read.status(), std::error_code{});
    EXPECT_EQ(read.first(), 7);
    EXPECT_EQ(pair.host(survivor).fences(), 0u);
    EXPECT_EQ(pair.violation(), "");
  }
}

}  // namespace
}  // namespace lockstep::simulation
