#pragma once
// What one direction of a TLS 1.3 connection is encrypted with, for who makes its records in OpenSSL's place.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::engine {

/// AES-256-GCM's (RFC 8446 7.3), for the record with number 0 and all that follow. Overwritten when it ends.
struct TlsRecordKey {
  std::array<std::byte, 32> key{};
  std::array<std::byte, 12> iv{};

  TlsRecordKey() = default;
  TlsRecordKey(const TlsRecordKey&) = default;
  TlsRecordKey& operator=(const TlsRecordKey&) = default;
  ~TlsRecordKey();
};

/// The secret that such a key is made of: a direction's first application traffic secret. Overwritten when it ends.
class TlsSendSecret {
 public:
  TlsSendSecret() = default;
  ~TlsSendSecret() { forget(); }
  TlsSendSecret(const TlsSendSecret&) = delete;
  TlsSendSecret& operator=(const TlsSendSecret&) = delete;

  /// A line in the format of NSS's key log, as OpenSSL tells one; takes the secret that `label` names, no other.
  void take(std::string_view line, std::string_view label);
  /// Nothing where no secret of this cipher suite's length was taken, or OpenSSL has no memory.
  [[nodiscard]] std::optional<TlsRecordKey> record_key() const;
  void forget();

 private:
  std::vector<std::byte> secret_;
};

}  // namespace lockstep::engine
