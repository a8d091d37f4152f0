#include "ui-api/cli/trust.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace lockstep::cli {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

std::string fingerprint_of(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest, &size) != 1) return {};
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

/// Every certificate of a PEM file.
std::vector<std::string> fingerprints_in(const std::string& path) {
  std::vector<std::string> found;
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), &BIO_free);
  while (file) {
    const Certificate certificate(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), &X509_free);
    if (!certificate) break;
    found.push_back(fingerprint_of(certificate.get()));
  }
  return found;
}

}  // namespace

Outcome<TrustCheck> TrustCheck::make(const Trust& trust, const std::string& host, SSL_CTX* context) {
  TrustCheck check(trust, host);
  if (!trust.fingerprint.empty()) check.pinned_.push_back(trust.fingerprint);
  if (!trust.ca_file.empty()) {
    for (std::string& fingerprint : fingerprints_in(trust.ca_file)) check.pinned_.push_back(std::move(fingerprint));
    if (SSL_CTX_load_verify_locations(context, trust.ca_file.c_str(), nullptr) != 1) {
      return fail(Exit::usage, fmt::format("{} cannot be read as a PEM file of certificates.", trust.ca_file));
    }
  } else if (trust.fingerprint.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  }
  if (!trust.shown_file.empty())
    if (auto shown = fingerprints_in(trust.shown_file); !shown.empty())
      check.pinned_.push_back(std::move(shown.front()));
  // The handshake goes on whatever the chain looks like: the verdict is kept, and accept() judges by it.
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  return check;
}

Outcome<void> TrustCheck::accept(SSL* connection) const {
  if (trust_.insecure) return {};
  const Certificate certificate(SSL_get1_peer_certificate(connection), &X509_free);
  const std::string shown = certificate ? fingerprint_of(certificate.get()) : "";
  if (!shown.empty() && std::find(pinned_.begin(), pinned_.end(), shown) != pinned_.end()) return {};
  const bool issued = trust_.fingerprint.empty() && SSL_get_verify_result(connection) == X509_V_OK;
  const bool named = certificate && (X509_check_host(certificate.get(), host_.c_str(), host_.size(), 0, nullptr) == 1 ||
                                     X509_check_ip_asc(certificate.get(), host_.c_str(), 0) == 1);
  if (issued && named) return {};
  return fail(
      Exit::unreachable,
      fmt::format(
          "{} shows a certificate that is not the one expected. Nothing was sent to it.\n"
          "Its fingerprint is {}.\n"
          "If that is what the node itself says (openssl x509 -noout -fingerprint -sha256 -in {}), give it with "
          "--fingerprint, or copy that file here and give it with --ca.",
          host_, shown, kLocalCertificate));
}

}  // namespace lockstep::cli
