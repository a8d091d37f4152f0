#include "ui-api/rest/server_context.hpp"

#include <string_view>

#include "mgmt/control/https_client.hpp"

namespace lockstep::ui_api {

bool asked_for_peer_api(const SSL* connection) {
  const char* name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
  return name && std::string_view(name) == mgmt::kPeerServerName;
}

namespace {

// Certificates are pinned by fingerprint, which the handler checks: any well-formed one may connect.
int accept_any_certificate(int, X509_STORE_CTX*) { return 1; }

// Only a client that asks for the peer API is asked for a certificate: a browser would bother its user with it.
int on_server_name(SSL* connection, int*, void*) {
  if (asked_for_peer_api(connection))
    SSL_set_verify(connection, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any_certificate);
  return SSL_TLSEXT_ERR_OK;
}

// The partner has pinned what the context itself has.
int on_certificate(SSL* connection, void* page) {
  if (asked_for_peer_api(connection)) return 1;
  return static_cast<const mgmt::PageCertificate*>(page)->put_on(connection) ? 1 : 0;
}

}  // namespace

boost::asio::ssl::context make_server_context(const mgmt::TlsIdentity& identity, const mgmt::PageCertificate& page) {
  boost::asio::ssl::context context(boost::asio::ssl::context::tls_server);
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // A resumed session would carry no certificate; connections between nodes are few.
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  context.use_certificate_chain_file(identity.certificate_file.string());
  context.use_private_key_file(identity.key_file.string(), boost::asio::ssl::context::pem);
  SSL_CTX_set_tlsext_servername_callback(native, on_server_name);
  SSL_CTX_set_cert_cb(native, on_certificate, const_cast<mgmt::PageCertificate*>(&page));  // it is only read
  return context;
}

}  // namespace lockstep::ui_api
