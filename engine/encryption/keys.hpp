#pragma once
// The keys of encrypted volumes. Each replica's blocks have a random key of their own; it is kept in the replica's
// metadata, sealed with the key of the node, which is kept elsewhere: a disk alone tells nothing. Memory that held a
// key is wiped.
#include <array>
#include <cstddef>
#include <span>

#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::engine {

/// Overwrites what the compiler might think nobody reads any more.
void wipe(std::span<std::byte> secret);

template <std::size_t kSize>
class SecretBytes {
 public:
  SecretBytes() = default;
  SecretBytes(const SecretBytes&) = default;
  SecretBytes& operator=(const SecretBytes&) = default;
  ~SecretBytes() { wipe(bytes_); }
  [[nodiscard]] std::span<std::byte, kSize> span() { return bytes_; }
  [[nodiscard]] std::span<const std::byte, kSize> span() const { return bytes_; }

 private:
  std::array<std::byte, kSize> bytes_{};
};

/// Of one replica's blocks: the two keys of AES-256-XTS.
struct VolumeKey {
  SecretBytes<64> bytes;
  /// Random. io_error when the system has no random bytes to give.
  [[nodiscard]] static Result<VolumeKey> make();
};

/// Of one node: seals the keys of its replicas.
struct NodeKey {
  Uuid id;  ///< names it in what it sealed
  SecretBytes<32> bytes;
  [[nodiscard]] static Result<NodeKey> make();
};

/// AES key wrap (RFC 3394): whoever unseals notices a wrong key and every changed bit.
[[nodiscard]] SealedKey seal(const VolumeKey& key, const NodeKey& node);
/// foreign: sealed by another node's key; corrupt: not what was sealed.
[[nodiscard]] Result<VolumeKey> unseal(const SealedKey& sealed, const NodeKey& node);

/// A node key's file: CRC32C of what follows, "LSTEPNKY", version 1, length 64 (two bytes each), id, key.
constexpr std::size_t kNodeKeyBytes = 64;
[[nodiscard]] SecretBytes<kNodeKeyBytes> encode(const NodeKey& key);
/// corrupt or wrong_version; the sentence continues "/path ".
[[nodiscard]] Result<NodeKey> decode_node_key(std::span<const std::byte> bytes);

}  // namespace lockstep::engine
