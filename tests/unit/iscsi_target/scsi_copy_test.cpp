// Copies as initiators do them: EXTENDED COPY and what is received of it.
#include "scsi_harness.hpp"

#include "iscsi_target/scsi/unit_name.hpp"

namespace lockstep::iscsi_target::test {
namespace {

class ScsiCopy : public ScsiTest {
 protected:
  explicit ScsiCopy(engine::DiskInfo info = disk_info()) : ScsiTest(std::move(info)) {}
  struct Segment {
    std::uint16_t from = 0, to = 0, blocks = 0;
    std::uint64_t from_lba = 0, to_lba = 0;
  };
  static Bytes list(std::vector<engine::Uuid> targets, std::vector<Segment> segments, std::uint8_t id = 7) {
    Bytes b(16);
    b[0] = id;
    engine::store_be<std::uint16_t>(&b[2], static_cast<std::uint16_t>(targets.size() * 32));
    engine::store_be<std::uint32_t>(&b[8], static_cast<std::uint32_t>(segments.size() * 28));
    for (const auto& target : targets) {
      Bytes t{0xE4, 0, 0, 0, 1, 3, 0, 16};
      for (const std::byte each : naa_of(target)) t.push_back(std::to_integer<std::uint8_t>(each));
      t.resize(32);
      b.insert(b.end(), t.begin(), t.end());
    }
    for (const auto& s : segments) {
      Bytes t(28);
      t[0] = 0x02, t[3] = 24;
      engine::store_be<std::uint16_t>(&t[4], s.from);
      engine::store_be<std::uint16_t>(&t[6], s.to);
      engine::store_be<std::uint16_t>(&t[10], s.blocks);
      engine::store_be<std::uint64_t>(&t[12], s.from_lba);
      engine::store_be<std::uint64_t>(&t[20], s.to_lba);
      b.insert(b.end(), t.begin(), t.end());
    }
    return b;
  }
  std::unique_ptr<FakeCommand> copy(Bytes parameters) {
    Bytes cdb(16);
    cdb[0] = 0x83;
    engine::store_be<std::uint32_t>(&cdb[10], static_cast<std::uint32_t>(parameters.size()));
    return out(cdb, std::move(parameters));
  }
  std::unique_ptr<FakeCommand> status(std::uint8_t id) {
    Bytes cdb(16);
    cdb[0] = 0x84, cdb[2] = id, cdb[13] = 255;
    return in(cdb);
  }
};

TEST_F(ScsiCopy, BlocksAreCopiedFromOneVolumeToAnotherAndTheResultIsKept) {
  RamDisk other(disk_info(2));
  auto there = std::make_shared<LogicalUnit>(other, unit->settings());
  adopt({{0, unit}, {1, there}});
  in({0x00});
  const Bytes data = pattern(64 * 512);
  out(cdb10(0x2A, 8, 64), data);
  expect_good(*copy(list({uuid(1), uuid(2)}, {{0, 1, 64, 8, 100}})));
  EXPECT_EQ(std::memcmp(other.bytes().data() + 100 * 512, data.data(), data.size()), 0);
  const auto result = status(7);
  expect_good(*result);
  EXPECT_EQ(result->data_in[4], 1);
  EXPECT_EQ(result->be16(5), 1);
  EXPECT_EQ(result->be32(8), 32u);
  expect_sense(*status(7), scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCdb);
  adopt({{0, unit}});
}

/// Its initiator may have gone on through the other node: what was read before could land on what it has written since.
TEST_F(ScsiCopy, OfACopyThatWasAbortedNothingMoreIsReadOrWritten) {
  constexpr std::uint16_t kBlocks = 1024;  // each segment is a piece, read and written
  disk.deferred = true;
  for (std::size_t begun = 1; begun < 4; ++begun) {
    SCOPED_TRACE(begun);
    disk.log.clear();
    const auto c = copy(list({uuid(1)}, {{0, 0, kBlocks, 0, kBlocks}, {0, 0, kBlocks, kBlocks, 0}}));
    for (std::size_t i = 1; i < begun; ++i) disk.release_one();
    ASSERT_EQ(disk.log.size(), begun);
    c->is_aborted = true;
    disk.release_one();
    EXPECT_EQ(disk.log.size(), begun);
    EXPECT_EQ(c->completions, 1);
    while (disk.held()) disk.release_one();
  }
}

TEST_F(ScsiCopy, ACopyWhoseHostIsSilentGoesOnWhenThatIsHeard) {
  disk.deferred = true;
  for (const bool is_heard : {true, false}) {
    disk.log.clear();
    const auto c = copy(list({uuid(1)}, {{0, 0, 64, 0, 100}}));
    c->is_host_silent = true;
    disk.release_one();
    ASSERT_TRUE(c->awaits_host());
    c->host_heard(is_heard ? std::error_code() : make_error_code(engine::Errc::aborted));
    EXPECT_EQ(disk.log.size(), is_heard ? 2u : 1u);
    while (disk.held()) disk.release_one();
    EXPECT_EQ(c->completions, 1);
    EXPECT_EQ(c->status, is_heard ? scsi::Status::good : scsi::Status::check_condition);
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ScsiCopy, ACopyThatIsGivenUpHasItsDiskCancelWhatItReadsOrWrites) {
  RamDisk other(disk_info(2));
  auto there = std::make_shared<LogicalUnit>(other, unit->settings());
  adopt({{0, unit}, {1, there}});
  in({0x00});
  disk.deferred = other.deferred = true;
  for (RamDisk* at_work : {&disk, &other}) {
    const auto c = copy(list({uuid(1), uuid(2)}, {{0, 1, 64, 8, 100}}));
    if (at_work == &other) disk.release_one();
    ASSERT_EQ(at_work->held(), 1u);
    device.abort(*c);
    EXPECT_EQ(at_work->cancelled.size(), 1u);
    EXPECT_EQ(c->completions, 1);
    EXPECT_EQ(c->status, scsi::Status::task_aborted);
  }
  EXPECT_EQ(pool.in_use(), 0u);
  adopt({{0, unit}});
}

class ScsiCopy4Kn : public ScsiCopy {
 protected:
  ScsiCopy4Kn()
      : ScsiCopy([] {
          auto info = disk_info();
          info.block_size = 4096;
          info.size = std::uint64_t{80} << 20;
          return info;
        }()) {}
  /// A segment of type 0Ah: so many bytes.
  static Bytes list_of_bytes(std::uint32_t bytes, std::uint64_t from_lba, std::uint64_t to_lba) {
    Bytes b = list({uuid(1)}, {});
    Bytes t(32);
    t[0] = 0x0A, t[3] = 28;
    engine::store_be<std::uint32_t>(&t[8], bytes);
    engine::store_be<std::uint64_t>(&t[12], from_lba);
    engine::store_be<std::uint64_t>(&t[20], to_lba);
    engine::store_be<std::uint32_t>(&b[8], 32);
    b.insert(b.end(), t.begin(), t.end());
    return b;
  }
};

TEST_F(ScsiCopy4Kn, ASegmentAsLongAsIsSaidToBePossibleIsCopied) {
  const auto told = in({0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0});
  const std::uint32_t longest = told->be32(16);
  EXPECT_EQ(longest % 4096, 0u);
  EXPECT_EQ(told->data_in.at(39), 12) << "granularity, a power of two";
  const Bytes data = pattern(4096);
  const std::uint64_t last = longest / 4096 - 1, to = 10000;
  out(cdb10(0x2A, static_cast<std::uint32_t>(last), 1), data);
  expect_good(*copy(list_of_bytes(longest, 0, to)));
  EXPECT_EQ(std::memcmp(disk.bytes().data() + (to + last) * 4096, data.data(), data.size()), 0);
}

/// Multipathing turns to the addressed volume's other path for 04h/0Ch: that must be right for that volume.
TEST_F(ScsiCopy, OnlyTheAddressedVolumeIsSaidNotToServeHereOthersAreNotReachable) {
  RamDisk other(disk_info(2));
  auto there = std::make_shared<LogicalUnit>(other, unit->settings());
  adopt({{0, unit}, {1, there}});
  in({0x00});
  for (const Segment& segment : {Segment{0, 1, 8}, Segment{1, 0, 8}}) {
    SCOPED_TRACE(segment.from == 0 ? "from the addressed volume" : "to the addressed volume");
    other.fail_with = engine::Errc::not_serving;
    expect_sense(*copy(list({uuid(1), uuid(2)}, {segment})), scsi::SenseKey::copy_aborted,
                 scsi::asc::kCopyTargetDeviceNotReachable);
    disk.fail_with = engine::Errc::not_serving;
    expect_sense(*copy(list({uuid(1), uuid(2)}, {segment})), scsi::SenseKey::not_ready,
                 scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState);
  }
  adopt({{0, unit}});
}

TEST_F(ScsiCopy, AVolumeThatTheNexusMayNotReachIsNoTarget) {
  RamDisk other(disk_info(2));
  auto there = std::make_shared<LogicalUnit>(other, unit->settings());
  adopt({{0, unit}, {1, there}}, std::make_shared<HideFrom>(uuid(2), nexus.initiator_name));
  in({0x00});
  expect_sense(*copy(list({uuid(1), uuid(2)}, {{0, 1, 64, 8, 100}})), scsi::SenseKey::copy_aborted,
               scsi::asc::kCopyTargetDeviceNotReachable);
  EXPECT_TRUE(other.log.empty());
  adopt({{0, unit}});
}

TEST_F(ScsiCopy, ListsThatAreCutOffOrTooLongAreRefusedBeforeAnythingMoves) {
  Bytes good = list({uuid(1)}, {{0, 0, 4, 0, 100}});
  for (std::size_t size = 1; size < good.size(); ++size) {
    expect_sense(*copy(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))),
                 scsi::SenseKey::illegal_request, scsi::asc::kParameterListLengthError);
  }
  expect_sense(*copy(list(std::vector<engine::Uuid>(9, uuid(1)), {{}})), scsi::SenseKey::illegal_request,
               scsi::asc::kTooManyTargetDescriptors);
  expect_sense(*copy(list({uuid(1)}, std::vector<Segment>(9))), scsi::SenseKey::illegal_request,
               scsi::asc::kTooManySegmentDescriptors);
  Bytes odd = good;
  odd[16] = 0xE0;
  expect_sense(*copy(odd), scsi::SenseKey::illegal_request, scsi::asc::kUnsupportedTargetDescriptorType);
  odd = good;
  odd[48] = 0x03;
  expect_sense(*copy(odd), scsi::SenseKey::illegal_request, scsi::asc::kUnsupportedSegmentDescriptorType);
  EXPECT_TRUE(disk.log.empty());
  expect_sense(*copy(list({uuid(1)}, {{0, 0, 2, 0, capacity() - 1}})), scsi::SenseKey::copy_aborted,
               scsi::asc::kNoAdditionalSenseInformation);
}

TEST_F(ScsiCopy, BlocksThatOnlyTheOtherNodeToldOfAreTheDisksToRefuse) {
  unit->set_room(2 * disk.info().size);
  copy(list({uuid(1)}, {{0, 0, 2, capacity(), 0}}));
  ASSERT_EQ(disk.log.size(), 1u);
  EXPECT_EQ(disk.log[0].extent, (engine::Extent{disk.info().size, 1024}));
  expect_sense(*copy(list({uuid(1)}, {{0, 0, 2, 0, 2 * capacity() - 1}})), scsi::SenseKey::copy_aborted,
               scsi::asc::kNoAdditionalSenseInformation);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
