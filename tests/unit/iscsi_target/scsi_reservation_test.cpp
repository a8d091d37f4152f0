// Reservations and medium removal as initiators do them: CDBs in, statuses and data out.
#include "scsi_harness.hpp"

#include "engine/scsi/transport_id.hpp"

namespace lockstep::iscsi_target::test {
namespace {

constexpr auto kConflict = scsi::Status::reservation_conflict;

class ScsiReservation : public ScsiTest {
 protected:
  explicit ScsiReservation(engine::DiskInfo info = disk_info()) : ScsiTest(std::move(info)) {
    open(second, 2, "iqn.1994-05.com.example:TWO");
  }
  scsi::Status reserve_out(scsi::Nexus& n, std::uint8_t action, std::uint64_t key, std::uint64_t service_key,
                           std::uint8_t type = 0) {
    Bytes list(24);
    engine::store_be<std::uint64_t>(&list[0], key);
    engine::store_be<std::uint64_t>(&list[8], service_key);
    auto c = make({0x5F, action, type, 0, 0, 0, 0, 0, 24}, 0, list);
    c->nexus = &n;
    return run(std::move(c))->status;
  }
  std::unique_ptr<FakeCommand> reserve_in(std::uint8_t action, std::uint32_t expected = 8192) {
    return in({0x5E, action, 0, 0, 0, 0, 0, 0x20, 0}, expected);
  }
  scsi::Status write(scsi::Nexus& n) {
    auto c = make(cdb10(0x2A, 0, 1), 0, Bytes(512));
    c->nexus = &n;
    return run(std::move(c))->status;
  }
  scsi::Nexus second;
};

TEST_F(ScsiReservation, AReservationOfOneStopsTheWritesOfTheOther) {
  EXPECT_EQ(reserve_out(nexus, 0x00, 0, 0xABC), scsi::Status::good);
  EXPECT_EQ(reserve_out(nexus, 0x01, 0xABC, 0, 1), scsi::Status::good);
  EXPECT_EQ(write(nexus), scsi::Status::good);
  EXPECT_EQ(write(second), kConflict);
  EXPECT_EQ(run(cdb10(0x28, 0, 1), second, 512)->status, scsi::Status::good);
  EXPECT_EQ(run({0x00}, second)->status, scsi::Status::good);
  EXPECT_EQ(run({0x12, 0, 0, 0, 96}, second, 96)->status, scsi::Status::good);
}

TEST_F(ScsiReservation, ModeParametersMayBeReadByWhoMayRead) {
  reserve_out(nexus, 0x00, 0, 1);
  for (const std::uint8_t type : Bytes{1, 5, 7, 3, 6, 8}) {
    ASSERT_EQ(reserve_out(nexus, 0x01, 1, 0, type), scsi::Status::good) << int{type};
    const auto wanted = run(cdb10(0x28, 0, 1), second, 512)->status;
    EXPECT_EQ(run({0x1A, 0, 0x08, 0, 64}, second, 64)->status, wanted) << int{type};
    EXPECT_EQ(run({0x5A, 0, 0x08, 0, 0, 0, 0, 0, 64}, second, 64)->status, wanted) << int{type};
    EXPECT_EQ(run({0x1A, 0, 0x08, 0, 64}, nexus, 64)->status, scsi::Status::good) << int{type};
    ASSERT_EQ(reserve_out(nexus, 0x02, 1, 0, type), scsi::Status::good) << int{type};
  }
}

/// SBC-3's table of what reservations allow has it twice: START without a power condition, and all else.
TEST_F(ScsiReservation, TheUnitMayBeStartedByEverybodyAndStoppedByWhoMayUseIt) {
  const auto start_stop = [&](std::uint8_t byte_4) { return run({0x1B, 0, 0, 0, byte_4}, second)->status; };
  reserve_out(nexus, 0x00, 0, 1);
  for (const std::uint8_t type : Bytes{1, 3}) {
    ASSERT_EQ(reserve_out(nexus, 0x01, 1, 0, type), scsi::Status::good) << int{type};
    EXPECT_EQ(start_stop(0x01), scsi::Status::good) << int{type};
    for (const std::uint8_t other : Bytes{0x00, 0x02, 0x03, 0x11})
      EXPECT_EQ(start_stop(other), kConflict) << int{other};
    ASSERT_EQ(reserve_out(nexus, 0x02, 1, 0, type), scsi::Status::good) << int{type};
  }
  ASSERT_EQ(reserve_out(nexus, 0x03, 1, 0), scsi::Status::good);
  ASSERT_EQ(run({0x56}, nexus)->status, scsi::Status::good);
  EXPECT_EQ(start_stop(0x01), kConflict) << "RESERVE keeps out all but what SPC-2 names";
}

TEST_F(ScsiReservation, TheDiskHasTheLastWord) {
  // The unit has not heard of the reservation yet, the disk has it in force.
  disk.set_state_listener(nullptr);
  reserve_out(nexus, 0x00, 0, 1);
  reserve_out(nexus, 0x01, 1, 0, 3);
  ASSERT_FALSE(unit->restricted());
  EXPECT_EQ(write(second), kConflict);
  EXPECT_EQ(run(cdb10(0x28, 0, 1), second, 512)->status, kConflict);
}

/// A node that was frozen, or is cut off, has not heard what happened through the other one.
TEST_F(ScsiReservation, NobodyIsRefusedForWhatTheUnitRemembersAlone) {
  reserve_out(nexus, 0x00, 0, 1);
  reserve_out(nexus, 0x01, 1, 0, 3);
  disk.set_state_listener(nullptr);
  reserve_out(nexus, 0x02, 1, 0, 3);
  ASSERT_TRUE(unit->restricted());
  EXPECT_EQ(write(second), scsi::Status::good);
  EXPECT_EQ(run(cdb10(0x28, 0, 1), second, 512)->status, scsi::Status::good);
  disk.fail_with = engine::Errc::not_serving;
  EXPECT_EQ(write(second), scsi::Status::check_condition) << "who has no lease tells of no reservation";
}

TEST_F(ScsiReservation, WhatIsGivenUpWhileTheDiskIsAskedDoesNotBegin) {
  reserve_out(nexus, 0x00, 0, 1);
  reserve_out(nexus, 0x01, 1, 0, 3);
  disk.set_state_listener(nullptr);
  reserve_out(nexus, 0x02, 1, 0, 3);
  disk.deferred = disk.cannot_cancel = true;
  auto c = make(cdb10(0x2A, 0, 1), 0, Bytes(512));
  c->nexus = &second;
  device.execute(*c);
  ASSERT_EQ(disk.log.back().opcode, engine::DiskOpcode::check_access);
  device.abort(*c);
  disk.release_one();
  EXPECT_EQ(c->status, scsi::Status::task_aborted);
  EXPECT_EQ(disk.log.back().opcode, engine::DiskOpcode::check_access);
  disk.deferred = false;
}

TEST_F(ScsiReservation, KeysReservationAndFullStatusAreReported) {
  reserve_out(nexus, 0x00, 0, 0x1122334455667788);
  reserve_out(second, 0x00, 0, 0x99);
  reserve_out(nexus, 0x01, 0x1122334455667788, 0, 6);
  const auto keys = reserve_in(0);
  expect_good(*keys);
  ASSERT_EQ(keys->data_in.size(), 24u);
  EXPECT_EQ(keys->be32(0), 2u);
  EXPECT_EQ(keys->be32(4), 16u);
  EXPECT_EQ(keys->be64(8), 0x1122334455667788u);
  EXPECT_EQ(keys->be64(16), 0x99u);
  const auto reservation = reserve_in(1);
  ASSERT_EQ(reservation->data_in.size(), 24u);
  EXPECT_EQ(reservation->be32(4), 16u);
  EXPECT_EQ(reservation->be64(8), 0x1122334455667788u);
  EXPECT_EQ(reservation->data_in[21], 6);
  const auto status = reserve_in(3);
  ASSERT_GT(status->data_in.size(), 8 + 24 + 24u);
  EXPECT_EQ(status->be32(4), status->data_in.size() - 8);
  EXPECT_EQ(status->data_in[8 + 12], 1) << "the first holds it";
  EXPECT_EQ(status->data_in[8 + 13], 6);
  EXPECT_EQ(status->be16(8 + 18), 1) << "relative target port";
  const auto id = scsi::read_transport_id(std::as_bytes(std::span(status->data_in).subspan(32)));
  ASSERT_TRUE(id);
  EXPECT_EQ(id->nexus.initiator, nexus.initiator_name);
}

TEST_F(ScsiReservation, AShortAllocationCutsTheKeysAndTheLengthSaysHowManyThereAre) {
  reserve_out(nexus, 0x00, 0, 1);
  const auto c = in({0x5E, 0, 0, 0, 0, 0, 0, 0, 9}, 9);
  expect_good(*c);
  EXPECT_EQ(c->data_in.size(), 9u);
  EXPECT_EQ(c->be32(4), 8u);
  EXPECT_EQ(c->residual_in(), 0);
}

TEST_F(ScsiReservation, TheMemoryThatAReportTakesIsAskedForBeforehandHoweverLittleIsWanted) {
  reserve_out(nexus, 0x00, 0, 1);
  disk.deferred = true;
  const auto report = reserve_in(0, 8);
  EXPECT_LE(pool.in_use(), engine::BufferPool::block_size(device.data_bytes(*report)));
  disk.release_one();
  expect_good(*report);
}

TEST_F(ScsiReservation, TheMemoryThatAChangeTakesIsAskedForBeforehand) {
  auto change = make({0x5F, 0, 0, 0, 0, 0, 0, 0, 24}, 0, Bytes(24));
  change->defers_pull = true;
  device.execute(*change);
  EXPECT_LE(pool.in_use(), engine::BufferPool::block_size(device.data_bytes(*change)));
  change->release_pull();
}

TEST_F(ScsiReservation, CapabilitiesPromisePersistenceOnlyWhereTheDiskKeepsIt) {
  const auto c = reserve_in(2);
  ASSERT_EQ(c->data_in.size(), 8u);
  EXPECT_EQ(c->be16(0), 8);
  EXPECT_EQ(c->data_in[2], 0x1C);
  EXPECT_EQ(c->data_in[3], 0x80);
  EXPECT_EQ(c->be16(4), 0xEA01);
}

TEST_F(ScsiReservation, WhoIsPreemptedHearsOfIt) {
  reserve_out(nexus, 0x00, 0, 1);
  reserve_out(second, 0x00, 0, 2);
  reserve_out(second, 0x01, 2, 0, 1);
  EXPECT_EQ(reserve_out(nexus, 0x05, 1, 2, 1), scsi::Status::good);
  expect_sense(*run({0x00}, second), scsi::SenseKey::unit_attention, scsi::asc::kRegistrationsPreempted);
  EXPECT_EQ(run({0x00}, second)->status, scsi::Status::good);
  EXPECT_EQ(run({0x00}, nexus)->status, scsi::Status::good);
  EXPECT_EQ(write(second), kConflict);
}

TEST_F(ScsiReservation, ALongListAndAShortOneAreRefused) {
  expect_sense(*out({0x5F, 0, 0, 0, 0, 0, 0, 0, 20}, Bytes(20)), scsi::SenseKey::illegal_request,
               scsi::asc::kParameterListLengthError);
  expect_sense(*out({0x5F, 0, 0, 0, 0, 0, 0, 0xFF, 0}, Bytes(0xFF00)), scsi::SenseKey::illegal_request,
               scsi::asc::kParameterListLengthError);
  expect_sense(*in({0x5F, 0}), scsi::SenseKey::illegal_request, scsi::asc::kParameterListLengthError);
}

TEST_F(ScsiReservation, Reserve6KeepsOthersFromNearlyEverythingUntilTheSessionEnds) {
  EXPECT_EQ(run({0x16}, second)->status, scsi::Status::good);
  EXPECT_EQ(in({0x00})->status, kConflict);
  EXPECT_EQ(in({0x16})->status, kConflict);
  EXPECT_EQ(reserve_in(0)->status, kConflict);
  EXPECT_EQ(in({0x12, 0, 0, 0, 96})->status, scsi::Status::good);
  EXPECT_EQ(in({0x17})->status, scsi::Status::good) << "changes nothing";
  EXPECT_EQ(in({0x00})->status, kConflict);
  close(second);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiReservation, AResetReleasesReserve6) {
  run({0x56}, second);
  EXPECT_EQ(in({0x00})->status, kConflict);
  device.task_management(second, scsi::TaskManagement::logical_unit_reset, 0);
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kBusDeviceResetFunctionOccurred);
  EXPECT_EQ(in({0x00})->status, scsi::Status::good);
}

TEST_F(ScsiReservation, ManagementIsDoneWhenTheResetIsInForce) {
  disk.deferred = true;
  bool done = false;
  device.manage(nexus, scsi::TaskManagement::target_warm_reset, 0,
                [&](scsi::Managed result) { done = result == scsi::Managed::complete; });
  EXPECT_FALSE(done);
  disk.release_one();
  EXPECT_TRUE(done);
  disk.deferred = false;
}

TEST_F(ScsiReservation, ManagementSaysSoWhereTheResetIsNotInForce) {
  run({0x56}, second);
  std::optional<scsi::Managed> told;
  disk.fail_with = engine::Errc::resource_exhausted;
  device.manage(nexus, scsi::TaskManagement::logical_unit_reset, 0, [&](scsi::Managed result) { told = result; });
  EXPECT_EQ(told, scsi::Managed::failed);
  EXPECT_EQ(in({0x00})->status, kConflict) << "it is reserved still";
}

/// Of that one something may be under way at the partner.
TEST_F(ScsiReservation, AResetOfTheTargetThatOneUnitDoesNotServeResetsTheOthersAndSaysSo) {
  RamDisk other(disk_info(2));
  adopt({{0, unit}, {1, std::make_shared<LogicalUnit>(other, UnitSettings{})}});
  run({0x56}, second);
  std::optional<scsi::Managed> told;
  other.fail_with = engine::Errc::not_serving;
  device.manage(nexus, scsi::TaskManagement::target_warm_reset, 0, [&](scsi::Managed result) { told = result; });
  EXPECT_EQ(told, scsi::Managed::failed);
  EXPECT_FALSE(unit->state()->reserved_by);
  adopt({{0, unit}});
}

class ScsiRemovable : public ScsiReservation {
 protected:
  ScsiRemovable()
      : ScsiReservation([] {
          auto info = disk_info();
          info.removable = true;
          return info;
        }()) {}
  std::unique_ptr<FakeCommand> start_stop(std::uint8_t byte_4) { return in({0x1B, 0, 0, 0, byte_4}); }
};

TEST_F(ScsiRemovable, AnEjectedMediumIsNotThereUntilItIsLoaded) {
  EXPECT_EQ(in({0x12, 0, 0, 0, 96})->data_in[1], 0x80);
  expect_good(*start_stop(0x02));
  for (const Bytes& cdb : {Bytes{0x00}, cdb10(0x28, 0, 1), Bytes{0x25}}) {
    expect_sense(*in(cdb), scsi::SenseKey::not_ready, scsi::asc::kMediumNotPresentTrayOpen);
  }
  expect_good(*in({0x12, 0, 0, 0, 96}));
  expect_good(*start_stop(0x03));
  expect_good(*in({0x00}));
  expect_sense(*run({0x00}, second), scsi::SenseKey::unit_attention, scsi::asc::kNotReadyToReadyChange);
}

TEST_F(ScsiRemovable, AMediumThatSomeonePreventsStaysAndPowerConditionsMoveNothing) {
  expect_good(*run({0x1E, 0, 0, 0, 1}, second));
  expect_sense(*start_stop(0x02), scsi::SenseKey::illegal_request, scsi::asc::kMediumRemovalPrevented);
  expect_good(*start_stop(0x12));
  close(second);
  expect_good(*start_stop(0x32));
  expect_good(*in({0x00}));
  expect_good(*start_stop(0x02));
  expect_good(*start_stop(0x03));
}

TEST_F(ScsiReservation, OrWriteSetsBits) {
  const Bytes before = pattern(1024, 3), set = pattern(1024, 40);
  expect_good(*out(cdb10(0x2A, 4, 2), before));
  expect_good(*out(cdb16(0x8B, 4, 2), set));
  const Bytes after = in(cdb10(0x28, 4, 2), 1024)->data_in;
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], before[i] | set[i]);
}

TEST_F(ScsiReservation, ALongOrWriteGoesInPieces) {
  constexpr std::size_t kSize = std::size_t{768} << 10;
  expect_good(*out(cdb16(0x8B, 0, kSize / 512), Bytes(kSize, 0x55)));
  expect_good(*out(cdb16(0x8B, 1, 1), Bytes(512, 0xAA)));
  const Bytes after = in(cdb16(0x88, 0, kSize / 512), kSize)->data_in;
  ASSERT_EQ(after.size(), kSize);
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], i / 512 == 1 ? 0xFF : 0x55) << i;
}

TEST_F(ScsiReservation, AnAtomicWriteIsAPhysicalBlockAtMostAndOnOne) {
  Bytes cdb = cdb16(0x9C, 8, 0);
  cdb[13] = 8;
  expect_good(*out(cdb, pattern(4096)));
  cdb[13] = 9;
  expect_field(*out(cdb, pattern(9 * 512)), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 12, .bit = 7});
  cdb[13] = 7;
  expect_field(*out(cdb, pattern(7 * 512)), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 12, .bit = 7});
  cdb[13] = 8, cdb[9] = 9;
  expect_field(*out(cdb, pattern(4096)), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 7});
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
