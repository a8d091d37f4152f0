#include "tests/unit/cli/https_server.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string drained(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

void add_alternative_name(X509* certificate, const std::string& host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string::npos;
  const std::string value = (address ? "IP:" : "DNS:") + host;
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

template <class Stream>
void converse(Stream& stream, const std::vector<std::string>& answers, std::mutex& lock,
              std::vector<std::string>& requests) {
  std::string buffer;
  error_code e;
  for (const std::string& answer : answers) {
    const std::size_t head = asio::read_until(stream, asio::dynamic_buffer(buffer), "\r\n\r\n", e);
    if (e) return;
    std::size_t length = 0;
    if (const auto at = buffer.find("Content-Length: "); at < head)
      length = std::strtoul(buffer.c_str() + at + 16, nullptr, 10);
    if (buffer.size() < head + length) {
      asio::read(stream, asio::dynamic_buffer(buffer), asio::transfer_exactly(head + length - buffer.size()), e);
    }
    {
      const std::lock_guard guard(lock);
      requests.push_back(buffer.substr(0, head + length));
    }
    buffer.erase(0, head + length);
    asio::write(stream, asio::buffer(answer), e);
    if (e) return;
  }
}

}  // namespace

SelfSigned SelfSigned::make(const std::string& host) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  add_alternative_name(certificate, host);
  X509_sign(certificate, key, EVP_sha256());

  SelfSigned made;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  made.certificate_pem = drained(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  made.key_pem = drained(bio);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest, &size);
  static constexpr char kHex[] = "0123456789abcdef";
  for (unsigned i = 0; i < size; ++i) {
    made.fingerprint += kHex[digest[i] >> 4];
    made.fingerprint += kHex[digest[i] & 15];
  }
  X509_free(certificate);
  EVP_PKEY_free(key);
  return made;
}

struct HttpsServer::Impl {
  asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  asio::ssl::context context{asio::ssl::context::tls_server};
  bool tls = false;
  std::vector<std::string> answers;
  mutable std::mutex lock;
  std::vector<std::string> requests;
  std::atomic<bool> stopping = false;
  std::thread thread;

  void serve(tcp::socket socket) {
    error_code e;
    if (!tls) return converse(socket, answers, lock, requests);
    asio::ssl::stream<tcp::socket> stream(std::move(socket), context);
    stream.handshake(asio::ssl::stream_base::server, e);
    if (!e) converse(stream, answers, lock, requests);
    stream.shutdown(e);
  }
  void run() {
    for (;;) {
      error_code e;
      tcp::socket socket(io);
      acceptor.accept(socket, e);
      if (e || stopping) return;
      serve(std::move(socket));
    }
  }
};

HttpsServer::HttpsServer(const SelfSigned* identity, std::vector<std::string> answers)
    : impl_(std::make_unique<Impl>()) {
  impl_->answers = std::move(answers);
  impl_->tls = identity != nullptr;
  if (identity != nullptr) {
    impl_->context.use_certificate_chain(asio::buffer(identity->certificate_pem));
    impl_->context.use_private_key(asio::buffer(identity->key_pem), asio::ssl::context::pem);
  }
  impl_->thread = std::thread([this] { impl_->run(); });
}

HttpsServer::~HttpsServer() {
  impl_->stopping = true;
  // Wakes accept(); whoever is being served has hung up by now.
  error_code e;
  asio::io_context io;
  tcp::socket(io).connect(impl_->acceptor.local_endpoint(), e);
  impl_->thread.join();
}

std::uint16_t HttpsServer::port() const { return impl_->acceptor.local_endpoint().port(); }

std::vector<std::string> HttpsServer::requests() const {
  const std::lock_guard guard(impl_->lock);
  return impl_->requests;
}

}  // namespace lockstep::cli
