#include "mgmt/control/page_certificate.hpp"

#include <system_error>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "mgmt/control/secrets.hpp"
#include "mgmt/control/shown_certificate.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kOwnFile = "page-own.pem";
constexpr const char* kMadeFile = "page-made.pem";
constexpr const char* kShownFile = "page.crt";

using Shown = std::shared_ptr<const ShownCertificate>;

Shown first_of(const TlsIdentity& first) {
  const auto key = read_file(first.key_file);
  auto shown = read_certificate_of_any_age(first.certificate_pem, key.value_or(""));
  // One from before certificates named hosts: it is shown as the server has it.
  return shown ? *shown : nullptr;
}

engine::Result<void> store(const std::filesystem::path& file, const ShownCertificate& certificate) {
  return write_private_file(file, key_text(certificate) + certificates_text(certificate));
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

bool ends_within(const Shown& shown, std::int64_t time, std::int64_t now_ms) {
  return !shown || shown->facts.until_ms - now_ms < time;
}

}  // namespace

PageCertificate::PageCertificate(std::filesystem::path folder, const TlsIdentity& first, std::vector<std::string> hosts)
    : folder_(std::move(folder)), hosts_(std::move(hosts)), first_(first_of(first)) {
  own_ = load(kOwnFile);
  made_ = load(kMadeFile);
  show_locked();
}

Shown PageCertificate::load(const char* name) {
  const auto file = folder_ / name;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return nullptr;
  const auto text = read_file(file);
  const auto read = read_certificate_of_any_age(text.value_or(""), text.value_or(""));
  if (read) return *read;
  trouble_ = fmt::format("{} can't be used: {}", file.string(),
                         text ? read.error().fields.front().detail : text.error().message);
  log_error(fmt::format("{} A self-made certificate is shown instead.", trouble_));
  return nullptr;
}

/// What `lockstep` on this node is to trust beside tls.crt.
void PageCertificate::show_locked() {
  const Shown& shown = own_ ? own_ : made_;
  const auto file = folder_ / kShownFile;
  if (shown) {
    if (auto written = write_private_file(file, certificates_text(*shown)); !written)
      log_error(written.error().message);
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

PageCertificate::View PageCertificate::view_locked() const {
  View view;
  view.own = own_ != nullptr;
  const Shown& shown = own_ ? own_ : made_ ? made_ : first_;
  if (!shown) return view;
  view.facts = shown->facts;
  for (const auto& host : hosts_)
    if (!is_loopback(host) && !covers(*shown, host)) view.missing.push_back(host);
  return view;
}

PageCertificate::View PageCertificate::view() const {
  const std::lock_guard lock(mutex_);
  return view_locked();
}

Outcome<PageCertificate::View> PageCertificate::use_own(const std::string& certificates, const std::string& key,
                                                        std::int64_t now_ms) {
  const auto read = read_shown_certificate(certificates, key, now_ms);
  if (!read) return std::unexpected(read.error());
  const std::lock_guard lock(mutex_);
  if (auto stored = store(folder_ / kOwnFile, **read); !stored)
    return refuse(RefusalKind::internal, fmt::format("Nothing was changed: {}", stored.error().message));
  own_ = *read;
  trouble_.clear();
  show_locked();
  return view_locked();
}

Outcome<void> PageCertificate::drop_own(std::int64_t now_ms) {
  {
    const std::lock_guard lock(mutex_);
    const auto file = folder_ / kOwnFile;
    std::error_code error;
    // Also one that could not be read.
    const bool there = std::filesystem::remove(file, error);
    if (error)
      return refuse(RefusalKind::internal,
                    fmt::format("Nothing was changed: {} can't be removed: {}.", file.string(), error.message()));
    if (!there && !own_) return refuse(RefusalKind::not_found, "This node shows a self-made certificate already.");
    own_.reset();
    trouble_.clear();
    show_locked();
  }
  renew_if_due(now_ms);
  return {};
}

bool PageCertificate::renew_if_due(std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  const Shown& shown = made_ ? made_ : first_;
  if (own_ || !shown || !ends_within(shown, kRenewBefore, now_ms)) return false;
  const auto pems = make_self_signed(hosts_, now_ms);
  auto made = pems ? read_certificate_of_any_age(pems->certificate, pems->key) : Outcome<Shown>(nullptr);
  auto stored = pems && made ? store(folder_ / kMadeFile, **made) : engine::Result<void>();
  if (!pems || !made || !stored) {
    const std::string why = !pems ? pems.error().message : !made ? made.error().detail : stored.error().message;
    if (trouble_.empty()) log_error(fmt::format("The page's certificate could not be made anew: {}", why));
    trouble_ = fmt::format("The page's certificate ends at {} and could not be made anew: {}",
                           utc_text(shown->facts.until_ms), why);
    return false;
  }
  made_ = *made;
  trouble_.clear();
  show_locked();
  log_info(fmt::format("The page has a new self-made certificate; its SHA-256: {}", made_->facts.fingerprint));
  return true;
}

std::string PageCertificate::problem(std::int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  if (!trouble_.empty()) return trouble_;
  if (!own_ || !ends_within(own_, kWarnBefore, now_ms)) return {};
  const bool over = now_ms >= own_->facts.until_ms;
  return fmt::format("The certificate that this node was given for its page {} at {}.", over ? "expired" : "expires",
                     utc_text(own_->facts.until_ms));
}

bool PageCertificate::put_on(ssl_st* connection) const {
  Shown shown;
  {
    const std::lock_guard lock(mutex_);
    shown = own_ ? own_ : made_;
  }
  if (!shown) return true;  // the server's own stands
  // Of another kind of key it would stand beside the server's own, and the client would choose.
  SSL_certs_clear(connection);
  bool good =
      SSL_use_certificate(connection, shown->leaf.get()) == 1 && SSL_use_PrivateKey(connection, shown->key.get()) == 1;
  for (const auto& issuer : shown->chain) good = good && SSL_add1_chain_cert(connection, issuer.get()) == 1;
  if (!good) ERR_clear_error();
  return good;
}

}  // namespace lockstep::mgmt
