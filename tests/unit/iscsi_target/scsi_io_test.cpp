// Commands that move or change blocks, and how a disk's failures look to initiators.
#include "iscsi_target/scsi/task.hpp"
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

using engine::DiskOpcode;

class ScsiIo : public ScsiTest {};

struct ReadWriteCase {
  const char* name;
  Bytes (*read)(std::uint32_t lba, std::uint16_t blocks, std::uint8_t flags);
  Bytes (*write)(std::uint32_t lba, std::uint16_t blocks, std::uint8_t flags);
};

Bytes six(std::uint8_t opcode, std::uint32_t lba, std::uint16_t blocks) {
  return {opcode,
          static_cast<std::uint8_t>(lba >> 16),
          static_cast<std::uint8_t>(lba >> 8),
          static_cast<std::uint8_t>(lba),
          static_cast<std::uint8_t>(blocks),
          0};
}

const ReadWriteCase kReadWrite[] = {
    {"6", [](std::uint32_t l, std::uint16_t n, std::uint8_t) { return six(0x08, l, n); },
     [](std::uint32_t l, std::uint16_t n, std::uint8_t) { return six(0x0A, l, n); }},
    {"10", [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb10(0x28, l, n, f); },
     [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb10(0x2A, l, n, f); }},
    {"12", [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb12(0xA8, l, n, f); },
     [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb12(0xAA, l, n, f); }},
    {"16", [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb16(0x88, l, n, f); },
     [](std::uint32_t l, std::uint16_t n, std::uint8_t f) { return cdb16(0x8A, l, n, f); }},
};

TEST_F(ScsiIo, WhatWasWrittenIsReadBackInEveryCdbSize) {
  unsigned seed = 1;
  for (const auto& c : kReadWrite) {
    SCOPED_TRACE(c.name);
    for (const auto& [lba, blocks] : {std::pair{0u, 1u}, {7u, 3u}, {1792u, 256u}, {2047u, 1u}}) {
      const Bytes data = pattern(blocks * 512, ++seed);
      const auto wrote = out(c.write(lba, static_cast<std::uint16_t>(blocks), 0), data);
      expect_good(*wrote);
      EXPECT_EQ(wrote->wanted_out, data.size());
      EXPECT_EQ(stored(lba, blocks), data);
      const auto back = in(c.read(lba, static_cast<std::uint16_t>(blocks), 0), static_cast<std::uint32_t>(data.size()));
      expect_good(*back);
      EXPECT_EQ(back->data_in, data);
      EXPECT_EQ(back->wanted_in, data.size());
    }
  }
}

TEST_F(ScsiIo, ZeroBlocksMeansNothingButTwoHundredAndFiftySixInSixByteCommands) {
  EXPECT_EQ(in(six(0x08, 0, 0), 1 << 20)->data_in.size(), 256u * 512);
  EXPECT_EQ(in(cdb10(0x28, 0, 0), 4096)->data_in.size(), 0u);
  expect_good(*out(cdb10(0x2A, 2047, 0), {}));
  EXPECT_EQ(disk.log.size(), 1u);
}

TEST_F(ScsiIo, ForceUnitAccessReachesTheDisk) {
  for (const auto& c : std::span(kReadWrite).subspan(1)) {
    expect_good(*in(c.read(0, 1, 0x18), 512));
    EXPECT_TRUE(disk.log.back().fua) << c.name;
    expect_good(*out(c.write(0, 1, 0x18), Bytes(512)));
    EXPECT_TRUE(disk.log.back().fua) << c.name;
    expect_good(*out(c.write(0, 1, 0x10), Bytes(512)));
    EXPECT_FALSE(disk.log.back().fua) << c.name;
    for (std::uint8_t protect = 1; protect < 8; ++protect) {
      expect_sense(*in(c.read(0, 1, static_cast<std::uint8_t>(protect << 5)), 512), scsi::SenseKey::illegal_request,
                   scsi::asc::kInvalidFieldInCdb);
    }
  }
}

TEST_F(ScsiIo, ReadsOfAnyExpectedLengthAreGoodWithTheExactResidual) {
  const Bytes data = pattern(1024);
  out(cdb10(0x2A, 0, 2), data);
  for (const std::uint32_t expected : {0u, 200u, 512u, 700u, 1024u, 10000u}) {
    const auto c = in(cdb10(0x28, 0, 2), expected);
    expect_good(*c);
    EXPECT_EQ(c->data_in, Bytes(data.begin(), data.begin() + std::min<std::uint32_t>(expected, 1024)));
    EXPECT_EQ(c->residual_in(), std::int64_t{expected} - 1024);
  }
}

TEST_F(ScsiIo, DataOutOfAnyOtherLengthIsRefusedWithTheResidualAndNothingIsWritten) {
  for (const std::size_t sent : {0u, 200u, 1024u, 10000u}) {
    const auto c = out(cdb10(0x2A, 4, 1), Bytes(sent, 0xBB));
    expect_sense(*c, scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCommandInformationUnit);
    EXPECT_EQ(c->wanted_out, 512u);
  }
  EXPECT_EQ(stored(4, 1), Bytes(512));
  EXPECT_TRUE(disk.log.empty());
}

TEST_F(ScsiIo, TransfersBeyondTheMaximumAreRefusedAtTheLengthField) {
  unit->set_capacity(std::uint64_t{1} << 40);
  in({0x00}), in({0x00});
  expect_field(*in(cdb16(0x88, 0, 65537), 0), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 10, .bit = 7});
  expect_field(*in(cdb12(0xAF, 0, 65537), 0), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 6, .bit = 7});
  expect_field(*out(cdb16(0x93, 0, (1 << 23) + 1), Bytes(512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 10, .bit = 7});
  expect_field(*out(cdb16(0x93, 0, 0), Bytes(512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 10, .bit = 7});
}

TEST_F(ScsiIo, WithoutBuffersACommandIsBusyAndOtherCommandsInFlightMakeItTaskSetFull) {
  std::vector<engine::Buffer> all;
  for (std::size_t size = engine::BufferPool::kMaxBuffer; size >= 4096;) {
    auto buffer = pool.allocate(size);
    if (!buffer) {
      size /= 2;
      continue;
    }
    all.push_back(std::move(buffer));
  }
  EXPECT_EQ(in(cdb10(0x28, 0, 1), 512)->status, scsi::Status::busy);
  EXPECT_EQ(out(cdb10(0x2A, 0, 1), Bytes(512))->status, scsi::Status::busy);

  disk.deferred = true;
  const auto flushing = in({0x35});
  EXPECT_EQ(flushing->completions, 0);
  EXPECT_EQ(in(cdb10(0x28, 0, 1), 512)->status, scsi::Status::task_set_full);
  disk.release_one();
  expect_good(*flushing);
  all.clear();
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ScsiIo, EveryBufferGoesBackWhateverBecomesOfTheCommand) {
  in(cdb10(0x28, 0, 8), 4096);
  out(cdb10(0x2A, 0, 8), Bytes(4096));
  out(cdb10(0x2A, 0, 8), Bytes(4095));
  disk.fail_with = engine::Errc::io_error;
  out(cdb10(0x2A, 0, 8), Bytes(4096));
  auto dead = make(cdb10(0x2A, 0, 8), 0, Bytes(4096));
  dead->pull_error = engine::Errc::aborted;
  dead = run(std::move(dead));
  EXPECT_EQ(dead->completions, 1);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ScsiIo, ACommandAbortedBeforeItsDataCameWritesNothing) {
  auto c = make(cdb10(0x2A, 0, 1), 0, Bytes(512, 1));
  c->is_aborted = true;
  c = run(std::move(c));
  EXPECT_EQ(c->completions, 1);
  EXPECT_TRUE(disk.log.empty());
}

struct Failure {
  engine::Errc error;
  Expect on_read, on_write;
};

TEST_F(ScsiIo, EachFailureOfTheDiskHasItsSense) {
  using enum scsi::SenseKey;
  namespace a = scsi::asc;
  const Failure failures[] = {
      {engine::Errc::io_error, {medium_error, a::kUnrecoveredReadError}, {medium_error, a::kWriteError}},
      {engine::Errc::corrupt, {medium_error, a::kUnrecoveredReadError}, {medium_error, a::kWriteError}},
      {engine::Errc::no_space,
       {data_protect, a::kSpaceAllocationFailedWriteProtect},
       {data_protect, a::kSpaceAllocationFailedWriteProtect}},
      {engine::Errc::not_serving,
       {not_ready, a::kLogicalUnitNotAccessibleTargetPortInUnavailableState},
       {not_ready, a::kLogicalUnitNotAccessibleTargetPortInUnavailableState}},
      {engine::Errc::out_of_range,
       {illegal_request, a::kLogicalBlockAddressOutOfRange},
       {illegal_request, a::kLogicalBlockAddressOutOfRange}},
      {engine::Errc::timed_out,
       {aborted_command, a::kCommandTimeoutDuringProcessing},
       {aborted_command, a::kCommandTimeoutDuringProcessing}},
  };
  for (const Failure& f : failures) {
    SCOPED_TRACE(static_cast<int>(f.error));
    disk.fail_with = f.error;
    const auto read = in(cdb10(0x28, 0, 1), 512);
    expect_sense(*read, f.on_read.key, f.on_read.additional);
    EXPECT_TRUE(read->data_in.empty());
    EXPECT_EQ(read->wanted_in, 0u);
    disk.fail_with = f.error;
    expect_sense(*out(cdb10(0x2A, 0, 1), Bytes(512)), f.on_write.key, f.on_write.additional);
  }
  disk.fail_with = engine::Errc::resource_exhausted;
  EXPECT_EQ(in(cdb10(0x28, 0, 1), 512)->status, scsi::Status::busy);
}

/// QEMU's initiator gives its guest an I/O error for an aborted command, and repeats what found the unit busy.
TEST_F(ScsiIo, WhatMayBeSentOnceMoreFindsTheUnitBusyWhereTheDiskDroppedItOrCannotTell) {
  for (const engine::Errc error : {engine::Errc::aborted, engine::Errc::stale, engine::Errc::unknown_outcome}) {
    SCOPED_TRACE(static_cast<int>(error));
    disk.fail_with = error;
    EXPECT_EQ(in(cdb10(0x28, 0, 1), 512)->status, scsi::Status::busy);
    disk.fail_with = error;
    EXPECT_EQ(out(cdb10(0x2A, 0, 1), Bytes(512))->status, scsi::Status::busy);
    disk.fail_with = error;
    EXPECT_EQ(in({0x35})->status, scsi::Status::busy);
  }
}

TEST_F(ScsiIo, WhatIsNotTheSameWhenItIsSentTwiceIsAborted) {
  disk.fail_with = engine::Errc::unknown_outcome;
  const Bytes both(1024);
  const auto c = out({0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, both);
  expect_sense(*c, scsi::SenseKey::aborted_command, scsi::asc::kInternalTargetFailure);
}

TEST_F(ScsiIo, AUnitThatStoppedServingWhileTransitioningSaysSo) {
  disk.deferred = true;
  const auto c = in(cdb10(0x28, 0, 1), 512);
  disk.access = engine::AccessState::transitioning;
  disk.fail_with = engine::Errc::not_serving;
  disk.release_one();
  expect_sense(*c, scsi::SenseKey::not_ready, scsi::asc::kLogicalUnitNotAccessibleAsymmetricAccessStateTransition);
}

/// An initiator without a second path and without patience goes on as if nothing had been.
TEST_F(ScsiIo, WhatTheDiskOrdersWaitsThereForTheEndOfATransition) {
  disk.access = engine::AccessState::transitioning;
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
  disk.deferred = true;
  const auto read = in(cdb10(0x28, 0, 1), 512);
  const auto write = out(cdb10(0x2A, 0, 1), pattern(512));
  disk.access = engine::AccessState::active_optimized;
  disk.release_one();
  disk.release_one();
  expect_good(*read);
  expect_good(*write);
}

/// A path checker that is told "transitioning" may take the path for one that is down, and it may be the last one.
TEST_F(ScsiIo, TestUnitReadyWaitsWhereReadsAndWritesDo) {
  disk.access = engine::AccessState::transitioning;
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
  disk.deferred = true;
  const auto checked = in({0x00}), given_up = in({0x00});
  EXPECT_EQ(checked->completions + given_up->completions, 0);
  device.abort(*given_up);
  EXPECT_EQ(given_up->status, scsi::Status::task_aborted);
  ASSERT_EQ(disk.held(), 1u);
  disk.access = engine::AccessState::active_optimized;
  disk.release_one();
  expect_good(*checked);
  disk.log.clear();
  (void)in({0x00});  // the change
  expect_good(*in({0x00}));
  EXPECT_TRUE(disk.log.empty()) << "who serves is not asked";
}

/// A fence agent preempts a host that died together with a node, while the nodes decide who goes on.
TEST_F(ScsiIo, ReservationsWaitWhereReadsAndWritesDo) {
  disk.access = engine::AccessState::transitioning;
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
  disk.deferred = true;
  const auto keys = in({0x5E, 0, 0, 0, 0, 0, 0, 0, 8, 0}, 8);
  const auto preempts = out({0x5F, 5, 5, 0, 0, 0, 0, 0, 24, 0}, Bytes(24));
  const auto reserves = in({0x16});
  EXPECT_EQ(keys->completions + preempts->completions + reserves->completions, 0);
  EXPECT_EQ(disk.held(), 3u);
  for (FakeCommand* c : {keys.get(), preempts.get(), reserves.get()}) device.abort(*c);
}

TEST_F(ScsiIo, TestUnitReadyTellsWhatItsDiskLetsNobodyWaitFor) {
  using engine::AccessState;
  disk.access = AccessState::transitioning;
  (void)in({0x00});  // the change
  disk.fail_with = engine::Errc::not_serving;
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready,
               scsi::asc::kLogicalUnitNotAccessibleAsymmetricAccessStateTransition);
  disk.deferred = true;
  const auto checked = in({0x00});
  disk.access = AccessState::unavailable;
  disk.fail_with = engine::Errc::not_serving;
  disk.release_one();
  expect_sense(*checked, scsi::SenseKey::not_ready, scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState);
}

TEST_F(ScsiIo, VerifyComparesAsByteCheckSays) {
  const Bytes data = pattern(4 * 512);
  out(cdb10(0x2A, 8, 4), data);
  for (const auto verify :
       {+[](std::uint8_t f) { return cdb10(0x2F, 8, 4, f); }, +[](std::uint8_t f) { return cdb12(0xAF, 8, 4, f); },
        +[](std::uint8_t f) { return cdb16(0x8F, 8, 4, f); }}) {
    expect_good(*in(verify(0x00), 0));
    expect_good(*out(verify(0x02), data));
    Bytes wrong = data;
    wrong[700] ^= 1;
    const auto miscompare = out(verify(0x02), wrong);
    expect_sense(*miscompare, scsi::SenseKey::miscompare, scsi::asc::kMiscompareDuringVerifyOperation);
    EXPECT_EQ(miscompare->sense_data().information, 700u);
    expect_field(*out(verify(0x04), data), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 1, .bit = 2});
    expect_sense(*out(verify(0x02), Bytes(512)), scsi::SenseKey::illegal_request,
                 scsi::asc::kInvalidFieldInCommandInformationUnit);
  }
}

TEST_F(ScsiIo, VerifyWithOneBlockForAllComparesEachBlockWithIt) {
  const Bytes block = pattern(512);
  out(cdb10(0x41, 16, 5), block);
  expect_good(*out(cdb10(0x2F, 16, 5, 0x06), block));
  disk.bytes()[16 * 512 + 3 * 512 + 9] ^= std::byte{1};
  expect_sense(*out(cdb10(0x2F, 16, 5, 0x06), block), scsi::SenseKey::miscompare,
               scsi::asc::kMiscompareDuringVerifyOperation);
}

engine::DiskInfo large_disk() {
  engine::DiskInfo info = disk_info();
  info.size = std::uint64_t{8} << 20;
  return info;
}

class ScsiLargeIo : public ScsiTest {
 protected:
  ScsiLargeIo() : ScsiTest(large_disk()) {}
};

TEST_F(ScsiLargeIo, VerifyOfManyBlocksTakesTheMemoryOfAPiece) {
  constexpr std::uint16_t kBlocks = (std::size_t{8} << 20) / 512;
  disk.deferred = true;
  const auto readable = in(cdb10(0x2F, 0, kBlocks, 0x00), 0);
  EXPECT_EQ(pool.in_use(), kPiece);
  std::uint64_t read = 0;
  for (; disk.held() != 0; disk.release_one()) read += disk.log.back().extent.length;
  expect_good(*readable);
  EXPECT_EQ(read, capacity() * 512);
  EXPECT_LE(device.data_bytes(*readable), kPiece) << "what is asked for beforehand";
}

TEST_F(ScsiIo, WhatIsAskedForBeforehandIsNeverMoreThanABuffer) {
  constexpr std::uint32_t kAll = 0xFFFFFFFF;
  for (const std::uint8_t opcode : Bytes{0x28, 0x88, 0x2A, 0x8A, 0x2F, 0x8B, 0x5E, 0x12}) {
    const auto c = make({opcode});
    c->expected_in = c->expected_out = kAll;
    EXPECT_LE(device.data_bytes(*c), LogicalUnit::kMaxTransfer) << int{opcode};
    EXPECT_GT(device.data_bytes(*c), 0u) << int{opcode};
  }
}

TEST_F(ScsiLargeIo, VerifyWithOneBlockForAllSaysWhereInTheWholeItDiffers) {
  constexpr std::uint16_t kBlocks = (std::size_t{8} << 20) / 512;
  expect_good(*out(cdb10(0x2F, 0, kBlocks, 0x06), Bytes(512)));
  disk.bytes()[5'000'000] = std::byte{1};
  const auto miscompare = out(cdb10(0x2F, 0, kBlocks, 0x06), Bytes(512));
  expect_sense(*miscompare, scsi::SenseKey::miscompare, scsi::asc::kMiscompareDuringVerifyOperation);
  EXPECT_EQ(miscompare->sense_data().information, 5'000'000u);
}

TEST_F(ScsiIo, AnInitiatorsUnitsAreThoseThatItMayAccess) {
  RamDisk other(disk_info(2));
  adopt({{0, unit}, {300, std::make_shared<LogicalUnit>(other, UnitSettings{})}},
        std::make_shared<HideFrom>(uuid(1), nexus.initiator_name));
  EXPECT_EQ(device.units(nexus), std::vector<std::uint64_t>{encode_lun(300)});
  EXPECT_EQ(device.unit_at(nexus, encode_lun(0)), std::nullopt);
  EXPECT_EQ(device.unit_at(nexus, encode_lun(300)), encode_lun(300));
  EXPECT_EQ(device.unit_at(nexus, kReportLunsWellKnownLun), std::nullopt);
  adopt({{0, unit}});
  constexpr std::uint64_t kFlatZero = std::uint64_t{0x4000} << 48;
  EXPECT_EQ(device.unit_at(nexus, kFlatZero), encode_lun(0)) << "the same unit, written in another way";
}

TEST_F(ScsiIo, VerifyWithoutComparingIgnoresDataThatIsSentAnyway) {
  const auto c = out(cdb10(0x2F, 0, 1, 0x00), Bytes(512, 0xEE));
  expect_good(*c);
  EXPECT_EQ(c->wanted_out, 0u);
}

TEST_F(ScsiIo, WriteAndVerifyWritesThroughThenCompares) {
  for (const auto& cdb : {cdb10(0x2E, 3, 2, 0x02), cdb12(0xAE, 3, 2), cdb16(0x8E, 3, 2, 0x12)}) {
    disk.log.clear();
    const Bytes data = pattern(1024, cdb[0]);
    expect_good(*out(cdb, data));
    EXPECT_EQ(stored(3, 2), data);
    ASSERT_EQ(disk.log.size(), 2u);
    EXPECT_TRUE(disk.log[0].opcode == DiskOpcode::write && disk.log[0].fua);
    EXPECT_TRUE(disk.log[1].opcode == DiskOpcode::verify);
  }
}

TEST_F(ScsiIo, SynchronizeCacheAndStopFlushAndPrefetchDoesNothing) {
  expect_good(*in(cdb10(0x35, 0, 0, 0x06)));
  expect_good(*in(cdb16(0x91, 100, 10)));
  expect_good(*in({0x1B, 0, 0, 0, 0x00}));
  ASSERT_EQ(disk.log.size(), 3u);
  for (const auto& seen : disk.log) EXPECT_EQ(seen.opcode, DiskOpcode::flush);
  expect_good(*in({0x1B, 0, 0, 0, 0x01}));
  expect_good(*in(cdb10(0x34, 0, 0, 0x02)));
  expect_good(*in(cdb16(0x90, 0, 2048)));
  expect_good(*in({0x1E, 0, 0, 0, 0x01}));
  expect_good(*in({0x00}));  // still ready
  EXPECT_EQ(disk.log.size(), 3u);
}

TEST_F(ScsiIo, CompareAndWriteWritesOnlyWhatMatches) {
  const Bytes before = pattern(1024, 1), after = pattern(1024, 2);
  out(cdb10(0x2A, 0, 2), before);
  Bytes both = before;
  both.insert(both.end(), after.begin(), after.end());
  Bytes cdb = cdb16(0x89, 0, 2, 0x08);
  const auto good = out(cdb, both);
  expect_good(*good);
  EXPECT_EQ(good->wanted_out, 2048u);
  EXPECT_EQ(stored(0, 2), after);
  EXPECT_TRUE(disk.log.back().fua);

  const auto again = out(cdb, both);
  expect_sense(*again, scsi::SenseKey::miscompare, scsi::asc::kMiscompareDuringVerifyOperation);
  EXPECT_EQ(again->sense_data().information, 0u);
  EXPECT_EQ(stored(0, 2), after);

  Bytes nearly = after;
  nearly[513] ^= 1;
  nearly.insert(nearly.end(), before.begin(), before.end());
  EXPECT_EQ(out(cdb, nearly)->sense_data().information, 513u);
  expect_sense(*out(cdb, Bytes(1024)), scsi::SenseKey::illegal_request,
               scsi::asc::kInvalidFieldInCommandInformationUnit);
  expect_good(*out(cdb16(0x89, 0, 0), {}));
  expect_field(*out(cdb16(0x89, 0, 0), Bytes(512 * 512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 13, .bit = 7});
}

TEST_F(ScsiIo, WriteSameIsOneRequestOfTheKindThatItsDataAsksFor) {
  const auto one = [&](Bytes cdb, Bytes data, DiskOpcode opcode, engine::Extent extent) {
    disk.log.clear();
    expect_good(*out(std::move(cdb), std::move(data)));
    ASSERT_EQ(disk.log.size(), 1u);
    EXPECT_EQ(disk.log[0].opcode, opcode);
    EXPECT_EQ(disk.log[0].extent, extent);
  };
  const Bytes data = pattern(512), zeros(512);
  one(cdb10(0x41, 8, 100), data, DiskOpcode::write_same, {4096, 51200});
  EXPECT_EQ(stored(107, 1), data);
  one(cdb10(0x41, 8, 100, 0x08), data, DiskOpcode::unmap, {4096, 51200});
  one(cdb16(0x93, 8, 100), zeros, DiskOpcode::write_zeroes, {4096, 51200});
  one(cdb16(0x93, 8, 100, 0x08), zeros, DiskOpcode::unmap, {4096, 51200});
  one(cdb16(0x93, 8, 100, 0x01), {}, DiskOpcode::write_zeroes, {4096, 51200});
  one(cdb16(0x93, 8, 100, 0x09), {}, DiskOpcode::unmap, {4096, 51200});
  one(cdb16(0x93, 2000, 0), zeros, DiskOpcode::write_zeroes, {2000 * 512, 48 * 512});
}

TEST_F(ScsiIo, WriteSameRefusesAnchorAndDataOfAnotherLength) {
  expect_field(*out(cdb16(0x93, 0, 1, 0x10), Bytes(512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 4});
  expect_field(*out(cdb10(0x41, 0, 1, 0x18), Bytes(512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 4});
  for (const std::size_t sent : {0u, 256u, 1024u}) {
    expect_sense(*out(cdb16(0x93, 0, 1), Bytes(sent)), scsi::SenseKey::illegal_request,
                 scsi::asc::kInvalidFieldInCommandInformationUnit);
  }
}

class ScsiReadOnly : public ScsiTest {
 protected:
  ScsiReadOnly()
      : ScsiTest([] {
          auto info = disk_info();
          info.read_only = true;
          return info;
        }()) {}
};

TEST_F(ScsiReadOnly, AReadOnlyVolumeSaysSoAndRefusesWrites) {
  EXPECT_EQ(in({0x1A, 0x08, 0x3F, 0, 0xFF})->data_in[2] & 0x80, 0x80);
  expect_sense(*out(cdb10(0x2A, 0, 1), Bytes(512)), scsi::SenseKey::data_protect, scsi::asc::kWriteProtected);
  expect_good(*in(cdb10(0x28, 0, 1), 512));
}

class ScsiFourK : public ScsiTest {
 protected:
  ScsiFourK()
      : ScsiTest([] {
          auto info = disk_info();
          info.block_size = 4096;
          return info;
        }()) {}
};

TEST_F(ScsiFourK, AVolumeOfFourKBlocksCountsInThem) {
  EXPECT_EQ(in({0x25})->be32(0), 255u);
  EXPECT_EQ(in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32})->data_in[13], 0);
  const Bytes data = pattern(8192);
  expect_good(*out(cdb10(0x2A, 254, 2), data));
  EXPECT_EQ(in(cdb10(0x28, 254, 2), 8192)->data_in, data);
  EXPECT_EQ(disk.log.back().extent, (engine::Extent{254 * 4096, 8192}));
  EXPECT_EQ(in({0x12, 1, 0xB0, 0, 0xFF})->be16(6), 1u);
}

TEST_F(ScsiFourK, CompareAndWriteTakesNoMoreThanTheMirrorDoesInOneStep) {
  EXPECT_EQ(in({0x12, 1, 0xB0, 0, 0xFF})->data_in[5], 128);
  expect_good(*out(cdb16(0x89, 0, 128), Bytes(2 * 128 * 4096)));
  expect_field(*out(cdb16(0x89, 0, 129), Bytes(2 * 129 * 4096)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 13, .bit = 7});
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
