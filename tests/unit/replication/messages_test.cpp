// The bytes between two nodes: fixed, checked, and safe to read from anybody.
#include "replication/core/messages.hpp"

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"
#include "replication/core/replica_state.hpp"
#include "replication/core/sequences.hpp"

namespace lockstep::replication {
namespace {

Message sample() {
  Message m;
  m.type = MessageType::replicate;
  m.opcode = engine::DiskOpcode::write;
  m.flags = kFlagFua;
  m.payload = 4096;
  m.volume.bytes[0] = 0xAA;
  m.epoch.bytes[15] = 0xBB;
  m.number = 7;
  m.sequence = 0x0102030405060708;
  m.watermark = 6;
  m.extent = {8192, 4096};
  return m;
}

TEST(Messages, HeaderHasItsFixedLayout) {
  const MessageBytes bytes = encode(sample());
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  EXPECT_EQ(at(0), 'L');
  EXPECT_EQ(at(3), 'R');
  EXPECT_EQ(at(4), 2u);      // version
  EXPECT_EQ(at(5), 6u);      // replicate
  EXPECT_EQ(at(7), 1u);      // write
  EXPECT_EQ(at(9), 1u);      // FUA
  EXPECT_EQ(at(14), 0x10u);  // 4096 bytes of payload
  EXPECT_EQ(at(16), 0xAAu);
  EXPECT_EQ(at(47), 0xBBu);
  EXPECT_EQ(at(55), 7u);
  EXPECT_EQ(at(72), 1u);
  EXPECT_EQ(at(79), 8u);
  EXPECT_EQ(at(110), 0x20u);  // offset 8192
}

TEST(Messages, AnotherVersionIsRefusedByName) {
  MessageBytes bytes = encode(sample());
  bytes[4] = std::byte{1};
  engine::store_be<std::uint32_t>(bytes.data() + 156, engine::crc32c(std::span(bytes).first(156)));
  const auto back = decode(bytes);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error(), make_error_code(engine::Errc::wrong_version));
}

TEST(Messages, AStateOfTheUnitNamesItsVersionAndTheLengthsOfItsParts) {
  Message m = sample();
  m.type = MessageType::lu_state;
  m.flags = kFlagAgree;
  m.extent = {100, 20};
  const MessageBytes bytes = encode(m);
  EXPECT_EQ(std::to_integer<unsigned>(bytes[5]), 15u);
  EXPECT_EQ(std::to_integer<unsigned>(bytes[9]), 16u);
  const auto back = decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->type, MessageType::lu_state);
  EXPECT_EQ(back->extent, m.extent);
}

TEST(Messages, AQuestionForSpaceNamesItsExtentAndItsAnswerWhatHasItsSpace) {
  Message m;
  m.type = MessageType::reserve;
  m.extent = {0x10000, 0x20000};
  const MessageBytes bytes = encode(m);
  EXPECT_EQ(std::to_integer<unsigned>(bytes[5]), 16u);
  EXPECT_EQ(std::to_integer<unsigned>(bytes[109]), 1u);  // offset 0x10000
  EXPECT_EQ(std::to_integer<unsigned>(bytes[117]), 2u);  // length 0x20000
  m.answer = true;
  m.status = engine::Errc::no_space;
  const auto back = decode(encode(m));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->extent, m.extent);
  EXPECT_EQ(back->status, engine::Errc::no_space);
}

Message reference() {
  Message m = sample();
  m.flags = kFlagByReference;
  m.payload = 0;
  m.tag = 0x0203;
  m.forwarder.bytes[0] = 0xCC;
  m.forwarder.bytes[15] = 0xDD;
  return m;
}

TEST(Messages, AnOrderByReferenceNamesTheProcessAndTheTagOfItsForward) {
  const MessageBytes bytes = encode(reference());
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  EXPECT_EQ(at(4), 2u) << "the frame's version";
  EXPECT_EQ(at(9), 32u);
  EXPECT_EQ(at(94), 2u);  // tag
  EXPECT_EQ(at(95), 3u);
  EXPECT_EQ(at(136), 0xCCu);
  EXPECT_EQ(at(151), 0xDDu);
  const auto back = decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->forwarder, reference().forwarder);
  EXPECT_EQ(back->tag, reference().tag);
}

TEST(Messages, AnOrderByReferenceHasNoData) {
  Message m = reference();
  m.payload = 512;
  EXPECT_EQ(decode(encode(m)).error(), make_error_code(engine::Errc::corrupt));
}

TEST(Messages, NothingButAReferenceNamesAForwarder) {
  Message m = reference();
  m.flags = 0;
  EXPECT_EQ(decode(encode(m)).error(), make_error_code(engine::Errc::corrupt));
  m = reference();
  m.type = MessageType::forward;
  EXPECT_EQ(decode(encode(m)).error(), make_error_code(engine::Errc::corrupt));
}

TEST(Messages, NothingButAnOrderOrAForwardIsByReference) {
  Message m = sample();
  m.payload = 0;
  m.flags = kFlagByReference;
  for (unsigned type = 1; type <= kLastMessageType; ++type) {
    m.type = static_cast<MessageType>(type);
    const bool may = m.type == MessageType::replicate || m.type == MessageType::forward;
    m.answer = false;
    EXPECT_EQ(decode(encode(m)).has_value(), may) << type;
    m.answer = true;
    EXPECT_FALSE(decode(encode(m))) << type;
  }
}

TEST(Messages, NothingButAForwardsAnswerIsEarly) {
  Message m = sample();
  m.flags = kFlagHalfDone;
  for (unsigned type = 1; type <= kLastMessageType; ++type) {
    m.type = static_cast<MessageType>(type);
    m.answer = false;
    EXPECT_FALSE(decode(encode(m))) << type;
    m.answer = true;
    EXPECT_EQ(decode(encode(m)).has_value(), m.type == MessageType::forward) << type;
  }
}

TEST(Messages, AForwardsEarlyAnswerNamesItsEpoch) {
  Message m = sample();
  m.type = MessageType::forward;
  m.answer = true;
  m.flags = kFlagHalfDone;
  const MessageBytes bytes = encode(m);
  EXPECT_EQ(std::to_integer<unsigned>(bytes[9]), 64u);
  const auto back = decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->epoch, m.epoch);
}

TEST(Messages, AnUnknownTypeIsRefused) {
  Message m = sample();
  m.type = static_cast<MessageType>(kLastMessageType + 1);
  EXPECT_EQ(decode(encode(m)).error(), make_error_code(engine::Errc::corrupt));
}

TEST(Messages, WhatWasEncodedIsDecoded) {
  const auto back = decode(encode(sample()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->sequence, sample().sequence);
  EXPECT_EQ(back->extent, sample().extent);
  EXPECT_EQ(back->flags, kFlagFua);
}

TEST(Messages, EveryFlippedBitIsRefused) {
  const MessageBytes good = encode(sample());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    MessageBytes bad = good;
    bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << (bit % 8))};
    ASSERT_FALSE(decode(bad)) << "bit " << bit;
  }
}

TEST(Messages, OtherLengthsAreRefused) {
  const MessageBytes good = encode(sample());
  for (std::size_t length = 0; length < good.size(); ++length) ASSERT_FALSE(decode(std::span(good).first(length)));
}

TEST(Messages, AnExtentThatWrapsIsRefused) {
  Message m = sample();
  m.extent = {~std::uint64_t{0} - 10, 4096};
  EXPECT_FALSE(decode(encode(m)));
}

ReplicaState state() {
  ReplicaState s;
  s.record.number = 3;
  s.record.id.bytes[3] = 9;
  s.record.members = engine::MemberSet::both();
  s.record.size = 1 << 30;
  s.record.arbiter = {engine::ArbiterKind::witness, engine::NodeSide::b, std::string(255, 'x')};
  s.record.ancestors.resize(engine::EpochRecord::kMaxAncestors);
  s.running = s.able = s.only_failed_operations = s.changing = true;
  s.attempted = 12;
  return s;
}

TEST(ReplicaStates, TheLargestFitsAndComesBack) {
  const auto bytes = encode_state(state());
  EXPECT_LE(bytes.size(), kMaxStateBytes);
  const auto back = decode_state(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, state());
}

TEST(ReplicaStates, EveryFlippedBitAndEveryOtherLengthIsRefused) {
  auto small = state();
  small.record.ancestors.resize(2);
  small.record.arbiter.address = "http://w";
  const auto good = encode_state(small);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << (bit % 8))};
    ASSERT_FALSE(decode_state(bad)) << "bit " << bit;
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    ASSERT_FALSE(decode_state(std::span(good).first(length)));
  }
}

/// Bytes 6 and 7 are the flags.
std::vector<std::byte> with_flags(std::uint16_t flags) {
  auto bytes = encode_state(state());
  engine::store_be<std::uint16_t>(bytes.data() + 6, flags);
  engine::store_be<std::uint32_t>(bytes.data() + bytes.size() - 4,
                                  engine::crc32c(std::span(bytes).first(bytes.size() - 4)));
  return bytes;
}

TEST(ReplicaStates, TellTheArbiterThatIsWishedAndTakeOneThatIsNotKnownForNone) {
  for (const auto wish : {ArbiterWish::none, ArbiterWish::nobody, ArbiterWish::preferred_a, ArbiterWish::preferred_b,
                          ArbiterWish::fence}) {
    auto wishing = state();
    wishing.wish = wish;
    const auto back = decode_state(encode_state(wishing));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->wish, wish);
  }
  EXPECT_EQ(decode_state(with_flags(0x0401))->wish, ArbiterWish::nobody);
  EXPECT_EQ(decode_state(with_flags(0x0C01))->wish, ArbiterWish::preferred_b);
  EXPECT_EQ(decode_state(with_flags(0x1001))->wish, ArbiterWish::fence);
  EXPECT_EQ(decode_state(with_flags(0x1401))->wish, ArbiterWish::none) << "of a later version";
}

TEST(ReplicaStates, OfALaterVersionMayTellMore) {
  const auto known = decode_state(with_flags(0x0101));
  ASSERT_TRUE(known);
  EXPECT_TRUE(known->running && known->forwarding && !known->able);
  const auto more = decode_state(with_flags(0xFE01));
  ASSERT_TRUE(more) << "what is of no importance to this version is no reason to refuse";
  EXPECT_TRUE(more->running && !more->forwarding);
  EXPECT_FALSE(decode_state(with_flags(0x0011))) << "what may be of importance is";
}

TEST(ReplicaStates, OfASequencerThatIsNoMemberIsRefused) {
  auto alone = state();
  alone.record.members = engine::MemberSet::only(engine::NodeSide::b);
  alone.record.sequencer = engine::NodeSide::b;
  EXPECT_TRUE(decode_state(encode_state(alone)));
  alone.record.sequencer = engine::NodeSide::a;
  EXPECT_FALSE(decode_state(encode_state(alone)));
}

TEST(Sequences, TheWatermarkWaitsForTheSlowest) {
  Sequences s;
  for (int i = 0; i < 300; ++i) (void)s.next();
  for (std::uint64_t i = 300; i > 1; --i) {
    s.finish(i);
    ASSERT_EQ(s.watermark(), 0u);
  }
  s.finish(1);
  EXPECT_EQ(s.watermark(), 300u);
  EXPECT_TRUE(s.all_finished());
}

}  // namespace
}  // namespace lockstep::replication
