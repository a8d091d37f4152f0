// The bytes of a link session over several paths, and who may join one.
#include "replication/link/channel/channel_frames.hpp"

#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/unit/hex.hpp"

namespace lockstep::replication {
namespace {

const engine::Uuid kSender = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kReceiver = *engine::Uuid::parse("f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f");
const engine::Uuid kOther = *engine::Uuid::parse("12345678-4455-6677-8899-aabbccddeeff");

using test::hex;

TEST(ChannelFrames, ARequestHasTheBytesOfTheDocumentsExample) {
  const RequestFrame frame{FrameKind::numbered, {258}, {250}};
  const auto bytes = encode_request_frame(frame);
  EXPECT_EQ(hex(bytes),
            "4c534e5201010000"
            "0000000000000102"
            "00000000000000fa");
  EXPECT_EQ(decode_request_frame(bytes), frame);
  const RequestFrame probe{FrameKind::probe, {}, {250}};
  EXPECT_EQ(decode_request_frame(encode_request_frame(probe)), probe);
  const RequestFrame measurement{FrameKind::measure, {}, {}};
  EXPECT_EQ(decode_request_frame(encode_request_frame(measurement)), measurement);
  EXPECT_FALSE(decode_request_frame(encode_request_frame({FrameKind::measure, {}, {1}})));
  EXPECT_FALSE(decode_request_frame(encode_request_frame({FrameKind::measure, {1}, {}})));
  EXPECT_FALSE(decode_request_frame(encode_request_frame({FrameKind::numbered, {}, {}})));
  EXPECT_FALSE(frame_goes_ahead(encode_request_frame(measurement))) << "it takes its turn as data does";
}

TEST(ChannelFrames, AnAnswerHasTheBytesOfTheDocumentsExample) {
  const AnswerFrame frame{AnswerKind::answer, {251}};
  const auto bytes = encode_answer_frame(frame);
  EXPECT_EQ(hex(bytes),
            "4c534e5201010000"
            "00000000000000fb");
  EXPECT_EQ(decode_answer_frame(bytes), frame);
}

TEST(ChannelFrames, AJoinAndItsAnswerHaveTheirGoldenBytes) {
  const JoinFrame join{7, kSender, kReceiver};
  const auto bytes = encode_join(join);
  EXPECT_EQ(hex(bytes),
            "4c534e5201040000"
            "0000000000000007"
            "00112233445566778899aabbccddeeff"
            "f0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_EQ(decode_join(bytes), join);
  PathAddress address{.ip = {}, .port = 3261, .rdma = true, .tcp = true, .order = 2, .megabits = 25'000};
  address.ip[10] = address.ip[11] = 0xFF;
  address.ip[12] = 10, address.ip[15] = 1;
  const JoinAnswer answer{JoinVerdict::welcome, kReceiver, {address}};
  std::array<std::byte, kMaxLinkAnswerHeader> into;
  const std::size_t length = encode_join_answer(answer, into);
  EXPECT_EQ(hex(std::span(into).first(length)),
            "4c534e5201000100"
            "f0e1d2c3b4a5968778695a4b3c2d1e0f"
            "00000000000000000000ffff0a000001"
            "0cbd0302000061a8");
  EXPECT_EQ(decode_join_answer(std::span(into).first(length)), answer);
}

TEST(ChannelFrames, AreToldFromTheMirrorsOwnHeaderOfAnEarlierVersion) {
  Message heartbeat;
  heartbeat.type = MessageType::heartbeat;
  const auto plain = encode(heartbeat);
  EXPECT_FALSE(is_channel_frame(plain));
  EXPECT_FALSE(frame_goes_ahead(plain));
  EXPECT_FALSE(is_channel_frame({}));
  const auto numbered = encode_request_frame({FrameKind::numbered, {1}, {}});
  EXPECT_TRUE(is_channel_frame(numbered));
  EXPECT_FALSE(frame_goes_ahead(numbered));
  EXPECT_TRUE(frame_goes_ahead(encode_request_frame({FrameKind::ahead, {1}, {}})));
  EXPECT_TRUE(frame_goes_ahead(encode_request_frame({FrameKind::probe, {}, {}})));
  EXPECT_TRUE(is_join(encode_join({1, kSender, {}})));
  EXPECT_TRUE(frame_goes_ahead(encode_join({1, kSender, {}})));
  const auto join = encode_join({1, kSender, {}});
  const auto cut = std::span(join).first(kRequestFrame - 1);
  EXPECT_FALSE(is_join(cut) || frame_goes_ahead(cut)) << "too short for any of them";
  static_assert(kMessageBytes <= kMaxNumberedHeader && kMessageBytes + kAnswerFrame <= kMaxLinkAnswerHeader);
}

/// Every byte but those that hold numbers and names, made wrong in turn.
template <class Decode>
void expect_each_byte_counts(std::span<const std::byte> good, std::size_t upto, Decode decode) {
  for (std::size_t i = 0; i < upto; ++i) {
    std::vector<std::byte> bad(good.begin(), good.end());
    bad[i] ^= std::byte{0x80};
    EXPECT_FALSE(decode(std::span<const std::byte>(bad))) << i;
  }
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(decode(good.first(length))) << length;
}

TEST(ChannelFrames, WhatIsNotOneIsRefused) {
  expect_each_byte_counts(encode_request_frame({FrameKind::numbered, {1}, {}}), 8, decode_request_frame);
  expect_each_byte_counts(encode_answer_frame({AnswerKind::answer, {1}}), 8, decode_answer_frame);
  expect_each_byte_counts(encode_join({1, kSender, {}}), 8, decode_join);
  std::array<std::byte, kMaxLinkAnswerHeader> into;
  const std::size_t length = encode_join_answer({JoinVerdict::welcome, kReceiver, {{}}}, into);
  expect_each_byte_counts(std::span(into).first(length), 8, decode_join_answer);
  EXPECT_FALSE(decode_request_frame(encode_request_frame({FrameKind::numbered, {}, {}}))) << "no number";
  EXPECT_FALSE(decode_request_frame(encode_request_frame({FrameKind::probe, {1}, {}})));
  EXPECT_FALSE(decode_request_frame(encode_join({1, kSender, {}})));
  EXPECT_FALSE(decode_join(encode_join({0, kSender, {}})));
  EXPECT_FALSE(decode_answer_frame(encode_answer_frame({AnswerKind::stale, {1}})));
}

TEST(ChannelFrames, TheAddressesOfAWelcomeAreTakenAsTheyAreSaid) {
  const PathAddress by_tcp{.ip = {}, .port = 1, .rdma = false, .tcp = true, .order = 0, .megabits = 1};
  const PathAddress by_rdma{.ip = {}, .port = 2, .rdma = true, .tcp = false, .order = 0, .megabits = 1};
  const JoinAnswer answer{JoinVerdict::welcome, kReceiver, {by_tcp, by_rdma}};
  std::array<std::byte, kMaxLinkAnswerHeader> into;
  const std::size_t length = encode_join_answer(answer, into);
  constexpr std::size_t kTransports = 18;
  EXPECT_EQ(into[kJoinAnswerFixed + kTransports], std::byte{1});
  EXPECT_EQ(into[kJoinAnswerFixed + kPathAddress + kTransports], std::byte{2});
  EXPECT_EQ(decode_join_answer(std::span(into).first(length)), answer);
  EXPECT_FALSE(decode_join_answer(std::span(into).first(length + 1))) << "longer than it says";
  into[kJoinAnswerFixed + kTransports] = std::byte{4};
  EXPECT_FALSE(decode_join_answer(std::span(into).first(length))) << "a transport that is not known";
}

TEST(ChannelFrames, AWelcomeWithMoreAddressesThanWereAgreedOnIsRefused) {
  std::vector<std::byte> answer(kJoinAnswerFixed + (kMaxPathAddresses + 1) * kPathAddress);
  std::array<std::byte, kMaxLinkAnswerHeader> none;
  std::copy_n(none.begin(), encode_join_answer({JoinVerdict::welcome, kReceiver, {}}, none), answer.begin());
  constexpr std::size_t kAddresses = 6;
  answer[kAddresses] = std::byte{kMaxPathAddresses};
  EXPECT_TRUE(decode_join_answer(std::span(answer).first(answer.size() - kPathAddress)));
  answer[kAddresses] = std::byte{kMaxPathAddresses + 1};
  EXPECT_FALSE(decode_join_answer(answer));
}

TEST(Joining, BeginsASessionThatNoLaterOneHasOvertaken) {
  KnownSession known;
  EXPECT_EQ(judge_join({1, kSender, {}}, known, kReceiver), JoinVerdict::welcome);
  known = {JoinFrame{5, kSender, {}}, 5, kSender, {kOther}};
  EXPECT_EQ(judge_join({6, kSender, {}}, known, kReceiver), JoinVerdict::welcome);
  EXPECT_EQ(judge_join({5, kSender, {}}, known, kReceiver), JoinVerdict::overtaken);
  EXPECT_EQ(judge_join({4, kSender, {}}, known, kReceiver), JoinVerdict::overtaken);
  EXPECT_EQ(judge_join({9, kOther, {}}, known, kReceiver), JoinVerdict::overtaken) << "a process that is gone";
  known.current.reset();
  EXPECT_EQ(judge_join({5, kSender, {}}, known, kReceiver), JoinVerdict::overtaken) << "also when it is over";
}

TEST(Joining, AddsAPathToThatSessionWithThatProcessOnly) {
  const KnownSession known{JoinFrame{5, kSender, {}}, 5, kSender, {}};
  EXPECT_EQ(judge_join({5, kSender, kReceiver}, known, kReceiver), JoinVerdict::welcome);
  EXPECT_EQ(judge_join({4, kSender, kReceiver}, known, kReceiver), JoinVerdict::over);
  EXPECT_EQ(judge_join({6, kSender, kReceiver}, known, kReceiver), JoinVerdict::over);
  EXPECT_EQ(judge_join({5, kOther, kReceiver}, known, kReceiver), JoinVerdict::over);
  EXPECT_EQ(judge_join({5, kSender, kOther}, known, kReceiver), JoinVerdict::over) << "begun with another process";
  EXPECT_EQ(judge_join({5, kSender, kReceiver}, {}, kReceiver), JoinVerdict::over);
}

}  // namespace
}  // namespace lockstep::replication
