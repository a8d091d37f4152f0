// What one end of a connection sends, sealed by number. The expected bytes are another implementation's (HMAC-SHA256 by
// RFC 5869, AES-GCM by python3-cryptography).
#include "engine/encryption/message_cipher.hpp"

#include <string_view>

#include <gtest/gtest.h>

#include "tests/unit/hex.hpp"

namespace lockstep::engine {
namespace {

using lockstep::test::hex;
using Direction = MessageCipher::Direction;
using Piece = MessageCipher::Piece;

MessageCipher::Secret counted() {
  MessageCipher::Secret secret;
  for (std::size_t i = 0; i < secret.span().size(); ++i) secret.span()[i] = static_cast<std::byte>(i);
  return secret;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Sealed {
  std::vector<std::byte> bytes;
  MessageCipher::Tag tag{};
};

Sealed sealed(std::uint64_t number, std::string_view text, std::uint64_t numbers_per_key = 4) {
  auto cipher = *MessageCipher::make(Direction::seals, counted(), numbers_per_key);
  Sealed out{bytes_of(text), {}};
  cipher.seal(number, std::array{Piece{out.bytes, out.bytes}}, out.tag);
  return out;
}

bool opens(MessageCipher& cipher, std::uint64_t number, Sealed sealed, std::string_view expected) {
  const bool good = cipher.open(number, std::array{Piece{sealed.bytes, sealed.bytes}}, sealed.tag);
  return good && sealed.bytes == bytes_of(expected);
}

TEST(MessageCipherTest, HasTheseBytes) {
  const auto first = sealed(1, "what is said");
  EXPECT_EQ(hex(first.bytes), "828d0691b10c28f02406f2fb");
  EXPECT_EQ(hex(first.tag), "1eef6721e8aee5ad96345d390a37d76a");
  const auto by_the_next_key = sealed(4, "what is said");
  EXPECT_EQ(hex(by_the_next_key.bytes), "f23c97bc83821bc68ef166be");
  EXPECT_EQ(hex(by_the_next_key.tag), "833e3e5c3eb17993f6ab45ac39f606af");
}

TEST(MessageCipherTest, PiecesAreOneMessageWhereverTheyAreCut) {
  const auto whole = sealed(7, "in one piece, or in several: the same");
  for (std::size_t cut = 0; cut <= whole.bytes.size(); ++cut) {
    auto seals = *MessageCipher::make(Direction::seals, counted(), 4);
    auto opens = *MessageCipher::make(Direction::opens, counted(), 4);
    const auto text = bytes_of("in one piece, or in several: the same");
    std::vector<std::byte> into(text.size()), back(text.size());
    const auto all = std::span(text);
    MessageCipher::Tag tag;
    seals.seal(7,
               std::array{Piece{all.first(cut), std::span(into).first(cut)},
                          Piece{all.subspan(cut), std::span(into).subspan(cut)}},
               tag);
    EXPECT_EQ(into, whole.bytes) << cut;
    EXPECT_EQ(tag, whole.tag) << cut;
    const std::size_t other = text.size() - cut;
    const auto sealed_bytes = std::span<const std::byte>(into);
    EXPECT_TRUE(opens.open(7,
                           std::array{Piece{sealed_bytes.first(other), std::span(back).first(other)},
                                      Piece{sealed_bytes.subspan(other), std::span(back).subspan(other)}},
                           tag));
    EXPECT_EQ(back, text) << cut;
  }
}

TEST(MessageCipherTest, EveryChangedBitIsNoticed) {
  const auto good = sealed(3, "one bit");
  auto cipher = *MessageCipher::make(Direction::opens, counted(), 4);
  for (std::size_t bit = 0; bit < (good.bytes.size() + good.tag.size()) * 8; ++bit) {
    Sealed changed = good;
    auto& byte = bit / 8 < good.bytes.size() ? changed.bytes[bit / 8] : changed.tag[bit / 8 - good.bytes.size()];
    byte ^= std::byte(1 << (bit % 8));
    EXPECT_FALSE(opens(cipher, 3, changed, "one bit")) << bit;
  }
  EXPECT_TRUE(opens(cipher, 3, good, "one bit")) << "what was refused has changed nothing";
}

TEST(MessageCipherTest, IsOpenedByItsOwnNumberAloneInWhateverOrder) {
  auto cipher = *MessageCipher::make(Direction::opens, counted(), 4);
  for (const std::uint64_t number : {0U, 9U, 3U, 4U, 2U, 100'000U, 5U}) {
    EXPECT_TRUE(opens(cipher, number, sealed(number, "mine"), "mine")) << number;
    EXPECT_FALSE(opens(cipher, number + 1, sealed(number, "mine"), "mine")) << number;
    EXPECT_FALSE(opens(cipher, number + 4, sealed(number, "mine"), "mine")) << number << ", by the next key";
  }
}

TEST(MessageCipherTest, AnotherSecretOpensNothing) {
  auto other = counted();
  other.span()[31] ^= std::byte{1};
  auto cipher = *MessageCipher::make(Direction::opens, other, 4);
  EXPECT_FALSE(opens(cipher, 1, sealed(1, "what is said"), "what is said"));
}

}  // namespace
}  // namespace lockstep::engine
