#include <set>
#include <unordered_set>

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"
#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "engine/runtime/system_random.hpp"

namespace lockstep::engine {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

std::vector<std::byte> counting(int from, int step) {
  std::vector<std::byte> out;
  for (int i = 0; i < 32; ++i) out.push_back(static_cast<std::byte>(from + i * step));
  return out;
}

std::uint32_t on_the_wire(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a | b << 8 | c << 16 | d << 24;
}

// RFC 7143 appendix A.4 gives the digests as the bytes that follow on the wire.
TEST(Crc32c, GivesTheVectorsOfRfc7143) {
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), on_the_wire(0xaa, 0x36, 0x91, 0x8a));
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), on_the_wire(0x43, 0xab, 0xa8, 0x62));
  EXPECT_EQ(crc32c(counting(0, 1)), on_the_wire(0x4e, 0x79, 0xdd, 0x46));
  EXPECT_EQ(crc32c(counting(31, -1)), on_the_wire(0x5c, 0xdb, 0x3f, 0x11));
}

TEST(Crc32c, GivesTheVectorOfAnIscsiReadCommand) {
  std::vector<std::byte> pdu(48);
  const auto set = [&](std::size_t at, int value) { pdu[at] = static_cast<std::byte>(value); };
  set(0, 0x01), set(1, 0xc0), set(16, 0x14), set(22, 0x04), set(27, 0x14), set(31, 0x18);
  set(32, 0x28), set(40, 0x02);
  EXPECT_EQ(crc32c(pdu), on_the_wire(0x56, 0x3a, 0x96, 0xd9));
}

TEST(Crc32c, GivesTheCheckValueOfCrcCatalogues) { EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u); }

TEST(Crc32c, ContinuesOverAnySplit) {
  const auto all = bytes_of("No acknowledged write is ever lost, whatever fails.");
  for (std::size_t split = 0; split <= all.size(); ++split) {
    const std::span whole(all);
    EXPECT_EQ(crc32c(whole.subspan(split), crc32c(whole.first(split))), crc32c(whole)) << split;
  }
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(ByteOrder, FieldsAreKeptMostSignificantByteFirst) {
  struct Wire {
    std::uint8_t kind;
    Be16 two;
    Be24 three;
    Be32 four;
    Be64 eight;
  };
  static_assert(sizeof(Wire) == 18 && WireStruct<Wire>);
  Wire wire{1, 0x0203, 0x040506, 0x0708090A, 0x0B0C0D0E0F101112};
  const auto* raw = reinterpret_cast<const std::uint8_t*>(&wire);
  for (int i = 0; i < 18; ++i) EXPECT_EQ(raw[i], i + 1);
  EXPECT_EQ(wire.two, 0x0203);
  EXPECT_EQ(wire.three, 0x040506u);
  EXPECT_EQ(wire.four, 0x0708090Au);
  EXPECT_EQ(wire.eight, 0x0B0C0D0E0F101112u);
}

TEST(ByteReader, ReadsInOrderAndKnowsWhenItIsFinished) {
  std::array<std::byte, 15> raw{};
  ByteWriter out(raw);
  out.u8(1), out.be16(2), out.be32(3), out.be64(4);
  ASSERT_TRUE(out.ok());
  ASSERT_EQ(out.room(), 0u);
  ByteReader in(raw);
  EXPECT_EQ(in.u8(), 1u);
  EXPECT_EQ(in.be16(), 2u);
  EXPECT_EQ(in.be32(), 3u);
  EXPECT_FALSE(in.finished());
  EXPECT_EQ(in.be64(), 4u);
  EXPECT_TRUE(in.finished());
}

TEST(ByteReader, FailsForGoodAtTheFirstReadBeyondTheEnd) {
  const auto raw = bytes_of("abc");
  ByteReader in(raw);
  EXPECT_EQ(in.be32(), 0u);
  EXPECT_TRUE(in.failed());
  EXPECT_EQ(in.u8(), 0u);
  EXPECT_TRUE(in.bytes(1).empty());
  std::array<std::byte, 2> filled{std::byte{7}, std::byte{7}};
  in.copy(filled);
  EXPECT_EQ(filled[1], std::byte{0});
  EXPECT_FALSE(in.ok());
}

TEST(ByteReader, ReservedBytesThatAreNotZeroFailIt) {
  const std::array<std::byte, 4> raw{std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};
  ByteReader good(raw);
  good.zeros(2);
  EXPECT_TRUE(good.ok());
  ByteReader bad(raw);
  bad.zeros(4);
  EXPECT_TRUE(bad.failed());
}

TEST(ByteWriter, WritesNothingBeyondTheEnd) {
  std::array<std::byte, 4> raw{};
  ByteWriter out{std::span(raw).first(3)};
  out.be16(0x0102);
  out.be16(0x0304);
  EXPECT_TRUE(out.failed());
  EXPECT_EQ(out.size(), 2u);
  EXPECT_EQ(raw[2], std::byte{0});
  EXPECT_EQ(raw[3], std::byte{0});
}

TEST(Uuid, ReadsBackWhatItPrints) {
  const std::string text = "0f8fad5b-d9cb-469f-a165-70867728950e";
  const auto id = Uuid::parse(text);
  ASSERT_TRUE(id);
  EXPECT_EQ(id->to_string(), text);
  EXPECT_EQ(id->bytes[0], 0x0f);
  EXPECT_EQ(id->bytes[15], 0x0e);
  EXPECT_EQ(Uuid::parse("0F8FAD5B-D9CB-469F-A165-70867728950E"), id);
}

TEST(Uuid, RefusesEveryOtherForm) {
  for (const auto* text : {"", "0f8fad5b", "0f8fad5bd9cb469fa16570867728950e", "0f8fad5b-d9cb-469f-a165-70867728950",
                           "0f8fad5b-d9cb-469f-a165-70867728950ef", "0f8fad5b-d9cb-469f-a165_70867728950e",
                           "gf8fad5b-d9cb-469f-a165-70867728950e", "-f8fad5b-d9cb-469f-a165-70867728950e",
                           "{f8fad5b-d9cb-469f-a165-70867728950}", " f8fad5b-d9cb-469f-a165-70867728950e"}) {
    EXPECT_FALSE(Uuid::parse(text)) << text;
  }
}

TEST(Uuid, HashesOfNeighboursDiffer) {
  std::set<std::size_t> hashes;
  Uuid id;
  for (int i = 0; i < 256; ++i) {
    id.bytes[15] = static_cast<std::uint8_t>(i);
    hashes.insert(std::hash<Uuid>{}(id));
  }
  EXPECT_EQ(hashes.size(), 256u);
}

TEST(Random, UuidsAreVersion4AndDoNotRepeat) {
  SystemRandom random;
  std::unordered_set<Uuid> seen;
  for (int i = 0; i < 1000; ++i) {
    const Uuid id = random.uuid();
    EXPECT_EQ(id.bytes[6] >> 4, 4);
    EXPECT_EQ(id.bytes[8] >> 6, 2);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(Errors, EveryCodeHasASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int i = 0; i <= static_cast<int>(Errc::timed_out); ++i) {
    sentences.insert(make_error_code(static_cast<Errc>(i)).message());
  }
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(Errc::timed_out) + 1);
  EXPECT_FALSE(sentences.contains("unknown error"));
  EXPECT_FALSE(make_error_code(Errc::ok));
  EXPECT_EQ(std::error_code(Errc::corrupt), Errc::corrupt);
}

TEST(EpochRecord, DescendsFromItselfAndItsAncestorsOnly) {
  SystemRandom random;
  EpochRecord first, second, stranger;
  first.id = random.uuid();
  second.id = random.uuid();
  second.ancestors = {random.uuid(), first.id};
  stranger.id = random.uuid();
  EXPECT_TRUE(first.descends_from(first));
  EXPECT_TRUE(second.descends_from(first));
  EXPECT_FALSE(first.descends_from(second));
  EXPECT_FALSE(stranger.descends_from(first));
}

TEST(EpochRecord, TheSameNumberWithAnotherIdIsNotADescendant) {
  SystemRandom random;
  EpochRecord mine, theirs;
  mine.number = theirs.number = 5;
  mine.id = random.uuid();
  theirs.id = random.uuid();
  EXPECT_FALSE(theirs.descends_from(mine));
  EXPECT_FALSE(mine.descends_from(theirs));
}

}  // namespace
}  // namespace lockstep::engine
