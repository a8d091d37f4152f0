#include "engine/net/tls_handshake.hpp"

#include <cassert>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace lockstep::engine {

void TlsHandshake::Free::operator()(ssl_st* connection) const { SSL_free(connection); }

TlsHandshake::TlsHandshake(std::shared_ptr<const TlsContext> context, TlsRole role)
    : context_(std::move(context)), tls_(context_->connection()) {
  assert(role != TlsRole::server_or_plain);
  BIO* const bio = tls_ ? bytes_.make_bio() : nullptr;
  if (!bio) return;  // take() fails
  SSL_set_bio(tls_.get(), bio, bio);
  role == TlsRole::client ? SSL_set_connect_state(tls_.get()) : SSL_set_accept_state(tls_.get());
}

TlsHandshake::~TlsHandshake() = default;

std::error_code TlsHandshake::take(std::span<const std::byte> bytes) {
  if (!tls_ || !SSL_get_rbio(tls_.get())) return make_error_code(Errc::resource_exhausted);
  bytes_.came(bytes);
  ERR_clear_error();
  std::array<std::byte, 64> nothing;
  std::size_t got = 0;
  const bool was_over = is_over_;
  const int result =
      was_over ? SSL_read_ex(tls_.get(), nothing.data(), nothing.size(), &got) : SSL_do_handshake(tls_.get());
  const int error = SSL_get_error(tls_.get(), result);
  bytes_.keep_rest();
  if (result == 1 && was_over) return TlsErrc::broken;  // nobody sends data by TLS here
  is_over_ |= result == 1;
  if (result == 1 || error == SSL_ERROR_WANT_READ) return {};
  return error == SSL_ERROR_ZERO_RETURN ? make_error_code(TlsErrc::ended) : TlsContext::why_failed(tls_.get());
}

bool TlsHandshake::export_secret(std::string_view label, std::span<std::byte> into) const {
  assert(is_over_);
  auto* const out = reinterpret_cast<unsigned char*>(into.data());
  return SSL_export_keying_material(tls_.get(), out, into.size(), label.data(), label.size(), nullptr, 0, 0) == 1;
}

}  // namespace lockstep::engine
