#pragma once
// The encryption of one connection's messages, and of what is read and written beside them. It begins with TLS's
// handshake, by messages of its own; its secrets are those of four ciphers, one for the messages and one for the
// payloads of either way. Knows no connection.
//
// A message is then a header (format.hpp) and the iSER message, encrypted as one; it is the n-th of its way, which
// nobody says: one that is missing, came twice or was changed is not opened. A payload is encrypted where it lies for
// the peer, and has a number and a tag in its message.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

#include "engine/encryption/message_cipher.hpp"
#include "engine/iser/format.hpp"
#include "engine/net/tls_handshake.hpp"

namespace lockstep::iser {

class Protection {
 public:
  using Piece = engine::MessageCipher::Piece;

  Protection(std::shared_ptr<const engine::TlsContext> context, engine::TlsRole role);

  // The handshake.
  /// The connection stands: a caller has something to send then.
  [[nodiscard]] std::error_code begin();
  /// A message of the handshake. An error: why it has failed; what is unsent tells the peer.
  [[nodiscard]] std::error_code take(std::span<const std::byte> first, std::span<const std::byte> second);
  [[nodiscard]] bool is_open() const { return ciphers_.has_value(); }
  [[nodiscard]] std::span<const std::byte> unsent() const { return handshake_.unsent(); }
  void sent(std::size_t bytes) { handshake_.sent(bytes); }

  // Once it is open.
  /// The next message: what follows the tag, in pieces.
  void seal(std::span<const Piece> pieces, engine::MessageCipher::Tag& tag);
  /// One that came, where it lies: `first` from its header on. An error ends the connection: it was changed, or the
  /// peer has ended the handshake after all.
  [[nodiscard]] std::error_code open(std::span<std::byte> first, std::span<std::byte> second);
  [[nodiscard]] PayloadSeal seal_payload(std::span<const Piece> pieces);
  /// False: it is not what was sealed.
  [[nodiscard]] bool open_payload(const PayloadSeal& seal, std::span<const std::byte> from, std::span<std::byte> into);

 private:
  struct Ciphers {
    engine::MessageCipher seals, opens, seals_payloads, opens_payloads;
  };
  [[nodiscard]] std::error_code take(std::span<const std::byte> bytes);
  [[nodiscard]] std::error_code make_ciphers();

  engine::TlsRole role_;
  engine::TlsHandshake handshake_;
  std::optional<Ciphers> ciphers_;
  std::uint64_t sealed_ = 0, opened_ = 0, payloads_ = 0;
};

}  // namespace lockstep::iser
