#pragma once
// What OpenSSL reads from and writes to in the place of a socket: bytes that have come, and bytes that are to go.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <openssl/bio.h>

namespace lockstep::engine {

class TlsBytes {
 public:
  /// These are to be read, behind what is left of earlier ones. Valid until keep_rest().
  void came(std::span<const std::byte> bytes) { now_ = bytes; }
  /// Copies what was not read.
  void keep_rest();
  [[nodiscard]] bool has_unread() const { return kept_from_ < kept_.size() || !now_.empty(); }
  /// The next byte that is to be read; only with has_unread().
  [[nodiscard]] std::byte first() const { return kept_from_ < kept_.size() ? kept_[kept_from_] : now_.front(); }
  std::size_t read(std::span<std::byte> into);

  void write(std::span<const std::byte> bytes);
  /// That were ever written.
  [[nodiscard]] std::uint64_t written() const { return written_; }
  /// What is written from now on goes nowhere. Only when nothing is unsent.
  void drop_writes();
  /// What is to go; moves with the next write() and sent().
  [[nodiscard]] std::span<const std::byte> unsent() const { return std::span(out_).subspan(sent_); }
  void sent(std::size_t bytes);
  /// Bytes of memory that what is to go takes.
  [[nodiscard]] std::size_t held() const { return out_.capacity(); }

  /// OpenSSL's object for these; belongs to the SSL that it is given to, which ends before them.
  [[nodiscard]] BIO* make_bio();

 private:
  std::vector<std::byte> kept_;
  std::size_t kept_from_ = 0;
  std::span<const std::byte> now_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::uint64_t written_ = 0;
  bool drops_ = false;
};

}  // namespace lockstep::engine
