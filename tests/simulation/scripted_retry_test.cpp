// A host that gives a command up and sends it again through the other node: what it sent first must not land on what
// was acknowledged since.
#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::Errc;
using engine::NodeSide;
using replication::MessageType;
using replication::MirrorState;

constexpr Nanos kSoon = 20 * kMillisecond;

/// As shipped: longer than hosts wait.
void patient_stores(Scenario& s) { s.store_deadline = 30 * kSecond; }

void cancel(ScriptedPair& pair, NodeSide side, ScriptedPair::Io& io) {
  pair.host(side).program()->disk(0)->cancel(io.request);
}

bool is(std::span<const std::byte> header, MessageType type) {
  const auto message = replication::decode(header);
  return message && message->type == type;
}

/// The way from `side` to the other is stuck: nothing arrives, and nothing is known of it. The other way is well.
void stall_way_out(ScriptedPair& pair, NodeSide side) {
  pair.world().way_from(side).hold(SimLink::Flow::requests, true);
}

/// An operation of A's own holds the range for longer than the host waits for its write through B.
class BehindASlowWrite : public testing::Test {
 protected:
  BehindASlowWrite() : pair(pair_program(), patient_stores) {
    EXPECT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang(pair, kA);
    slow = &pair.write(kA, 8, 2);
    pair.run_for(kSoon);
    old = &pair.write(kB, 8, 3);
    pair.run_for(4 * kSecond);
    retry = &pair.write(kA, 8, 4);
    pair.run_for(kSoon);
  }
  void store_returns() {
    pair.mend(kA);
    EXPECT_TRUE(pair.wait_for([&] { return slow->done && old->done && retry->done; }, 5 * kSecond));
    pair.run_for(2 * kSecond);
  }
  ScriptedPair pair;
  ScriptedPair::Io *slow, *old, *retry;
};

TEST_F(BehindASlowWrite, AForwardOlderThanALeaseIsNotBegun) {
  store_returns();
  EXPECT_EQ(retry->status(), std::error_code{});
  EXPECT_EQ(old->status(), make_error_code(Errc::resource_exhausted)) << "its host may try again";
  EXPECT_EQ(pair.value_at(kA, 8), 4);
  EXPECT_EQ(pair.value_at(kB, 8), 4);
  EXPECT_EQ(pair.violation(), "");
}

TEST_F(BehindASlowWrite, AForwardWhoseSessionEndedIsOverBeforeTheStoreReturns) {
  cancel(pair, kB, *old);
  EXPECT_TRUE(pair.wait_for([&] { return old->done; }, kSecond)) << "its session can't be told to be over";
  EXPECT_TRUE(old->status());
  store_returns();
  EXPECT_EQ(pair.value_at(kB, 8), 4);
  EXPECT_EQ(pair.violation(), "");
}

/// Its own node's session ended: the write waits for the lock of the range.
TEST_F(BehindASlowWrite, AWriteWhoseSessionEndedIsOverAtOnceWhereItIsOrdered) {
  cancel(pair, kA, *retry);
  EXPECT_TRUE(retry->done);
  store_returns();
  EXPECT_NE(pair.value_at(kB, 8), 4);
  EXPECT_EQ(pair.violation(), "");
}

TEST(Cancel, AWriteThatIsUnderWayEndsAsItDoes) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), patient_stores);
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang(pair, kB);
    auto& write = pair.write(side, 8, 2);
    pair.run_for(kSoon);
    cancel(pair, side, write);
    cancel(pair, side, write);
    pair.run_for(kSoon);
    EXPECT_FALSE(write.done) << "it can land still";
    pair.mend(kB);
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }, kSecond));
    EXPECT_EQ(pair.value_at(kA, 8), 2);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Forward, OneSlowWriteDoesNotStopTheOthers) {
  ScriptedPair pair(pair_program(), patient_stores);
  ASSERT_EQ(pair.written(kB, 8, 1), std::error_code{});
  hang(pair, kA);
  auto& slow = pair.write(kB, 8, 2);
  pair.run_for(kSoon);
  pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  for (unsigned i = 0; i < 2500; ++i) {
    auto& write = pair.write(kB, 16 + i % 400, 3);
    ASSERT_TRUE(pair.wait_for([&] { return write.done; }, kSecond)) << "after " << i;
    ASSERT_EQ(write.status(), std::error_code{});
  }
  EXPECT_FALSE(slow.done);
  pair.mend(kA);
  EXPECT_TRUE(pair.wait_for([&] { return slow.done; }, kSecond));
  EXPECT_EQ(slow.status(), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

/// B's disk is slow with A's write; a later one waits there for the watermark to cover that, a read waits for the later
/// one, and what B forwarded, and its host gives up, comes back as an order and waits for the read.
TEST(Forward, ThatIsGivenUpDoesNotWaitForWhatWaitsForIt) {
  ScriptedPair pair(pair_program(), patient_stores);
  ASSERT_EQ(pair.written(kA, 0, 1, 64), std::error_code{});
  hang(pair, kB);
  auto& slow = pair.write(kA, 40, 2);
  pair.run_for(kSoon);
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  ASSERT_EQ(pair.written(kA, 8, 3), std::error_code{});
  auto& read = pair.read(kB, 8, 2);
  pair.run_for(kSoon);
  ASSERT_FALSE(read.done) << "the test shows nothing";
  auto& given_up = pair.write(kB, 9, 4);
  pair.run_for(kSoon);
  cancel(pair, kB, given_up);
  pair.run_for(kSoon);
  ASSERT_FALSE(given_up.done) << "the test shows nothing";
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return slow.done && read.done && given_up.done; }, 5 * kSecond));
  EXPECT_EQ(slow.status(), std::error_code{});
  EXPECT_EQ(read.first(), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// The only member's disk fails the write of a COMPARE AND WRITE, and has done a part of it; the answer is lost. Sent
/// again it would find its own data, and say that it changed nothing.
TEST(Forward, ThatTheStoreFailedIsNotCarriedOutAgain) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 128; });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().way_from(kB).hold_answers([](auto header) { return is(header, MessageType::forward); });
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  auto& compare = pair.submit(kB, engine::DiskOpcode::compare_and_write, 8, 1, 1);
  pair.run_for(kSecond);
  ASSERT_FALSE(compare.done) << "the test shows nothing";
  pair.mend(kA);
  pair.world().way_from(kB).hold_answers(nullptr);
  pair.world().way_from(kB).break_session();
  ASSERT_TRUE(pair.wait_for([&] { return compare.done; }));
  EXPECT_EQ(compare.status(), make_error_code(Errc::io_error));
  EXPECT_EQ(pair.violation(), "");
}

/// A, which orders, leaves as its disk hangs; what B forwarded to it stays on the way until that is broken. Its host
/// has long turned to A meanwhile, which forwards to B.
TEST(Forward, ThatIsOlderThanALeaseIsNotCarriedOutByWhoTakesOver) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().way_from(kB).hold_answers([](auto header) { return is(header, MessageType::forward); });
  hang(pair, kA);
  pair.write(kA, 8, 1);  // what B forwards waits behind it, and is never begun
  auto& given_up = pair.write(kB, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  ASSERT_FALSE(given_up.done) << "the test shows nothing";
  ASSERT_EQ(pair.written(kA, 8, 3), std::error_code{});
  ASSERT_TRUE(pair.wait_for([&] { return given_up.done; }));
  EXPECT_EQ(given_up.status(), make_error_code(Errc::resource_exhausted));
  EXPECT_EQ(pair.value_at(kB, 8), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// W1's answer is stuck; it was seen, and overwritten; then B's disk fails and A starts anew, knowing nothing of W1.
TEST(Forward, WhatWasCarriedOutIsNotCarriedOutAgainByTheNextProcess) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().way_from(kB).hold_answers([](auto header) { return is(header, MessageType::forward); });
  auto& first = pair.write(kB, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.value_at(kA, 8) == 2; }, kSecond));
  ASSERT_EQ(pair.written(kA, 8, 3), std::error_code{});
  ASSERT_FALSE(first.done);
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = kAlways; });
  for (const NodeSide side : {kA, kB}) {  // they don't agree at once that B leaves
    pair.world().way_from(side).hold_answers(
        [](auto h) { return is(h, MessageType::state) || is(h, MessageType::forward); });
  }
  pair.write(kA, 8, 3);
  ASSERT_TRUE(pair.wait_for([&] { return !pair.status(kB).reason.empty(); }, kSecond));
  ASSERT_TRUE(pair.is(kA, MirrorState::in_sync)) << "the test shows nothing";
  pair.host(kA).end(Host::End::killed);
  for (const NodeSide side : {kA, kB}) pair.world().way_from(side).hold_answers(nullptr);
  pair.host(kA).boot();
  ASSERT_TRUE(
      pair.wait_for([&] { return pair.is(kA, MirrorState::solo) || pair.is(kA, MirrorState::syncing_source); }));
  pair.run_for(2 * kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// B's way out is stuck. W1 comes to B, and its session ends there; its retry and a newer write go through A, and B
/// helps to acknowledge both. Then A is gone, and B goes on alone from its suspension.
TEST(KeptSessions, WhatWasSentAgainThroughThePartnerIsNotCarriedOutWhenThisNodeGoesOn) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.lease = 2 * kSecond; });
  ASSERT_EQ(pair.written(kB, 8, 1), std::error_code{});
  pair.host(kB).witness().set_reachable(false);  // it does not go on alone before A is gone
  stall_way_out(pair, kB);
  auto& first = pair.write(kB, 8, 2);
  pair.run_for(kSoon);
  cancel(pair, kB, first);
  ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
  ASSERT_EQ(pair.written(kA, 8, 3), std::error_code{});
  pair.host(kA).end(Host::End::power_cut);
  pair.host(kB).witness().set_reachable(true);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  ASSERT_TRUE(pair.wait_for([&] { return first.done; }, kSecond));
  EXPECT_EQ(pair.value_at(kB, 8), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// The nodes hold a session each; B's waits for what it forwarded before it is closed.
TEST(Fence, WhatComesWhileSessionsWaitToBeClosedIsNotForwardedWhenTheyAre) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.reservations = true;
    s.volumes.push_back(s.volumes[0]);
    s.volumes[1].id.bytes[0] ^= 1;
    s.volumes[1].size = s.volume_size();
  });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kA);
  auto& forwarded = pair.write(kB, 8, 2);
  pair.run_for(5 * kMillisecond);
  StoreFaults faults = pair.host(kB).metadata(1).faults();
  faults.write_error = kAlways;
  pair.host(kB).metadata(1).set_faults(faults);
  auto& change = pair.change_state(kA, registration(), 1);
  ASSERT_TRUE(pair.wait_for([&] { return change.done || !pair.host(kB).status(1)->serving; }, kSecond));
  auto& late = pair.write(kB, 40, 3);
  pair.run_for(5 * kMillisecond);
  ASSERT_EQ(pair.host(kB).fences(), 0u) << "the test shows nothing";
  pair.mend(kA);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).fences() == 1; }, 2 * kSecond));
  EXPECT_TRUE(forwarded.done && late.done);
  EXPECT_EQ(late.status(), make_error_code(Errc::not_serving));
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 40), 0) << "it was forwarded when its session was closed";
  EXPECT_EQ(pair.violation(), "");
}

/// B's write is on its way to A, which knows nothing of it when the reset comes there.
TEST(UnitReset, WhatTheOtherNodeForwardedIsOverWhenTheResetIsAnswered) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  stall_way_out(pair, kB);
  auto& forwarded = pair.write(kB, 8, 3);
  scsi::LuRequest request;
  request.kind = scsi::LuRequestKind::unit_reset;
  request.nexus = registration().nexus;
  auto& reset = pair.change_state(kA, request);
  pair.wait_for([&] { return reset.done; }, 500 * kMillisecond);
  const bool was_over = forwarded.done || !reset.done;
  pair.world().way_from(kB).hold(SimLink::Flow::requests, false);
  ASSERT_TRUE(pair.wait_for([&] { return reset.done; }, kSecond));
  EXPECT_EQ(reset.status(), std::error_code{});
  EXPECT_TRUE(was_over && forwarded.done) << "it can land still";
  EXPECT_EQ(pair.written(kA, 8, 4), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kA, 8), 4);
  EXPECT_EQ(pair.violation(), "");
}

/// SBC-4 4.11.3: a sanitize goes on.
TEST(UnitReset, LeavesAloneWhatTheUnitDoesByItself) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  stall_way_out(pair, kB);
  auto& own = pair.write_of_the_unit(kB, 8, 3);
  auto& of_a_host = pair.write(kB, 16, 3);
  scsi::LuRequest request;
  request.kind = scsi::LuRequestKind::unit_reset;
  request.nexus = registration().nexus;
  auto& reset = pair.change_state(kA, request);
  pair.run_for(100 * kMillisecond);
  pair.world().way_from(kB).hold(SimLink::Flow::requests, false);
  ASSERT_TRUE(pair.wait_for([&] { return reset.done && own.done && of_a_host.done; }, 5 * kSecond));
  EXPECT_EQ(own.status(), std::error_code{});
  EXPECT_TRUE(of_a_host.status());
  EXPECT_EQ(pair.value_at(kA, 8), 3);
  EXPECT_EQ(pair.violation(), "");
}

/// The reset came to A and is being made durable there. Its host on B gives it up: it is over when A answers it, and A
/// answers when B has the new state.
TEST(UnitReset, GivenUpByItsHostDoesNotWaitForItself) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.reservations = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  StoreFaults slow = pair.host(kA).metadata(0).faults();
  slow.hang = kAlways;
  pair.host(kA).metadata(0).set_faults(slow);
  scsi::LuRequest request;
  request.kind = scsi::LuRequestKind::unit_reset;
  request.nexus = registration().nexus;
  auto& reset = pair.change_state(kB, request);
  pair.run_for(100 * kMillisecond);
  ASSERT_FALSE(reset.done);
  cancel(pair, kB, reset);
  pair.run_for(100 * kMillisecond);
  pair.mend(kA);
  EXPECT_TRUE(pair.wait_for([&] { return reset.done; }, 2 * kSecond)) << "each waits for the other";
  auto& after = pair.read(kB, 8);
  EXPECT_TRUE(pair.wait_for([&] { return after.done; }, kSecond));
  EXPECT_EQ(pair.violation(), "");
}

/// Both nodes lose power: A, which orders, failed the write, and only B has it.
TEST(Detach, WhatOnlyThePartnerHasIsNotAcknowledgedInAnEpochOfBoth) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.world().way_from(kA).hold_answers([](auto header) { return is(header, MessageType::state); });
  pair.world().way_from(kB).hold_answers([](auto header) { return is(header, MessageType::state); });
  pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  auto& write = pair.write(kA, 8, 2);
  pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  ASSERT_EQ(pair.status(kA).epoch.members, engine::MemberSet::both());
  pair.host(kA).program()->detach(0, [] {});
  ASSERT_TRUE(pair.wait_for([&] { return write.done; }, kSecond));
  EXPECT_TRUE(write.status()) << "A's copy may be the one that counts after both lost power";
}

/// The answer to the state comes first, then that to the heartbeat on which contact rests.
TEST(Forward, AWriteThatCameBeforeContactIsSentWhenThereIsContact) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.host(kB).end(Host::End::killed);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  bool held = true;
  pair.world().way_from(kB).hold_answers([&](auto header) { return held && is(header, MessageType::heartbeat); });
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target); }));
  auto& write = pair.write(kB, 8, 2);
  pair.run_for(kSoon);
  ASSERT_FALSE(write.done);
  held = false;
  EXPECT_TRUE(pair.wait_for([&] { return write.done; }, kSecond));
  EXPECT_EQ(write.status(), std::error_code{});
  EXPECT_EQ(pair.violation(), "");
}

/// Its hosts may have given them up, and have sent them again through the other node, which forwards.
TEST(Stall, OfTheOnlyMemberLetsNoCommandOfBeforeBegin) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.regions = 128; });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  pair.host(kA).freeze();
  pair.run_for(2 * pair.world().scenario.lease);
  pair.host(kA).thaw();
  auto& given_up = pair.write(kA, 8, 1);
  EXPECT_TRUE(given_up.done);
  EXPECT_EQ(given_up.status(), make_error_code(Errc::resource_exhausted));
  EXPECT_EQ(pair.value_at(kA, 8), 0) << "reads are answered";
  pair.run_for(kSecond / 4);
  EXPECT_EQ(pair.written(kA, 8, 2), std::error_code{});
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.violation(), "");
}

/// B's store holds one write, and the way from A is begun anew.
TEST(Link, AResetDoesNotMakeOtherWritesWaitForASlowOne) {
  ScriptedPair pair(pair_program(), patient_stores);
  ASSERT_EQ(pair.written(kA, 8, 1, 32), std::error_code{});
  hang(pair, kB);
  auto& slow = pair.write(kA, 8, 2);
  pair.run_for(kSoon);
  pair.spoil(kB, [](StoreFaults& f) { f.hang = 0; });
  pair.world().way_from(kA).reset();
  pair.run_for(200 * kMillisecond);
  auto& other = pair.write(kA, 24, 3);
  EXPECT_TRUE(pair.wait_for([&] { return other.done; }, 200 * kMillisecond));
  EXPECT_FALSE(slow.done);
  pair.mend(kB);
  EXPECT_TRUE(pair.wait_for([&] { return slow.done && other.done; }, kSecond));
  EXPECT_EQ(slow.status(), std::error_code{});
  pair.run_for(kSecond);
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
