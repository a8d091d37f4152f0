#pragma once
// The HTTPS server: connections, TLS, HTTP/1.1 with keep-alive, and their bounds. A request's body is read only when
// its header has shown who sends it, and memory is there for it. Handlers run on threads of their own, those of the
// partner's requests on others: the two nodes may wait for one another without a deadlock.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "mgmt/control/page_certificate.hpp"
#include "ui-api/rest/doorkeeper.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

struct ServerLimits {
  DoorLimits door;
  std::uint32_t header_bytes = 16 * 1024;  ///< more: 431
  /// Of all bodies under way together, by who sends them; more: 429. What one may have is the service's to say.
  std::uint64_t partner_bodies = std::uint64_t{64} << 20;
  std::uint64_t known_bodies = std::uint64_t{16} << 20;
  std::uint64_t stranger_bodies = std::uint64_t{2} << 20;
  std::chrono::seconds handshake{10};
  std::chrono::seconds idle{75};           ///< between requests
  std::chrono::seconds stranger_idle{10};  ///< before and between the requests of who has shown no token
  std::chrono::seconds header{10};         ///< from its first byte to its last
  std::chrono::seconds body{30};
  std::chrono::seconds stranger_body{10};
  std::chrono::seconds write{30};
  unsigned workers = 8;
  unsigned peer_workers = 4;
};

class HttpsServer {
 public:
  /// `service`, `page` and `identity`'s files stay valid until stop().
  HttpsServer(mgmt::TlsIdentity identity, const mgmt::PageCertificate& page, ServerLimits limits, Service& service);
  ~HttpsServer();

  /// Listens at "address:port" (port 0: one that is free) and serves. Returns the address in use.
  [[nodiscard]] engine::Result<std::string> start(const std::string& address);
  /// Listens there, too, and at no other addresses that were given before. Gives what can't be listened at, with a
  /// sentence. After start(), from any thread; connections go on.
  std::map<std::string, std::string> also_listen_at(const std::vector<std::string>& addresses);
  /// Ends connections and waits for running handlers.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::ui_api
