#include "mgmt/control/shown_certificate.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using engine::openssl::Bio;
using engine::openssl::Certificate;
using engine::openssl::Deleter;
using engine::openssl::Key;

constexpr std::size_t kMaxChain = 10;
constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr const char* kCertificateField = "/certificate";
constexpr const char* kKeyField = "/key";

std::unexpected<Refusal> wrong(const char* field, std::string why) {
  ERR_clear_error();
  return refuse(RefusalKind::invalid, "Correct the fields named in errors.", {{field, std::move(why)}});
}

Bio reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

std::string written(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

/// Nobody is there who could be asked for a passphrase.
int no_passphrase(char*, int, int, void*) { return -1; }

std::vector<Certificate> certificates_in(const std::string& text) {
  std::vector<Certificate> all;
  const Bio bio = reader(text);
  while (all.size() <= kMaxChain) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
    if (!next) break;
    all.push_back(std::move(next));
  }
  ERR_clear_error();
  return all;
}

std::string name_text(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);  // plain ASCII, whatever is in it
  return written(bio.get());
}

std::int64_t ms_of(const ASN1_TIME* time) {
  std::tm at{};
  if (ASN1_TIME_to_tm(time, &at) != 1) return 0;
  return static_cast<std::int64_t>(::timegm(&at)) * 1000;
}

std::string address_text(const ASN1_OCTET_STRING* address) {
  const int length = ASN1_STRING_length(address);
  if (length != 4 && length != 16) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text.data(), text.size());
  return text.data();
}

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  const std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>> all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    std::string text;
    if (name->type == GEN_DNS)
      text.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    if (name->type == GEN_IPADD) text = address_text(name->d.iPAddress);
    const bool printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
    if (printable && !text.empty()) names.push_back(text);
  }
  ERR_clear_error();
  return names;
}

std::string shown_fingerprint(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return fingerprint_of_pem(written(bio.get()));
}

/// What TLS itself asks of them, its least strength too. Empty: nothing is wrong.
std::string why_not_for_tls(X509* leaf, EVP_PKEY* key) {
  const std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>> trial(SSL_CTX_new(TLS_server_method()));
  ERR_clear_error();
  if (trial && SSL_CTX_use_certificate(trial.get(), leaf) == 1 && SSL_CTX_use_PrivateKey(trial.get(), key) == 1)
    return {};
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason ? reason : "unknown reason";
}

Outcome<Key> read_key(const std::string& text) {
  if (text.size() > kMaxText) return wrong(kKeyField, "Is longer than a private key may be.");
  Key key(PEM_read_bio_PrivateKey(reader(text).get(), nullptr, no_passphrase, nullptr));
  if (key) return key;
  if (text.find("ENCRYPTED") != std::string::npos)
    return wrong(kKeyField, "Is protected by a passphrase, which nobody could type at a restart. Give it without.");
  return wrong(kKeyField, "Holds no private key in PEM form.");
}

Outcome<void> check_chain(X509* leaf, const std::vector<Certificate>& chain) {
  X509* below = leaf;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (X509_check_issued(chain[i].get(), below) != X509_V_OK)
      return wrong(kCertificateField, fmt::format("Its certificate {} did not issue certificate {}: after the server's "
                                                  "own each must be the issuer of the one before it.",
                                                  i + 2, i + 1));
    below = chain[i].get();
  }
  return {};
}

Outcome<void> check_leaf(const ShownCertificate& shown) {
  X509* leaf = shown.leaf.get();
  if (X509_check_private_key(leaf, shown.key.get()) != 1)
    return wrong(kKeyField, "Is not the key of the certificate, of the first one where there are several.");
  if (X509_check_purpose(leaf, X509_PURPOSE_SSL_SERVER, 0) != 1)
    return wrong(kCertificateField, "Is not for TLS servers, by its key usage.");
  if (shown.facts.names.empty())
    return wrong(kCertificateField,
                 "Names no host: it needs a DNS name or an address as subject alternative name, the only ones that "
                 "clients look at.");
  if (const std::string why = why_not_for_tls(leaf, shown.key.get()); !why.empty())
    return wrong(kCertificateField, fmt::format("TLS does not take it: {}.", why));
  return {};
}

}  // namespace

Outcome<std::shared_ptr<const ShownCertificate>> read_certificate_of_any_age(const std::string& certificates,
                                                                             const std::string& key) {
  if (certificates.size() > kMaxText) return wrong(kCertificateField, "Is longer than a chain of certificates may be.");
  auto shown = std::make_shared<ShownCertificate>();
  shown->chain = certificates_in(certificates);
  if (shown->chain.empty()) return wrong(kCertificateField, "Holds no certificate in PEM form.");
  if (shown->chain.size() > kMaxChain) return wrong(kCertificateField, "Holds too many certificates.");
  auto read = read_key(key);
  if (!read) return std::unexpected(read.error());
  shown->key = std::move(*read);
  shown->leaf = std::move(shown->chain.front());
  shown->chain.erase(shown->chain.begin());
  X509* leaf = shown->leaf.get();
  shown->facts = {
      name_text(X509_get_subject_name(leaf)), name_text(X509_get_issuer_name(leaf)), names_of(leaf),
      ms_of(X509_get0_notBefore(leaf)),       ms_of(X509_get0_notAfter(leaf)),       shown_fingerprint(leaf)};
  if (auto good = check_leaf(*shown); !good) return std::unexpected(good.error());
  if (auto good = check_chain(leaf, shown->chain); !good) return std::unexpected(good.error());
  return shown;
}

Outcome<std::shared_ptr<const ShownCertificate>> read_shown_certificate(const std::string& certificates,
                                                                        const std::string& key, std::int64_t now_ms) {
  auto shown = read_certificate_of_any_age(certificates, key);
  if (!shown) return shown;
  std::vector<const X509*> all{(*shown)->leaf.get()};
  for (const auto& issuer : (*shown)->chain) all.push_back(issuer.get());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t from = ms_of(X509_get0_notBefore(all[i])), until = ms_of(X509_get0_notAfter(all[i]));
    const std::string which = i == 0 ? "It" : fmt::format("Its certificate {}", i + 1);
    if (now_ms < from)
      return wrong(kCertificateField, fmt::format("{} is not valid before {}.", which, utc_text(from)));
    if (now_ms >= until) return wrong(kCertificateField, fmt::format("{} expired at {}.", which, utc_text(until)));
  }
  return shown;
}

bool covers(const ShownCertificate& certificate, const std::string& host) {
  X509* leaf = certificate.leaf.get();
  const bool named = X509_check_host(leaf, host.c_str(), host.size(), 0, nullptr) == 1 ||
                     X509_check_ip_asc(leaf, host.c_str(), 0) == 1;
  ERR_clear_error();
  return named;
}

const CertificateFacts& facts_of(const ShownCertificate& certificate) { return certificate.facts; }

std::string certificates_text(const ShownCertificate& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate.leaf.get());
  for (const auto& issuer : certificate.chain) PEM_write_bio_X509(bio.get(), issuer.get());
  return written(bio.get());
}

std::string key_text(const ShownCertificate& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), certificate.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return written(bio.get());
}

}  // namespace lockstep::mgmt
