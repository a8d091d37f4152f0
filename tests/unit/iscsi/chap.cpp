// CHAP: values computed elsewhere, and everything that must not pass.
#include "engine/iscsi/chap.hpp"

#include <set>

#include <gtest/gtest.h>

namespace lockstep::iscsi {
namespace {

class CountingRandom : public engine::Random {
 public:
  std::uint64_t next() override { return state_ = state_ * 6364136223846793005u + 1442695040888963407u; }

 private:
  std::uint64_t state_ = 1;
};

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

// Computed with Python's hashlib over bytes([0x10]) + b"secret-of-12b" +
// bytes.fromhex("000102030405060708090a0b0c0d0e0f").
TEST(Chap, ResponsesAreThoseOfAnotherImplementation) {
  const auto challenge = bytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  const auto response = [&](ChapAlgorithm a) { return encode_hex(chap_response(a, 0x10, "secret-of-12b", challenge)); };
  EXPECT_EQ(response(ChapAlgorithm::md5), "0xef02280c774b183873fc76032afba978");
  EXPECT_EQ(response(ChapAlgorithm::sha1), "0xd494e929d17e20bcbf86c5d6d8ccd5209950adec");
  EXPECT_EQ(response(ChapAlgorithm::sha256), "0x67ecb76f0fd6d9d2fb445f3d61f5b864b2860a2538cacfbd9fb037e0d0317cfe");
  EXPECT_EQ(response(ChapAlgorithm::sha3_256), "0xf2c229badf21b555da05b3bf95be9c1662624526a0855e54f47f6c11d66301f1");
}

TEST(Chap, BinaryValuesInBothEncodings) {
  EXPECT_EQ(decode_binary("0x00fF10"), bytes({0, 255, 16}));
  EXPECT_EQ(decode_binary("0X1a"), bytes({0x1A}));
  EXPECT_EQ(decode_binary("0bAP8Q"), bytes({0, 255, 16}));
  EXPECT_EQ(decode_binary("0bAP8="), bytes({0, 255}));
  EXPECT_EQ(decode_binary("0BAA=="), bytes({0}));
}

TEST(Chap, MalformedBinaryIsRefused) {
  for (const auto* text : {"", "0x", "0b", "12", "0x1", "0xgg", "0x 1", "0bAP8", "0bA===", "0b====", "0bAP=Q",
                           "0bAB==", "0bAP9=", "0bA-8Q", "0y00"}) {
    EXPECT_FALSE(decode_binary(text)) << text;
  }
  EXPECT_TRUE(decode_binary("0x" + std::string(2 * kMaxChapBinary, 'a')));
  EXPECT_FALSE(decode_binary("0x" + std::string(2 * kMaxChapBinary + 2, 'a')));
  EXPECT_FALSE(decode_binary("0b" + std::string(4 * 1024, 'A')));
}

TEST(Chap, TheFirstKnownAlgorithmOfTheOfferIsTaken) {
  EXPECT_EQ(choose_chap_algorithm("7,5"), ChapAlgorithm::sha256);
  EXPECT_EQ(choose_chap_algorithm("128,5"), ChapAlgorithm::md5);
  EXPECT_FALSE(choose_chap_algorithm("128"));
  EXPECT_FALSE(choose_chap_algorithm(""));
  EXPECT_FALSE(choose_chap_algorithm("5x"));
}

TEST(Chap, OnlyTheRightSecretVerifies) {
  CountingRandom random;
  for (const auto algorithm :
       {ChapAlgorithm::md5, ChapAlgorithm::sha1, ChapAlgorithm::sha256, ChapAlgorithm::sha3_256}) {
    const ChapVerifier verifier(algorithm, random);
    const auto challenge = *decode_binary(verifier.challenge_text());
    const auto id = static_cast<std::uint8_t>(std::stoi(verifier.identifier_text()));
    const auto good = chap_response(algorithm, id, "the right secret", challenge);
    ASSERT_EQ(good.size(), digest_size(algorithm));
    EXPECT_TRUE(verifier.verify("the right secret", encode_hex(good)));
    EXPECT_FALSE(verifier.verify("another secret", encode_hex(good)));
    EXPECT_FALSE(verifier.verify("the right secret", encode_hex(std::span(good).first(good.size() - 1))));
    EXPECT_FALSE(verifier.verify("the right secret", encode_hex(good) + "00"));
    EXPECT_FALSE(verifier.verify("the right secret", "0x"));
  }
}

TEST(Chap, ChallengesDifferAndOurOwnIsKnown) {
  CountingRandom random;
  std::set<std::string> seen;
  for (int i = 0; i < 64; ++i) seen.insert(ChapVerifier(ChapAlgorithm::md5, random).challenge_text());
  EXPECT_EQ(seen.size(), 64u);
  const ChapVerifier verifier(ChapAlgorithm::md5, random);
  EXPECT_TRUE(verifier.is_own_challenge(*decode_binary(verifier.challenge_text())));
  EXPECT_FALSE(verifier.is_own_challenge(*decode_binary(*seen.begin())));
}

}  // namespace
}  // namespace lockstep::iscsi
