#include "engine/encryption/message_cipher.hpp"

#include <algorithm>
#include <cassert>
#include <memory>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "engine/base/byte_order.hpp"

namespace lockstep::engine {
using openssl::raw;

namespace {

constexpr std::size_t kKey = 32;

/// What a key is derived for.
struct KeyInfo {
  std::array<char, 12> label{'l', 'o', 'c', 'k', 's', 't', 'e', 'p', ' ', 'k', 'e', 'y'};
  Be64 generation;
};
static_assert(sizeof(KeyInfo) == 20);

using Kdf = std::unique_ptr<EVP_KDF, openssl::Deleter<EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, openssl::Deleter<EVP_KDF_CTX_free>>;

/// HKDF-Expand (RFC 5869 2.3) of a secret that is uniformly random. False: there is no memory.
bool expand(const MessageCipher::Secret& secret, std::span<const std::byte> info, std::span<std::byte> into) {
  const Kdf kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const KdfContext context(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  char digest[] = "SHA256";
  auto* const key = const_cast<std::byte*>(secret.span().data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  auto* const label = const_cast<std::byte*>(info.data());         // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const std::array parameters{OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
                              OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                              OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret.span().size()),
                              OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label, info.size()),
                              OSSL_PARAM_construct_end()};
  return context && EVP_KDF_derive(context.get(), raw(into.data()), into.size(), parameters.data()) == 1;
}

}  // namespace

std::optional<MessageCipher> MessageCipher::make(Direction direction, const Secret& secret,
                                                 std::uint64_t numbers_per_key) {
  assert(numbers_per_key != 0);
  std::optional<MessageCipher> made(MessageCipher(direction, secret, numbers_per_key));
  made->context_.reset(EVP_CIPHER_CTX_new());
  if (!made->context_ || !made->use_key(0)) made.reset();
  return made;
}

bool MessageCipher::use_key(std::uint64_t generation) {
  generation_.reset();
  KeyInfo info;
  info.generation = generation;
  SecretBytes<kKey + kIv> made;
  const bool ready = expand(secret_, std::as_bytes(std::span(&info, 1)), made.span()) &&
                     EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, raw(made.span().data()), nullptr,
                                       direction_ == Direction::seals ? 1 : 0) == 1;
  std::ranges::copy(made.span().last<kIv>(), iv_.begin());
  if (ready) generation_ = generation;
  return ready;
}

// The number goes into the initialization vector as a record's does in TLS (RFC 8446 5.3).
bool MessageCipher::begin(std::uint64_t number) {
  const std::uint64_t generation = number / numbers_per_key_;
  if (generation_ != generation && !use_key(generation)) return false;
  auto iv = iv_;
  for (std::size_t i = 0; i < 8; ++i) iv[kIv - 1 - i] ^= static_cast<std::byte>(number >> (8 * i));
  return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(iv.data()), -1) == 1;
}

void MessageCipher::run(std::span<const Piece> pieces) {
  for (const auto& [from, into] : pieces) {
    if (from.empty()) continue;
    assert(into.size() == from.size());
    int length = 0;
    [[maybe_unused]] const int done =
        EVP_CipherUpdate(context_.get(), raw(into.data()), &length, raw(from.data()), static_cast<int>(from.size()));
    assert(done == 1 && static_cast<std::size_t>(length) == from.size());
  }
}

void MessageCipher::seal(std::uint64_t number, std::span<const Piece> pieces, Tag& tag) {
  assert(direction_ == Direction::seals);
  [[maybe_unused]] const bool ready = begin(number);
  assert(ready);
  run(pieces);
  int none = 0;
  std::array<unsigned char, kTag> rest{};
  [[maybe_unused]] const bool done =
      EVP_CipherFinal_ex(context_.get(), rest.data(), &none) == 1 &&
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(kTag), tag.data()) == 1;
  assert(done && none == 0);
}

bool MessageCipher::open(std::uint64_t number, std::span<const Piece> pieces, const Tag& tag) {
  assert(direction_ == Direction::opens);
  if (!begin(number)) return false;
  run(pieces);
  auto expected = tag;
  int none = 0;
  std::array<unsigned char, kTag> rest{};
  return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(kTag), expected.data()) == 1 &&
         EVP_CipherFinal_ex(context_.get(), rest.data(), &none) == 1;
}

}  // namespace lockstep::engine
