#include "replication/link/link_format.hpp"

#include <gtest/gtest.h>

#include "tests/unit/hex.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using engine::NodeSide;

const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kProcess = *engine::Uuid::parse("f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f");

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (const int v : values) all.push_back(static_cast<std::byte>(v));
  return all;
}
using test::hex;

TEST(LinkFormat, ACommandHasTheBytesOfTheDocumentsExample) {
  const auto header = bytes({1, 2, 3});
  LinkCdb cdb;
  const auto length = encode_link_cdb({LinkOpcode::request, header, 4096, 0}, cdb);
  EXPECT_EQ(hex(std::span(cdb).first(length)),
            "c1010003"
            "00001000"
            "00000000"
            "00000000"
            "010203");
  const auto back = decode_link_cdb(std::span(cdb).first(length));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(hex(back->header), "010203");
  EXPECT_EQ(back->payload_out, 4096u);
  EXPECT_EQ(back->payload_in, 0u);
}

TEST(LinkFormat, AnAnswerHasTheBytesOfTheDocumentsExample) {
  const auto header = bytes({0xAA, 0xBB});
  AnswerPrefix prefix;
  EXPECT_EQ(encode_answer(header, 0, prefix), 10u);
  EXPECT_EQ(hex(std::span(prefix).first(10)), "0002000100000000aabb");
  EXPECT_EQ(decode_answer(std::span(prefix).first(10))->header, 2u);
  EXPECT_EQ(encode_answer(header, 512, prefix), kAnswerPayloadOffset);
  const auto with_payload = decode_answer(std::span(prefix).first(kAnswerPayloadOffset));
  ASSERT_TRUE(with_payload);
  EXPECT_EQ(with_payload->payload, 512u);
}

TEST(LinkFormat, SealedBytesAreThoseOfTheDocumentsExample) {
  const auto header = bytes({1, 2, 3}), payload = bytes({0xDE, 0xAD, 0xBE, 0xEF});
  LinkCommand command{LinkOpcode::request, header, 4, 0, {}};
  command.crc = seal_of(command, payload);
  LinkCdb cdb;
  ASSERT_EQ(encode_link_cdb(command, cdb), kMaxLinkCdb) << "what follows it has one place";
  EXPECT_EQ(hex(std::span(cdb).first(20)),
            "c1020003"
            "00000004"
            "00000000"
            "6e33acd8"
            "01020300");
  const auto back = decode_link_cdb(cdb);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(hex(back->header), "010203");
  EXPECT_EQ(seal_of(*back, payload), back->crc);
  AnswerPrefix answer;
  const auto length = encode_sealed_answer(bytes({0xAA, 0xBB}), payload, 0x6E33ACD8, answer);
  EXPECT_EQ(hex(std::span(answer).first(length)), "0002000200000004646129eaaabb");
  const auto start = decode_answer(std::span(answer).first(length));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->payload, 4u);
  EXPECT_EQ(start->header_at(), kSealedAnswerFixed);
  EXPECT_EQ(answer_seal_of(std::span(answer).subspan(start->header_at(), start->header), payload, 0x6E33ACD8),
            start->crc);
  EXPECT_NE(answer_seal_of(bytes({0xAA, 0xBB}), payload, 0x6E33ACD9), start->crc) << "it is of another request";
}

TEST(LinkFormat, EveryByteCountsForASeal) {
  const auto header = bytes({1, 2, 3});
  auto payload = bytes({0xDE, 0xAD, 0xBE, 0xEF});
  LinkCommand command{LinkOpcode::request, header, 4, 7, {}};
  command.crc = seal_of(command, payload);
  LinkCdb cdb;
  encode_link_cdb(command, cdb);
  for (std::size_t at = 2; at < kLinkCdbFixed + header.size(); ++at) {
    LinkCdb changed = cdb;
    changed[at] ^= std::byte{1};
    const auto back = decode_link_cdb(changed);
    EXPECT_TRUE(!back || seal_of(*back, payload) != back->crc) << at;
  }
  payload[3] ^= std::byte{1};
  EXPECT_NE(seal_of(*decode_link_cdb(cdb), payload), *command.crc);
}

TEST(LinkFormat, AGreetingHasItsGoldenBytes) {
  const auto hello = encode_hello({{2, 5}, kPair, kProcess, NodeSide::b});
  EXPECT_EQ(hex(hello),
            "4c534849"
            "0002"
            "0030"
            "00112233445566778899aabbccddeeff"
            "f0e1d2c3b4a5968778695a4b3c2d1e0f"
            "01"
            "00"
            "0005"
            "00000000");
  EXPECT_EQ(decode_hello(hello)->versions, (LinkVersions{2, 5}));
  std::array<std::byte, kMaxLinkAnswerHeader> answer;
  const auto size = encode_hello_answer({1, HelloVerdict::foreign_pair, kPair, NodeSide::a, "No."}, answer);
  EXPECT_EQ(hex(std::span(answer).first(size)),
            "4c534841"
            "0001"
            "0002"
            "00112233445566778899aabbccddeeff"
            "00"
            "00000000000000"
            "4e6f2e");
  EXPECT_EQ(decode_hello_answer(std::span(answer).first(size))->message, "No.");
}

TEST(LinkFormat, AMessageThatIsTooLongForItsPlaceIsCut) {
  std::array<std::byte, kMaxLinkAnswerHeader> answer;
  EXPECT_EQ(encode_hello_answer({1, HelloVerdict::busy, kPair, NodeSide::a, std::string(500, 'x')}, answer),
            answer.size());
}

TEST(LinkFormat, CommandsThatMakeNoSenseAreRefused) {
  LinkCdb cdb{};
  const auto length = encode_link_cdb({LinkOpcode::request, bytes({1, 2, 3}), 1, 1}, cdb);
  const auto refusal = [&](std::size_t offset, int value, std::size_t given) {
    LinkCdb changed = cdb;
    changed[offset] = static_cast<std::byte>(value);
    const auto decoded = decode_link_cdb(std::span(changed).first(given));
    return decoded ? Errc::ok : static_cast<Errc>(decoded.error().code.value());
  };
  EXPECT_EQ(refusal(15, 0, length), Errc::ok);
  EXPECT_EQ(refusal(0, 0x2A, length), Errc::corrupt);
  EXPECT_EQ(refusal(1, 3, length), Errc::wrong_version);
  EXPECT_EQ(refusal(3, 4, length), Errc::corrupt);  // the header runs beyond the CDB
  EXPECT_EQ(refusal(2, 1, length), Errc::corrupt);  // a header of 259 bytes
  EXPECT_EQ(refusal(4, 1, length), Errc::corrupt);  // 16 MiB of payload
  EXPECT_EQ(refusal(8, 1, length), Errc::corrupt);
  EXPECT_EQ(refusal(15, 0, 15), Errc::corrupt);
}

TEST(LinkFormat, AnswersThatMakeNoSenseAreRefused) {
  EXPECT_FALSE(decode_answer({}));
  EXPECT_FALSE(decode_answer(bytes({0, 1, 0, 1, 0, 0, 0, 0})));  // its header is missing
  EXPECT_FALSE(decode_answer(bytes({0, 0, 0, 3, 0, 0, 0, 0})));  // version
  EXPECT_FALSE(decode_answer(bytes({0, 0, 0, 2, 0, 0, 0, 0})));  // without its checksum
  EXPECT_FALSE(decode_answer(bytes({0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_FALSE(decode_answer(bytes({0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0})));  // 16 MiB
  EXPECT_FALSE(decode_answer(bytes({0, 0, 0, 1, 0, 0, 0, 1})));              // payload without the place before it
  AnswerPrefix prefix{};
  encode_answer({}, 1, prefix);
  prefix[4] = std::byte{1};
  EXPECT_FALSE(decode_answer(prefix));  // 16 MiB
}

TEST(Greeting, OfAPartnerThatKnowsNoRangesNamesItsOneVersion) {
  auto hello = encode_hello({{2, 2}, kPair, kProcess, NodeSide::b});
  hello[42] = hello[43] = std::byte{0};  // reserved, as it knows it
  EXPECT_EQ(decode_hello(hello)->versions, (LinkVersions{2, 2}));
}

TEST(Greeting, WithARangeThatEndsBeforeItBeginsMakesNoSense) {
  EXPECT_FALSE(decode_hello(encode_hello({{3, 2}, kPair, kProcess, NodeSide::b})));
}

TEST(Greeting, AgreesOnTheHighestVersionThatBothSpeak) {
  EXPECT_EQ(common_version({2, 4}, {2, 2}), 2);
  EXPECT_EQ(common_version({2, 4}, {3, 6}), 4);
  EXPECT_EQ(common_version({2, 4}, {4, 4}), 4);
  EXPECT_EQ(common_version({2, 4}, {5, 6}), std::nullopt);
  EXPECT_EQ(common_version({5, 6}, {2, 4}), std::nullopt);
  const Hello newer{{2, 4}, kPair, kProcess, NodeSide::a}, older{{2, 3}, kPair, kProcess, NodeSide::b};
  EXPECT_EQ(judge_hello(newer, older).version, 3);
  EXPECT_EQ(judge_hello(older, newer).version, 3);
  EXPECT_EQ(judge_hello(older, newer).verdict, HelloVerdict::welcome);
}

TEST(Greeting, WithoutACommonVersionNamesBothAndWhomToUpgrade) {
  const Hello newer{{4, 6}, kPair, kProcess, NodeSide::a}, older{{2, 2}, kPair, kProcess, NodeSide::b};
  EXPECT_EQ(judge_hello(older, newer).message,
            "Node A speaks versions 4 to 6 of the partner link, its partner version 2: upgrade node B.");
  EXPECT_EQ(judge_hello(newer, older).message,
            "Node B speaks version 2 of the partner link, its partner versions 4 to 6: upgrade node B.");
  const Hello highest{{65534, 65535}, kPair, kProcess, NodeSide::a}, high{{65532, 65533}, kPair, kProcess, NodeSide::b};
  EXPECT_LE(judge_hello(high, highest).message.size(), kMaxHelloMessage);
}

// What A says to B is the mirror of what B says to A.
TEST(Greeting, IsJudgedAlikeByBothNodes) {
  const engine::Uuid other_pair = kProcess;
  for (const std::uint16_t version : {1, 2}) {
    for (const auto& pair : {kPair, other_pair}) {
      for (const auto side : {NodeSide::a, NodeSide::b}) {
        const Hello mine{{1, 1}, kPair, kProcess, NodeSide::a};
        const Hello theirs{{version, version}, pair, kProcess, side};
        const auto here = judge_hello(theirs, mine);
        const auto there = judge_hello(mine, theirs);
        EXPECT_EQ(here.verdict, there.verdict);
        const bool welcome = version == 1 && pair == kPair && side == NodeSide::b;
        EXPECT_EQ(here.verdict == HelloVerdict::welcome, welcome);
        EXPECT_EQ(here.message.empty(), welcome);
        EXPECT_LE(here.message.size(), kMaxHelloMessage) << here.message;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::replication
