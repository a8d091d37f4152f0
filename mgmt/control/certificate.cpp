#include "mgmt/control/certificate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <memory>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "engine/base/openssl.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using engine::openssl::Bio;
using engine::openssl::Certificate;
using engine::openssl::Deleter;
using engine::openssl::Key;

constexpr long kTwoYears = 730L * 24 * 3600;
constexpr long kTenYears = 3650L * 24 * 3600;

std::string openssl_reason() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return text.data();
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

std::string fingerprint_of(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &length) != 1) return {};
  return to_hex({reinterpret_cast<const char*>(digest.data()), length});
}

Certificate read_certificate(std::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

bool is_address(const std::string& host) {
  const std::unique_ptr<ASN1_OCTET_STRING, Deleter<ASN1_OCTET_STRING_free>> address(a2i_IPADDRESS(host.c_str()));
  ERR_clear_error();
  return address != nullptr;
}

bool add_extension(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// Of what a SAN is made of here: a comma or a colon of a host's name would be taken for syntax.
bool is_name(const std::string& host) {
  return !host.empty() && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

/// With a serial number, a time and a name, but neither issuer nor signature.
Certificate begin_certificate(EVP_PKEY* key, const std::string& common, std::int64_t now_ms, long life_seconds) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  X509_set_version(x, 2);
  const std::string serial = random_bytes(16);
  std::unique_ptr<BIGNUM, Deleter<BN_free>> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()), 16, nullptr));
  BN_clear_bit(number.get(), 127);  // positive, RFC 5280 4.1.2.2
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x));
  const std::time_t now = now_ms / 1000;
  ASN1_TIME_set(X509_getm_notBefore(x), now - 3600);  // the partner's clock may be a little behind
  ASN1_TIME_set(X509_getm_notAfter(x), now + life_seconds);
  X509_set_pubkey(x, key);
  X509_NAME* name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>("Lockstep"), -1, -1, 0);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1,
                             0);
  return certificate;
}

bool add_usage(X509* x) {
  return add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(x, NID_key_usage, "critical,digitalSignature") &&
         add_extension(x, NID_ext_key_usage, "serverAuth,clientAuth") &&
         add_extension(x, NID_subject_key_identifier, "hash");
}

Certificate make_certificate(EVP_PKEY* key, const std::vector<std::string>& hosts, std::int64_t now_ms) {
  auto certificate =
      begin_certificate(key, hosts.empty() ? "lockstep" : hosts.front().substr(0, 64), now_ms, kTenYears);
  X509* x = certificate.get();
  X509_set_issuer_name(x, X509_get_subject_name(x));
  std::string names;
  for (const auto& host : hosts)
    if (is_address(host) || is_name(host))
      names += fmt::format("{}{}:{}", names.empty() ? "" : ",", is_address(host) ? "IP" : "DNS", host);
  const bool good = add_usage(x) && add_extension(x, NID_authority_key_identifier, "keyid:always") &&
                    (names.empty() || add_extension(x, NID_subject_alt_name, names)) &&
                    X509_sign(x, key, EVP_sha256()) != 0;
  return good ? std::move(certificate) : nullptr;
}

engine::Result<KeyAndCertificate> as_pem(EVP_PKEY* key, X509* certificate) {
  const Bio key_bio(BIO_new(BIO_s_mem()));
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  if (!certificate || PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return engine::fail(engine::Errc::io_error,
                        fmt::format("Cannot make a certificate for this node: {}.", openssl_reason()));
  return KeyAndCertificate{text_of(certificate_bio.get()), text_of(key_bio.get())};
}

}  // namespace

engine::Result<KeyAndCertificate> make_self_signed(const std::vector<std::string>& hosts, std::int64_t now_ms) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = key ? make_certificate(key.get(), hosts, now_ms) : nullptr;
  return as_pem(key.get(), certificate.get());
}

engine::Result<KeyAndCertificate> make_link_certificate(const TlsIdentity& identity, std::int64_t now_ms) {
  const auto signer_pem = read_file(identity.key_file);
  if (!signer_pem) return std::unexpected(signer_pem.error());
  const Bio signer_bio(BIO_new_mem_buf(signer_pem->data(), static_cast<int>(signer_pem->size())));
  const Key signer(PEM_read_bio_PrivateKey(signer_bio.get(), nullptr, nullptr, nullptr));
  const Certificate issuer = read_certificate(identity.certificate_pem);
  const Key key(EVP_EC_gen("P-256"));
  Certificate certificate;
  if (signer && issuer && key) {
    certificate = begin_certificate(key.get(), "replication link", now_ms, kTwoYears);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
    if (!add_usage(certificate.get()) || X509_sign(certificate.get(), signer.get(), EVP_sha256()) == 0)
      certificate.reset();
  }
  auto made = as_pem(key.get(), certificate.get());
  if (made) made->certificate += identity.certificate_pem;
  return made;
}

namespace {

engine::Result<void> make_identity(const TlsIdentity& identity, const std::vector<std::string>& hosts) {
  const auto made = make_self_signed(hosts, wall_clock_ms());
  if (!made) return std::unexpected(made.error());
  // The key first: a certificate whose key is missing would look like a lost key at the next start.
  if (auto written = write_private_file(identity.key_file, made->key); !written) return written;
  return write_private_file(identity.certificate_file, made->certificate);
}

}  // namespace

std::string fingerprint_of_pem(std::string_view pem) {
  const Certificate certificate = read_certificate(pem);
  return certificate ? fingerprint_of(certificate.get()) : std::string();
}

std::string fingerprint_of_peer(const ssl_st* connection) {
  const Certificate certificate(SSL_get1_peer_certificate(connection));
  return certificate ? fingerprint_of(certificate.get()) : std::string();
}

engine::Result<TlsIdentity> load_or_make_identity(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& hosts) {
  if (auto made = make_private_folder(folder); !made) return std::unexpected(made.error());
  TlsIdentity identity{folder / "tls.crt", folder / "tls.key", {}, {}};
  if (!std::filesystem::exists(identity.certificate_file)) {
    if (auto made = make_identity(identity, hosts); !made) return std::unexpected(made.error());
  }
  auto pem = read_file(identity.certificate_file);
  if (!pem) return std::unexpected(pem.error());
  auto key_pem = read_file(identity.key_file);
  if (!key_pem) return std::unexpected(key_pem.error());
  const Certificate certificate = read_certificate(*pem);
  const Bio key_bio(BIO_new_mem_buf(key_pem->data(), static_cast<int>(key_pem->size())));
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (!certificate || !key || X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return engine::fail(
        engine::Errc::corrupt,
        fmt::format("{} and {} are not a certificate and its key. Restore both from a backup. Without "
                    "one, move both away, and mgmt.db with all that begins with that name, and start "
                    "lockstep-mgmtd: this node is then in no pair. If it was in one, run `lockstep node "
                    "replace SIDE` on the other node, with this node's side, and `lockstep pair join "
                    "INVITATION` here. lockstepd goes on meanwhile: do not restart it.",
                    identity.certificate_file.string(), identity.key_file.string()));
  }
  identity.certificate_pem = *pem;
  identity.fingerprint = fingerprint_of(certificate.get());
  return identity;
}

}  // namespace lockstep::mgmt
