// UNMAP: its list of ranges, and what of it the disk is asked for.
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

using engine::DiskOpcode;

class ScsiUnmap : public ScsiTest {};

Bytes unmap_list(std::vector<std::pair<std::uint64_t, std::uint32_t>> ranges) {
  Bytes list(8 + 16 * ranges.size());
  engine::store_be<std::uint16_t>(&list[0], static_cast<std::uint16_t>(list.size() - 2));
  engine::store_be<std::uint16_t>(&list[2], static_cast<std::uint16_t>(list.size() - 8));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    engine::store_be<std::uint64_t>(&list[8 + 16 * i], ranges[i].first);
    engine::store_be<std::uint32_t>(&list[16 + 16 * i], ranges[i].second);
  }
  return list;
}
Bytes unmap_cdb(std::size_t length) {
  return {0x42, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length), 0};
}

TEST_F(ScsiUnmap, UnmapGivesTheDiskOneRequestForEachRange) {
  out(cdb10(0x2A, 0, 8), pattern(4096));
  const Bytes list = unmap_list({{0, 2}, {5, 0}, {4, 1}, {2048, 0}});
  expect_good(*out(unmap_cdb(list.size()), list));
  ASSERT_EQ(disk.log.size(), 3u);
  EXPECT_EQ(disk.log[1].extent, (engine::Extent{0, 1024}));
  EXPECT_EQ(disk.log[2].extent, (engine::Extent{2048, 512}));
  EXPECT_EQ(stored(0, 2), Bytes(1024));
  EXPECT_NE(stored(2, 1), Bytes(512));
}

TEST_F(ScsiUnmap, RangesOfAnUnmapThatFollowOneAnotherAreOneRequest) {
  const Bytes list = unmap_list({{8, 1}, {9, 3}, {40, 0}, {12, 4}, {15, 1}, {16, 1}});
  expect_good(*out(unmap_cdb(list.size()), list));
  ASSERT_EQ(disk.log.size(), 2u);
  EXPECT_EQ(disk.log[0].extent, (engine::Extent{8 * 512, 8 * 512}));
  EXPECT_EQ(disk.log[1].extent, (engine::Extent{15 * 512, 2 * 512}));
}

TEST_F(ScsiUnmap, UnmapChecksEveryRangeBeforeItTouchesOne) {
  for (const auto& bad : {std::pair<std::uint64_t, std::uint32_t>{2047, 2}, {2049, 0}, {~std::uint64_t{0}, 2}}) {
    const Bytes list = unmap_list({{0, 1}, bad});
    const auto c = out(unmap_cdb(list.size()), list);
    expect_sense(*c, scsi::SenseKey::illegal_request, scsi::asc::kLogicalBlockAddressOutOfRange);
    EXPECT_EQ(c->sense_data().field->byte, 24);
  }
  Bytes many = unmap_list(std::vector<std::pair<std::uint64_t, std::uint32_t>>(257, {0, 1}));
  expect_field(*out(unmap_cdb(many.size()), many), scsi::asc::kInvalidFieldInParameterList,
               {.in_cdb = false, .byte = 2, .bit = 7});
  EXPECT_TRUE(disk.log.empty());
}

/// What is under way holds up whoever wants to read beside it, and whoever is to take over.
TEST_F(ScsiUnmap, AnUnmapOrWriteSameOfALargeRangeIsCarriedOutPieceByPiece) {
  constexpr std::uint64_t kPiece = LogicalUnit::kRangePiece, kBlocks = 3 * kPiece / 512;
  unit->set_capacity(std::uint64_t{1} << 40);
  in({0x00}), in({0x00});
  disk.only_notes = true;
  const auto goes_in_pieces = [&](Bytes cdb, Bytes data, DiskOpcode opcode) {
    disk.log.clear();
    expect_good(*out(std::move(cdb), std::move(data)));
    ASSERT_EQ(disk.log.size(), 4u);
    for (const auto& seen : disk.log) EXPECT_EQ(seen.opcode, opcode);
    EXPECT_EQ(disk.log[0].extent, (engine::Extent{4096, kPiece - 4096}));
    EXPECT_EQ(disk.log[1].extent, (engine::Extent{kPiece, kPiece}));
    EXPECT_EQ(disk.log[2].extent, (engine::Extent{2 * kPiece, kPiece}));
    EXPECT_EQ(disk.log[3].extent, (engine::Extent{3 * kPiece, 4096}));
  };
  const Bytes list = unmap_list({{8, kBlocks}});
  goes_in_pieces(unmap_cdb(list.size()), list, DiskOpcode::unmap);
  goes_in_pieces(cdb16(0x93, 8, kBlocks), pattern(512), DiskOpcode::write_same);
  goes_in_pieces(cdb16(0x93, 8, kBlocks), Bytes(512), DiskOpcode::write_zeroes);
  goes_in_pieces(cdb16(0x93, 8, kBlocks, 0x09), {}, DiskOpcode::unmap);
}

TEST_F(ScsiUnmap, AFailedPieceEndsTheCommand) {
  unit->set_capacity(std::uint64_t{1} << 40);
  in({0x00}), in({0x00});
  disk.deferred = true;
  const auto c = out(cdb16(0x93, 8, 1 << 20), pattern(512));
  ASSERT_EQ(disk.log.size(), 1u);
  disk.fail_with = engine::Errc::io_error;
  disk.release_one();
  expect_sense(*c, scsi::SenseKey::medium_error, scsi::asc::kWriteError);
  EXPECT_EQ(disk.log.size(), 1u);
}

TEST_F(ScsiUnmap, BlocksThatOnlyTheOtherNodeToldOfAreTheDisksToRefuse) {
  const std::uint64_t size = disk.info().size;
  unit->set_room(2 * size);
  const auto asked_of_disk = [&](Bytes cdb, Bytes data) {
    disk.log.clear();
    run(make(std::move(cdb), 24, std::move(data)));
    return disk.log.empty() ? engine::Extent{} : disk.log[0].extent;
  };
  const Bytes list = unmap_list({{capacity(), 8}}), beyond = unmap_list({{2 * capacity(), 1}});
  EXPECT_EQ(asked_of_disk(unmap_cdb(list.size()), list), (engine::Extent{size, 4096}));
  EXPECT_EQ(asked_of_disk(unmap_cdb(beyond.size()), beyond), engine::Extent{});
  const auto lba_status = [&](std::uint64_t lba) {
    Bytes cdb = cdb16(0x9E, lba, 24);
    cdb[1] = 0x12;
    return asked_of_disk(cdb, {});
  };
  EXPECT_EQ(lba_status(capacity()), (engine::Extent{size, size}));
  EXPECT_EQ(lba_status(0), (engine::Extent{0, size})) << "no further than the capacity that this node has told";
}

TEST_F(ScsiUnmap, UnmapListsThatAreCutOrLieAreRefused) {
  expect_good(*out(unmap_cdb(0), {}));
  expect_sense(*out(unmap_cdb(7), Bytes(7)), scsi::SenseKey::illegal_request, scsi::asc::kParameterListLengthError);
  Bytes lies = unmap_list({{0, 1}});
  lies[3] = 32;  // more descriptors than came
  expect_sense(*out(unmap_cdb(lies.size()), lies), scsi::SenseKey::illegal_request,
               scsi::asc::kParameterListLengthError);
  expect_good(*out(unmap_cdb(8), unmap_list({})));
  expect_sense(*out(unmap_cdb(24), Bytes(8)), scsi::SenseKey::illegal_request,
               scsi::asc::kInvalidFieldInCommandInformationUnit);
}

TEST_F(ScsiUnmap, AFailureEndsTheRestOfAnUnmap) {
  disk.deferred = true;
  const Bytes list = unmap_list({{0, 1}, {2, 1}, {4, 1}});
  const auto c = out(unmap_cdb(list.size()), list);
  disk.release_one();
  disk.fail_with = engine::Errc::io_error;
  disk.release_one();
  expect_sense(*c, scsi::SenseKey::medium_error, scsi::asc::kWriteError);
  EXPECT_EQ(disk.held(), 0u);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
