#pragma once
// A key and its certificates, read: what page_certificate.hpp works with, for those who may see OpenSSL's types.
#include "engine/base/openssl.hpp"
#include "mgmt/control/page_certificate.hpp"

namespace lockstep::mgmt {

struct ShownCertificate {
  engine::openssl::Key key;
  engine::openssl::Certificate leaf;
  std::vector<engine::openssl::Certificate> chain;  ///< each the issuer of the one before it
  CertificateFacts facts;
};

/// The same without a look at the clock: what is there already is shown, whatever its age.
[[nodiscard]] Outcome<std::shared_ptr<const ShownCertificate>> read_certificate_of_any_age(
    const std::string& certificates, const std::string& key);
/// Whether a client that asked for that host would find it named.
[[nodiscard]] bool covers(const ShownCertificate& certificate, const std::string& host);
/// PEM: the leaf, then its chain.
[[nodiscard]] std::string certificates_text(const ShownCertificate& certificate);
[[nodiscard]] std::string key_text(const ShownCertificate& certificate);

}  // namespace lockstep::mgmt
