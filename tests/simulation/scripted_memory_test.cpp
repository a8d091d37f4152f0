// What was learnt is not forgotten: a witness, a disk or a clock that was set back, or stood still, is found out.
#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::MemberSet;
using engine::NodeSide;
using replication::MirrorState;

void cut(ScriptedPair& pair, bool open) {
  for (const NodeSide side : {kA, kB}) pair.world().cut(side, open);
}

std::optional<replication::WitnessRecord> record_of(ScriptedPair& pair) {
  return pair.world().witness.view(pair.world().scenario.volumes[0].id).record;
}

/// One went on alone, and the other has read that it lost. The witness forgets it, but the loser does not.
TEST(Memory, ANodeThatReadThatItLostDoesNotWinAtAWitnessThatWasSetBack) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.run_for(2 * kSecond);
  const auto before = pair.world().witness.snapshot();
  cut(pair, false);
  const auto solo = [&](NodeSide side) { return pair.is(side, MirrorState::solo); };
  ASSERT_TRUE(pair.wait_for([&] { return solo(kA) || solo(kB); }, 10 * kSecond));
  const NodeSide winner = solo(kA) ? kA : kB;
  pair.run_for(3 * kSecond);  // the loser asks once a second
  ASSERT_EQ(pair.written(winner, 8, 2), std::error_code{});
  pair.world().witness.restore(before);
  pair.host(winner).end(Host::End::power_cut);
  cut(pair, true);
  pair.run_for(20 * kSecond);
  EXPECT_FALSE(pair.status(other(winner)).serving) << "it would answer what the other's hosts have overwritten";
  pair.host(winner).boot();
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(other(winner), 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

/// One went on alone, and the other could not ask yet. Somebody who can write to the witness makes it say again what it
/// said before.
TEST(Memory, NobodyWinsByWhatAStrangerWroteToTheWitness) {
  for (const bool anew : {true, false}) {
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.run_for(2 * kSecond);
    pair.host(kB).witness().set_reachable(false);
    cut(pair, false);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }, 10 * kSecond));
    ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
    SimRandom first_record(1);
    anew ? pair.world().witness.make_anew(first_record) : pair.world().witness.overwrite();
    pair.host(kB).witness().set_reachable(true);
    pair.run_for(20 * kSecond);
    EXPECT_FALSE(pair.status(kB).serving) << pair.status(kB).reason;
    cut(pair, true);
    EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(kB, 8), 2);
    ASSERT_TRUE(pair.wait_for([&] { return record_of(pair) && record_of(pair)->members == MemberSet::both(); }));
    pair.run_for(25 * kSecond);  // B has seen that it is put right
    pair.host(kA).end(Host::End::power_cut);
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }, 10 * kSecond)) << pair.status(kB).reason;
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Memory, AWitnessThatLostItsRecordIsPutRightByBothAndTheNextDeathIsSurvived) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.run_for(2 * kSecond);
  pair.world().witness.lose_disk();
  ASSERT_TRUE(pair.wait_for([&] { return record_of(pair).has_value(); }, 60 * kSecond)) << "nobody noticed";
  EXPECT_EQ(record_of(pair)->members, MemberSet::both());
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  pair.run_for(25 * kSecond);  // B has seen it, too
  pair.host(kA).end(Host::End::power_cut);
  EXPECT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }, 10 * kSecond)) << pair.status(kB).reason;
  EXPECT_EQ(pair.violation(), "");
}

/// The bits of what was written since were cleared on the other side long ago.
TEST(Memory, ACopyThatWasSetBackIsBroughtUpToDateAsAWhole) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.run_for(5 * kSecond);
    pair.host(side).take_snapshot();
    ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
    pair.run_for(5 * kSecond);
    pair.host(side).end(Host::End::power_cut);
    pair.host(side).set_back();
    pair.host(side).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(side, 8), 2);
    EXPECT_EQ(pair.violation(), "");
  }
}

std::uint64_t generations_untold(ScriptedPair& pair, NodeSide side) {
  return pair.host(side).program()->learnt(0)->generation -
         pair.host(other(side)).program()->learnt(0)->partner_generation;
}

/// It was ahead of what its partner knew when it was set back; later it is set forward again, to that moment.
TEST(Memory, ACopyThatIsSetBackAndForthIsBroughtUpToDateAsAWhole) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, 40, 1));
  pair.run_for(5 * kSecond);
  Host& host = pair.host(kA);
  host.take_snapshot();
  ASSERT_FALSE(pair.written(kA, 8, 1));
  pair.run_for(10 * kSecond);                              // one that is told
  for (std::uint64_t untold = 1; untold <= 4; ++untold) {  // each is lost with its session
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    ASSERT_FALSE(pair.written(kA, 8, 1));
    while (generations_untold(pair, kA) < untold) pair.run_for(10 * kMillisecond / 1000);
    pair.world().way_from(kA).break_session();
    pair.run_for(100 * kMillisecond);
    ASSERT_EQ(generations_untold(pair, kA), untold) << "the test shows nothing";
  }
  const StoreSnapshot data = host.data(0).snapshot(), metadata = host.metadata(0).snapshot();
  host.end(Host::End::power_cut);
  host.set_back();
  host.boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  ASSERT_FALSE(pair.written(kA, 40, 2));
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).dirty_bytes + pair.status(kB).dirty_bytes == 0; }))
      << "what was compared as a whole would be so each time";
  host.end(Host::End::power_cut);
  host.data(0).set_back(data);
  host.metadata(0).set_back(metadata);
  host.boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(kA, 40), 2);
  EXPECT_EQ(pair.violation(), "");
}

void write_for(ScriptedPair& pair, NodeSide side, Nanos time, int fill) {
  for (const Nanos end = pair.world().scheduler.now() + time; pair.world().scheduler.now() < end;) {
    ASSERT_FALSE(pair.written(side, 8, fill));
    pair.run_for(kSecond / 5);
  }
}

/// A backup of the machine, while its partner is away: nobody is there to tell but the witness.
TEST(Memory, ACopyThatWasSetBackDoesNotGoOnAloneByWordOfTheWitness) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program());
    write_for(pair, kA, 2 * kSecond, 1);
    pair.host(side).take_snapshot();
    write_for(pair, kA, 30 * kSecond, 2);
    for (const NodeSide each : {kA, kB}) pair.host(each).end(Host::End::power_cut);
    pair.host(side).set_back();
    pair.host(side).boot();
    pair.run_for(20 * kSecond);
    EXPECT_FALSE(pair.status(side).serving);
    EXPECT_NE(pair.status(side).reason.find("set back"), std::string::npos) << pair.status(side).reason;
    pair.host(other(side)).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(side, 8), 2);
    EXPECT_EQ(pair.violation(), "");
  }
}

/// The same of one that had gone on alone, to a moment when it was alone already.
TEST(Memory, TheOnlyMemberThatWasSetBackDoesNotStartByWordOfTheWitness) {
  ScriptedPair pair(pair_program());
  ASSERT_FALSE(pair.written(kA, 8, 1));
  pair.host(kA).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::solo); }));
  write_for(pair, kB, 2 * kSecond, 2);
  pair.host(kB).take_snapshot();
  write_for(pair, kB, 30 * kSecond, 3);
  pair.host(kB).end(Host::End::power_cut);
  pair.host(kB).set_back();
  pair.host(kB).boot();
  pair.run_for(20 * kSecond);
  EXPECT_FALSE(pair.status(kB).serving);
  EXPECT_NE(pair.status(kB).reason.find("set back"), std::string::npos) << pair.status(kB).reason;
}

/// B left it as the only member, and it was set back to before that: by its own record both are. What it lacks may have
/// been acknowledged, and what B lacks, too.
TEST(Memory, TheOnlyMemberThatWasSetBackWaitsWithItsPartnerForAnOperator) {
  ScriptedPair pair(pair_program());
  write_for(pair, kA, 2 * kSecond, 1);
  pair.host(kA).take_snapshot();
  write_for(pair, kA, 30 * kSecond, 2);
  pair.host(kB).program()->leave(0);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
  for (const NodeSide each : {kA, kB}) pair.host(each).end(Host::End::power_cut);
  pair.host(kA).set_back();
  for (const NodeSide each : {kA, kB}) pair.host(each).boot();
  pair.run_for(20 * kSecond);
  EXPECT_FALSE(pair.status(kA).serving);
  EXPECT_FALSE(pair.status(kB).serving);
}

/// Its clock says that no time has passed, so that its lease holds; the partner has gone on without it.
TEST(Memory, AMachineThatWasPausedAnswersNoReadByALeaseOfBefore) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.virtual_machines = true; });
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.run_for(kSecond / 10);
    pair.host(side).pause();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
    ASSERT_EQ(pair.written(other(side), 8, 2), std::error_code{});
    pair.host(side).thaw();
    auto& read = pair.read(side, 8);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, 10 * kSecond));
    EXPECT_TRUE(read.status() || read.first() == 2) << "a read of before the pause";
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Memory, AMachineThatWasPausedAnswersNoFlushByALeaseOfBefore) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.virtual_machines = true; });
    pair.run_for(kSecond / 10);
    pair.host(side).pause();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
    for (const NodeSide each : {kA, kB}) pair.world().cut(each, false);
    pair.host(side).thaw();
    auto& flush = pair.submit(side, engine::DiskOpcode::flush, 0, 0, 0);
    pair.run_for(kSecond / 10);
    EXPECT_FALSE(flush.done && !flush.status()) << "a reservation may forbid it by now";
  }
}

/// It says that the unit's bytes are those that the host has, and they may be otherwise by now.
TEST(Memory, AMachineThatWasPausedAnswersNoVerifyByALeaseOfBefore) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.virtual_machines = true; });
    ASSERT_FALSE(pair.written(kA, 8, 1));
    pair.run_for(kSecond / 10);
    pair.host(side).pause();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
    ASSERT_FALSE(pair.written(other(side), 8, 2));
    for (const NodeSide each : {kA, kB}) pair.world().cut(each, false);
    pair.host(side).thaw();
    auto& verify = pair.submit(side, engine::DiskOpcode::verify, 8, 1, 1);
    pair.run_for(kSecond / 10);
    EXPECT_FALSE(verify.done && !verify.status());
  }
}

/// The partner serves alone, and its process is replaced, or its machine boots: the new one knows nothing of the time
/// between, but its machine's clock does, or its boot.
TEST(Memory, AMachineThatWasPausedForwardsNothingOfBeforeToThePartnersNextProcess) {
  for (const Host::End end : {Host::End::killed, Host::End::power_cut}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) {
      s.virtual_machines = true;
      s.regions = 128;
      s.link_forwards = {64 * 1024, 1};
    });
    ASSERT_TRUE(comes_back_slowly(pair, kB));
    pair.run_for(kSecond / 4);
    pair.world().way_from(kB).hold_answers([](auto header) {
      const auto message = replication::decode(header);
      return message && message->type == replication::MessageType::forward;
    });
    pair.write(kB, 64, 1);
    auto& given_up = pair.write(kB, 8, 1);
    pair.run_for(10 * kMillisecond);
    ASSERT_FALSE(given_up.done);
    pair.host(kB).pause();
    pair.run_for(4 * kSecond);
    ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
    pair.host(kA).end(end);
    pair.host(kA).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
    pair.world().way_from(kB).hold_answers(nullptr);
    pair.host(kB).thaw();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    ASSERT_TRUE(pair.wait_for([&] { return given_up.done; }));
    EXPECT_EQ(pair.value_at(kA, 8), 2) << "what was given up came over what was acknowledged since";
    EXPECT_EQ(pair.violation(), "");
  }
}

/// A stall that its clock tells of makes what comes just after it count as old. That a read is old does not make the
/// lease newer.
TEST(Memory, AMachineThatStoodStillAndWasPausedThenAnswersNoReadByALeaseOfBefore) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), [](Scenario& s) { s.virtual_machines = true; });
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    pair.host(side).freeze();
    pair.run_for(pair.world().scenario.lease / 4);
    pair.host(side).thaw();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
    EXPECT_EQ(pair.value_at(side, 8), 1);
    pair.run_for(50 * kMillisecond);
    pair.host(side).pause();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
    ASSERT_EQ(pair.written(other(side), 8, 2), std::error_code{});
    pair.host(side).thaw();
    auto& read = pair.read(side, 8);
    ASSERT_TRUE(pair.wait_for([&] { return read.done; }, 10 * kSecond));
    EXPECT_TRUE(read.status() || read.first() == 2) << "a read of before the pause";
    EXPECT_EQ(pair.violation(), "");
  }
}

/// It never heard its partner's clock, so that nothing tells it that it was paused.
TEST(Memory, AMachineThatWasPausedBeforeItsFirstContactForwardsNothingOfBefore) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    s.virtual_machines = true;
    s.regions = 128;
  });
  ASSERT_TRUE(comes_back_slowly(pair, kB));
  cut(pair, false);
  pair.host(kB).end(Host::End::killed);
  pair.host(kB).boot();
  pair.run_for(kSecond);
  pair.host(kB).pause();
  pair.run_for(4 * kSecond);
  ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
  cut(pair, true);
  pair.host(kB).thaw();
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kB).serving; }));
  // What is read from a socket now may have come there before the pause.
  EXPECT_EQ(pair.written(kB, 8, 1), make_error_code(engine::Errc::resource_exhausted));
  EXPECT_EQ(pair.value_at(kA, 8), 2);
  pair.run_for(kSecond / 4);
  EXPECT_EQ(pair.written(kB, 8, 3), std::error_code{}) << "by now all of that was read";
  EXPECT_EQ(pair.violation(), "");
}

/// Read from its socket before it heard the partner's clock for the first time, and then waiting to be forwarded.
TEST(Memory, AMachineThatWasPausedForwardsNothingThatItReadBeforeItHeardThePartnersClock) {
  ScriptedPair pair(pair_program(), [](Scenario& s) { s.virtual_machines = true; });
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.host(kB).end(Host::End::power_cut);
  pair.world().way_from(kB).hold(SimLink::Flow::requests, true);
  pair.host(kB).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kB, MirrorState::syncing_target); })) << "A had it leave";
  pair.host(kB).pause();
  pair.run_for(4 * kSecond);
  ASSERT_EQ(pair.written(kA, 8, 2), std::error_code{});
  pair.host(kB).thaw();
  auto& given_up = pair.write(kB, 8, 3);
  EXPECT_FALSE(given_up.done);
  pair.world().way_from(kB).hold(SimLink::Flow::requests, false);
  ASSERT_TRUE(pair.wait_for([&] { return given_up.done; }));
  EXPECT_EQ(given_up.status(), make_error_code(engine::Errc::resource_exhausted));
  ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }));
  EXPECT_EQ(pair.value_at(kA, 8), 2) << "what was given up came over what was acknowledged since";
  EXPECT_EQ(pair.violation(), "");
}

}  // namespace
}  // namespace lockstep::simulation
