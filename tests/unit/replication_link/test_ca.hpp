#pragma once
// A certification authority for one test.
#include <string>

namespace lockstep::tests {

struct Identity {
  std::string certificate;  ///< PEM
  std::string key;          ///< PEM, no passphrase
};

class TestCa {
 public:
  TestCa();
  [[nodiscard]] const std::string& pem() const { return own_.certificate; }

  struct Wish {
    std::string names = "IP:127.0.0.1";  ///< subjectAltName, as OpenSSL's configuration writes it
    std::string use = "serverAuth,clientAuth";
    long from = -3600;  ///< seconds from now
    long until = 24L * 3600;
  };
  [[nodiscard]] Identity issue(const Wish& wish) const;
  [[nodiscard]] Identity issue() const { return issue(Wish()); }

 private:
  Identity own_;
};

/// `key` as PEM, protected by a passphrase.
[[nodiscard]] std::string with_passphrase(const std::string& key, const std::string& passphrase);

}  // namespace lockstep::tests
