#pragma once
// Decides whether the server at the other end of a TLS connection is the one that was meant.
#include <string>
#include <vector>

#include "ui-api/cli/outcome.hpp"
#include "ui-api/cli/settings.hpp"

using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace lockstep::cli {

/// Nodes sign their own certificates, so a certificate is accepted when it is the very one that was named (by its
/// fingerprint, or by standing in the CA file), whatever name it carries; else it must be issued by the CA file or the
/// system's authorities, for the host that was asked for.
class TrustCheck {
 public:
  /// Exit::usage when the CA file cannot be read. `context` then hands chains to this object.
  [[nodiscard]] static Outcome<TrustCheck> make(const Trust& trust, const std::string& host, SSL_CTX* context);
  /// After the handshake, before a byte is sent.
  [[nodiscard]] Outcome<void> accept(SSL* connection) const;

 private:
  TrustCheck(Trust trust, std::string host) : trust_(std::move(trust)), host_(std::move(host)) {}
  Trust trust_;
  std::string host_;
  std::vector<std::string> pinned_;  ///< fingerprints
};

}  // namespace lockstep::cli
