#include "replication/arbiter/tls_client.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace lockstep::replication {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

std::string certificate_trouble(long verdict, const std::string& host) {
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate, or its CA's, has expired; renew it, or correct this node's clock";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate, or its CA's, is not valid yet; correct the clock, here or where it was made";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate is of another host; name " + host +
             " in its subjectAltName, or use an endpoint that it names";
    case X509_V_ERR_INVALID_PURPOSE:
      return "its certificate is not one for servers (extended key usage); make one with serverAuth";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "its certificate is not signed by the CA that the pair was given for its witness; give the pair the CA "
             "of that certificate, and make sure that this is your etcd";
    default:
      return std::string("its certificate is refused: ") + X509_verify_cert_error_string(verdict);
  }
}

bool is_about_our_certificate(int reason) {
  switch (reason) {
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

bool is_not_tls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

bool is_too_old(int reason) {
  return reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION;
}

}  // namespace

engine::Result<std::shared_ptr<TlsClient>> TlsClient::create(const WitnessAccess& access) {
  std::shared_ptr<TlsClient> client(new TlsClient);
  if (const auto error = client->set_up(access))
    return engine::fail(engine::Errc::refused, "The CA, certificate or key for the witness cannot be used: " +
                                                   error.message() + ". Give them in PEM form.");
  return client;
}

error_code TlsClient::set_up(const WitnessAccess& access) {
  error_code error;
  SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_2_VERSION);
  // What was given is trusted itself, be it a root, an intermediate CA or etcd's own certificate.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context_.native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
  context_.set_verify_mode(asio::ssl::verify_peer, error);
  if (error) return error;
  context_.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); },
                                 error);
  if (error) return error;
  context_.add_certificate_authority(asio::buffer(access.ca), error);
  if (error || access.certificate.empty()) return error;
  has_certificate_ = true;
  context_.use_certificate_chain(asio::buffer(access.certificate), error);
  if (error) return error;
  context_.use_private_key(asio::buffer(access.key), asio::ssl::context::pem, error);
  return error;
}

bool TlsClient::expect(SSL* connection, const std::string& host) {
  X509_VERIFY_PARAM* wanted = SSL_get0_param(connection);
  error_code not_numeric;
  (void)asio::ip::make_address(host, not_numeric);
  // An address is never sent as the server's name (RFC 6066 3).
  if (!not_numeric) return X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
         SSL_set_tlsext_host_name(connection, host.c_str()) == 1;
}

std::string TlsClient::trouble(SSL* connection, const std::string& host, error_code error, bool shaken_hands) const {
  if (const long verdict = SSL_get_verify_result(connection); verdict != X509_V_OK)
    return certificate_trouble(verdict, host);
  if (error.category() == asio::error::get_ssl_category()) {
    const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
    if (is_about_our_certificate(reason))
      return has_certificate_ ? "it refuses the client certificate that the pair was given; give one that etcd's "
                                "--trusted-ca-file has signed"
                              : "it wants a client certificate; give the pair one with its key";
    if (is_not_tls(reason)) return "it does not speak TLS there; switch TLS on in etcd, or use http://";
    if (is_too_old(reason)) return "it speaks only a TLS older than 1.2; bring etcd up to date";
    return "TLS failed: " + error.message();
  }
  // etcd says nothing before it hangs up, whether it speaks no TLS at all or misses a certificate.
  if (!shaken_hands)
    return "it broke the connection off when TLS began (" + error.message() +
           "); switch TLS on in etcd, or use http://";
  if (!has_certificate_)
    return "it broke the connection off without an answer (" + error.message() +
           "); if etcd has --client-cert-auth, give the pair a client certificate with its key";
  return error.message();
}

}  // namespace lockstep::replication
