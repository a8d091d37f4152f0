#include "engine/encryption/keys.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"
#include "engine/base/openssl.hpp"

namespace lockstep::engine {
namespace {

using openssl::CipherContext;
using openssl::raw;

constexpr std::string_view kMagic = "LSTEPNKY";
constexpr std::uint16_t kVersion = 1;

struct Layout {
  Be32 checksum;  ///< CRC32C of everything behind it
  std::array<char, 8> magic;
  Be16 version;
  Be16 length;
  std::array<std::uint8_t, 16> id;
  std::array<std::byte, 32> key;
};
static_assert(sizeof(Layout) == kNodeKeyBytes && WireStruct<Layout>);

CipherContext wrapping(const NodeKey& node, bool wraps) {
  CipherContext context(EVP_CIPHER_CTX_new());
  assert(context);
  EVP_CIPHER_CTX_set_flags(context.get(), EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
  [[maybe_unused]] const int ready = EVP_CipherInit_ex(context.get(), EVP_aes_256_wrap(), nullptr,
                                                       raw(node.bytes.span().data()), nullptr, wraps ? 1 : 0);
  assert(ready == 1);
  return context;
}

Result<void> fill_randomly(std::span<std::byte> bytes) {
  if (RAND_priv_bytes(raw(bytes.data()), static_cast<int>(bytes.size())) == 1) return {};
  return fail(Errc::io_error, "The system has no random bytes to give for a key.");
}

}  // namespace

void wipe(std::span<std::byte> secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

Result<VolumeKey> VolumeKey::make() {
  VolumeKey key;
  if (auto filled = fill_randomly(key.bytes.span()); !filled) return std::unexpected(filled.error());
  return key;
}

Result<NodeKey> NodeKey::make() {
  NodeKey key;
  if (auto filled = fill_randomly(key.bytes.span()); !filled) return std::unexpected(filled.error());
  if (auto filled = fill_randomly(std::as_writable_bytes(std::span(key.id.bytes))); !filled) {
    return std::unexpected(filled.error());
  }
  key.id.bytes[6] = static_cast<std::uint8_t>((key.id.bytes[6] & 0x0F) | 0x40);  // RFC 9562 5.4
  key.id.bytes[8] = static_cast<std::uint8_t>((key.id.bytes[8] & 0x3F) | 0x80);
  return key;
}

SealedKey seal(const VolumeKey& key, const NodeKey& node) {
  SealedKey sealed{node.id, {}};
  const CipherContext context = wrapping(node, true);
  const auto in = key.bytes.span();
  int length = 0;
  [[maybe_unused]] const int done =
      EVP_CipherUpdate(context.get(), raw(sealed.bytes.data()), &length, raw(in.data()), static_cast<int>(in.size()));
  assert(done == 1 && static_cast<std::size_t>(length) == sealed.bytes.size());
  return sealed;
}

Result<VolumeKey> unseal(const SealedKey& sealed, const NodeKey& node) {
  if (sealed.node_key != node.id) {
    return fail(Errc::foreign, "It was encrypted under the node key " + sealed.node_key.to_string() +
                                   "; this node's is " + node.id.to_string() + ".");
  }
  VolumeKey key;
  SecretBytes<sizeof sealed.bytes> out;  // the library may write as much as it reads
  const CipherContext context = wrapping(node, false);
  int length = 0;
  const int done = EVP_CipherUpdate(context.get(), raw(out.span().data()), &length, raw(sealed.bytes.data()),
                                    static_cast<int>(sealed.bytes.size()));
  if (done != 1 || static_cast<std::size_t>(length) != key.bytes.span().size()) {
    return fail(Errc::corrupt, "Its key can't be unsealed with this node's key: one of the two is damaged.");
  }
  std::ranges::copy(out.span().first(key.bytes.span().size()), key.bytes.span().begin());
  return key;
}

SecretBytes<kNodeKeyBytes> encode(const NodeKey& key) {
  Layout out{};
  std::ranges::copy(kMagic, out.magic.begin());
  out.version = kVersion;
  out.length = kNodeKeyBytes;
  out.id = key.id.bytes;
  std::ranges::copy(key.bytes.span(), out.key.begin());
  out.checksum = crc32c(std::as_bytes(std::span(&out, 1)).subspan(sizeof out.checksum));
  SecretBytes<kNodeKeyBytes> bytes;
  std::memcpy(bytes.span().data(), &out, sizeof out);
  wipe(std::as_writable_bytes(std::span(&out, 1)));
  return bytes;
}

Result<NodeKey> decode_node_key(std::span<const std::byte> bytes) {
  if (bytes.size() != kNodeKeyBytes) {
    return fail(Errc::corrupt, "has " + std::to_string(bytes.size()) + " bytes; a node key has 64.");
  }
  const auto checksum = load_be<std::uint32_t>(bytes.data());
  if (checksum != crc32c(bytes.subspan(sizeof(Be32)))) return fail(Errc::corrupt, "is damaged: its checksum is wrong.");
  Layout in;
  std::memcpy(&in, bytes.data(), sizeof in);
  NodeKey key{{in.id}, {}};
  std::ranges::copy(in.key, key.bytes.span().begin());
  const bool ours = std::string_view(in.magic.data(), in.magic.size()) == kMagic && in.length == kNodeKeyBytes;
  const std::uint16_t version = in.version;
  wipe(std::as_writable_bytes(std::span(&in, 1)));
  if (!ours) return fail(Errc::corrupt, "is not a node key.");
  if (version != kVersion) {
    return fail(Errc::wrong_version,
                "has format version " + std::to_string(version) + "; this program knows version 1.");
  }
  return key;
}

}  // namespace lockstep::engine
