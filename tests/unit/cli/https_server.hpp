#pragma once
// A small HTTPS server in a thread, with a certificate of its own making, for the transport's tests.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

struct SelfSigned {
  std::string certificate_pem, key_pem, fingerprint;
  /// For `host`, a name or an address, which stands in the certificate.
  static SelfSigned make(const std::string& host);
};

class HttpsServer {
 public:
  /// Each connection's answers are `answers` in order, one a request; after the last it closes. Without an identity it
  /// speaks plain HTTP.
  HttpsServer(const SelfSigned* identity, std::vector<std::string> answers);
  ~HttpsServer();
  [[nodiscard]] std::uint16_t port() const;
  /// What was received so far, headers and bodies, of all connections.
  [[nodiscard]] std::vector<std::string> requests() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
