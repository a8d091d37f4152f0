// Text segments and what their keys mean.
#include <gtest/gtest.h>

#include "engine/iscsi/keys.hpp"
#include "engine/iscsi/serial.hpp"
#include "engine/iscsi/text.hpp"

namespace lockstep::iscsi {
namespace {

using namespace std::string_view_literals;

TEST(Text, PairsAreSplitAtTheirZeroBytes) {
  const auto pairs = parse_text("A=1\0Bc=\0D=x=y\0"sv);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(*pairs, (std::vector<TextPair>{{"A", "1"}, {"Bc", ""}, {"D", "x=y"}}));
  EXPECT_TRUE(parse_text("")->empty());
  EXPECT_EQ(parse_text("A=1\0\0\0"sv)->size(), 1u);  // padding inside the segment
}

TEST(Text, WhatIsNotTextIsRefusedByName) {
  EXPECT_EQ(parse_text("A=1"sv).error(), TextError::no_terminator);
  EXPECT_EQ(parse_text("A=1\0B=2"sv).error(), TextError::no_terminator);
  EXPECT_EQ(parse_text("A\0"sv).error(), TextError::no_equals);
  EXPECT_EQ(parse_text("=1\0"sv).error(), TextError::bad_key);
  EXPECT_EQ(parse_text("A B=1\0"sv).error(), TextError::bad_key);
  EXPECT_EQ(parse_text(std::string(64, 'k') + "=1" + '\0').error(), TextError::bad_key);
  EXPECT_TRUE(parse_text(std::string(63, 'k') + "=1" + '\0'));
  EXPECT_EQ(parse_text("A=" + std::string(kMaxTextValue + 1, 'v') + '\0').error(), TextError::value_too_long);
  EXPECT_EQ(parse_text(std::string(kMaxTextTotal + 1, '\0')).error(), TextError::too_long);
  std::string many;
  for (std::size_t i = 0; i <= kMaxTextKeys; ++i) add_pair(many, "K" + std::to_string(i), "v");
  EXPECT_EQ(parse_text(many).error(), TextError::too_many_keys);
}

TEST(Text, TheAssemblerStopsAtItsBound) {
  TextAssembler assembler;
  const std::vector<std::byte> piece(kMaxTextTotal / 2);
  EXPECT_TRUE(assembler.append(piece));
  EXPECT_TRUE(assembler.append(piece));
  EXPECT_FALSE(assembler.append(std::span(piece).first(1)));
  EXPECT_TRUE(assembler.empty());
}

TEST(Text, TheSenderCutsIntoPieces) {
  TextSender sender;
  sender.start("abcdefg");
  auto piece = sender.next(3);
  EXPECT_EQ(piece.text, "abc");
  EXPECT_TRUE(piece.more);
  piece = sender.next(4);
  EXPECT_EQ(piece.text, "defg");
  EXPECT_FALSE(piece.more);
  EXPECT_TRUE(sender.finished());
}

struct Case {
  std::string_view key, offered, answer;
};

// What a target of our usual settings answers; RFC 7143 chapter 13 for each.
class Offered : public testing::TestWithParam<Case> {};

TEST_P(Offered, IsAnsweredByTheRule) {
  const auto& [key, offered, answer] = GetParam();
  const KeyRule* rule = find_rule(key);
  ASSERT_NE(rule, nullptr);
  Parameters agreed;
  EXPECT_EQ(accept_offer(*rule, offered, Offers{}, false, agreed).value_or(""), answer);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, Offered,
    testing::Values(Case{"HeaderDigest", "CRC32C,None", "CRC32C"}, Case{"HeaderDigest", "None,CRC32C", "None"},
                    Case{"DataDigest", "X-foo,CRC32C", "CRC32C"}, Case{"DataDigest", "MD5", "Reject"},
                    Case{"HeaderDigest", "", "Reject"}, Case{"MaxConnections", "8", "1"},
                    Case{"MaxConnections", "0", "Reject"}, Case{"MaxConnections", "65536", "Reject"},
                    Case{"InitialR2T", "No", "No"}, Case{"InitialR2T", "Yes", "Yes"},
                    Case{"InitialR2T", "yes", "Reject"}, Case{"ImmediateData", "Yes", "Yes"},
                    Case{"ImmediateData", "No", "No"}, Case{"MaxBurstLength", "16776192", "1048576"},
                    Case{"MaxBurstLength", "4096", "4096"}, Case{"MaxBurstLength", "511", "Reject"},
                    Case{"MaxBurstLength", "0x2000", "8192"}, Case{"FirstBurstLength", "262144", "262144"},
                    Case{"FirstBurstLength", "16777216", "Reject"}, Case{"MaxRecvDataSegmentLength", "8192", ""},
                    Case{"MaxRecvDataSegmentLength", "511", "Reject"}, Case{"MaxRecvDataSegmentLength", "-1", "Reject"},
                    Case{"MaxRecvDataSegmentLength", "4294967808", "Reject"}, Case{"DefaultTime2Wait", "5", "5"},
                    Case{"DefaultTime2Wait", "3601", "Reject"}, Case{"DefaultTime2Retain", "20", "0"},
                    Case{"MaxOutstandingR2T", "1", "1"}, Case{"MaxOutstandingR2T", "100", "4"},
                    Case{"DataPDUInOrder", "No", "Yes"}, Case{"DataSequenceInOrder", "No", "Yes"},
                    Case{"ErrorRecoveryLevel", "2", "0"}, Case{"ErrorRecoveryLevel", "3", "Reject"},
                    Case{"TaskReporting", "FastAbort,RFC3720", "RFC3720"}, Case{"TaskReporting", "FastAbort", "Reject"},
                    Case{"iSCSIProtocolLevel", "2", "1"}, Case{"RDMAExtensions", "Yes", "No"},
                    Case{"IFMarker", "No", "Reject"}, Case{"OFMarkInt", "2048", "Reject"},
                    Case{"InitiatorAlias", "host", ""}));

TEST(Keys, WhatMattersOnlyToNormalSessionsIsIrrelevantInDiscovery) {
  Parameters agreed;
  for (const KeyRule& rule : key_rules()) {
    if (!(rule.use & kNormalOnly)) continue;
    EXPECT_EQ(accept_offer(rule, "1", Offers{}, true, agreed), "Irrelevant") << rule.name;
  }
}

TEST(Keys, AnInsistedDigestIsNotNegotiatedAway) {
  Offers ours;
  ours.header_digest = Offers::Digest::crc32c;
  Parameters agreed;
  EXPECT_EQ(accept_offer(rule_of(Key::header_digest), "None", ours, false, agreed), "Reject");
  EXPECT_EQ(accept_offer(rule_of(Key::header_digest), "None,CRC32C", ours, false, agreed), "CRC32C");
  EXPECT_TRUE(agreed.header_digest);
}

TEST(Keys, BothSidesComeToTheSameAgreement) {
  Offers initiator, target;
  initiator.max_burst = 65536, initiator.first_burst = 32768, initiator.time2wait = 7, initiator.immediate_data = false;
  target.initial_r2t = true, target.max_outstanding_r2t = 2;
  const std::string text = make_offers(initiator, false);
  const auto pairs = parse_text(text);
  ASSERT_TRUE(pairs);
  Parameters theirs, ours;
  for (const auto& [key, value] : *pairs) {
    const KeyRule* rule = find_rule(key);
    ASSERT_NE(rule, nullptr) << key;
    const auto answer = accept_offer(*rule, value, target, false, theirs);
    if (!answer) continue;
    EXPECT_TRUE(accept_answer(*rule, *answer, initiator, ours)) << key << "=" << *answer;
  }
  EXPECT_EQ(ours.max_burst, theirs.max_burst);
  EXPECT_EQ(ours.first_burst, theirs.first_burst);
  EXPECT_EQ(ours.time2wait, 7u);
  EXPECT_EQ(ours.max_outstanding_r2t, 2u);
  EXPECT_TRUE(ours.initial_r2t && theirs.initial_r2t);
  EXPECT_FALSE(ours.immediate_data || theirs.immediate_data);
  EXPECT_TRUE(ours.header_digest && theirs.header_digest);
  EXPECT_EQ(theirs.max_send, initiator.max_recv);
}

TEST(Keys, AnAnswerBeyondTheOfferIsRefused) {
  Offers ours;
  ours.immediate_data = false;
  ours.max_burst = 65536;
  Parameters agreed;
  EXPECT_FALSE(accept_answer(rule_of(Key::immediate_data), "Yes", ours, agreed));
  EXPECT_FALSE(accept_answer(rule_of(Key::max_burst_length), "65537", ours, agreed));
  EXPECT_FALSE(accept_answer(rule_of(Key::header_digest), "MD5", ours, agreed));
  EXPECT_FALSE(accept_answer(rule_of(Key::error_recovery_level), "1", ours, agreed));
  EXPECT_TRUE(accept_answer(rule_of(Key::max_burst_length), "65536", ours, agreed));
}

TEST(Keys, NamesAreNormalizedAndOthersRefused) {
  EXPECT_EQ(normal_iscsi_name("iqn.2026-11.io.Lockstep:Pair1"), "iqn.2026-11.io.lockstep:pair1");
  EXPECT_TRUE(normal_iscsi_name("eui.02004567A425678D"));
  EXPECT_TRUE(normal_iscsi_name("naa.52004567BA64678D"));
  EXPECT_FALSE(normal_iscsi_name("eui.0200"));
  EXPECT_FALSE(normal_iscsi_name("foo.2026-11.io"));
  EXPECT_FALSE(normal_iscsi_name("iqn.2026-11.io lockstep"));
  EXPECT_FALSE(normal_iscsi_name("iqn." + std::string(220, 'a')));
  EXPECT_FALSE(normal_iscsi_name(""));
}

TEST(SerialNumbers, OrderHoldsAcrossTheWrap) {
  const Serial last(0xFFFFFFFF);
  EXPECT_TRUE(last.before(last + 1));
  EXPECT_TRUE((last + 1).after(last));
  EXPECT_EQ((last + 1).value(), 0u);
  EXPECT_FALSE(last.before(last));
  EXPECT_FALSE(last.after(last));
  EXPECT_EQ(Serial::distance(last, Serial(4)), 5);
}

}  // namespace
}  // namespace lockstep::iscsi
