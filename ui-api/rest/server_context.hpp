#pragma once
// TLS of the HTTPS server, and what a connection's handshake says of its client.
#include <boost/asio/ssl/context.hpp>

#include "mgmt/control/page_certificate.hpp"

namespace lockstep::ui_api {

/// Who asks for the peer API is shown the identity, all others what `page` says at that moment. It outlives the
/// context.
[[nodiscard]] boost::asio::ssl::context make_server_context(const mgmt::TlsIdentity& identity,
                                                            const mgmt::PageCertificate& page);
/// The client named the TLS server of the peer API, and so has shown a certificate: the partner's, or anyone's.
[[nodiscard]] bool asked_for_peer_api(const SSL* connection);

}  // namespace lockstep::ui_api
