#pragma once
// This node's TLS identity: a key and a self-signed certificate, made once. Both ends of a pair pin each other's
// certificate by its fingerprint, so no authority is needed.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.hpp"

struct ssl_st;  // OpenSSL's SSL

namespace lockstep::mgmt {

struct TlsIdentity {
  std::filesystem::path certificate_file;  ///< PEM
  std::filesystem::path key_file;          ///< PEM, mode 0600
  std::string certificate_pem;
  std::string fingerprint;  ///< SHA-256 of the certificate's DER, 64 hex digits
};

/// Reads the identity in `folder`, or makes one for these host names and IP addresses when there is none. A key or a
/// certificate that is there but can't be read is an error: it is never replaced, since the partner has pinned it.
[[nodiscard]] engine::Result<TlsIdentity> load_or_make_identity(const std::filesystem::path& folder,
                                                                const std::vector<std::string>& hosts);

struct KeyAndCertificate {
  std::string certificate;
  std::string key;
};

/// A fresh key and a certificate of its own, for ten years from `now_ms` (wall clock); both PEM. It names those of the
/// hosts that are addresses, or names of letters, digits, dots, dashes and underscores.
[[nodiscard]] engine::Result<KeyAndCertificate> make_self_signed(const std::vector<std::string>& hosts,
                                                                 std::int64_t now_ms);

/// A fresh key and a certificate of the node's on the replication link, signed by its identity, for two years from
/// `now_ms` (wall clock); the identity's own certificate is behind it.
[[nodiscard]] engine::Result<KeyAndCertificate> make_link_certificate(const TlsIdentity& identity, std::int64_t now_ms);

/// Of the first certificate in a PEM text; empty when there is none.
[[nodiscard]] std::string fingerprint_of_pem(std::string_view pem);

/// Of the certificate that the other end of a connection showed; empty when it showed none.
[[nodiscard]] std::string fingerprint_of_peer(const ssl_st* connection);

}  // namespace lockstep::mgmt
