// The unit's state at a node that does not order: what it takes of a partner that the test plays, and when.
#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

void b_orders_state(Scenario& s) {
  patient(s);
  s.first_sequencer = kB;
  s.reservations = true;
}

struct Following : PlayedB {
  Following() : PlayedB(b_orders_state) {}
  [[nodiscard]] scsi::LuState newer(std::uint64_t by = 1) const {
    scsi::LuState state;
    state.version = version + by;
    return state;
  }
  void expect_answered(const PlayedPartner::Exchange& told, Errc status) {
    ASSERT_TRUE(pair.wait_for([&] { return told.done; }, kLease));
    EXPECT_TRUE(told.ended_with(status)) << to_string(told.answer->status);
  }
  static const char* to_string(Errc e) { return e == Errc::ok ? "ok" : e == Errc::stale ? "stale" : "another"; }
};

TEST(StateTaken, WaitsForReadsThatWereCheckedBefore) {
  Following world;
  hang(world.pair, kA);
  world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  auto& told = world.b.send_unit_state(world.newer());
  world.pair.run_for(5 * kSoon);
  EXPECT_FALSE(told.done);
  world.expect_answered(world.b.send_unit_state(world.newer(2)), Errc::stale);
  world.pair.mend(kA);
  world.expect_answered(told, Errc::ok);
}

TEST(StateTaken, LetsNothingPassMeanwhile) {
  Following world;
  world.hang_metadata();
  auto& told = world.b.send_unit_state(world.newer());
  world.pair.run_for(kSoon);
  auto& read = world.pair.read(kA, kBlockOfBoth);
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(5 * kSoon);
  EXPECT_FALSE(told.done || read.done);
  EXPECT_TRUE(world.b.received(MessageType::forward).empty());
  world.pair.mend(kA);
  EXPECT_TRUE(world.pair.wait_for([&] { return read.done && write.done; }, kLease));
}

TEST(StateTaken, IsOfTheEpochInForce) {
  Following world;
  const engine::Uuid id = world.b.state.record.id;
  world.b.state.record.id.bytes[0] ^= 1;
  auto& told = world.b.send_unit_state(world.newer());
  world.b.state.record.id = id;
  world.expect_answered(told, Errc::stale);
  EXPECT_EQ(unit_state(world).version, world.version);
}

TEST(StateTaken, IsNoneBySomeoneWhoServesNothing) {
  Following world;
  world.suspend();
  world.expect_answered(world.b.send_unit_state(world.newer()), Errc::stale);
}

TEST(StateTaken, InAnEpochThatIsOverMeanwhileIsNotAnsweredAsTaken) {
  Following world;
  world.hang_metadata();
  auto& told = world.b.send_unit_state(world.newer());
  world.pair.run_for(kSoon);
  ASSERT_FALSE(told.done);
  world.spoil_metadata([](StoreFaults& f) { f.hang = 0; });
  auto& leave = world.b.propose(world.next(MemberSet::only(kB)));
  world.expect_answered(leave, Errc::ok);
  world.b.state.record = world.pair.status(kA).epoch;
  ASSERT_FALSE(told.done);
  world.pair.mend(kA);
  world.expect_answered(told, Errc::stale);
}

TEST(StateTaken, ThatIsOlderThanThisNodesIsAnsweredWithTheNewer) {
  Following world;
  ASSERT_TRUE(world.b.tell_unit_state(world.newer()).ended_with(Errc::ok));
  world.expect_answered(world.b.send_unit_state(world.newer(0)), Errc::miscompare);
}

TEST(StateTaken, InANewEpochIsAgreedBeforeAMemberThatFollowsLetsAnythingPass) {
  Following world;
  auto& both = world.b.propose(world.next(MemberSet::both()));
  world.expect_answered(both, Errc::ok);
  world.b.state.record = world.pair.status(kA).epoch;
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(5 * kSoon);
  EXPECT_TRUE(world.b.received(MessageType::forward).empty());
  EXPECT_TRUE(world.b.tell_unit_state(world.newer(0)).ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 5 * kSoon));
}

/// Both were without power: what that ends is still in the state that they agree on.
TEST(StateTaken, ThatPowerDoesNotOutliveLetsNothingPassBeforeTheNext) {
  Following world;
  auto& both = world.b.propose(world.next(MemberSet::both()));
  world.expect_answered(both, Errc::ok);
  world.b.state.record = world.pair.status(kA).epoch;
  world.expect_answered(world.b.send_unit_state(world.newer(0), {}, replication::kFlagPowerOn), Errc::ok);
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(5 * kSoon);
  EXPECT_TRUE(world.b.received(MessageType::forward).empty());
  EXPECT_TRUE(world.b.tell_unit_state(world.newer()).ended_with(Errc::ok));
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, 5 * kSoon));
}

// ---- a replica that is no member -----------------------------------------------------------------------------------

/// A is no member, and B's unit is reserved by somebody else.
struct Reserved : Following {
  Reserved() {
    leave_a_behind();
    state = newer();
    state.reserved_by = scsi::NexusKey{.initiator = "iqn.2026-11.io.example:1", .isid = {}, .port = 2};
    EXPECT_TRUE(b.tell_unit_state(state).ended_with(Errc::ok));
    request.opcode = DiskOpcode::write;
    request.extent = {kBlockOfBoth * kBlock, kBlock};
    request.data = bytes;
    request.nexus = 1;
    request.port = &nexus;
    request.access = scsi::AccessClass::write;
    request.owner = this;
    request.done = [](engine::DiskRequest& r) { static_cast<Reserved*>(r.owner)->done = true; };
  }
  void submit() {
    pair.host(kA).program()->disk(0)->submit(request);
    ASSERT_TRUE(pair.wait_for([&] { return !forwards().empty() || done; }, kLease / 2));
  }
  [[nodiscard]] std::vector<Message> forwards() const { return b.received(MessageType::forward); }

  scsi::LuState state;
  scsi::NexusKey nexus = registration().nexus;
  std::vector<std::byte> bytes = block_of(1);
  engine::DiskRequest request;
  bool done = false;
};

TEST(StateTaken, RefusesNothingAtANoMemberBeforeTheMemberSaysSo) {
  Reserved world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
  world.submit();
  EXPECT_FALSE(world.done);
  ASSERT_FALSE(world.forwards().empty());
  EXPECT_EQ(world.forwards()[0].opcode, DiskOpcode::check_access);
  EXPECT_EQ(world.forwards()[0].sequence, world.state.version);
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.done; }, kLease / 2));
  EXPECT_EQ(world.request.status, make_error_code(Errc::reservation_conflict));
}

TEST(StateTaken, ThatAllowsWhatTheOneBeforeRefusedLetsItPass) {
  Reserved world;
  world.b.says = [](const Message& m) { return is(m, MessageType::forward) ? Errc::aborted : Errc::ok; };
  world.submit();
  world.state.version += 1;
  world.state.reserved_by.reset();
  ASSERT_TRUE(world.b.tell_unit_state(world.state).ended_with(Errc::ok));
  world.b.says = [](const Message&) { return Errc::ok; };
  ASSERT_TRUE(world.pair.wait_for([&] { return world.done; }, kLease / 2));
  EXPECT_EQ(world.request.status, std::error_code{});
  EXPECT_EQ(world.forwards().back().opcode, DiskOpcode::write);
}

}  // namespace
}  // namespace lockstep::simulation
