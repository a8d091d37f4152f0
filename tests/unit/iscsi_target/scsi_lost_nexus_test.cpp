// What goes with a nexus: RESERVE and PREVENT, when its session ends or its access is withdrawn, at once or later.
#include "scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

constexpr auto kConflict = scsi::Status::reservation_conflict;

class ScsiLostNexus : public ScsiTest {
 protected:
  ScsiLostNexus()
      : ScsiTest([] {
          auto info = disk_info();
          info.removable = true;
          return info;
        }()) {
    open(second, 2, "iqn.1994-05.com.example:TWO");
  }
  scsi::Nexus second;
};

TEST_F(ScsiLostNexus, Reserve6GoesWithTheAccessOfWhoHoldsIt) {
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  adopt({{0, unit}}, std::make_shared<HideFrom>(uuid(1), second.initiator_name));
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  close(second);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiLostNexus, AReserve6ThatIsUnderWayGoesWithTheAccessToo) {
  disk.deferred = true;
  auto reserve = make({0x16});
  reserve->nexus = &second;
  device.execute(*reserve);
  adopt({{0, unit}}, std::make_shared<HideFrom>(uuid(1), second.initiator_name));
  while (disk.held()) disk.release_one();
  disk.deferred = false;
  expect_good(*reserve);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiLostNexus, Reserve6StaysWhenTheUnitMovesToAnotherLun) {
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  adopt({{1, unit}});
  EXPECT_EQ(unit->state()->reserved_by->initiator, "iqn.1994-05.com.example:two");
}

TEST_F(ScsiLostNexus, LossesThatAreNotCarriedOutDoNotPileUp) {
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  disk.deferred = true;
  for (std::uint64_t id = 3; id < 200; ++id) {
    close(second);
    open(second, id, second.initiator_name);
  }
  close(second);
  EXPECT_EQ(disk.held(), TargetDevice::kMostLosses);
  EXPECT_TRUE(unit->losses().are_due());
  while (disk.held()) disk.release_one();
  disk.deferred = false;
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  EXPECT_FALSE(unit->losses().are_due());
}

TEST_F(ScsiLostNexus, WhoComesAgainAndAgainHasNoMoreResetsUnderWay) {
  std::size_t failed = 0, over = 0;
  const auto reset = [&](scsi::Nexus& by) {
    device.manage(by, scsi::TaskManagement::logical_unit_reset, 0,
                  [&](scsi::Managed result) { ++(result == scsi::Managed::failed ? failed : over); });
  };
  disk.deferred = true;
  for (std::uint64_t id = 3; id < 20; ++id) {
    for (int i = 0; i < 16; ++i) reset(second);
    close(second);
    open(second, id, second.initiator_name);
  }
  EXPECT_EQ(disk.held(), TargetDevice::kMostResets);
  EXPECT_EQ(failed + TargetDevice::kMostResets, 17u * 16);
  reset(nexus);
  EXPECT_EQ(disk.held(), TargetDevice::kMostResets + 1) << "another one's is its own affair";
  while (disk.held()) disk.release_one();
  EXPECT_EQ(over, TargetDevice::kMostResets + 1);
  disk.deferred = false;
  reset(second);
  EXPECT_EQ(over, TargetDevice::kMostResets + 2);
}

/// A session of the second initiator, with RESERVE, has ended while the disk could not be told.
class ScsiOwedLoss : public ScsiLostNexus {
 protected:
  ScsiOwedLoss() {
    EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
    disk.fail_with = engine::Errc::not_serving;
    close(second);
    EXPECT_TRUE(unit->state()->reserved_by);
  }
};

TEST_F(ScsiOwedLoss, IsMadeGoodBeforeTheUnitsNextCommand) {
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  EXPECT_FALSE(unit->losses().are_due());
}

TEST_F(ScsiOwedLoss, IsOwedStillWhenThePartnerLeaves) {
  unit->set_paired(false);
  in({0x00});  // port groups have changed
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  EXPECT_FALSE(unit->state()->reserved_by);
}

TEST_F(ScsiOwedLoss, WaitsUntilTheUnitIsServed) {
  disk.access = engine::AccessState::unavailable;
  in({0x00});  // the access state has changed
  const std::size_t before = disk.log.size();
  in({0x12, 0, 0, 0, 96});
  EXPECT_EQ(disk.log.size(), before);
  disk.access = engine::AccessState::active_optimized;
  in({0x00});  // the same
  disk.fail_with = engine::Errc::unknown_outcome;
  EXPECT_EQ(in({0x00})->status, scsi::Status::busy) << "once more in vain";
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

/// By a node that stood still for longer than a lease, say.
TEST_F(ScsiOwedLoss, IsOwedUntilItIsInForce) {
  for (const auto error : {engine::Errc::resource_exhausted, engine::Errc::aborted, engine::Errc::io_error}) {
    disk.fail_with = error;
    EXPECT_EQ(in({0x00})->status, scsi::Status::busy) << "once more in vain";
    EXPECT_TRUE(unit->losses().are_due());
  }
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiOwedLoss, CommandsWaitForItMeanwhile) {
  disk.deferred = true;
  const auto one = in({0x00}), another = in({0x00});
  EXPECT_EQ(disk.held(), 3u) << "the loss once, and what the reservation would refuse";
  while (disk.held()) disk.release_one();
  expect_good(*one);
  expect_good(*another);
  disk.deferred = false;
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiOwedLoss, IsMadeGoodThoughTheNexusIsThereAgain) {
  open(second, 3, second.initiator_name);
  EXPECT_EQ(run({0x00}, second)->status, scsi::Status::good);
  EXPECT_FALSE(unit->state()->reserved_by);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiOwedLoss, IsMadeGoodThoughTheNexusIsThereAgainOnAnotherReactor) {
  TargetDevice elsewhere(pool, clock);
  elsewhere.adopt(*LunMap::make({{0, unit}}, {}), {});
  scsi::Nexus again = second;
  elsewhere.on_nexus_opened(again);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  elsewhere.on_nexus_closed(again);
}

TEST_F(ScsiOwedLoss, TakesNothingWithItThatTheNexusAsksForWhenItIsThereAgain) {
  open(second, 3, second.initiator_name);
  disk.deferred = true;
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::busy);
  EXPECT_EQ(run({0x1E, 0, 0, 0, 1}, second)->status, scsi::Status::busy);
  EXPECT_EQ(disk.held(), 1u) << "the loss";
  while (disk.held()) disk.release_one();
  disk.deferred = false;
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  EXPECT_EQ(in({0x00})->status, kConflict);
}

/// More than are kept one by one, of sessions that hold nothing, and were not told what became of a RESERVE.
TEST_F(ScsiOwedLoss, IsMadeGoodHoweverManyCameAfterIt) {
  disk.access = engine::AccessState::transitioning;
  scsi::Nexus passing;
  for (std::size_t i = 0; i < OwedLosses::kMost; ++i) {
    open(passing, 3 + i, "iqn.1994-05.com.example:n" + std::to_string(i), false);
    while (run({0x00}, passing)->status == scsi::Status::check_condition) {
    }
    disk.fail_with = engine::Errc::unknown_outcome;
    ASSERT_EQ(run({0x16}, passing)->status, scsi::Status::check_condition);
    disk.fail_with = engine::Errc::not_serving;
    close(passing);
    ASSERT_FALSE(disk.fail_with) << "the disk was asked";
  }
  disk.access = engine::AccessState::active_optimized;
  in({0x00});  // the access state has changed
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
  EXPECT_FALSE(unit->state()->reserved_by);
  EXPECT_FALSE(unit->losses().are_due());
}

/// A session that takes the place of one of the same port may be there before the disk has carried the end of that out.
TEST_F(ScsiLostNexus, WhatIsUnderWayTakesNothingWithItThatTheNexusAsksForWhenItIsThereAgain) {
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  disk.deferred = true;
  close(second);
  open(second, 3, second.initiator_name);
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::busy);
  while (disk.held()) disk.release_one();
  disk.deferred = false;
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  EXPECT_TRUE(unit->state()->reserved_by);
}

TEST_F(ScsiLostNexus, APreventionThatCouldNotBeTakenBackIsMadeGoodLater) {
  expect_good(*run({0x1E, 0, 0, 0, 1}, second));
  disk.fail_with = engine::Errc::not_serving;
  close(second);
  expect_good(*in({0x1B, 0, 0, 0, 0x02}));  // eject
}

/// The second initiator asked to hold something; the disk, cut off from its partner, did not say what became of it.
class ScsiUnknownHold : public ScsiLostNexus {
 protected:
  void ask(Bytes cdb) {
    disk.fail_with = engine::Errc::unknown_outcome;
    EXPECT_EQ(run(std::move(cdb), second)->status, scsi::Status::check_condition);
    disk.fail_with = engine::Errc::not_serving;  // nor is it told what goes next
  }
  /// As when the two are in touch again, and what was stored is put in force.
  void take_effect(scsi::LuRequestKind kind) {
    EXPECT_FALSE(disk.fail_with) << "it was told of no loss";
    disk.fail_with = {};
    const scsi::NexusKey who{.initiator = "iqn.1994-05.com.example:two", .isid = second.isid, .port = 1};
    disk.unit_state.install(scsi::apply(disk.unit_state.state(), {.kind = kind, .nexus = who}));
  }
};

TEST_F(ScsiUnknownHold, AReserve6ThatTakesEffectAfterItsSessionsEndEndsToo) {
  ask({0x16});
  close(second);
  take_effect(scsi::LuRequestKind::reserve);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiUnknownHold, APreventionThatTakesEffectAfterItsSessionsEndEndsToo) {
  ask({0x1E, 0, 0, 0, 1});
  close(second);
  take_effect(scsi::LuRequestKind::prevent);
  expect_good(*in({0x1B, 0, 0, 0, 0x02}));  // eject
}

TEST_F(ScsiUnknownHold, AReserve6ThatTakesEffectAfterTheEndOfAccessEndsToo) {
  ask({0x16});
  adopt({{0, unit}}, std::make_shared<HideFrom>(uuid(1), second.initiator_name));
  take_effect(scsi::LuRequestKind::reserve);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiUnknownHold, IsNotForgottenWhenTheNexusWasThereAgainForAMoment) {
  ask({0x16});
  close(second);
  disk.fail_with = {};
  open(second, 3, second.initiator_name);
  disk.fail_with = engine::Errc::not_serving;
  close(second);
  take_effect(scsi::LuRequestKind::reserve);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiUnknownHold, IsNotForgottenWhenTheUnitMovesToAnotherLun) {
  ask({0x16});
  adopt({{1, unit}});
  close(second);
  adopt({{0, unit}});
  for (int news = 0; news < 2; ++news) in({0x00});  // the unit is new there, and other units are reported
  take_effect(scsi::LuRequestKind::reserve);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

class ManyOwedLosses : public testing::Test {
 protected:
  static scsi::LuRequest loss_of(std::size_t i) {
    return {.kind = scsi::LuRequestKind::nexus_lost, .nexus = {.initiator = std::to_string(i)}};
  }
  /// All that there is room for, in vain.
  ManyOwedLosses() {
    for (std::size_t i = 0; i < OwedLosses::kMost; ++i) losses.answered(losses.begin(loss_of(i)).number, false);
  }
  static constexpr auto kReset = scsi::LuRequestKind::unit_reset;
  static constexpr std::size_t kAll = 2 * OwedLosses::kMost;
  OwedLosses losses;
};

TEST_F(ManyOwedLosses, AreTakenAFewAtATime) {
  EXPECT_EQ(losses.take_due(2).size(), 2u);
  EXPECT_TRUE(losses.are_due());
  EXPECT_EQ(losses.take_due(kAll).size(), OwedLosses::kMost - 2);
  EXPECT_FALSE(losses.are_due());
}

TEST_F(ManyOwedLosses, BecomeAResetOfTheUnitWhenThereIsOneMore) {
  const auto reset = losses.begin(loss_of(OwedLosses::kMost));
  EXPECT_EQ(reset.request.kind, kReset);
  losses.answered(reset.number, false);
  EXPECT_TRUE(losses.has(loss_of(0).nexus));
  EXPECT_TRUE(losses.has(loss_of(kAll).nexus)) << "and of a nexus that has lost nothing: it would go, too";
  const auto due = losses.take_due(kAll);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].request.kind, kReset);
  EXPECT_EQ(due[0].request.id, reset.request.id) << "it is carried out once";
  losses.answered(due[0].number, true);
  EXPECT_FALSE(losses.has(loss_of(0).nexus));
  EXPECT_FALSE(losses.are_due());
}

TEST_F(ManyOwedLosses, AreMadeGoodByTheResetThatIsDueIfMoreCome) {
  losses.answered(losses.begin(loss_of(OwedLosses::kMost)).number, false);
  const auto again = losses.begin(loss_of(kAll));
  EXPECT_EQ(again.request.kind, kReset);
  EXPECT_FALSE(losses.are_due());
  losses.answered(again.number, true);
  EXPECT_FALSE(losses.has(loss_of(kAll).nexus));
}

TEST_F(ManyOwedLosses, AreNotMadeGoodByTheResetThatIsOnItsWayIfMoreCome) {
  const auto reset = losses.begin(loss_of(OwedLosses::kMost)), later = losses.begin(loss_of(kAll));
  EXPECT_EQ(later.request.kind, scsi::LuRequestKind::nexus_lost);
  losses.answered(reset.number, true);
  EXPECT_TRUE(losses.has(loss_of(kAll).nexus));
  EXPECT_FALSE(losses.has(loss_of(0).nexus));
}

TEST(OwedLosses, AnAnswerToOneOfTwoOfTheSameNexusDoesNotSettleTheOther) {
  OwedLosses losses;
  const scsi::LuRequest loss{.kind = scsi::LuRequestKind::nexus_lost, .nexus = {.initiator = "one"}};
  const auto earlier = losses.begin(loss), later = losses.begin(loss);
  losses.answered(later.number, true);
  EXPECT_TRUE(losses.has(loss.nexus)) << "the earlier one is on its way still";
  losses.answered(earlier.number, false);
  EXPECT_TRUE(losses.are_due());
  EXPECT_EQ(losses.take_due(2).size(), 1u);
  losses.answered(earlier.number, true);
  EXPECT_FALSE(losses.has(loss.nexus));
}

TEST(OwedLosses, OneThatIsDueGivesWayToTheNextOfTheSameNexus) {
  OwedLosses losses;
  const scsi::LuRequest loss{.kind = scsi::LuRequestKind::nexus_lost, .nexus = {.initiator = "one"}};
  losses.answered(losses.begin(loss).number, false);
  losses.answered(losses.begin(loss).number, true);
  EXPECT_FALSE(losses.has(loss.nexus));
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
