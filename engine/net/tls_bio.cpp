#include "engine/net/tls_bio.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/base/copy_bytes.hpp"

namespace lockstep::engine {
namespace {

TlsBytes& bytes_of(BIO* bio) { return *static_cast<TlsBytes*>(BIO_get_data(bio)); }

int read_bio(BIO* bio, char* data, std::size_t size, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  *got = bytes_of(bio).read(std::as_writable_bytes(std::span(data, size)));
  if (*got == 0 && size > 0) BIO_set_retry_read(bio);
  return *got > 0 ? 1 : 0;
}

int write_bio(BIO* bio, const char* data, std::size_t size, std::size_t* taken) {
  bytes_of(bio).write(std::as_bytes(std::span(data, size)));
  *taken = size;
  return 1;
}

long control_bio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* method() {
  static const BIO_METHOD* const made = [] {
    BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep");
    assert(m);
    BIO_meth_set_read_ex(m, read_bio);
    BIO_meth_set_write_ex(m, write_bio);
    BIO_meth_set_ctrl(m, control_bio);
    return m;
  }();
  return made;
}

}  // namespace

void TlsBytes::keep_rest() {
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(std::exchange(kept_from_, 0)));
  kept_.insert(kept_.end(), now_.begin(), now_.end());
  now_ = {};
}

std::size_t TlsBytes::read(std::span<std::byte> into) {
  const auto kept = std::span<const std::byte>(kept_).subspan(kept_from_);
  const auto from_kept = kept.first(std::min(kept.size(), into.size()));
  copy_bytes(from_kept, into);
  kept_from_ += from_kept.size();
  const auto rest = into.subspan(from_kept.size());
  const auto from_now = now_.first(std::min(now_.size(), rest.size()));
  copy_bytes(from_now, rest);
  now_ = now_.subspan(from_now.size());
  return from_kept.size() + from_now.size();
}

void TlsBytes::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  if (!drops_) out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void TlsBytes::drop_writes() {
  assert(unsent().empty());
  drops_ = true;
  std::vector<std::byte>().swap(out_);
  sent_ = 0;
}

void TlsBytes::sent(std::size_t bytes) {
  assert(bytes <= out_.size() - sent_);
  sent_ += bytes;
  // More may be written before all has left, and always so while a line is busy. What is moved is the smaller part.
  if (sent_ < out_.size() - sent_) return;
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(std::exchange(sent_, 0)));
}

BIO* TlsBytes::make_bio() {
  BIO* const bio = BIO_new(method());
  if (!bio) return nullptr;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace lockstep::engine
