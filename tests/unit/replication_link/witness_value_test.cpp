#include "replication/arbiter/witness_value.hpp"

#include <gtest/gtest.h>

#include "engine/base/crc32c.hpp"
#include "replication/arbiter/base64.hpp"
#include "replication/arbiter/etcd_messages.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;

const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kVolume = *engine::Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950e");
const WitnessRecord kRecord{0x0102030405060708, *engine::Uuid::parse("f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f"),
                            engine::MemberSet::both()};

// The value of kRecord, byte by byte as witness_value.hpp lays it out. It never changes for version 1.
constexpr std::string_view kGolden =
    "4c535752"
    "0001"
    "0050"
    "00112233445566778899aabbccddeeff"
    "0f8fad5bd9cb469fa16570867728950e"
    "0102030405060708"
    "f0e1d2c3b4a5968778695a4b3c2d1e0f"
    "03"
    "0000000000000000000000"
    "62aa1c58";

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const auto b : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return text;
}

void seal(WitnessValue& value) {
  const std::uint32_t crc = engine::crc32c(std::span(value).first(76));
  for (int i = 0; i < 4; ++i) value[76 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
}

Errc refusal(const WitnessValue& value) {
  const auto outcome = decode_witness_value(value, kPair, kVolume);
  return outcome ? Errc::ok : static_cast<Errc>(outcome.error().value());
}

TEST(WitnessValue, HasTheGoldenBytesAndReadsBack) {
  const auto value = encode_witness_value(kPair, kVolume, kRecord);
  EXPECT_EQ(hex(value), kGolden);
  EXPECT_EQ(decode_witness_value(value, kPair, kVolume), kRecord);
}

TEST(WitnessValue, IsRefusedAsCorruptWhenAnyBitIsFlipped) {
  for (std::size_t bit = 0; bit < kWitnessValueSize * 8; ++bit) {
    auto value = encode_witness_value(kPair, kVolume, kRecord);
    value[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(refusal(value), Errc::corrupt) << "bit " << bit;
  }
}

TEST(WitnessValue, IsRefusedByNameWhenItBelongsElsewhereOrIsOfAnotherVersion) {
  const auto value = encode_witness_value(kPair, kVolume, kRecord);
  EXPECT_EQ(decode_witness_value(value, kVolume, kVolume).error(), Errc::foreign);
  EXPECT_EQ(decode_witness_value(value, kPair, kPair).error(), Errc::foreign);
  auto newer = value;
  newer[5] = std::byte{2};
  seal(newer);
  EXPECT_EQ(refusal(newer), Errc::wrong_version);
}

TEST(WitnessValue, IsRefusedWhenSealedButSenseless) {
  for (const auto& [offset, byte] : {std::pair{64, 0}, {64, 4}, {65, 1}, {75, 1}, {7, 81}}) {
    auto value = encode_witness_value(kPair, kVolume, kRecord);
    value[offset] = static_cast<std::byte>(byte);
    seal(value);
    EXPECT_EQ(refusal(value), Errc::corrupt) << "offset " << offset;
  }
  const auto value = encode_witness_value(kPair, kVolume, kRecord);
  EXPECT_EQ(decode_witness_value(std::span(value).first(79), kPair, kVolume).error(), Errc::corrupt);
  EXPECT_EQ(decode_witness_value({}, kPair, kVolume).error(), Errc::corrupt);
}

TEST(Base64, AgreesWithRfc4648AndRefusesWhatIsNotCanonical) {
  for (const auto& [plain, coded] : {std::pair<std::string_view, std::string_view>{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64_encode(plain), coded);
    const auto back = base64_decode(coded);
    ASSERT_TRUE(back) << coded;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(back->data()), back->size()), plain);
  }
  for (const std::string_view bad : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Zm9v\n", "Zm-v", "=g=="}) {
    EXPECT_FALSE(base64_decode(bad)) << bad;
  }
}

const WitnessSlot kSlot{kPair, kVolume};
const std::string kKey = base64_encode(witness_key(kPair, kVolume));
const std::string kValue = base64_encode(encode_witness_value(kPair, kVolume, kRecord));

std::string kv(const std::string& key, const std::string& revision, const std::string& value) {
  return R"({"key":")" + key + R"(","mod_revision":)" + revision + R"(,"value":")" + value + R"("})";
}

TEST(EtcdAnswer, GivesTheRecordAndItsRevision) {
  const auto view =
      parse_range_answer(kSlot, R"({"header":{},"kvs":[)" + kv(kKey, "\"17\"", kValue) + R"(],"count":"1"})");
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->record, kRecord);
  EXPECT_EQ(view->mod_revision, 17);
  const auto none = parse_range_answer(kSlot, R"({"header":{}})");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->record);
  EXPECT_EQ(none->mod_revision, 0);
}

TEST(EtcdAnswer, IsRefusedWhenItIsNotWhatWasAsked) {
  const std::string other = base64_encode("/lockstep/other");
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string("{}"),
        std::string(R"({"header":1})"), std::string(R"({"header":{},"count":"1"})"),
        std::string(R"({"header":{},"kvs":{}})"), std::string(R"({"header":{},"kvs":[]})"),
        std::string(R"({"header":{},"kvs":[1]})"), R"({"header":{},"kvs":[)" + kv(other, "\"17\"", kValue) + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "\"0\"", kValue) + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "\"-1\"", kValue) + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "\"99999999999999999999\"", kValue) + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "true", kValue) + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "\"17\"", "") + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "\"17\"", "!!!!") + "]}",
        R"({"header":{},"kvs":[)" + kv(kKey, "1", kValue) + "," + kv(kKey, "1", kValue) + "]}",
        std::string(100000, '[')}) {
    const auto view = parse_range_answer(kSlot, body);
    ASSERT_FALSE(view) << body.substr(0, 200);
    EXPECT_EQ(view.error().code, Errc::corrupt);
    EXPECT_FALSE(view.error().message.empty());
  }
}

TEST(EtcdAnswer, CountsASwapAsWonOnlyWhenTheRecordIsShownBack) {
  const auto answer = [](const std::string& succeeded, const std::string& responses) {
    return R"({"header":{})" + succeeded + R"(,"responses":[)" + responses + "]}";
  };
  const std::string put = R"({"response_put":{}})";
  const std::string mine = R"({"response_range":{"kvs":[)" + kv(kKey, "\"5\"", kValue) + "]}}";
  const auto won = parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":true)", put + "," + mine));
  ASSERT_TRUE(won) << won.error().message;
  EXPECT_TRUE(won->won);
  EXPECT_EQ(won->current.mod_revision, 5);
  const auto lost = parse_swap_answer(kSlot, kRecord, answer("", mine));
  ASSERT_TRUE(lost);
  EXPECT_FALSE(lost->won);
  WitnessRecord another = kRecord;
  another.number++;
  EXPECT_FALSE(parse_swap_answer(kSlot, another, answer(R"(,"succeeded":true)", put + "," + mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":true)", mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":1)", put + "," + mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer("", put)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, R"({"header":{}})"));
}

}  // namespace
}  // namespace lockstep::replication
