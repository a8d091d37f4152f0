// Golden bytes: what stands on the wire, written down by hand from RFC 7143 chapter 11.
#include <string>

#include <gtest/gtest.h>

#include "engine/iscsi/ahs.hpp"
#include "engine/iscsi/pdu.hpp"

namespace lockstep::iscsi {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 4 == 0) out.push_back(' ');
    out.push_back(digits[std::to_integer<std::size_t>(bytes[i] >> 4)]);
    out.push_back(digits[std::to_integer<std::size_t>(bytes[i] & std::byte{15})]);
  }
  return out;
}

TEST(PduLayout, ScsiCommand) {
  auto h = make_header<ScsiCommandHeader>(Opcode::scsi_command, kFinal | kWrite | 1);
  h.opcode |= kImmediate;
  h.data_length = 0x000200;
  h.lun = 0x0001000000000000;
  h.task_tag = 0x11223344;
  h.expected_length = 0x00001000;
  h.cmd_sn = 7;
  h.exp_stat_sn = 9;
  h.cdb[0] = 0x2A;
  h.cdb[15] = 0xFF;
  EXPECT_EQ(
      hex(bytes_of(h)),
      "41a10000 00000200 00010000 00000000 11223344 00001000 00000007 00000009 2a000000 00000000 00000000 000000ff");
}

TEST(PduLayout, ScsiResponse) {
  auto h = make_header<ScsiResponseHeader>(Opcode::scsi_response, kFinal | kUnderflow);
  h.status = 2;
  h.task_tag = 0x11223344;
  h.stat_sn = 1, h.exp_cmd_sn = 2, h.max_cmd_sn = 3, h.exp_data_sn = 4, h.bidi_residual = 5, h.residual = 6;
  EXPECT_EQ(
      hex(bytes_of(h)),
      "21820002 00000000 00000000 00000000 11223344 00000000 00000001 00000002 00000003 00000004 00000005 00000006");
}

TEST(PduLayout, DataInWithStatus) {
  auto h = make_header<DataInHeader>(Opcode::scsi_data_in, kFinal | kDataInStatus);
  h.data_length = 0x10000;
  h.task_tag = 0xA, h.transfer_tag = kReservedTag;
  h.stat_sn = 1, h.exp_cmd_sn = 2, h.max_cmd_sn = 3, h.data_sn = 4, h.buffer_offset = 5, h.residual = 6;
  EXPECT_EQ(
      hex(bytes_of(h)),
      "25810000 00010000 00000000 00000000 0000000a ffffffff 00000001 00000002 00000003 00000004 00000005 00000006");
}

TEST(PduLayout, DataOut) {
  auto h = make_header<DataOutHeader>(Opcode::scsi_data_out, kFinal);
  h.task_tag = 0xA, h.transfer_tag = 0xB, h.exp_stat_sn = 1, h.data_sn = 2, h.buffer_offset = 3;
  EXPECT_EQ(
      hex(bytes_of(h)),
      "05800000 00000000 00000000 00000000 0000000a 0000000b 00000000 00000001 00000000 00000002 00000003 00000000");
}

TEST(PduLayout, R2t) {
  auto h = make_header<R2tHeader>(Opcode::r2t, kFinal);
  h.task_tag = 0xA, h.transfer_tag = 0xB, h.stat_sn = 1, h.exp_cmd_sn = 2, h.max_cmd_sn = 3;
  h.r2t_sn = 4, h.buffer_offset = 5, h.desired_length = 6;
  EXPECT_EQ(
      hex(bytes_of(h)),
      "31800000 00000000 00000000 00000000 0000000a 0000000b 00000001 00000002 00000003 00000004 00000005 00000006");
}

TEST(PduLayout, LoginRequestAndResponse) {
  auto q = make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 0x04 | 0x03);
  q.opcode |= kImmediate;
  q.isid = {0x80, 1, 2, 3, 4, 5};
  q.tsih = 0x0607, q.task_tag = 0xA, q.cid = 0x0102, q.cmd_sn = 1, q.exp_stat_sn = 2;
  EXPECT_EQ(
      hex(bytes_of(q)),
      "43870000 00000000 80010203 04050607 0000000a 01020000 00000001 00000002 00000000 00000000 00000000 00000000");
  auto r = make_header<LoginResponseHeader>(Opcode::login_response, kTransit | 0x04 | 0x03);
  r.isid = {0x80, 1, 2, 3, 4, 5};
  r.tsih = 0x0607, r.task_tag = 0xA, r.stat_sn = 1, r.exp_cmd_sn = 2, r.max_cmd_sn = 3, r.status = 0x0201;
  EXPECT_EQ(
      hex(bytes_of(r)),
      "23870000 00000000 80010203 04050607 0000000a 00000000 00000001 00000002 00000003 02010000 00000000 00000000");
}

TEST(PduLayout, TaskManagement) {
  auto q = make_header<TaskManagementRequestHeader>(Opcode::task_management_request);
  q.function = 0x81;
  q.task_tag = 0xA, q.referenced_tag = 0xB, q.cmd_sn = 1, q.exp_stat_sn = 2, q.ref_cmd_sn = 3, q.exp_data_sn = 4;
  EXPECT_EQ(
      hex(bytes_of(q)),
      "02810000 00000000 00000000 00000000 0000000a 0000000b 00000001 00000002 00000003 00000004 00000000 00000000");
  auto r = make_header<TaskManagementResponseHeader>(Opcode::task_management_response, kFinal);
  r.response = 5, r.task_tag = 0xA, r.stat_sn = 1, r.exp_cmd_sn = 2, r.max_cmd_sn = 3;
  EXPECT_EQ(
      hex(bytes_of(r)),
      "22800500 00000000 00000000 00000000 0000000a 00000000 00000001 00000002 00000003 00000000 00000000 00000000");
}

TEST(PduLayout, LogoutRequestAndResponse) {
  auto q = make_header<LogoutRequestHeader>(Opcode::logout_request);
  q.reason = 0x81;
  q.task_tag = 0xA, q.cid = 0x0102, q.cmd_sn = 1, q.exp_stat_sn = 2;
  EXPECT_EQ(
      hex(bytes_of(q)),
      "06810000 00000000 00000000 00000000 0000000a 01020000 00000001 00000002 00000000 00000000 00000000 00000000");
  auto r = make_header<LogoutResponseHeader>(Opcode::logout_response, kFinal);
  r.response = 1, r.task_tag = 0xA, r.stat_sn = 1, r.exp_cmd_sn = 2, r.max_cmd_sn = 3;
  r.time2wait = 4, r.time2retain = 5;
  EXPECT_EQ(
      hex(bytes_of(r)),
      "26800100 00000000 00000000 00000000 0000000a 00000000 00000001 00000002 00000003 00000000 00040005 00000000");
}

TEST(PduLayout, AsyncMessageRejectAndNop) {
  auto a = make_header<AsyncMessageHeader>(Opcode::async_message, kFinal);
  a.task_tag = kReservedTag, a.stat_sn = 1, a.exp_cmd_sn = 2, a.max_cmd_sn = 3;
  a.event = 1, a.vendor_code = 2, a.parameter1 = 3, a.parameter2 = 4, a.parameter3 = 5;
  EXPECT_EQ(
      hex(bytes_of(a)),
      "32800000 00000000 00000000 00000000 ffffffff 00000000 00000001 00000002 00000003 01020003 00040005 00000000");
  auto r = make_header<RejectHeader>(Opcode::reject, kFinal);
  r.reason = 4, r.task_tag = kReservedTag, r.stat_sn = 1, r.exp_cmd_sn = 2, r.max_cmd_sn = 3, r.data_sn = 4;
  EXPECT_EQ(
      hex(bytes_of(r)),
      "3f800400 00000000 00000000 00000000 ffffffff 00000000 00000001 00000002 00000003 00000004 00000000 00000000");
  auto n = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
  n.task_tag = 0xA, n.transfer_tag = 0xB, n.cmd_sn = 1, n.exp_stat_sn = 2;
  EXPECT_EQ(
      hex(bytes_of(n)),
      "00800000 00000000 00000000 00000000 0000000a 0000000b 00000001 00000002 00000000 00000000 00000000 00000000");
}

std::vector<std::byte> ahs_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

TEST(Ahs, ExtendedCdbAndBidiLengthAreWrittenAndRead) {
  const auto tail = ahs_bytes({0xA, 0xB, 0xC, 0xD, 0xE});
  std::array<std::byte, kMaxAhs> into;
  const std::size_t size = write_ahs({.extended_cdb = tail, .bidi_read_length = 0x1000}, into);
  EXPECT_EQ(hex(std::span(into).first(size)), "00060100 0a0b0c0d 0e000000 00050200 00001000");
  const auto back = parse_ahs(std::span(into).first(size));
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::equal(back->extended_cdb.begin(), back->extended_cdb.end(), tail.begin(), tail.end()));
  EXPECT_EQ(back->bidi_read_length, 0x1000u);
}

TEST(Ahs, WhatRunsBeyondItsEndIsRefused) {
  EXPECT_FALSE(parse_ahs(ahs_bytes({0x00, 0x09, 0x01, 0x00, 1, 2, 3, 4})));   // longer than there is
  EXPECT_FALSE(parse_ahs(ahs_bytes({0xFF, 0xFF, 0x01, 0x00})));               // far longer
  EXPECT_FALSE(parse_ahs(ahs_bytes({0x00, 0x00, 0x01, 0x00})));               // no length
  EXPECT_FALSE(parse_ahs(ahs_bytes({0x00, 0x01, 0x01, 0x00})));               // a CDB of nothing
  EXPECT_FALSE(parse_ahs(ahs_bytes({0x00, 0x04, 0x02, 0x00, 0, 0, 16, 0})));  // a read length of three bytes
  EXPECT_TRUE(parse_ahs({}));
}

TEST(Ahs, AnythingTwiceIsRefusedAndUnknownTypesArePassedOver) {
  EXPECT_FALSE(parse_ahs(ahs_bytes({0, 5, 2, 0, 0, 0, 0, 1, 0, 5, 2, 0, 0, 0, 0, 1})));
  const auto parsed = parse_ahs(ahs_bytes({0, 5, 0x3F, 0, 9, 9, 9, 9, 0, 5, 2, 0, 0, 0, 0, 1}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->bidi_read_length, 1u);
}

}  // namespace
}  // namespace lockstep::iscsi
