#include "engine/encryption/sector_cipher.hpp"

#include <array>
#include <cassert>
#include <cstring>

#include <openssl/evp.h>

#include "engine/base/openssl.hpp"

namespace lockstep::engine {
namespace {

using openssl::CipherContext;

CipherContext make(const VolumeKey& key, bool encrypts) {
  CipherContext context(EVP_CIPHER_CTX_new());
  assert(context);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.bytes.span().data());
  [[maybe_unused]] const int ready =
      EVP_CipherInit_ex(context.get(), EVP_aes_256_xts(), nullptr, bytes, nullptr, encrypts ? 1 : 0);
  assert(ready == 1);
  return context;
}

/// One sector; its number counts from the lowest byte (IEEE 1619 5.1).
void run(EVP_CIPHER_CTX* context, std::uint64_t number, const std::byte* from, std::byte* into, std::size_t size) {
  std::array<unsigned char, 16> tweak{};
  for (std::size_t i = 0; i < 8; ++i) tweak[i] = static_cast<unsigned char>(number >> (8 * i));
  int length = 0;
  const bool done = EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, tweak.data(), -1) == 1 &&
                    EVP_CipherUpdate(context, reinterpret_cast<unsigned char*>(into), &length,
                                     reinterpret_cast<const unsigned char*>(from), static_cast<int>(size)) == 1;
  assert(done && static_cast<std::size_t>(length) == size);
  (void)done;
}

bool is_zero(const std::byte* bytes, std::size_t size) {
  return bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

}  // namespace

struct SectorCipher::Contexts {
  CipherContext encrypts, decrypts;
};

SectorCipher::SectorCipher(const VolumeKey& key, std::size_t sector)
    : contexts_(new Contexts{make(key, true), make(key, false)}), sector_(sector) {}
SectorCipher::~SectorCipher() = default;
SectorCipher::SectorCipher(SectorCipher&&) noexcept = default;
SectorCipher& SectorCipher::operator=(SectorCipher&&) noexcept = default;

void SectorCipher::encrypt(std::uint64_t offset, std::span<const std::byte> from, std::span<std::byte> into) {
  assert(offset % sector_ == 0 && from.size() % sector_ == 0 && into.size() == from.size());
  for (std::size_t at = 0; at < from.size(); at += sector_) {
    run(contexts_->encrypts.get(), (offset + at) / sector_, from.data() + at, into.data() + at, sector_);
  }
}

void SectorCipher::decrypt(std::uint64_t offset, std::span<std::byte> bytes) {
  assert(offset % sector_ == 0 && bytes.size() % sector_ == 0);
  for (std::size_t at = 0; at < bytes.size(); at += sector_) {
    std::byte* sector = bytes.data() + at;
    if (!is_zero(sector, sector_)) run(contexts_->decrypts.get(), (offset + at) / sector_, sector, sector, sector_);
  }
}

}  // namespace lockstep::engine
