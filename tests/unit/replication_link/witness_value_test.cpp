#include "replication/arbiter/witness_value.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "replication/arbiter/base64.hpp"
#include "replication/arbiter/etcd_messages.hpp"
#include "tests/unit/hex.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;

const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kVolume = *engine::Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950e");
const WitnessRecord kRecord{0x0102030405060708,
                            *engine::Uuid::parse("f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f"),
                            engine::MemberSet::both(),
                            {0x1112131415161718, 0x2122232425262728}};

WitnessSeal some_seal(std::uint8_t first) {
  WitnessSeal seal{};
  for (std::size_t i = 0; i < seal.size(); ++i) seal[i] = static_cast<std::byte>(first + i);
  return seal;
}
const WitnessSlot kSlot{kPair, kVolume, some_seal(0x40), engine::NodeSide::b};
constexpr std::int64_t kWrites = 9;

// The value of kRecord, byte by byte as witness_value.hpp lays it out. It never changes for version 2.
constexpr std::string_view kGolden =
    "4c535752"
    "0002"
    "0080"
    "00112233445566778899aabbccddeeff"
    "0f8fad5bd9cb469fa16570867728950e"
    "0102030405060708"
    "f0e1d2c3b4a5968778695a4b3c2d1e0f"
    "03"
    "02"
    "000000000000"
    "0000000000000009"
    "1112131415161718"
    "2122232425262728"
    "c6d340db338b467545f5c7b39062ba8965eed5448dddbde6a77af759d9bbc93d";

using test::hex;

/// As if a node of the pair had written it.
void seal(WitnessValue& value) {
  unsigned size = 0;
  HMAC(EVP_sha256(), kSlot.seal.data(), kSlot.seal.size(), reinterpret_cast<const unsigned char*>(value.data()), 96,
       reinterpret_cast<unsigned char*>(value.data() + 96), &size);
}

Errc refusal(const WitnessValue& value) {
  const auto outcome = decode_witness_value(value, kSlot);
  return outcome ? Errc::ok : static_cast<Errc>(outcome.error().value());
}

TEST(WitnessValue, HasTheGoldenBytesAndReadsBack) {
  const auto value = encode_witness_value(kSlot, kRecord, kWrites);
  EXPECT_EQ(hex(value), kGolden);
  const auto back = decode_witness_value(value, kSlot);
  EXPECT_EQ(back, (SealedRecord{kRecord, engine::NodeSide::b, kWrites}));
  EXPECT_EQ(back->record.generations, kRecord.generations);
}

TEST(WitnessValue, IsRefusedWhenAnyBitIsFlipped) {
  for (std::size_t bit = 0; bit < kWitnessValueSize * 8; ++bit) {
    auto value = encode_witness_value(kSlot, kRecord, kWrites);
    value[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(refusal(value), Errc::ok) << "bit " << bit;
  }
}

TEST(WitnessValue, IsRefusedWhenItIsNotSealedWithThePairsKey) {
  WitnessSlot stranger = kSlot;
  stranger.seal = some_seal(0x41);
  EXPECT_EQ(refusal(encode_witness_value(stranger, kRecord, kWrites)), Errc::refused);
}

TEST(WitnessValue, IsRefusedByNameWhenItBelongsElsewhereOrIsOfAnotherVersion) {
  const auto value = encode_witness_value(kSlot, kRecord, kWrites);
  WitnessSlot elsewhere = kSlot;
  elsewhere.pair = kVolume;
  EXPECT_EQ(decode_witness_value(value, elsewhere).error(), Errc::foreign);
  elsewhere = kSlot;
  elsewhere.volume = kPair;
  EXPECT_EQ(decode_witness_value(value, elsewhere).error(), Errc::foreign);
  for (const int version : {1, 3}) {
    auto other = value;
    other[5] = static_cast<std::byte>(version);
    seal(other);
    EXPECT_EQ(refusal(other), Errc::wrong_version);
  }
}

TEST(WitnessValue, IsRefusedWhenSealedButSenseless) {
  for (const auto& [offset, byte] :
       {std::pair{64, 0}, {64, 4}, {65, 0}, {65, 3}, {66, 1}, {71, 1}, {7, 129}, {79, 0}, {72, 0x80}}) {
    auto value = encode_witness_value(kSlot, kRecord, kWrites);
    value[offset] = static_cast<std::byte>(byte);
    seal(value);
    EXPECT_EQ(refusal(value), Errc::corrupt) << "offset " << offset;
  }
  const auto value = encode_witness_value(kSlot, kRecord, kWrites);
  EXPECT_EQ(decode_witness_value(std::span(value).first(127), kSlot).error(), Errc::corrupt);
  EXPECT_EQ(decode_witness_value({}, kSlot).error(), Errc::corrupt);
}

TEST(WitnessSeal, IsTheSameOnBothNodesAndAnotherForAnyOtherPairOrSecret) {
  const WitnessSeal mine = witness_seal(kPair, "secret of a", "secret of b");
  EXPECT_EQ(witness_seal(kPair, "secret of b", "secret of a"), mine);
  EXPECT_NE(witness_seal(kVolume, "secret of a", "secret of b"), mine);
  EXPECT_NE(witness_seal(kPair, "secret of a", "secret of c"), mine);
  EXPECT_NE(witness_seal(kPair, "secret of as", "ecret of b"), mine);
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

const std::string kKey = base64_encode(witness_key(kPair, kVolume));
const std::string kValue = base64_encode(encode_witness_value(kSlot, kRecord, kWrites));

std::string kv(const std::string& key, const std::string& revision, const std::string& value,
               const std::string& version = "9", const std::string& made = "3") {
  return R"({"key":")" + key + R"(","create_revision":")" + made + R"(","mod_revision":)" + revision +
         R"(,"version":")" + version + R"(","value":")" + value + R"("})";
}

// As etcd 3.4 writes it; its cluster id takes all 64 bits.
const std::string kHeader =
    R"("header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"17","raft_term":"2"})";
constexpr std::uint64_t kCluster = 14841639068965178418u;

TEST(EtcdAnswer, GivesTheRecordAndItsRevision) {
  const auto view =
      parse_range_answer(kSlot, "{" + kHeader + R"(,"kvs":[)" + kv(kKey, "\"16\"", kValue) + R"(],"count":"1"})");
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->record, kRecord);
  EXPECT_EQ(view->mod_revision, 16);
  EXPECT_NE(view->cluster, kCluster) << "it also tells since when the record is there";
  EXPECT_EQ(view->revision, 17);
  EXPECT_EQ(view->writes, kWrites);
  EXPECT_FALSE(view->tampered);
  const auto none = parse_range_answer(kSlot, "{" + kHeader + "}");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->record);
  EXPECT_EQ(none->mod_revision, 0);
  EXPECT_EQ(none->cluster, kCluster);
  EXPECT_EQ(none->revision, 17);
}

TEST(EtcdAnswer, OfSeveralReadsGivesEachItsOwn) {
  WitnessSlot other = kSlot;
  other.volume.bytes[0] ^= 1;
  const std::vector<WitnessSlot> slots{kSlot, other, kSlot};
  const std::string one = R"({"response_range":{"kvs":[)" + kv(kKey, "\"16\"", kValue) + "]}}";
  const std::string none = R"({"response_range":{}})";
  const auto body = [](const std::string& responses) { return "{" + kHeader + R"(,"responses":[)" + responses + "]}"; };
  const auto views = parse_reads_answer(slots, body(one + "," + none + "," + one));
  ASSERT_EQ(views.size(), 3u);
  ASSERT_TRUE(views[0] && views[1] && views[2]) << views[0].error().message;
  EXPECT_EQ(views[0]->record, kRecord);
  EXPECT_EQ(views[0]->revision, 17);
  EXPECT_FALSE(views[1]->record);
  EXPECT_EQ(views[1]->mod_revision, 0);
  EXPECT_EQ(views[2]->mod_revision, 16);

  const auto mixed = parse_reads_answer(slots, body(one + "," + one + ",{}"));
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_TRUE(mixed[0]) << "what is wrong with one says nothing of another";
  EXPECT_FALSE(mixed[1]) << "that is another volume's";
  EXPECT_FALSE(mixed[2]);
  for (const std::string& wrong : {body(one), body(one + "," + none), std::string("{"), std::string("{}"), body("")}) {
    const auto refused = parse_reads_answer(slots, wrong);
    ASSERT_EQ(refused.size(), 3u);
    for (const auto& view : refused) EXPECT_FALSE(view) << wrong;
  }
}

TEST(EtcdAnswer, IsRefusedWithoutAClusterAndARevisionThatCanBe) {
  const std::string good = R"("cluster_id":"1","revision":"17")";
  for (const std::string& header : {
           std::string(), std::string(R"("revision":"17")"), std::string(R"("cluster_id":"1")"),
           std::string(R"("cluster_id":"0","revision":"17")"), std::string(R"("cluster_id":"-1","revision":"17")"),
           std::string(R"("cluster_id":"18446744073709551616","revision":"17")"),
           std::string(R"("cluster_id":"1x","revision":"17")"), std::string(R"("cluster_id":" 1","revision":"17")"),
           std::string(R"("cluster_id":"","revision":"17")"), std::string(R"("cluster_id":[],"revision":"17")"),
           std::string(R"("cluster_id":-1,"revision":"17")"), std::string(R"("cluster_id":1.5,"revision":"17")"),
           std::string(R"("cluster_id":"1","revision":"0")"), std::string(R"("cluster_id":"1","revision":"-17")"),
           std::string(R"("cluster_id":"1","revision":"9223372036854775808")"),
           std::string(R"("cluster_id":"1","revision":9223372036854775808)"),
           std::string(R"("cluster_id":"1","revision":null)"),
           std::string(R"("cluster_id":"1","revision":"15")"),  // below the record's
       }) {
    const auto body = [&](const std::string& fields) {
      const std::string answer = R"({"header":{)" + fields + "}";
      const std::string kvs = R"("kvs":[)" + kv(kKey, "\"16\"", kValue) + "]";
      return std::pair(answer + "," + kvs + "}", answer + R"(,"responses":[{"response_range":{)" + kvs + "}}]}");
    };
    const auto [good_range, good_swap] = body(good);
    ASSERT_TRUE(parse_range_answer(kSlot, good_range) && parse_swap_answer(kSlot, kRecord, good_swap));
    const auto [range, swap] = body(header);
    const auto view = parse_range_answer(kSlot, range);
    ASSERT_FALSE(view) << range;
    EXPECT_EQ(view.error().code, Errc::corrupt);
    EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, swap)) << swap;
  }
}

TEST(EtcdAnswer, IsRefusedWhenItIsNotWhatWasAsked) {
  const std::string other = base64_encode("/lockstep/other");
  const std::string kvs = "{" + kHeader + R"(,"kvs":)";
  for (const std::string& body : {std::string(),
                                  std::string("null"),
                                  std::string("[]"),
                                  std::string("{"),
                                  std::string("{}"),
                                  std::string(R"({"header":1})"),
                                  "{" + kHeader + R"(,"count":"1"})",
                                  kvs + "{}}",
                                  kvs + "[]}",
                                  kvs + "[1]}",
                                  kvs + "[" + kv(other, "\"17\"", kValue) + "]}",
                                  kvs + "[" + kv(kKey, "\"0\"", kValue) + "]}",
                                  kvs + "[" + kv(kKey, "\"-1\"", kValue) + "]}",
                                  kvs + "[" + kv(kKey, "\"99999999999999999999\"", kValue) + "]}",
                                  kvs + "[" + kv(kKey, "true", kValue) + "]}",
                                  kvs + "[" + kv(kKey, "\"17\"", kValue, "") + "]}",
                                  kvs + "[" + kv(kKey, "\"17\"", kValue, "0") + "]}",
                                  kvs + "[" + kv(kKey, "\"17\"", kValue, "9", "-1") + "]}",
                                  kvs + "[" + kv(kKey, "\"17\"", "!!!!") + "]}",
                                  kvs + "[" + kv(kKey, "1", kValue) + "," + kv(kKey, "1", kValue) + "]}",
                                  std::string(100000, '[')}) {
    const auto view = parse_range_answer(kSlot, body);
    ASSERT_FALSE(view) << body.substr(0, 200);
    EXPECT_EQ(view.error().code, Errc::corrupt);
    EXPECT_FALSE(view.error().message.empty());
  }
}

/// Who can write to etcd can put back what a node wrote before, or write what it likes; who can also remove the key can
/// write all of it again in its order.
TEST(EtcdAnswer, TellsWhatNoNodeWroteThereAsTheLast) {
  const auto view = [](const std::string& record) {
    const auto parsed = parse_range_answer(kSlot, "{" + kHeader + R"(,"kvs":[)" + record + "]}");
    EXPECT_TRUE(parsed) << parsed.error().message;
    return *parsed;
  };
  const auto last = view(kv(kKey, "16", kValue));
  WitnessSlot stranger = kSlot;
  stranger.seal = some_seal(0);
  const std::string forged = base64_encode(encode_witness_value(stranger, kRecord, kWrites + 1));
  for (const auto& tampered : {view(kv(kKey, "16", kValue, "10")), view(kv(kKey, "16", forged, "10")),
                               view(kv(kKey, "16", base64_encode("rubbish"))), view(kv(kKey, "16", ""))}) {
    EXPECT_TRUE(tampered.tampered);
    EXPECT_FALSE(tampered.record);
    EXPECT_EQ(tampered.mod_revision, 16) << "both nodes together write over it";
    EXPECT_GT(tampered.writes, 0);
  }
  const auto anew = view(kv(kKey, "16", kValue, "9", "4"));
  EXPECT_EQ(anew.record, kRecord);
  EXPECT_NE(anew.cluster, last.cluster);
}

TEST(EtcdAnswer, CountsASwapAsWonOnlyWhenTheRecordIsShownBack) {
  const auto answer = [](const std::string& succeeded, const std::string& responses) {
    return "{" + kHeader + succeeded + R"(,"responses":[)" + responses + "]}";
  };
  const std::string put = R"({"response_put":{}})";
  const std::string mine = R"({"response_range":{"kvs":[)" + kv(kKey, "\"5\"", kValue) + "]}}";
  const auto won = parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":true)", put + "," + mine));
  ASSERT_TRUE(won) << won.error().message;
  EXPECT_TRUE(won->won);
  EXPECT_EQ(won->current.mod_revision, 5);
  EXPECT_EQ(won->current.revision, 17);
  const auto lost = parse_swap_answer(kSlot, kRecord, answer("", mine));
  ASSERT_TRUE(lost);
  EXPECT_FALSE(lost->won);
  EXPECT_EQ(lost->current.cluster, won->current.cluster);
  EXPECT_EQ(lost->current.revision, 17);
  WitnessRecord another = kRecord;
  another.number++;
  EXPECT_FALSE(parse_swap_answer(kSlot, another, answer(R"(,"succeeded":true)", put + "," + mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":true)", mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer(R"(,"succeeded":1)", put + "," + mine)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, answer("", put)));
  EXPECT_FALSE(parse_swap_answer(kSlot, kRecord, "{" + kHeader + "}"));
}

}  // namespace
}  // namespace lockstep::replication
