#pragma once
// AES-256-GCM (NIST SP 800-38D) for what one end of a connection sends to the other: everything is numbered, and no
// number is used twice under one secret. Keys are derived from the secret and changed long before the mode's bound, by
// the number alone, so that both ends change at the same place without a word.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/base/openssl.hpp"
#include "engine/encryption/keys.hpp"

namespace lockstep::engine {

class MessageCipher {
 public:
  using Secret = SecretBytes<32>;
  static constexpr std::size_t kTag = 16;  ///< bytes
  using Tag = std::array<std::byte, kTag>;
  enum class Direction : std::uint8_t { seals, opens };
  /// A part of what is sealed or opened as one. `into` has as many bytes, the same or others that don't overlap.
  struct Piece {
    std::span<const std::byte> from;
    std::span<std::byte> into;
  };

  /// `numbers_per_key` times the longest that is sealed stays below 64 GiB: 2^32 blocks, of which a forger or an
  /// eavesdropper learns something with a probability below 2^-64 (RFC 8446 5.5 allows some four times as many).
  /// Nothing: OpenSSL had no memory.
  [[nodiscard]] static std::optional<MessageCipher> make(Direction direction, const Secret& secret,
                                                         std::uint64_t numbers_per_key);

  void seal(std::uint64_t number, std::span<const Piece> pieces, Tag& tag);
  /// False: it is not what was sealed under that number. Nothing of it may be used then.
  [[nodiscard]] bool open(std::uint64_t number, std::span<const Piece> pieces, const Tag& tag);

 private:
  static constexpr std::size_t kIv = 12;

  MessageCipher(Direction direction, const Secret& secret, std::uint64_t numbers_per_key)
      : direction_(direction), secret_(secret), numbers_per_key_(numbers_per_key) {}
  [[nodiscard]] bool begin(std::uint64_t number);
  [[nodiscard]] bool use_key(std::uint64_t generation);
  void run(std::span<const Piece> pieces);

  Direction direction_;
  Secret secret_;
  std::uint64_t numbers_per_key_;
  openssl::CipherContext context_;
  std::optional<std::uint64_t> generation_;  // of the key in use
  std::array<std::byte, kIv> iv_{};
};

}  // namespace lockstep::engine
