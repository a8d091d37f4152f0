#pragma once
// The HTTPS server: connections, TLS, HTTP/1.1 with keep-alive, and their bounds. Handlers run on threads of their own,
// those of the partner's requests on others: the two nodes may wait for one another without a deadlock.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/result.hpp"
#include "mgmt/control/certificate.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

struct ServerLimits {
  std::size_t connections = 256;                            ///< more are closed at once
  std::uint32_t header_bytes = 16 * 1024;                   ///< more: 431
  std::uint64_t body_bytes = std::uint64_t{1} << 20;        ///< more: 413
  std::uint64_t peer_body_bytes = std::uint64_t{16} << 20;  ///< of the partner's requests
  std::chrono::seconds handshake{10};
  std::chrono::seconds idle{75};  ///< between requests
  std::chrono::seconds body{30};
  std::chrono::seconds write{30};
  unsigned workers = 8;
  unsigned peer_workers = 4;
};

class HttpsServer {
 public:
  /// `handler` and `identity`'s files stay valid until stop().
  HttpsServer(mgmt::TlsIdentity identity, ServerLimits limits, Handler handler);
  ~HttpsServer();

  /// Listens at "address:port" (port 0: one that is free) and serves. Returns the address in use.
  [[nodiscard]] engine::Result<std::string> start(const std::string& address);
  /// Ends connections and waits for running handlers.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::ui_api
