#pragma once
// What this node's HTTPS server shows to people and programs: the operator's own certificate; else the self-made one
// that was made with the node, and near its end another one in its place. The partner goes on seeing the first, which
// it has pinned by its fingerprint: neither an own certificate nor the end of a self-made one comes between the nodes.
//
// In the data folder, mode 0600: page-own.pem and page-made.pem, each a key and its certificates in one file, so that
// there is always a pair that fits; page.crt, what is shown now where it is not tls.crt, for `lockstep` on this node.
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mgmt/control/certificate.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

struct CertificateFacts {
  std::string subject, issuer;     ///< RFC 4514
  std::vector<std::string> names;  ///< DNS names and addresses
  std::int64_t from_ms = 0;        ///< wall clock
  std::int64_t until_ms = 0;
  std::string fingerprint;
};

struct ShownCertificate;

/// A key and its certificates, the leaf first, fit for a TLS server at `now_ms`. Refusal invalid: /certificate or /key,
/// and why. Nothing is trusted of what is in either text.
[[nodiscard]] Outcome<std::shared_ptr<const ShownCertificate>> read_shown_certificate(const std::string& certificates,
                                                                                      const std::string& key,
                                                                                      std::int64_t now_ms);
[[nodiscard]] const CertificateFacts& facts_of(const ShownCertificate& certificate);

class PageCertificate {
 public:
  static constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  static constexpr std::int64_t kWarnBefore = 30 * kDay;   ///< the end of an own one
  static constexpr std::int64_t kRenewBefore = 60 * kDay;  ///< the end of a self-made one

  struct View {
    bool own = false;  ///< the operator's; else self-made
    CertificateFacts facts;
    std::vector<std::string> missing;  ///< of this node's names and addresses, those that it does not name
  };

  /// `first` is in `folder`; `hosts` are this node's names and addresses. An own certificate that can't be used any
  /// more is not shown, and problem() says so.
  PageCertificate(std::filesystem::path folder, const TlsIdentity& first, std::vector<std::string> hosts);

  [[nodiscard]] View view() const;
  /// From the next handshake on. Nothing is changed on a refusal: invalid as above; internal: it can't be stored.
  [[nodiscard]] Outcome<View> use_own(const std::string& certificates, const std::string& key, std::int64_t now_ms);
  /// The self-made one is shown again. Refusal not_found: it is already.
  [[nodiscard]] Outcome<void> drop_own(std::int64_t now_ms);
  /// Makes another self-made one near the end of the one that is shown. True where it did.
  bool renew_if_due(std::int64_t now_ms);
  /// A sentence about what an operator has to see to; empty when there is nothing.
  [[nodiscard]] std::string problem(std::int64_t now_ms) const;

  /// For a handshake, on any thread. False: the connection can't go on.
  [[nodiscard]] bool put_on(ssl_st* connection) const;

 private:
  using Shown = std::shared_ptr<const ShownCertificate>;
  [[nodiscard]] Shown load(const char* name);
  [[nodiscard]] View view_locked() const;
  void show_locked();

  const std::filesystem::path folder_;
  const std::vector<std::string> hosts_;
  const Shown first_;
  mutable std::mutex mutex_;
  Shown own_, made_;     ///< null: there is none
  std::string trouble_;  ///< with what was found at the start, or could not be made
};

}  // namespace lockstep::mgmt
