// Reservations, medium removal and sanitizing as initiators do them: CDBs in, statuses and data out.
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
  /// The first thing that is asked of the disk, once the unit is being sanitized, fails.
  void sanitize_and_fail(std::uint8_t options_and_action) {
    disk.deferred = true;
    auto c = make({0x48, options_and_action});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    disk.fail_with = engine::Errc::io_error;
    disk.deferred = false;
    while (disk.held()) disk.release_one();
    expect_sense(*c, scsi::SenseKey::medium_error, scsi::asc::kSanitizeCommandFailed);
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

using ScsiSanitize = ScsiReservation;

TEST_F(ScsiSanitize, EraseLeavesZerosAndTheMediumIsShutMeanwhile) {
  out(cdb10(0x2A, 0, 8), pattern(4096));
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  const auto sense = scsi::parse_sense(in({0x03, 0, 0, 0, 0xFF})->data_in);
  EXPECT_EQ(sense->additional, scsi::asc::kSanitizeInProgress);
  EXPECT_TRUE(sense->progress);
  expect_good(*in({0x25}, 8));  // SBC-4 4.11.2: the capacity is told meanwhile
  expect_good(*in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}, 32));
  EXPECT_EQ(c->completions, 0);
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  EXPECT_EQ(in(cdb10(0x28, 0, 8), 4096)->data_in, Bytes(4096));
}

/// The unit's state is seen on all reactors before the command's own is told that it is in force.
TEST_F(ScsiSanitize, IsAnsweredWhenItIsOverWhoeverHearsFirstThatItRuns) {
  TargetDevice elsewhere(pool);
  elsewhere.adopt(*LunMap::make({{0, unit}}, {}), {});
  scsi::Nexus third;
  third.id = 3;
  third.initiator_name = "iqn.1994-05.com.example:three";
  elsewhere.on_nexus_opened(third);
  const auto ask_elsewhere = [&] {
    auto c = make({0x00});
    c->nexus = &third;
    elsewhere.execute(*c);
    return c;
  };
  ask_elsewhere();  // takes its power-on attention
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.before_answer = [&] {
    expect_sense(*ask_elsewhere(), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  };
  disk.release_one();  // the state
  EXPECT_EQ(c->completions, 0);
  EXPECT_EQ(disk.held(), 1u) << "one of them erases";
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  expect_good(*ask_elsewhere());
  elsewhere.on_nexus_closed(third);
}

TEST_F(ScsiSanitize, IsNotBegunAgainWhileTheStateIsToldOfItsEnd) {
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  disk.release_one();  // the look
  disk.release_one();  // the unit is a single piece
  ASSERT_EQ(disk.log.back().opcode, engine::DiskOpcode::change_state);
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  disk.release_one();
  expect_good(*c);
  EXPECT_EQ(disk.held(), 0u) << "what erased now would take what is written from now on";
  while (disk.held()) disk.release_one();
  disk.deferred = false;
}

TEST_F(ScsiSanitize, IsAnsweredThoughItsVolumeGoesWhileTheStateIsToldOfItsEnd) {
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  disk.release_one();  // the look
  disk.release_one();  // the unit is a single piece
  bool drained = false;
  device.adopt(*LunMap::make({}, {}), [&] { drained = true; });
  EXPECT_FALSE(drained);
  disk.release_one();
  expect_good(*c);
  EXPECT_TRUE(drained);
}

/// By a reset, a transition, or a stall of this node.
TEST_F(ScsiSanitize, ThatIsInterruptedIsTakenUpAgainAndHasNotFailed) {
  for (const auto how : {engine::Errc::aborted, engine::Errc::not_serving, engine::Errc::unknown_outcome,
                         engine::Errc::stale, engine::Errc::resource_exhausted}) {
    SCOPED_TRACE(make_error_code(how).message());
    disk.deferred = true;
    auto c = make({0x48, 0x02});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    disk.fail_with = how;
    disk.release_one();
    expect_sense(*c, scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
    EXPECT_EQ(disk.held(), 0u);
    disk.deferred = false;
    expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
    expect_good(*in({0x00}));
  }
}

/// A node that was away takes part again, and a command comes before it has heard of it.
TEST_F(ScsiSanitize, ThatTheOtherNodeHasFinishedIsNotTakenUpAgain) {
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  disk.fail_with = engine::Errc::not_serving;
  disk.release_one();  // the look
  ASSERT_TRUE(c->completions == 1 && disk.held() == 0u);
  auto command = make({0x12, 0, 0, 0, 96}, 96);
  device.execute(*command);
  ASSERT_EQ(disk.held(), 1u) << "it asks whether its state is the one in force";
  auto bytes = unit->request(scsi::LuRequestKind::sanitize_finished, {}).encode();
  bytes.resize(std::max(bytes.size(), scsi::kLuAnswerSize));
  engine::DiskRequest told;
  told.opcode = engine::DiskOpcode::change_state;
  told.data = bytes;
  told.done = [](engine::DiskRequest& over) { EXPECT_FALSE(over.status); };
  disk.deferred = false;
  disk.submit(told);
  const std::size_t before = disk.log.size();
  disk.release_one();
  EXPECT_EQ(disk.log.size(), before) << "what hosts have written since is theirs";
  EXPECT_EQ(disk.held(), 0u);
  expect_good(*in({0x00}));
}

TEST_F(ScsiSanitize, ThatIsRefusedLeavesTheUnitToTheNext) {
  disk.fail_with = engine::Errc::io_error;
  EXPECT_EQ(in({0x48, 0x02})->status, scsi::Status::check_condition);
  expect_good(*in({0x48, 0x02}));
  expect_good(*in({0x00}));
}

struct EncryptedUnit : ScsiReservation {
  EncryptedUnit() : ScsiReservation(encrypted_disk_info()) {}
};

/// SBC-4 5.30.3: only where there is a key to be lost.
TEST_F(ScsiSanitize, CryptographicEraseIsKnownToEncryptedUnitsOnly) {
  const std::initializer_list<std::uint8_t> is_it_there = {0xA3, 0x0C, 0x03, 0x48, 0, 0x03, 0, 0, 0, 64};
  EXPECT_EQ(in(is_it_there, 64)->data_in[1] & 7, 1);
  expect_sense(*in({0x48, 0x03}), scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCdb);
  EXPECT_TRUE(disk.log.empty());
}

TEST_F(EncryptedUnit, CryptographicEraseTakesTheKeyFirstAndLeavesZeros) {
  const std::initializer_list<std::uint8_t> is_it_there = {0xA3, 0x0C, 0x03, 0x48, 0, 0x03, 0, 0, 0, 64};
  EXPECT_EQ(in(is_it_there, 64)->data_in[1] & 7, 3);
  out(cdb10(0x2A, 0, 8), pattern(4096));
  disk.log.clear();
  disk.deferred = true;
  auto c = make({0x48, 0x03});
  device.execute(*c);
  disk.release_one();  // the state
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  disk.release_one();  // the look
  disk.release_one();
  EXPECT_EQ(disk.bytes()[0], std::byte{0xEE});
  EXPECT_EQ(c->completions, 0);
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  EXPECT_EQ(in(cdb10(0x28, 0, 8), 4096)->data_in, Bytes(4096));
}

TEST_F(EncryptedUnit, AKeyThatCouldNotBeReplacedIsAFailedSanitize) {
  sanitize_and_fail(0x23);
  expect_good(*in({0x48, 0x1F}));
}

TEST_F(ScsiSanitize, OverwriteRepeatsThePatternInEveryBlock) {
  const Bytes list{0x01, 0, 0, 2, 0x5A, 0xA5};
  expect_good(*out({0x48, 0x81, 0, 0, 0, 0, 0, 0, 6}, list));
  const Bytes data = in(cdb10(0x28, 77, 1), 512)->data_in;
  EXPECT_EQ(data[0], 0x5A);
  EXPECT_EQ(data[1], 0xA5);
  EXPECT_EQ(data[510], 0x5A);
}

/// SBC-4 5.30.2.2: with INVERT the first of an even number of passes writes the inversion.
TEST_F(ScsiSanitize, TheLastOfInvertedPassesWritesThePatternItself) {
  for (const std::uint8_t passes : {1, 2, 3}) {
    disk.deferred = true;
    auto c =
        make({0x48, 0x01, 0, 0, 0, 0, 0, 0, 6}, 0, {static_cast<std::uint8_t>(0x80 | passes), 0, 0, 2, 0x5A, 0xA5});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    for (int pass = 1; pass <= passes; ++pass) {
      SCOPED_TRACE(std::to_string(pass) + " of " + std::to_string(passes));
      disk.release_one();  // the unit is a single piece
      const bool inverted = (passes - pass) % 2 != 0;
      EXPECT_EQ(disk.bytes()[0], std::byte(inverted ? 0xA5 : 0x5A));
      EXPECT_EQ(disk.bytes()[1], std::byte(inverted ? 0x5A : 0xA5));
    }
    while (disk.held()) disk.release_one();
    expect_good(*c);
    disk.deferred = false;
  }
}

TEST_F(ScsiSanitize, BadListsAndAFailureAreReportedAndTheFailureMayBeLeft) {
  for (const Bytes& list : {Bytes{0, 0, 0, 1, 1}, Bytes{1, 0, 0, 0, 1}, Bytes{1, 0, 0, 2, 1}}) {
    expect_sense(*out({0x48, 0x01, 0, 0, 0, 0, 0, 0, 5}, list), scsi::SenseKey::illegal_request,
                 scsi::asc::kInvalidFieldInCdb);
  }
  sanitize_and_fail(0x22);
  expect_sense(*in({0x00}), scsi::SenseKey::medium_error, scsi::asc::kSanitizeCommandFailed);
  expect_good(*in({0x48, 0x1F}));
  expect_good(*in({0x00}));
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
