#include "engine/iscsi/chap.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <openssl/evp.h>

#include "engine/iscsi/keys.hpp"

namespace lockstep::iscsi {
namespace {

constexpr std::size_t kChallengeSize = 32;  // bytes

const EVP_MD* digest_of(ChapAlgorithm algorithm) {
  switch (algorithm) {
    case ChapAlgorithm::md5:
      return EVP_md5();
    case ChapAlgorithm::sha1:
      return EVP_sha1();
    case ChapAlgorithm::sha256:
      return EVP_sha256();
    case ChapAlgorithm::sha3_256:
      return EVP_sha3_256();
  }
  return nullptr;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

std::optional<std::vector<std::byte>> decode_hex(std::string_view digits) {
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() / 2 > kMaxChapBinary) return std::nullopt;
  std::vector<std::byte> out;
  out.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_value(digits[i]);
    const int low = hex_value(digits[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<std::byte>(high << 4 | low));
  }
  return out;
}

std::optional<std::vector<std::byte>> decode_base64(std::string_view digits) {
  if (digits.empty() || digits.size() % 4 != 0 || digits.size() / 4 * 3 > kMaxChapBinary + 2) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && digits.ends_with('=')) digits.remove_suffix(1), ++padding;
  std::vector<std::byte> out;
  out.reserve(digits.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : digits) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out.push_back(static_cast<std::byte>(bits >> held));
      bits &= (1u << held) - 1;
    }
  }
  if (bits != 0 || out.empty() || out.size() > kMaxChapBinary) return std::nullopt;
  return out;
}

}  // namespace

std::optional<ChapAlgorithm> parse_chap_algorithm(std::string_view number) {
  const auto value = parse_number(number);
  if (!value || *value < 5 || *value > 8) return std::nullopt;
  return static_cast<ChapAlgorithm>(*value);
}

std::optional<ChapAlgorithm> choose_chap_algorithm(std::string_view offered) {
  while (!offered.empty()) {
    const std::size_t comma = offered.find(',');
    if (const auto algorithm = parse_chap_algorithm(offered.substr(0, comma))) return algorithm;
    offered = comma == std::string_view::npos ? std::string_view{} : offered.substr(comma + 1);
  }
  return std::nullopt;
}

std::size_t digest_size(ChapAlgorithm algorithm) {
  switch (algorithm) {
    case ChapAlgorithm::md5:
      return 16;
    case ChapAlgorithm::sha1:
      return 20;
    case ChapAlgorithm::sha256:
    case ChapAlgorithm::sha3_256:
      return 32;
  }
  return 0;
}

std::vector<std::byte> chap_response(ChapAlgorithm algorithm, std::uint8_t identifier, std::string_view secret,
                                     std::span<const std::byte> challenge) {
  std::vector<std::byte> text;
  text.reserve(1 + secret.size() + challenge.size());
  text.push_back(static_cast<std::byte>(identifier));
  const auto* bytes = reinterpret_cast<const std::byte*>(secret.data());
  text.insert(text.end(), bytes, bytes + secret.size());
  text.insert(text.end(), challenge.begin(), challenge.end());
  std::vector<std::byte> out(EVP_MAX_MD_SIZE);
  unsigned length = 0;
  const int ok = EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(out.data()), &length,
                            digest_of(algorithm), nullptr);
  out.resize(ok == 1 ? length : 0);
  return out;
}

bool equal_secretly(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

std::string encode_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "0x";
  for (const std::byte b : bytes) {
    out.push_back(digits[std::to_integer<std::size_t>(b >> 4)]);
    out.push_back(digits[std::to_integer<std::size_t>(b & std::byte{15})]);
  }
  return out;
}

std::optional<std::vector<std::byte>> decode_binary(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return decode_hex(text.substr(2));
  if (text.starts_with("0b") || text.starts_with("0B")) return decode_base64(text.substr(2));
  return std::nullopt;
}

bool is_asked_by(std::span<const std::byte> challenge, std::string_view asker) {
  const auto name = std::as_bytes(std::span(asker));
  // The zero after it keeps a name that begins with another one from being taken for it.
  return !name.empty() && challenge.size() > name.size() && challenge[name.size()] == std::byte{0} &&
         std::ranges::equal(challenge.first(name.size()), name);
}

ChapVerifier::ChapVerifier(ChapAlgorithm algorithm, engine::Random& random, std::string_view asker)
    : algorithm_(algorithm), identifier_(static_cast<std::uint8_t>(random.next())) {
  const auto name = std::as_bytes(std::span(asker));
  challenge_.assign(name.begin(), name.end());
  if (!name.empty()) challenge_.push_back(std::byte{0});
  const std::size_t drawn_from = challenge_.size();
  challenge_.resize(drawn_from + kChallengeSize);
  for (std::size_t i = 0; i < kChallengeSize; i += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = random.next();
    std::memcpy(challenge_.data() + drawn_from + i, &drawn, sizeof drawn);
  }
}

bool ChapVerifier::verify(std::string_view secret, std::string_view response_text) const {
  const auto response = decode_binary(response_text);
  if (!response || response->size() != digest_size(algorithm_)) return false;
  return equal_secretly(*response, chap_response(algorithm_, identifier_, secret, challenge_));
}

bool ChapVerifier::is_own_challenge(std::span<const std::byte> challenge) const {
  return std::equal(challenge.begin(), challenge.end(), challenge_.begin(), challenge_.end());
}

}  // namespace lockstep::iscsi
