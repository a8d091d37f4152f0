#include "engine/net/tls_record_key.hpp"

#include <charconv>
#include <memory>
#include <span>
#include <string>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "engine/base/openssl.hpp"

namespace lockstep::engine {
namespace {

constexpr std::size_t kTrafficSecretSize = 48;  // SHA-384's length
using TlsKdf = std::unique_ptr<EVP_KDF, openssl::Deleter<EVP_KDF_free>>;
using TlsKdfContext = std::unique_ptr<EVP_KDF_CTX, openssl::Deleter<EVP_KDF_CTX_free>>;

/// HKDF-Expand-Label(secret, label, "", length), RFC 8446 7.1.
bool expand_label(std::span<const std::byte> secret, std::string label, std::span<std::byte> into) {
  const TlsKdf derivation(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr));
  const TlsKdfContext context(derivation ? EVP_KDF_CTX_new(derivation.get()) : nullptr);
  std::string digest = "SHA384", prefix = "tls13 ";
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  auto* const key = const_cast<std::byte*>(secret.data());  // it is read only
  const std::array parameters{
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix.data(), prefix.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, label.data(), label.size()),
      OSSL_PARAM_construct_end(),
  };
  const bool made =
      context && EVP_KDF_derive(context.get(), openssl::raw(into.data()), into.size(), parameters.data()) == 1;
  if (!made) ERR_clear_error();
  return made;
}

}  // namespace

TlsRecordKey::~TlsRecordKey() {
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(iv.data(), iv.size());
}

void TlsSendSecret::take(std::string_view line, std::string_view label) {
  if (!line.starts_with(label) || line.substr(label.size(), 1) != " ") return;
  const std::string_view hex = line.substr(line.rfind(' ') + 1);
  if (hex.size() != 2 * kTrafficSecretSize) return;
  forget();
  secret_.resize(kTrafficSecretSize);
  for (std::size_t i = 0; i < kTrafficSecretSize; ++i) {
    const char* const digits = hex.data() + (2 * i);
    unsigned byte = 0;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return forget();
    secret_[i] = static_cast<std::byte>(byte);
  }
}

std::optional<TlsRecordKey> TlsSendSecret::record_key() const {
  TlsRecordKey made;
  if (secret_.empty() || !expand_label(secret_, "key", made.key) || !expand_label(secret_, "iv", made.iv))
    return std::nullopt;
  return made;
}

void TlsSendSecret::forget() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
  secret_.clear();
}

}  // namespace lockstep::engine
