#pragma once
// One HTTPS request to the partner's management, with both ends' certificates pinned. Blocking, bounded by a deadline.
#include <chrono>
#include <string>

#include "mgmt/control/certificate.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

/// The TLS server name that asks a node's management to speak as one node to another: it then asks for a certificate.
inline constexpr const char* kPeerServerName = "peer.lockstep.internal";

struct HttpsReply {
  int status = 0;
  std::string body;
};

/// Names the two nodes that a request is between, "FROM TO", by their ids: a machine that was replaced may have the
/// same certificate as the one that took its place.
inline constexpr const char* kNodesHeader = "Lockstep-Nodes";

struct HttpsTarget {
  std::string address;      ///< "10.0.0.12:8443", "[fd00::12]:8443"
  std::string fingerprint;  ///< the certificate that it must show; nothing is sent to any other
  std::string nodes{};      ///< what kNodesHeader says; empty while the other one's id is not known
};

/// Why the partner did not do something, to be put behind "the partner" or its name: "cannot be reached at …" or
/// "answers: …", without a full stop.
[[nodiscard]] std::string trouble_with_partner(const Refusal& refusal);

/// Refusal not_current: it could not be reached, or shows another certificate; `detail` says which, without a full
/// stop, to be put into a sentence. It is `perhaps_done` if the connection broke after sending had begun.
[[nodiscard]] Outcome<HttpsReply> https_request(const TlsIdentity& identity, const HttpsTarget& target,
                                                const std::string& method, const std::string& path,
                                                const std::string& body, std::chrono::milliseconds deadline);

}  // namespace lockstep::mgmt
