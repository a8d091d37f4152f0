#include "tests/unit/replication_link/test_ca.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "engine/base/openssl.hpp"

namespace lockstep::tests {
namespace {

using engine::openssl::Bio;
using engine::openssl::Certificate;
using engine::openssl::Deleter;
using engine::openssl::Key;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio.get());
}

std::string pem_of(EVP_PKEY* key, const std::string& passphrase = "") {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, passphrase.empty() ? nullptr : EVP_aes_256_cbc(),
                           reinterpret_cast<const unsigned char*>(passphrase.data()),
                           static_cast<int>(passphrase.size()), nullptr, nullptr);
  return text_of(bio.get());
}

Bio reader(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }
Certificate certificate_of(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
}
Key key_of(const std::string& pem) {
  return Key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, nullptr, nullptr));
}

void extend(X509* certificate, int what, const std::string& value) {
  const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
    throw std::runtime_error("OpenSSL does not take the extension " + value);
}

Certificate blank(const char* name, EVP_PKEY* key, long from, long until) {
  static std::atomic<long> serial = 1;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return certificate;
}

}  // namespace

TestCa::TestCa() {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = blank("A test's CA", key.get(), -7200, 48L * 3600);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  extend(certificate.get(), NID_key_usage, "critical,keyCertSign");
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  own_ = {pem_of(certificate.get()), pem_of(key.get())};
}

Identity TestCa::issue(const Wish& wish) const {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate issuer = certificate_of(own_.certificate);
  const Certificate certificate = blank("etcd", key.get(), wish.from, wish.until);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
  extend(certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
  extend(certificate.get(), NID_subject_alt_name, wish.names);
  extend(certificate.get(), NID_ext_key_usage, wish.use);
  X509_sign(certificate.get(), key_of(own_.key).get(), EVP_sha256());
  return {pem_of(certificate.get()), pem_of(key.get())};
}

std::string with_passphrase(const std::string& key, const std::string& passphrase) {
  return pem_of(key_of(key).get(), passphrase);
}

}  // namespace lockstep::tests
