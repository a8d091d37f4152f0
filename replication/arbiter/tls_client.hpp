#pragma once
// The client's side of TLS as the witness is spoken to: 1.2 or later, a pinned CA and no other, the host's name or
// address checked against the certificate (RFC 6125). Include from .cpp files only: Asio is heavy.
#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>

#include "engine/base/result.hpp"
#include "replication/arbiter/http_endpoint.hpp"
#include "replication/arbiter/witness_access.hpp"

namespace lockstep::replication {

class TlsClient {
 public:
  /// `access` has no problems_of() its own; an error is a sentence all the same.
  [[nodiscard]] static engine::Result<std::shared_ptr<TlsClient>> create(const WitnessAccess& access);

  [[nodiscard]] boost::asio::ssl::context& context() { return context_; }
  /// Before the handshake: whose certificate it must be. False when OpenSSL can't take the name.
  [[nodiscard]] static bool expect(SSL* connection, const std::string& host);
  /// Why the handshake, or what followed it, failed, and what to do: what stands behind "HOST:PORT: ".
  [[nodiscard]] std::string trouble(SSL* connection, const std::string& host, boost::system::error_code error,
                                    bool shaken_hands) const;

 private:
  TlsClient() : context_(boost::asio::ssl::context::tls_client) {}
  boost::system::error_code set_up(const WitnessAccess& access);

  boost::asio::ssl::context context_;
  bool has_certificate_ = false;
};

}  // namespace lockstep::replication
