// What reveals the disk's content passes the lease when it was read; what was given up meanwhile is not carried out.
#include <algorithm>
#include <optional>

#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

/// Operations of A's initiators that tell something of what its store holds.
struct Looks {
  explicit Looks(PlayedB& world) {
    io.push_back(&world.pair.read(kA, kBlockOfBoth));
    io.push_back(&world.pair.submit(kA, DiskOpcode::verify, 2 * kBlockOfBoth, 1, 0));
    io.push_back(&world.pair.submit(kA, DiskOpcode::verify, 3 * kBlockOfBoth, 1, 7));
    io.push_back(&world.pair.submit(kA, DiskOpcode::compare_and_write, 4 * kBlockOfBoth, 1, 7));
    io.push_back(&world.pair.submit(kA, DiskOpcode::find_run, 5 * kBlockOfBoth, 1, 0));
  }
  [[nodiscard]] bool all(const std::function<bool(const ScriptedPair::Io&)>& what) const {
    return std::ranges::all_of(io, [&](const auto* each) { return what(*each); });
  }
  [[nodiscard]] bool none(const std::function<bool(const ScriptedPair::Io&)>& what) const {
    return std::ranges::none_of(io, [&](const auto* each) { return what(*each); });
  }
  static bool done(const ScriptedPair::Io& each) { return each.done; }
  std::vector<ScriptedPair::Io*> io;
};

TEST(WhatWasRead, IsToldByAMember) {
  PlayedB world;
  Looks looks(world);
  EXPECT_TRUE(world.pair.wait_for([&] { return looks.all(Looks::done); }, 5 * kSoon));
}

TEST(WhatWasRead, IsToldByNobodyWhoServesNothing) {
  PlayedB world(patient);
  hang(world.pair, kA);
  Looks looks(world);
  world.suspend();
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.host(kA).data(0).in_flight() == 0; }, kSoon));
  EXPECT_TRUE(world.pair.is(kA, MirrorState::suspended));
  EXPECT_TRUE(looks.none(Looks::done));
}

/// A looks at the clock now and then: its store returns what it read in the moment before A notices that it may not
/// answer any more.
struct JustBeforeItIsNoticed {
  explicit JustBeforeItIsNoticed(const std::function<void(PlayedB&)>& what_ends) {
    PlayedB other(patient);
    begin(other, what_ends);
    EXPECT_TRUE(other.pair.wait_for([&] { return other.pair.is(kA, MirrorState::suspended); }, 2 * kLease));
    begin(world, what_ends);
    const Nanos left = other.pair.world().scheduler.now() - world.pair.world().scheduler.now();
    world.pair.world().scheduler.after(left - 1, Owner::world, on_moment, this, 0);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.is(kA, MirrorState::suspended); }, 2 * kLease));
  }
  void begin(PlayedB& pair, const std::function<void(PlayedB&)>& what_ends) {
    hang(pair.pair, kA);
    looks.emplace(pair);
    pair.pair.run_for(kSoon);
    pair.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
    what_ends(pair);
  }
  static void on_moment(void* self, std::uint64_t) {
    auto& me = *static_cast<JustBeforeItIsNoticed*>(self);
    EXPECT_TRUE(me.world.pair.is(kA, MirrorState::in_sync));
    for (std::size_t i = 0; i < me.looks->io.size(); ++i) me.world.pair.host(kA).data(0).release_first_hung();
  }
  void expect_nothing_told() { EXPECT_TRUE(looks->none(Looks::done)); }
  PlayedB world{patient};
  std::optional<Looks> looks;
};

TEST(WhatWasRead, IsNotToldWhenTheLeaseHasEnded) {
  JustBeforeItIsNoticed moment([](PlayedB& world) { world.b.grants_leases = false; });
  moment.expect_nothing_told();
}

/// The next process of B's has a shorter lease, and counts from its own beginning.
TEST(WhatWasRead, IsNotToldWhenContactHasEndedBeforeTheLease) {
  JustBeforeItIsNoticed moment([](PlayedB& world) {
    world.b.keeps = [](const Message& m) { return is(m, MessageType::heartbeat) || is(m, MessageType::state); };
    world.b.lease = kLease / 2;
    world.b.restart();
  });
  moment.expect_nothing_told();
}

/// B's answer, that it can't read the block either, is in A's socket while A stands still for longer than its lease. B
/// goes on alone meanwhile, and a host may have written the block there.
TEST(WhatWasRead, IsNotCalledUnreadableOnBothWhenTheLeaseHasEnded) {
  PlayedB world(patient);
  world.pair.spoil(kA, [](StoreFaults& f) { f.read_error = kAlways; });
  world.b.keeps = [](const Message& m) { return is(m, MessageType::fetch) || PlayedB::silent(m); };
  std::vector<ScriptedPair::Io*> reads;
  for (std::uint64_t i = 1; i <= 8; ++i) reads.push_back(&world.pair.read(kA, i * kBlockOfBoth));
  const auto asked = [&] { return world.b.received(MessageType::fetch).size() == reads.size(); };
  ASSERT_TRUE(world.pair.wait_for(asked, kLease / 4));
  world.pair.host(kA).freeze();
  world.b.let_go(Errc::io_error);
  engine::Uuid its{};
  its.bytes[0] = 1;
  world.at_the_witness({world.b.state.record.number + 5, its, MemberSet::only(kB)});
  world.pair.run_for(2 * kLease);
  world.pair.host(kA).thaw();
  world.pair.run_for(kLease / 2);
  EXPECT_TRUE(world.pair.is(kA, MirrorState::suspended));
  for (const auto* read : reads) EXPECT_NE(read->status(), make_error_code(Errc::io_error));
}

// ---- another process of the partner's ----------------------------------------------------------------------------

/// In sync with a B that tells its machine's boot, and whose next process says nothing of its state.
struct TellsItsBoot : PlayedB {
  TellsItsBoot() {
    b.boot = 7;
    b.restart();
    pair.run_for(kSoon);
    if (!b.proposals.empty()) b.state.record = b.proposals.back();
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync) && pair.status(kA).serving; }))
        << pair.status(kA).reason << b.proposals.size();
    b.keeps = [](const Message& m) { return is(m, MessageType::state); };
  }
  [[nodiscard]] bool stops_after_a_restart() {
    b.restart();
    return pair.wait_for([&] { return !pair.status(kA).serving; }, kLease / 4);
  }
};

TEST(PartnersProcess, ThatIsReplacedWhileNothingStoodStillLosesNoContact) {
  TellsItsBoot world;
  EXPECT_FALSE(world.stops_after_a_restart());
}

/// A stood still meanwhile, for longer than a lease: so says the clock of B's machine, which went on.
TEST(PartnersProcess, ThatIsReplacedGoesOnWithItsMachinesClock) {
  TellsItsBoot world;
  world.b.clock_ahead = 3 * kLease;
  EXPECT_TRUE(world.stops_after_a_restart());
}

/// No machine boots within a lease of its last word.
TEST(PartnersProcess, OfAMachineThatBootedMeanwhileMeansThatThisNodeStoodStill) {
  TellsItsBoot world;
  world.b.boot = 8;
  EXPECT_TRUE(world.stops_after_a_restart());
}

TEST(WhatWasRead, IsNotToldWhenItWasGivenUpMeanwhile) {
  PlayedB world(patient);
  hang(world.pair, kA);
  Looks looks(world);
  world.pair.run_for(kSoon);
  for (auto* io : looks.io) world.pair.host(kA).program()->disk(0)->cancel(io->request);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return looks.all(Looks::done); }, 5 * kSoon));
  EXPECT_TRUE(looks.all([](const auto& io) { return io.status() == make_error_code(Errc::aborted); }));
}

// ---- writes --------------------------------------------------------------------------------------------------------

TEST(Write, ThatIsGivenUpWhileItsBitsAreMadeDurableIsNotStarted) {
  PlayedB world(patient);
  world.hang_metadata();
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kSoon);
  world.pair.host(kA).program()->disk(0)->cancel(write.request);
  world.pair.mend(kA);
  ASSERT_TRUE(world.pair.wait_for([&] { return write.done; }, kSoon));
  EXPECT_EQ(write.status(), make_error_code(Errc::aborted));
  world.pair.run_for(kSoon);
  EXPECT_EQ(world.stored(), 0);
  EXPECT_TRUE(world.b.received(MessageType::replicate).empty());
}

TEST(Write, IsNotStartedInANewEpochBeforeThereIsALease) {
  PlayedB world;
  world.b.grants_leases = false;
  agree_anew(world);
  auto& write = world.pair.write(kA, kBlockOfBoth, 1);
  world.pair.run_for(kLease / 2);
  EXPECT_EQ(world.stored(), 0);
  EXPECT_TRUE(world.b.received(MessageType::replicate).empty());
  world.b.grants_leases = true;
  EXPECT_TRUE(world.pair.wait_for([&] { return write.done; }, kLease));
}

TEST(CompareAndWrite, OfOneBlockByTwoSucceedsForOne) {
  PlayedB world;
  const auto swap = [&](int fill) -> ScriptedPair::Io& {
    auto& io = world.pair.submit(kA, DiskOpcode::compare_and_write, kBlockOfBoth, 1, 0);
    std::ranges::fill(io.request.data.subspan(kBlock), static_cast<std::byte>(fill));
    return io;
  };
  auto &one = swap(1), &two = swap(2);
  ASSERT_TRUE(world.pair.wait_for([&] { return one.done && two.done; }));
  EXPECT_EQ(one.status(), std::error_code{});
  EXPECT_EQ(two.status(), make_error_code(Errc::miscompare));
  EXPECT_EQ(world.stored(), 1);
}

/// Alone, what a failed write left may be gone after a power cut: it is written again before it is shown.
TEST(FailedWrite, ThatCannotBeWrittenAgainIsNotShown) {
  PlayedB world;
  world.go_on_alone();
  ASSERT_EQ(world.pair.written(kA, kBlockOfBoth, 3), std::error_code{});
  world.pair.spoil(kA, [](StoreFaults& f) { f.write_error = kAlways; });
  EXPECT_NE(world.pair.written(kA, kBlockOfBoth, 1), std::error_code{});
  auto& read = world.pair.read(kA, kBlockOfBoth);
  ASSERT_TRUE(world.pair.wait_for([&] { return read.done; }));
  EXPECT_EQ(read.status(), make_error_code(Errc::io_error));
  world.pair.mend(kA);
  EXPECT_GE(world.pair.value_at(kA, kBlockOfBoth), 0);
}

}  // namespace
}  // namespace lockstep::simulation
