// iSER's bytes against those of Linux's initiators and target, as seen on the wire.
#include <gtest/gtest.h>

#include "engine/iser/format.hpp"
#include "tests/unit/hex.hpp"

namespace lockstep::iser {
namespace {

using test::hex;

std::vector<std::byte> bytes_of_hex(std::string_view text) {
  std::vector<std::byte> out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out.push_back(static_cast<std::byte>(high << 4 | digit));
      high = -1;
    }
  }
  return out;
}

// Of ib_iser.
constexpr auto kInquiry =
    "14000000 00000000 00000000 00000000 000003b6 ff110000 06388c00"
    "01c10000 00000000 00000000 00000000 01000000 00000024 00000000 812c2b83 12000000 24000000 00000000 00000000";
constexpr auto kWrite4k =
    "10000000 00000000 00000000 00000000 00000000 00000000 00000000"
    "01a10000 00001000 00000000 00000000 26000000 00001000 00000025 812c2ba8 2a000000 00000000 08000000 00000000";
constexpr auto kWrite64k =
    "18000000 000003d9 ff110000 08687000 00000000 00000000 00000000"
    "01a10000 00002000 00000000 00000000 27000000 00010000 00000026 812c2ba9 2a000000 00000000 80000000 00000000";
constexpr auto kLogin =
    "10000000 00000000 00000000 00000000 00000000 00000000 00000000"
    "43870000 000001b5 00023d00 00010000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000";

TEST(IserFormat, ARead) {
  const auto bytes = bytes_of_hex(kInquiry);
  const auto message = read_message(bytes, bytes.size());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tagged, (Tagged{.write = {}, .read = rdma::Remote{0xff11000006388c00, 0x3b6}}));
  EXPECT_EQ(message->ahs, 0u);
  EXPECT_EQ(message->data, 0u);
  EXPECT_EQ(iscsi::header_as<iscsi::ScsiCommandHeader>(message->header).expected_length, 0x24u);
}

TEST(IserFormat, AWriteWhoseDataAllCameWithItNamesNoMemory) {
  const auto bytes = bytes_of_hex(kWrite4k);
  const auto message = read_message(bytes, bytes.size() + 4096);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tagged, Tagged{});
  EXPECT_EQ(message->data, 4096u);
}

TEST(IserFormat, AWriteOfWhichAPartCameWithIt) {
  const auto bytes = bytes_of_hex(kWrite64k);
  const auto message = read_message(bytes, 8268);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tagged, (Tagged{.write = rdma::Remote{0xff11000008687000, 0x3d9}, .read = {}}));
  EXPECT_EQ(message->data, 8192u);
}

TEST(IserFormat, TheTextOfALoginIsPaddedByLinuxAndNotByLibiscsi) {
  const auto bytes = bytes_of_hex(kLogin);
  EXPECT_TRUE(read_message(bytes, 516));
  EXPECT_TRUE(read_message(bytes, 516 - 3));
  EXPECT_TRUE(read_message(bytes, 516 - 1));
  EXPECT_EQ(read_message(bytes, 516 - 4).error(), Fault::length);
  EXPECT_EQ(read_message(bytes, 516 + 1).error(), Fault::length);
}

TEST(IserFormat, AMessageShorterThanItsHeadersIsNone) {
  const auto bytes = bytes_of_hex(kInquiry);
  EXPECT_EQ(read_message(bytes, kHeadersSize - 1).error(), Fault::too_short);
  EXPECT_EQ(read_message(std::span(bytes).first(75), kHeadersSize).error(), Fault::too_short);
}

TEST(IserFormat, HelloAndWhateverElseIsNoPdu) {
  auto bytes = bytes_of_hex(kInquiry);
  for (unsigned opcode = 0; opcode < 16; ++opcode) {
    bytes[0] = static_cast<std::byte>(opcode << 4 | 4);
    const auto message = read_message(bytes, bytes.size());
    EXPECT_EQ(message ? std::error_code{} : message.error(), opcode == 1 ? std::error_code{} : Fault::not_control)
        << opcode;
  }
}

TEST(IserFormat, AdditionalHeadersCountToTheLength) {
  auto bytes = bytes_of_hex(kInquiry);
  bytes[kHeaderSize + 4] = std::byte{0xff};  // words
  EXPECT_EQ(read_message(bytes, bytes.size()).error(), Fault::length);
  const auto message = read_message(bytes, bytes.size() + std::size_t{0xff} * 4);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->ahs, std::size_t{0xff} * 4);
}

TEST(IserFormat, WhatIsWrittenIsReadBack) {
  const Tagged tagged{.write = rdma::Remote{0xff11000008687000, 0x3d9},
                      .read = rdma::Remote{0xff11000006388c00, 0x3b6}};
  std::array<std::byte, kHeadersSize> bytes{};
  write_header(tagged, bytes);
  EXPECT_EQ(hex(std::span(bytes).first(kHeaderSize)), "1c000000000003d9ff11000008687000000003b6ff11000006388c00");
  ASSERT_TRUE(read_message(bytes, bytes.size()));
  EXPECT_EQ(read_message(bytes, bytes.size())->tagged, tagged);
  write_header({}, bytes);
  EXPECT_EQ(hex(std::span(bytes).first(kHeaderSize)), "10" + std::string(54, '0'));
}

// 36 bytes of an IP header, which the connection manager takes away, precede it; what follows is padding.
TEST(IserFormat, WhatTheInitiatorsSayWhenTheyCall) {
  EXPECT_TRUE(takes_invalidation(bytes_of_hex("80000000 00000000")));  // ib_iser
  EXPECT_FALSE(takes_invalidation(bytes_of_hex("c0000000")));          // libiscsi
  EXPECT_FALSE(takes_invalidation(bytes_of_hex("8000")));
  EXPECT_FALSE(takes_invalidation({}));
  EXPECT_EQ(hex(private_data(true)), "80000000");
  EXPECT_EQ(hex(private_data(false)), "c0000000");
}

TEST(IserFormat, EachFaultHasASentence) {
  for (int fault = 1; fault <= 5; ++fault) {
    EXPECT_NE(make_error_code(static_cast<Fault>(fault)).message(), "a message makes no sense") << fault;
  }
}

}  // namespace
}  // namespace lockstep::iser
