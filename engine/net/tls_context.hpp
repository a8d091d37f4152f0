#pragma once
// Who a node is on a TLS connection, and whom it talks to: its own certificate and key, and the other end's identities,
// each a certificate known by its fingerprint. What the other end shows is such a certificate, or one that such a
// certificate has signed; the time of what it shows has to be now, that of the identity behind it does not matter. TLS
// 1.3 and nothing older (RFC 8446); both ends show a certificate; no session is resumed, no name is looked at, no
// authority is asked.
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/net/tls_record_key.hpp"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL

namespace lockstep::engine {

/// Why a connection never came to be, or ended. Messages are clauses for a person that say what to do; they stand
/// behind "the connection was lost: ".
enum class TlsErrc {
  ok = 0,
  not_tls,         ///< the other end's first bytes are no TLS
  too_old,         ///< it speaks no TLS 1.3
  no_certificate,  ///< it showed none
  foreign,         ///< it showed one that is not known
  expired,         ///< its certificate's time is over
  not_yet_valid,   ///< … has not begun
  refused_there,   ///< it refused this end's certificate
  broke_off,       ///< it hung up in the middle of the handshake
  ended,           ///< it ended the connection in an orderly way
  broken,          ///< bytes that TLS can't make sense of: they were changed on the way, or either end is broken
  asks_for_keys,   ///< it wants this end to change its keys, which the kernel has
  keys_used_up,    ///< the kernel's key has encrypted as much as one may
};

[[nodiscard]] const std::error_category& tls_category() noexcept;
[[nodiscard]] std::error_code make_error_code(TlsErrc e) noexcept;

struct TlsIdentitySettings {
  std::string certificate;         ///< PEM, with the one that has signed it behind it, if any
  std::string key;                 ///< PEM, without a passphrase
  std::vector<std::string> peers;  ///< SHA-256 of the identities that are let in, 64 hex digits each, lower case
  bool kernel_may_encrypt = true;  ///< what is sent on a TlsStream, where it can
};

/// Never changes; may be used by several threads. A connection keeps its own alive.
class TlsContext {
 public:
  /// An error says what of it can't be used.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> create(const TlsIdentitySettings& settings);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// A new connection, or null when there is no memory. The caller frees it.
  [[nodiscard]] ssl_st* connection() const;
  [[nodiscard]] bool kernel_may_encrypt() const { return kernel_may_encrypt_; }
  /// Has `secret` take what this connection's own direction is encrypted with. Before the handshake; it outlives that.
  static void tell_secret(ssl_st* connection, TlsSendSecret& secret);
  /// Why the handshake of this connection failed, from OpenSSL's queue of errors, which is emptied.
  [[nodiscard]] static std::error_code why_failed(const ssl_st* connection);

 private:
  TlsContext() = default;
  ssl_ctx_st* context_ = nullptr;
  std::vector<std::string> peers_;
  bool kernel_may_encrypt_ = false;
};

}  // namespace lockstep::engine

template <>
struct std::is_error_code_enum<lockstep::engine::TlsErrc> : std::true_type {};
