#include "replication/arbiter/witness_access.hpp"

#include <algorithm>
#include <memory>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "engine/base/openssl.hpp"

namespace lockstep::replication {
namespace {

using engine::openssl::Bio;
using engine::openssl::Certificate;
using engine::openssl::Key;

using Problems = std::vector<WitnessAccessProblem>;

Bio reader(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

// Without this, OpenSSL asks at the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

Certificate first_certificate(const std::string& pem) {
  Certificate found(PEM_read_bio_X509(reader(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return found;
}

Key private_key(const std::string& pem) {
  Key found(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return found;
}

bool belong_together(const std::string& certificate, const std::string& key) {
  const auto shown = first_certificate(certificate);
  const auto secret = private_key(key);
  const bool match = shown && secret && X509_check_private_key(shown.get(), secret.get()) == 1;
  ERR_clear_error();
  return match;
}

void check_certificate(std::string_view field, const std::string& pem, Problems& problems) {
  if (pem.empty()) return;
  if (pem.size() > kMaxPem) return problems.push_back({field, "Must be at most 65536 bytes."});
  if (!first_certificate(pem))
    problems.push_back({field, "Must be a certificate in PEM form (-----BEGIN CERTIFICATE-----)."});
}

void check_pair(const WitnessAccess& access, Problems& problems) {
  check_certificate("certificate", access.certificate, problems);
  if (access.certificate.empty() && access.key.empty()) return;
  if (access.key.empty()) return problems.push_back({"key", "Is required with a certificate."});
  if (access.certificate.empty()) return problems.push_back({"certificate", "Is required with a key."});
  if (access.key.size() > kMaxPem) return problems.push_back({"key", "Must be at most 65536 bytes."});
  if (!private_key(access.key))
    return problems.push_back(
        {"key", "Must be a private key in PEM form (-----BEGIN PRIVATE KEY-----) without a passphrase."});
  if (first_certificate(access.certificate) && !belong_together(access.certificate, access.key))
    problems.push_back({"key", "Does not belong to the certificate."});
}

void check_words(const WitnessAccess& access, Problems& problems) {
  const auto good = [](const std::string& text) {
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    return text.size() <= kMaxWitnessUser && std::ranges::none_of(text, control);
  };
  constexpr const char* expected = "Must be 1 to 255 bytes without control characters, such as a line's end.";
  if (!good(access.user)) problems.push_back({"user", expected});
  if (!good(access.password)) problems.push_back({"password", expected});
  if (!access.user.empty() && access.password.empty()) problems.push_back({"password", "Is required with a user."});
  if (access.user.empty() && !access.password.empty()) problems.push_back({"user", "Is required with a password."});
}

void check_plain(const WitnessAccess& access, Problems& problems) {
  for (const auto& [field, text] : {std::pair<std::string_view, const std::string&>{"ca", access.ca},
                                    {"certificate", access.certificate},
                                    {"key", access.key}})
    if (!text.empty()) problems.push_back({field, "Belongs to https:// endpoints, and these are http://."});
  if (!access.user.empty())
    problems.push_back({"user", "Needs https:// endpoints: over http:// the password could be read on the network."});
}

}  // namespace

Problems problems_of(std::span<const std::string> endpoints, const WitnessAccess& access) {
  Problems problems;
  const auto tls = [](const std::string& url) { return url.starts_with("https://"); };
  const bool any = std::ranges::any_of(endpoints, tls);
  if (any && !std::ranges::all_of(endpoints, tls))
    problems.push_back({"endpoints", "Must be either all https:// or all http://."});
  if (any && access.ca.empty())
    problems.push_back(
        {"ca", "Is required for https:// endpoints: the certificate, in PEM form, of who signed etcd's certificate."});
  if (!any) check_plain(access, problems);
  if (any) check_certificate("ca", access.ca, problems);
  if (any) check_pair(access, problems);
  check_words(access, problems);
  return problems;
}

}  // namespace lockstep::replication
