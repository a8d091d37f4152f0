#pragma once
// TLS of the HTTPS server, and what a connection's handshake says of its client.
#include <boost/asio/ssl/context.hpp>

#include "mgmt/control/certificate.hpp"

namespace lockstep::ui_api {

[[nodiscard]] boost::asio::ssl::context make_server_context(const mgmt::TlsIdentity& identity);
/// The client named the TLS server of the peer API, and so has shown a certificate: the partner's, or anyone's.
[[nodiscard]] bool asked_for_peer_api(const SSL* connection);

}  // namespace lockstep::ui_api
