#include "engine/iser/protection.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

namespace lockstep::iser {

using engine::MessageCipher;
using Direction = MessageCipher::Direction;

namespace {

constexpr std::string_view kLabel = "EXPERIMENTAL lockstep iSER 1";  // RFC 5705 4
constexpr std::size_t kSecret = 32;                                  // bytes
constexpr std::uint64_t kMessagesPerKey = std::uint64_t{1} << 22;    // of some 8 KiB
constexpr std::uint64_t kPayloadsPerKey = std::uint64_t{1} << 15;    // of 1 MiB

// A TLS record (RFC 8446 5.1) of this length: one tag in 2^40 looks so, too.
bool is_record(std::span<const std::byte> bytes, std::size_t length) {
  constexpr std::size_t kHeader = 5;
  if (bytes.size() < kHeader || length < kHeader) return false;
  const std::size_t body = length - kHeader;
  return bytes[0] == std::byte{23} && bytes[1] == std::byte{3} && bytes[2] == std::byte{3} &&
         bytes[3] == static_cast<std::byte>(body >> 8) && bytes[4] == static_cast<std::byte>(body);
}

}  // namespace

Protection::Protection(std::shared_ptr<const engine::TlsContext> context, engine::TlsRole role)
    : role_(role), handshake_(std::move(context), role) {}

std::error_code Protection::begin() {
  return role_ == engine::TlsRole::client ? take(std::span<const std::byte>{}) : std::error_code{};
}

std::error_code Protection::take(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (const auto why = take(first)) return why;
  return second.empty() ? std::error_code{} : take(second);
}

std::error_code Protection::take(std::span<const std::byte> bytes) {
  if (const auto why = handshake_.take(bytes)) return why;
  return handshake_.is_over() && !ciphers_ ? make_ciphers() : std::error_code{};
}

// The caller's messages, the target's, the caller's payloads, the target's.
std::error_code Protection::make_ciphers() {
  engine::SecretBytes<4 * kSecret> all;
  if (!handshake_.export_secret(kLabel, all.span())) return make_error_code(engine::Errc::resource_exhausted);
  std::array<MessageCipher::Secret, 4> secrets;
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    std::ranges::copy(all.span().subspan(i * kSecret, kSecret), secrets[i].span().begin());
  }
  const std::size_t own = role_ == engine::TlsRole::client ? 0 : 1;
  auto seals = MessageCipher::make(Direction::seals, secrets[own], kMessagesPerKey);
  auto opens = MessageCipher::make(Direction::opens, secrets[1 - own], kMessagesPerKey);
  auto seals_payloads = MessageCipher::make(Direction::seals, secrets[2 + own], kPayloadsPerKey);
  auto opens_payloads = MessageCipher::make(Direction::opens, secrets[3 - own], kPayloadsPerKey);
  if (!seals || !opens || !seals_payloads || !opens_payloads) return make_error_code(engine::Errc::resource_exhausted);
  ciphers_.emplace(*std::move(seals), *std::move(opens), *std::move(seals_payloads), *std::move(opens_payloads));
  return {};
}

void Protection::seal(std::span<const Piece> pieces, MessageCipher::Tag& tag) {
  ciphers_->seals.seal(sealed_++, pieces, tag);
}

// A target that does not take the caller's certificate says so when the caller has all that it waits for.
std::error_code Protection::open(std::span<std::byte> first, std::span<std::byte> second) {
  if (opened_ == 0 && is_record(first, first.size() + second.size())) {
    const auto why = take(first, second);
    return why ? why : make_error_code(Fault::damaged);
  }
  if (first.size() < kProtectionSize) return make_error_code(Fault::too_short);
  MessageCipher::Tag tag;
  std::ranges::copy(first.first<MessageCipher::kTag>(), tag.begin());
  const auto rest = first.subspan<MessageCipher::kTag>();
  if (ciphers_->opens.open(opened_, std::array{Piece{rest, rest}, Piece{second, second}}, tag)) {
    ++opened_;
    return {};
  }
  return make_error_code(Fault::damaged);
}

PayloadSeal Protection::seal_payload(std::span<const Piece> pieces) {
  PayloadSeal seal{.number = ++payloads_};
  ciphers_->seals_payloads.seal(seal.number, pieces, seal.tag);
  return seal;
}

bool Protection::open_payload(const PayloadSeal& seal, std::span<const std::byte> from, std::span<std::byte> into) {
  return seal.number != 0 && ciphers_->opens_payloads.open(seal.number, std::array{Piece{from, into}}, seal.tag);
}

}  // namespace lockstep::iser
