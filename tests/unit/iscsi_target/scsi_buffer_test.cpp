// WRITE BUFFER and READ BUFFER, byte by byte (SPC-4 6.49, 6.18).
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

constexpr std::uint8_t kWrite = 0x3B, kRead = 0x3C;
constexpr std::uint8_t kData = 0x02, kDescriptor = 0x03, kEcho = 0x0A, kEchoDescriptor = 0x0B;
constexpr std::uint32_t kSize = 4096;

Bytes cdb(std::uint8_t opcode, std::uint8_t mode, std::uint32_t length, std::uint32_t offset = 0, std::uint8_t id = 0) {
  Bytes c{opcode, mode, id, 0, 0, 0, 0, 0, 0, 0};
  for (unsigned i = 0; i < 3; ++i) {
    c[3 + i] = static_cast<std::uint8_t>(offset >> (16 - 8 * i));
    c[6 + i] = static_cast<std::uint8_t>(length >> (16 - 8 * i));
  }
  return c;
}

class ScsiBuffer : public ScsiTest {
 protected:
  std::unique_ptr<FakeCommand> write(std::uint8_t mode, Bytes data, std::uint32_t offset = 0) {
    const auto length = static_cast<std::uint32_t>(data.size());
    return out(cdb(kWrite, mode, length, offset), std::move(data));
  }
  std::unique_ptr<FakeCommand> read(std::uint8_t mode, std::uint32_t length, std::uint32_t offset = 0) {
    return in(cdb(kRead, mode, length, offset), 8192);
  }
  static void expect_refused(const FakeCommand& c, std::uint16_t byte) {
    expect_field(c, scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = byte, .bit = 7});
  }
};

TEST_F(ScsiBuffer, DescriptorsTellFourKibibytesEachAndThatOverwrittenEchoesAreTold) {
  EXPECT_EQ(read(kDescriptor, 4)->data_in, (Bytes{0x00, 0x00, 0x10, 0x00}));
  EXPECT_EQ(read(kEchoDescriptor, 4)->data_in, (Bytes{0x01, 0x00, 0x10, 0x00}));
  EXPECT_EQ(read(kDescriptor, 2)->data_in, (Bytes{0x00, 0x00})) << "cut to the allocation length";
  EXPECT_EQ(in(cdb(kRead, kDescriptor, 4, 0, 1))->data_in, Bytes(4)) << "there is no buffer 1";
}

TEST_F(ScsiBuffer, WhatWasWrittenIsReadBackWhereverItBegins) {
  EXPECT_EQ(read(kData, kSize)->data_in, Bytes(kSize));
  const Bytes data = pattern(100);
  expect_good(*write(kData, data, 300));
  expect_good(*write(kData, {}, kSize));
  const auto back = read(kData, 8192);
  expect_good(*back);
  ASSERT_EQ(back->data_in.size(), kSize) << "not beyond the buffer";
  EXPECT_EQ(back->residual_in(), 8192 - std::int64_t{kSize});
  EXPECT_TRUE(std::ranges::equal(std::span(back->data_in).subspan(300, 100), data));
  EXPECT_EQ(read(kData, 100, 300)->data_in, data);
  EXPECT_EQ(read(kData, 100, kSize - 4)->data_in, Bytes(4));
  EXPECT_TRUE(disk.log.empty()) << "nothing of it concerns the medium";
}

TEST_F(ScsiBuffer, WhatDoesNotFitIsRefusedAndNothingIsWritten) {
  expect_refused(*write(kData, Bytes(kSize + 1, 1)), 6);
  expect_refused(*write(kData, Bytes(97, 1), kSize - 96), 6);
  expect_refused(*write(kData, {}, kSize + 1), 3);
  expect_refused(*read(kData, 1, kSize + 1), 3);
  expect_refused(*write(kEcho, Bytes(kSize + 1, 1)), 6);
  expect_refused(*out(cdb(kWrite, kData, 1, 0, 1), Bytes(1, 1)), 2);
  expect_refused(*in(cdb(kRead, kData, 1, 0, 1)), 2);
  expect_sense(*out(cdb(kWrite, kData, 8), Bytes(4, 1)), scsi::SenseKey::illegal_request,
               scsi::asc::kInvalidFieldInCommandInformationUnit);
  EXPECT_EQ(read(kData, kSize)->data_in, Bytes(kSize));
}

TEST_F(ScsiBuffer, AnEchoIsWhatThisNexusWroteLastAsOftenAsItIsRead) {
  expect_sense(*read(kEcho, kSize), scsi::SenseKey::illegal_request, scsi::asc::kCommandSequenceError);
  for (const std::size_t size : {std::size_t{4096}, std::size_t{252}, std::size_t{0}}) {
    SCOPED_TRACE(size);
    const Bytes data = pattern(size, 9);
    expect_good(*write(kEcho, data));
    expect_good(*write(kData, Bytes(kSize, 0xEE)));  // another buffer
    for (int i = 0; i < 2; ++i) {
      const auto back = read(kEcho, kSize);
      expect_good(*back);
      EXPECT_EQ(back->data_in, data);
    }
  }
  expect_good(*out(cdb(kWrite, kEcho, 4, 0xFFFFFF, 0xFF), {1, 2, 3, 4}));  // where it goes is not looked at
  EXPECT_EQ(in(cdb(kRead, kEcho, 3, 0xFFFFFF, 0xFF))->data_in, (Bytes{1, 2, 3}));
}

TEST_F(ScsiBuffer, AnEchoThatAnotherNexusOverwroteIsToldSo) {
  scsi::Nexus other;
  open(other, 2, "iqn.1994-05.com.example:two");
  expect_good(*write(kEcho, {1, 1, 1, 1}));
  expect_sense(*run(cdb(kRead, kEcho, 4), other, 4), scsi::SenseKey::illegal_request, scsi::asc::kCommandSequenceError);
  auto second = make(cdb(kWrite, kEcho, 4), 0, {2, 2, 2, 2});
  second->nexus = &other;
  expect_good(*run(std::move(second)));
  expect_sense(*read(kEcho, 4), scsi::SenseKey::aborted_command, scsi::asc::kEchoBufferOverwritten);
  EXPECT_EQ(run(cdb(kRead, kEcho, 4), other, 4)->data_in, (Bytes{2, 2, 2, 2}));
  close(other);
}

TEST_F(ScsiBuffer, AnEchoWhoseUnitGoesAwayBeforeItsDataIsThereEndsAsAnyOther) {
  auto echo = make(cdb(kWrite, kEcho, 4), 0, {1, 2, 3, 4});
  echo->defers_pull = true;
  device.execute(*echo);
  adopt({});
  EXPECT_EQ(echo->completions, 0);
  echo->release_pull();
  expect_good(*echo);
}

TEST_F(ScsiBuffer, AnEchoWhoseUnitGaveWayToAnotherIsNotTheOthers) {
  auto echo = make(cdb(kWrite, kEcho, 4), 0, {1, 2, 3, 4});
  echo->defers_pull = true;
  device.execute(*echo);
  RamDisk second_disk(disk_info(2));
  adopt({{0, std::make_shared<LogicalUnit>(second_disk, unit->settings())}});
  echo->release_pull();
  expect_good(*echo);
  run({0x00}, nexus);  // power on
  run({0x00}, nexus);  // the LUNs have changed
  expect_sense(*read(kEcho, 4), scsi::SenseKey::illegal_request, scsi::asc::kCommandSequenceError);
  adopt({});
}

TEST_F(ScsiBuffer, UnitsHaveBuffersOfTheirOwn) {
  RamDisk second_disk(disk_info(2));
  const auto second = std::make_shared<LogicalUnit>(second_disk, unit->settings());
  adopt({{0, unit}, {1, second}});
  const auto at_1 = [&](Bytes c, Bytes data) {
    auto command = make(std::move(c), 4, std::move(data));
    command->lun = std::uint64_t{1} << 48;
    return run(std::move(command));
  };
  run({0x00}, nexus);  // the LUNs have changed
  at_1({0x00}, {});    // power on
  at_1({0x00}, {});    // and here too
  expect_good(*write(kData, {1, 2, 3, 4}));
  expect_good(*write(kEcho, {1, 2, 3, 4}));
  EXPECT_EQ(at_1(cdb(kRead, kData, 4), {})->data_in, Bytes(4));
  expect_sense(*at_1(cdb(kRead, kEcho, 4), {}), scsi::SenseKey::illegal_request, scsi::asc::kCommandSequenceError);
  adopt({{0, unit}});
}

TEST_F(ScsiBuffer, ModesThatWouldBringMicrocodeAreRefused) {
  for (const std::uint8_t mode : {0x04, 0x05, 0x06, 0x07, 0x0D, 0x0E, 0x0F, 0x1C}) {
    SCOPED_TRACE(int(mode));
    expect_field(*write(mode, Bytes(512, 1)), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 1, .bit = 4});
  }
}

class ScsiBufferWithoutMedium : public ScsiTest {
 protected:
  ScsiBufferWithoutMedium()
      : ScsiTest([] {
          auto info = disk_info();
          info.removable = true;
          return info;
        }()) {}
};

TEST_F(ScsiBufferWithoutMedium, WorksAllTheSame) {
  expect_good(*in({0x1B, 0, 0, 0, 0x02, 0}));  // eject
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kMediumNotPresentTrayOpen);
  expect_good(*out(cdb(kWrite, kData, 4), {5, 6, 7, 8}));
  EXPECT_EQ(in(cdb(kRead, kData, 4))->data_in, (Bytes{5, 6, 7, 8}));
}

TEST_F(ScsiBuffer, AnotherNexusReservationRefusesBoth) {
  scsi::Nexus other;
  open(other, 2, "iqn.1994-05.com.example:two");
  expect_good(*run({0x16}, other));
  EXPECT_EQ(write(kData, {1, 2, 3, 4})->status, scsi::Status::reservation_conflict);
  EXPECT_EQ(read(kDescriptor, 4)->status, scsi::Status::reservation_conflict);
  expect_good(*run({0x17}, other));
  EXPECT_EQ(read(kData, 4)->data_in, Bytes(4));
  close(other);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
