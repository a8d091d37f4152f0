#include <vector>

#include <gtest/gtest.h>

#include "engine/scsi/sense.hpp"

namespace lockstep::scsi {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes build(const Sense& sense, SenseFormat format) {
  std::array<std::uint8_t, kMaxBuiltSense> out;
  const std::size_t size = build_sense(sense, format, out);
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)};
}

const Sense kReservedBit{.key = SenseKey::illegal_request,
                         .additional = asc::kInvalidFieldInCdb,
                         .field = FieldPointer{.in_cdb = true, .byte = 2, .bit = 5}};
const Sense kMiscompare{
    .key = SenseKey::miscompare, .additional = asc::kMiscompareDuringVerifyOperation, .information = 0x1F3};

TEST(Sense, FixedFormatCarriesTheFieldPointerBehindTheSenseKeySpecificMark) {
  EXPECT_EQ(build(kReservedBit, SenseFormat::fixed),
            (Bytes{0x70, 0, 0x05, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0x00, 0, 0xCD, 0x00, 0x02}));
}

TEST(Sense, FixedFormatCarriesInformationWithItsValidBit) {
  EXPECT_EQ(build(kMiscompare, SenseFormat::fixed),
            (Bytes{0xF0, 0, 0x0E, 0, 0, 1, 0xF3, 10, 0, 0, 0, 0, 0x1D, 0x00, 0, 0, 0, 0}));
}

TEST(Sense, DescriptorFormatCarriesEachInADescriptorOfItsOwn) {
  EXPECT_EQ(build(kReservedBit, SenseFormat::descriptor),
            (Bytes{0x72, 0x05, 0x24, 0x00, 0, 0, 0, 8, 0x02, 0x06, 0, 0, 0xCD, 0x00, 0x02, 0}));
  EXPECT_EQ(build(kMiscompare, SenseFormat::descriptor),
            (Bytes{0x72, 0x0E, 0x1D, 0x00, 0, 0, 0, 12, 0x00, 0x0A, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xF3}));
}

TEST(Sense, InformationBeyondFourBytesIsLeftOutOfTheFixedFormatAlone) {
  Sense far = kMiscompare;
  far.information = std::uint64_t{1} << 32;
  EXPECT_EQ(build(far, SenseFormat::fixed)[0], 0x70);
  EXPECT_EQ(parse_sense(build(far, SenseFormat::descriptor)), far);
}

TEST(Sense, WhatWasBuiltIsReadBackTheSame) {
  const Sense parameter{.key = SenseKey::illegal_request,
                        .additional = asc::kInvalidFieldInParameterList,
                        .field = FieldPointer{.in_cdb = false, .byte = 300}};
  for (const Sense& sense : {kReservedBit, kMiscompare, parameter, Sense{}}) {
    EXPECT_EQ(parse_sense(build(sense, SenseFormat::fixed)), sense);
    EXPECT_EQ(parse_sense(build(sense, SenseFormat::descriptor)), sense);
  }
}

TEST(Sense, ShortOrForeignBytesAreNoSense) {
  EXPECT_FALSE(parse_sense({}));
  EXPECT_FALSE(parse_sense(Bytes{0x71, 0, 0}));
  EXPECT_FALSE(parse_sense(Bytes{0x70, 0, 5}));
  const Bytes cut{0x72, 0x05, 0x24, 0x00, 0, 0, 0, 8, 0x02, 0x06, 0, 0};
  ASSERT_TRUE(parse_sense(cut));
  EXPECT_FALSE(parse_sense(cut)->field);
}

}  // namespace
}  // namespace lockstep::scsi
