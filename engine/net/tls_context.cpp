#include "engine/net/tls_context.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>
#include <string_view>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "engine/base/openssl.hpp"

namespace lockstep::engine {
namespace {

using openssl::Bio;
using openssl::Certificate;
using openssl::Key;

// AES first: where both ends have it in hardware it is the faster by far. Either is safe.
constexpr const char* kCipherSuites = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

const char* clause(TlsErrc code) {
  switch (code) {
    case TlsErrc::ok:
      return "no error";
    case TlsErrc::not_tls:
      return "the other end does not speak TLS there";
    case TlsErrc::too_old:
      return "the other end speaks no TLS 1.3";
    case TlsErrc::no_certificate:
      return "the other end shows no certificate";
    case TlsErrc::foreign:
      return "the other end's certificate is not the one that the pair knows of its partner";
    case TlsErrc::expired:
      return "the other end's certificate has expired; renew it, or correct this machine's clock";
    case TlsErrc::not_yet_valid:
      return "the other end's certificate is not valid yet; correct the clocks of both machines";
    case TlsErrc::refused_there:
      return "the other end refuses this node's certificate";
    case TlsErrc::broke_off:
      return "the other end broke off when TLS began; perhaps its version does not know TLS, or another program "
             "listens "
             "there";
    case TlsErrc::ended:
      return "the other end ended the connection";
    case TlsErrc::broken:
      return "what came makes no sense as TLS; it may have been changed on the way";
    case TlsErrc::asks_for_keys:
      return "the other end asks for a change of keys, which the kernel here does not know; a new connection has new "
             "ones";
    case TlsErrc::keys_used_up:
      return "it has carried as much as one key is good for; the next connection has a new one";
  }
  return "unknown error";
}

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "tls"; }
  [[nodiscard]] std::string message(int value) const override { return clause(static_cast<TlsErrc>(value)); }
};

std::vector<Certificate> read_certificates(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<Certificate> read;
  while (Certificate next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) read.push_back(std::move(next));
  return read;
}

Key read_key(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  return Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
}

std::string fingerprint(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &length) != 1) return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : std::span(digest).first(length)) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

using Peers = std::vector<std::string>;

bool is_known(X509* certificate, const Peers& peers) {
  return std::ranges::find(peers, fingerprint(certificate)) != peers.end();
}

/// Whether it is a known one, or one of those that came with it is, and has signed it.
bool is_of_a_peer(X509* shown, STACK_OF(X509) * beside, const Peers& peers) {
  if (is_known(shown, peers)) return true;
  for (int i = 0; i < sk_X509_num(beside); ++i) {
    X509* const signer = sk_X509_value(beside, i);
    if (is_known(signer, peers) && X509_verify(shown, X509_get0_pubkey(signer)) == 1) return true;
  }
  return false;
}

/// In the place of OpenSSL's own verification: identities are known one by one, and no authority is asked.
int judge(X509_STORE_CTX* store, void* peers) {
  X509* const shown = X509_STORE_CTX_get0_cert(store);
  int verdict = X509_V_OK;
  if (!shown || !is_of_a_peer(shown, X509_STORE_CTX_get0_untrusted(store), *static_cast<const Peers*>(peers))) {
    verdict = X509_V_ERR_CERT_UNTRUSTED;
  } else if (X509_cmp_current_time(X509_get0_notBefore(shown)) > 0) {
    verdict = X509_V_ERR_CERT_NOT_YET_VALID;
  } else if (X509_cmp_current_time(X509_get0_notAfter(shown)) < 0) {
    verdict = X509_V_ERR_CERT_HAS_EXPIRED;
  }
  X509_STORE_CTX_set_error(store, verdict);
  return verdict == X509_V_OK ? 1 : 0;
}

/// OpenSSL tells secrets by no other way than lines for a log of keys.
void take_secret(const SSL* connection, const char* line) {
  auto* const secret = static_cast<TlsSendSecret*>(SSL_get_app_data(connection));
  if (secret) secret->take(line, SSL_is_server(connection) ? "SERVER_TRAFFIC_SECRET_0" : "CLIENT_TRAFFIC_SECRET_0");
}

TlsErrc of_reason(int reason) {
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return TlsErrc::no_certificate;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return TlsErrc::refused_there;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return TlsErrc::not_tls;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return TlsErrc::too_old;
    default:
      return TlsErrc::broken;
  }
}

}  // namespace

const std::error_category& tls_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(TlsErrc e) noexcept { return {static_cast<int>(e), tls_category()}; }

Result<std::shared_ptr<const TlsContext>> TlsContext::create(const TlsIdentitySettings& settings) {
  const std::vector<Certificate> certificates = read_certificates(settings.certificate);
  const Key key = read_key(settings.key);
  ERR_clear_error();
  if (certificates.empty())
    return fail(Errc::refused, "The node's certificate can't be read. It has to be in PEM form.");
  if (!key) return fail(Errc::refused, "The key of the node's certificate can't be read. It has to be in PEM form.");
  std::shared_ptr<TlsContext> made(new TlsContext);
  made->peers_ = settings.peers;
  made->kernel_may_encrypt_ = settings.kernel_may_encrypt;
  SSL_CTX* const context = made->context_ = SSL_CTX_new(TLS_method());
  if (!context) return fail(Errc::resource_exhausted, "There is no memory for TLS.");
  SSL_CTX_set_options(
      context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (settings.kernel_may_encrypt) SSL_CTX_set_keylog_callback(context, take_secret);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context, judge, &made->peers_);
  const bool good = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context, kCipherSuites) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
                    SSL_CTX_use_certificate(context, certificates.front().get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
                    std::ranges::all_of(certificates | std::views::drop(1), [context](const Certificate& signer) {
                      return SSL_CTX_add1_chain_cert(context, signer.get()) == 1;
                    });
  ERR_clear_error();
  if (!good) return fail(Errc::refused, "The node's certificate and its key do not belong together.");
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

ssl_st* TlsContext::connection() const { return SSL_new(context_); }

void TlsContext::tell_secret(ssl_st* connection, TlsSendSecret& secret) { SSL_set_app_data(connection, &secret); }

std::error_code TlsContext::why_failed(const ssl_st* connection) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  switch (SSL_get_verify_result(connection)) {
    case X509_V_OK:
      return of_reason(reason);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return TlsErrc::expired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return TlsErrc::not_yet_valid;
    default:
      return TlsErrc::foreign;
  }
}

}  // namespace lockstep::engine
