#pragma once
// Makes TLS 1.3's records as a kernel does that was given the key (RFC 8446 5.2), with OpenSSL's AES-256-GCM alone.
#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/base/openssl.hpp"
#include "engine/net/tls_record_key.hpp"

namespace lockstep::engine::test {

class RecordMaker {
 public:
  explicit RecordMaker(const TlsRecordKey& key) : key_(key) {}

  std::vector<std::byte> data(std::span<const std::byte> plain) {
    std::vector<std::byte> out;
    while (!plain.empty()) {
      const auto part = plain.first(std::min(plain.size(), kMost));
      plain = plain.subspan(part.size());
      append(out, part, std::byte{23});
    }
    return out;
  }

  std::vector<std::byte> close_notify() {
    std::vector<std::byte> out;
    append(out, std::array{std::byte{1}, std::byte{0}}, std::byte{21});
    return out;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{16} << 10, kTag = 16;

  void append(std::vector<std::byte>& out, std::span<const std::byte> content, std::byte type) {
    const std::size_t length = content.size() + 1 + kTag;
    const std::array header{std::byte{23}, std::byte{3}, std::byte{3}, static_cast<std::byte>(length >> 8),
                            static_cast<std::byte>(length)};
    std::vector<std::byte> inner(content.begin(), content.end());
    inner.push_back(type);
    std::vector<std::byte> sealed(length);
    seal(header, inner, sealed);
    out.insert(out.end(), header.begin(), header.end());
    out.insert(out.end(), sealed.begin(), sealed.end());
  }

  void seal(std::span<const std::byte> header, std::span<const std::byte> inner, std::span<std::byte> sealed) {
    using openssl::raw;
    auto nonce = key_.iv;
    for (std::size_t i = 0; i < 8; ++i) nonce[4 + i] ^= static_cast<std::byte>(number_ >> (56 - 8 * i));
    ++number_;
    const openssl::CipherContext context(EVP_CIPHER_CTX_new());
    int ignored = 0;
    const auto tag = sealed.last(kTag);
    const bool made =
        EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(key_.key.data()), raw(nonce.data())) == 1 &&
        EVP_EncryptUpdate(context.get(), nullptr, &ignored, raw(header.data()), static_cast<int>(header.size())) == 1 &&
        EVP_EncryptUpdate(context.get(), raw(sealed.data()), &ignored, raw(inner.data()),
                          static_cast<int>(inner.size())) == 1 &&
        EVP_EncryptFinal_ex(context.get(), raw(tag.data()), &ignored) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTag, tag.data()) == 1;
    if (!made) throw std::runtime_error("AES-256-GCM failed");
  }

  TlsRecordKey key_;
  std::uint64_t number_ = 0;
};

}  // namespace lockstep::engine::test
