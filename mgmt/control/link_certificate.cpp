#include "mgmt/control/link_certificate.hpp"

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {
constexpr std::int64_t kMonth_ms = std::int64_t{30} * 24 * 3600 * 1000;
}

std::shared_ptr<const KeyAndCertificate> LinkCertificate::at(std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  // A clock that was put right may have been far off when it was made.
  if (made_ && now_ms >= made_ms_ && now_ms - made_ms_ < kMonth_ms) return made_;
  auto made = make_link_certificate(identity_, now_ms);
  if (!made) {
    log_warning("Replication link: " + made.error().message);
    return made_;
  }
  made_ = std::make_shared<const KeyAndCertificate>(*std::move(made));
  made_ms_ = now_ms;
  return made_;
}

}  // namespace lockstep::mgmt
