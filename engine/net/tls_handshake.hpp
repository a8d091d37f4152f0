#pragma once
// TLS's handshake alone, for a connection that is protected by other means than TLS's records: both ends prove
// themselves as on a TlsStream, and what they have agreed on gives secrets (RFC 8446 7.5). Knows no connection: bytes
// in, bytes out.
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "engine/net/tls_bio.hpp"
#include "engine/net/tls_stream.hpp"

namespace lockstep::engine {

class TlsHandshake {
 public:
  /// Client or server, nothing else.
  TlsHandshake(std::shared_ptr<const TlsContext> context, TlsRole role);
  ~TlsHandshake();
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  /// What the other end has sent; a client begins with nothing. After is_over() too: it may have found something wrong
  /// with this end's certificate. An error: why it has failed; what is unsent tells the other end.
  [[nodiscard]] std::error_code take(std::span<const std::byte> bytes);
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// What is to be sent; moves with take().
  [[nodiscard]] std::span<const std::byte> unsent() const { return bytes_.unsent(); }
  void sent(std::size_t bytes) { bytes_.sent(bytes); }
  /// Once it is over: the same at both ends, and on no other connection. False: OpenSSL had no memory.
  [[nodiscard]] bool export_secret(std::string_view label, std::span<std::byte> into) const;

 private:
  struct Free {
    void operator()(ssl_st* connection) const;
  };

  std::shared_ptr<const TlsContext> context_;
  TlsBytes bytes_;  // outlives `tls_`, which reads from and writes to it
  std::unique_ptr<ssl_st, Free> tls_;
  bool is_over_ = false;
};

}  // namespace lockstep::engine
