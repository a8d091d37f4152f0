// The two ends of a protected connection, without one.
#include "engine/iser/protection.hpp"

#include <gtest/gtest.h>

#include "tests/unit/engine/tls_fixture.hpp"
#include "tests/unit/hex.hpp"

namespace lockstep::iser {
namespace {

using engine::MessageCipher;
using engine::TlsErrc;
using engine::TlsRole;
using engine::test::context_of;
using engine::test::MadeCertificate;
using engine::test::make_certificate;

std::vector<std::byte> said_by(Protection& end) {
  const auto unsent = end.unsent();
  std::vector<std::byte> bytes(unsent.begin(), unsent.end());
  end.sent(bytes.size());
  return bytes;
}

class ProtectionTest : public testing::Test {
 protected:
  void shake_hands() {
    ASSERT_FALSE(caller.begin());
    ASSERT_FALSE(target.begin());
    ASSERT_FALSE(target.take(said_by(caller), {}));
    const auto answer = said_by(target);
    // As it may lie in two places.
    ASSERT_FALSE(caller.take(std::span(answer).first(300), std::span(answer).subspan(300)));
    ASSERT_FALSE(target.take(said_by(caller), {}));
    ASSERT_TRUE(caller.is_open() && target.is_open());
    ASSERT_TRUE(caller.unsent().empty() && target.unsent().empty());
  }
  static std::vector<std::byte> sealed(Protection& by, std::string_view text) {
    std::vector<std::byte> bytes(kProtectionSize + text.size());
    write_protection({}, std::span(bytes).first<kProtectionSize>());
    std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin() + kProtectionSize);
    MessageCipher::Tag tag;
    const auto rest = std::span(bytes).subspan(tag.size());
    by.seal(std::array{Protection::Piece{rest, rest}}, tag);
    std::ranges::copy(tag, bytes.begin());
    return bytes;
  }
  static std::error_code open(Protection& by, std::vector<std::byte> bytes) {
    const auto all = std::span(bytes);
    const std::size_t first = std::min(kProtectionSize, all.size());
    return by.open(all.first(first), all.subspan(first));
  }

  MadeCertificate a = make_certificate(), b = make_certificate();
  Protection caller{context_of(a, {b.fingerprint}), TlsRole::client};
  Protection target{context_of(b, {a.fingerprint}), TlsRole::server};
};

TEST_F(ProtectionTest, CarriesMessagesEitherWay) {
  shake_hands();
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(open(target, sealed(caller, "to the target")));
    ASSERT_FALSE(open(caller, sealed(target, "to the caller")));
  }
}

TEST_F(ProtectionTest, AMessageThatCameTwiceIsMissingOrIsOfAnotherWayIsNotOpened) {
  shake_hands();
  const auto first = sealed(caller, "first"), second = sealed(caller, "second"), third = sealed(caller, "third");
  EXPECT_FALSE(open(target, first));
  EXPECT_EQ(open(target, first), Fault::damaged);
  EXPECT_EQ(open(target, third), Fault::damaged);
  EXPECT_EQ(open(caller, second), Fault::damaged) << "its own";
  EXPECT_FALSE(open(target, second));
}

TEST_F(ProtectionTest, AMessageOfAnotherConnectionIsNotOpened) {
  shake_hands();
  Protection other{context_of(a, {b.fingerprint}), TlsRole::client};
  Protection end{context_of(b, {a.fingerprint}), TlsRole::server};
  ASSERT_FALSE(other.begin());
  ASSERT_FALSE(end.take(said_by(other), {}));
  ASSERT_FALSE(other.take(said_by(end), {}));
  ASSERT_FALSE(end.take(said_by(other), {}));
  EXPECT_EQ(open(target, sealed(other, "said elsewhere")), Fault::damaged);
}

TEST_F(ProtectionTest, AMessageThatIsTooShortIsNone) {
  shake_hands();
  std::vector<std::byte> few(kProtectionSize - 1);
  EXPECT_EQ(target.open(few, {}), Fault::too_short);
}

TEST_F(ProtectionTest, APayloadIsOpenedByTheSealThatItsMessageBringsAlone) {
  shake_hands();
  const std::vector<std::byte> said(5000, std::byte{7});
  std::vector<std::byte> first(said.size()), second(said.size()), back(said.size());
  const auto of_first = caller.seal_payload(std::array{Protection::Piece{said, first}});
  const auto of_second = caller.seal_payload(std::array{Protection::Piece{said, second}});
  EXPECT_NE(first, second) << "the same bytes look different each time";
  EXPECT_FALSE(target.open_payload(of_first, second, back));
  EXPECT_FALSE(target.open_payload({}, first, back)) << "none was told of";
  auto other_number = of_first;
  other_number.number = 77;
  EXPECT_FALSE(target.open_payload(other_number, first, back));
  EXPECT_FALSE(caller.open_payload(of_first, first, back)) << "it is of the other way";
  EXPECT_TRUE(target.open_payload(of_second, second, back)) << "in any order";
  EXPECT_EQ(back, said);
  EXPECT_TRUE(target.open_payload(of_first, first, first)) << "where it lies";
  EXPECT_EQ(first, said);
}

TEST_F(ProtectionTest, AMessageIsNoPayload) {
  shake_hands();
  auto message = sealed(caller, "one");  // its number is 0, the first payload's 1
  message = sealed(caller, "two");
  MessageCipher::Tag tag;
  std::copy_n(message.begin(), tag.size(), tag.begin());
  std::vector<std::byte> back(message.size() - tag.size());
  EXPECT_FALSE(target.open_payload({1, tag}, std::span(message).subspan(tag.size()), back));
}

TEST_F(ProtectionTest, ACallerThatIsNotThePartnerIsToldByWhatComesInThePlaceOfTheFirstMessage) {
  Protection stranger{context_of(make_certificate(), {b.fingerprint}), TlsRole::client};
  ASSERT_FALSE(stranger.begin());
  ASSERT_FALSE(target.take(said_by(stranger), {}));
  ASSERT_FALSE(stranger.take(said_by(target), {}));
  ASSERT_TRUE(stranger.is_open()) << "as far as it knows";
  EXPECT_EQ(target.take(said_by(stranger), {}), TlsErrc::foreign);
  EXPECT_FALSE(target.is_open());
  EXPECT_EQ(open(stranger, said_by(target)), TlsErrc::refused_there);
}

TEST(ProtectionFormat, HasTheseBytes) {
  PayloadSeal seal{.number = 0x0102030405060708, .tag = {}};
  seal.tag.fill(std::byte{0xAB});
  std::array<std::byte, kProtectionSize> bytes;
  write_protection(seal, bytes);
  EXPECT_EQ(test::hex(bytes), std::string(32, '0') + "0102030405060708" + "abababababababababababababababab");
  EXPECT_EQ(read_protection(bytes), seal);
}

TEST(ProtectionFormat, WhatACallerSays) {
  EXPECT_EQ(test::hex(protected_private_data(true)), "800000004c53545001");
  auto said = protected_private_data(true);
  EXPECT_TRUE(wants_protection(said));
  EXPECT_TRUE(takes_invalidation(said));
  EXPECT_FALSE(wants_protection(std::span(said).first(8)));
  EXPECT_FALSE(wants_protection(private_data(true)));
  said.back() = std::byte{2};
  EXPECT_FALSE(wants_protection(said)) << "another version of it";
  const std::array<std::byte, 56> padded{std::byte{0x80}};
  EXPECT_FALSE(wants_protection(padded));
}

}  // namespace
}  // namespace lockstep::iser
