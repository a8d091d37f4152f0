// The unit's state at the node that orders, whose partner the test plays: what a change waits for, and what for it.
#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

void with_state(Scenario& s) {
  patient(s);
  s.reservations = true;
}

bool is_told(const Message& m) { return is(m, MessageType::lu_state); }

struct Ordering : PlayedB {
  Ordering() : PlayedB(with_state) {}
  [[nodiscard]] std::size_t times_told() const { return b.received(MessageType::lu_state).size(); }
  [[nodiscard]] std::size_t orders() const { return b.received(MessageType::replicate).size(); }
  bool soon(const ScriptedPair::Io& io) {
    return pair.wait_for([&] { return io.done; }, 5 * kSoon);
  }
  scsi::LuRequest reset(scsi::LuRequestKind kind) {
    scsi::LuRequest request;
    request.kind = kind;
    request.nexus = registration().nexus;
    return request;
  }
};

// ---- what a change waits for ---------------------------------------------------------------------------------------

TEST(ChangeOfState, WaitsForWritesThatWereCheckedBefore) {
  Ordering world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate); };
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  const std::size_t before = world.times_told();
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(5 * kSoon);
  EXPECT_FALSE(change.done);
  EXPECT_EQ(world.times_told(), before);
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return write.done; }));
  EXPECT_GT(world.pair.host(kA).metadata(0).in_flight(), 0u) << "it goes on with the end of the last of them";
  EXPECT_TRUE(world.soon(change));
}

TEST(ChangeOfState, WaitsForReadsThatWereCheckedBefore) {
  Ordering world;
  hang(world.pair, kA);
  auto& read = world.pair.read(kA, kBlockOfBoth);
  world.pair.run_for(kSoon);
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(5 * kSoon);
  EXPECT_FALSE(read.done);
  EXPECT_FALSE(change.done);
  world.pair.mend(kA);
  EXPECT_TRUE(world.soon(change));
}

TEST(ChangeOfState, IsMadeWhenThePartnerHasItAndNotBefore) {
  Ordering world;
  world.b.says = [](const Message& m) { return is_told(m) ? Errc::refused : Errc::ok; };
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(change.done);
  EXPECT_EQ(world.b.received(MessageType::lu_state).back().sequence, world.version + 1);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.soon(change));
}

// ---- what waits for a change ---------------------------------------------------------------------------------------

TEST(ChangeOfState, LetsNothingPassMeanwhile) {
  Ordering world;
  world.b.keeps = is_told;
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  auto& read = world.pair.read(kA, kBlockOfBoth);
  EXPECT_TRUE(world.b.ask(world.forward(1), PlayedB::block_of(1)).ended_with(Errc::aborted));
  world.pair.run_for(5 * kSoon);
  EXPECT_EQ(world.orders(), 0u);
  EXPECT_FALSE(write.done || read.done || change.done);
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.soon(change) && world.soon(write) && world.soon(read));
}

TEST(ForwardToThis, ThatWasCheckedUnderAnEarlierStateIsNotCarriedOut) {
  Ordering world;
  Message m = world.forward(1);
  auto& change = world.pair.change_state(kA, registration());
  ASSERT_TRUE(world.soon(change));
  EXPECT_TRUE(world.b.ask(m, PlayedB::block_of(1)).ended_with(Errc::aborted));
  EXPECT_EQ(world.stored(), 0);
}

TEST(UnitReset, EndsWhatWaitsHere) {
  for (const auto kind : {scsi::LuRequestKind::unit_reset, scsi::LuRequestKind::target_reset}) {
    Ordering world;
    ASSERT_EQ(world.pair.written(kA, kBlockOfBoth, 3), std::error_code{});
    hang(world.pair, kA);
    world.pair.write(kA, kBlockOfBoth, 1);
    world.pair.run_for(kSoon);
    auto& waits = world.pair.write(kA, kBlockOfBoth, 2);
    world.pair.run_for(kSoon);
    auto& reset = world.pair.change_state(kA, world.reset(kind));
    EXPECT_TRUE(world.soon(waits));
    EXPECT_EQ(waits.status(), make_error_code(Errc::aborted));
    world.pair.mend(kA);
    EXPECT_TRUE(world.soon(reset));
    EXPECT_EQ(world.stored(), 1);
  }
}

// ---- given up, or overtaken by events ------------------------------------------------------------------------------

TEST(ChangeOfState, ThatIsNotBeingWrittenYetIsNotMadeWhenItsHostGivesItUp) {
  Ordering world;
  world.b.keeps = [](const Message& m) { return is(m, MessageType::replicate); };
  world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(change.request);
  EXPECT_TRUE(world.soon(change));
  EXPECT_EQ(change.status(), make_error_code(Errc::aborted));
  world.b.let_go(Errc::ok);
  world.pair.run_for(5 * kSoon);
  EXPECT_EQ(unit_state(world).version, world.version);
}

TEST(ChangeOfState, ThatIsBeingWrittenIsMadeThoughItsHostGivesItUp) {
  Ordering world;
  world.hang_metadata();
  auto& change = world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(change.request);
  world.pair.run_for(kSoon);
  EXPECT_FALSE(change.done);
  world.pair.mend(kA);
  EXPECT_TRUE(world.soon(change));
  EXPECT_EQ(unit_state(world).version, world.version + 1);
}

TEST(ChangeOfState, ThatIsBeingWrittenWhenTheSessionsAreClosedHasAnUnknownOutcome) {
  Ordering world;
  world.pair.host(kA).witness().set_reachable(false);
  world.hang_metadata();
  auto& change = world.pair.change_state(kA, registration());
  world.suspend();
  ASSERT_TRUE(world.pair.wait_for([&] { return change.done; }, 3 * kLease));
  EXPECT_EQ(change.status(), make_error_code(Errc::unknown_outcome));
}

/// What was made durable here may have come into force at the partner, which orders now.
TEST(ChangeOfState, ThatWasWrittenIsKnownToWhoFollowsThen) {
  Ordering world;
  world.b.keeps = is_told;
  world.pair.change_state(kA, registration());
  world.pair.run_for(kSoon);
  engine::EpochRecord record = world.next(MemberSet::both());
  record.sequencer = kB;
  auto& both = world.b.propose(record);
  ASSERT_TRUE(world.pair.wait_for([&] { return both.done; }));
  ASSERT_TRUE(both.ended_with(Errc::ok));
  world.b.state.record = record;
  scsi::LuState older;
  older.version = world.version;
  EXPECT_TRUE(world.b.tell_unit_state(older).ended_with(Errc::miscompare));
}

// ---- what was missed -----------------------------------------------------------------------------------------------

struct Attentions final : scsi::LuStateListener {
  void on_state(const scsi::LuState&, std::span<const scsi::LuEvent> events) override {
    for (const auto& event : events) raised.push_back(event.kind);
  }
  std::vector<scsi::LuAttention> raised;
};
const std::vector kOneReset{scsi::LuAttention::bus_reset};

/// A reservation may have been preempted, or mode parameters changed.
TEST(UnitState, ThatSkipsSomeRaisesAResetForThisNodesHosts) {
  Ordering world;
  world.leave_a_behind();
  const auto attentions = std::make_shared<Attentions>();
  world.pair.host(kA).program()->disk(0)->set_state_listener(attentions);
  scsi::LuState later;
  later.version = world.version + 2;
  ASSERT_TRUE(world.b.tell_unit_state(later).ended_with(Errc::ok));
  EXPECT_EQ(attentions->raised, kOneReset);
}

TEST(UnitState, ThatThePartnerHasNewerRaisesAResetForThisNodesHosts) {
  Ordering world;
  const auto attentions = std::make_shared<Attentions>();
  world.pair.host(kA).program()->disk(0)->set_state_listener(attentions);
  scsi::LuState newer;
  newer.version = world.version + 1;
  world.b.amends = [&](const Message& m, Message& header, std::vector<std::byte>& payload) {
    if (!is_told(m) || m.sequence == newer.version) return;
    header.status = Errc::miscompare;
    payload = newer.encode();
  };
  agree_anew(world);
  EXPECT_TRUE(world.pair.wait_for([&] { return attentions->raised == kOneReset; }, kLease));
}

// ---- a new epoch ---------------------------------------------------------------------------------------------------

TEST(UnitState, IsAgreedInANewEpochBeforeAnythingPasses) {
  Ordering world;
  world.b.says = [](const Message& m) { return is_told(m) ? Errc::refused : Errc::ok; };
  agree_anew(world);
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(10 * kSoon);
  EXPECT_EQ(world.orders(), 0u);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.soon(write));
}

TEST(UnitState, ThatThePartnerHasNewerIsTakenFromIt) {
  Ordering world;
  scsi::LuState newer;
  newer.version = world.version + 1;
  newer.registrations.push_back({registration().nexus, 1});
  world.b.amends = [&](const Message& m, Message& header, std::vector<std::byte>& payload) {
    if (!is_told(m) || m.sequence == newer.version) return;
    header.status = Errc::miscompare;
    payload = newer.encode();
  };
  agree_anew(world);
  EXPECT_EQ(unit_state(world), newer);
}

TEST(UnitState, IsToldOnceInAnEpochWhateverIsAnsweredToWhatWasToldBefore) {
  Ordering world;
  world.b.keeps = is_told;
  const std::size_t before = world.times_told();
  agree_anew(world);
  world.pair.run_for(kSoon);
  agree_anew(world);
  world.pair.run_for(kSoon);
  ASSERT_EQ(world.times_told(), before + 2);
  world.b.let_go_first(Errc::ok);
  world.pair.run_for(5 * kSoon);
  EXPECT_EQ(world.times_told(), before + 2);
}

TEST(UnitState, IsNotToldToAnInitiatorWithoutALease) {
  Ordering world;
  world.b.grants_leases = false;
  agree_anew(world);
  auto& read = world.pair.read_state(kA);
  world.pair.run_for(kLease / 2);
  EXPECT_FALSE(read.done);
  world.b.grants_leases = true;
  EXPECT_TRUE(world.pair.wait_for([&] { return read.done; }, kLease));
}

TEST(UnitState, IsNotToldToThePartnersInitiatorsWithoutALease) {
  Ordering world;
  world.b.grants_leases = false;
  agree_anew(world);
  world.pair.run_for(5 * kSoon);
  Message m = world.forward(1);
  m.opcode = DiskOpcode::read_state;
  m.extent = {};
  EXPECT_TRUE(world.b.ask(m, {}, scsi::kMaxLuState).ended_with(Errc::stale));
}

}  // namespace
}  // namespace lockstep::simulation
