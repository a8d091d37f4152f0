#pragma once
// What this node shows on the replication link: a key and a certificate that its identity has signed. They are kept in
// memory alone, made anew with each process and long before their end, so that nobody has to renew them; the partner
// knows the identity.
#include <cstdint>
#include <memory>
#include <mutex>

#include "mgmt/control/certificate.hpp"

namespace lockstep::mgmt {

class LinkCertificate {
 public:
  /// `identity` outlives this.
  explicit LinkCertificate(const TlsIdentity& identity) : identity_(identity) {}
  /// Any thread. Null when none can be made, which is logged.
  [[nodiscard]] std::shared_ptr<const KeyAndCertificate> at(std::int64_t now_ms);

 private:
  const TlsIdentity& identity_;
  std::mutex mutex_;
  std::shared_ptr<const KeyAndCertificate> made_;
  std::int64_t made_ms_ = 0;
};

}  // namespace lockstep::mgmt
