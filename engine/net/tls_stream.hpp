#pragma once
// TLS on a stream: a stream itself, for a protocol that need not know of it. What the protocol wants sent is
// encrypted at the end of the turn, as many records as there are, and leaves in one piece; what comes is decrypted to
// where the protocol wants it. The protocol hears nothing before the other end has proven itself.
// Where the stream below can encrypt (TcpStream, by the kernel), it has the key of this direction as soon as the
// handshake is over, and what the protocol wants sent goes straight to it.
#include <memory>
#include <string_view>

#include "engine/net/stream.hpp"
#include "engine/net/tls_context.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::engine {

enum class TlsRole : std::uint8_t {
  client,
  server,
  /// Takes either: who begins with something else than a TLS record is spoken to without TLS. For the time in which a
  /// pair goes over to TLS, and for no other.
  server_or_plain,
};

/// After so many records a direction has new keys: well before AES-GCM's bound (RFC 8446 5.5: 24 million).
constexpr std::uint64_t kTlsRecordsPerKey = std::uint64_t{1} << 22;
/// A key that the kernel has can't be changed there: after so many bytes the connection ends, with keys_used_up. The
/// bound is one of full records (24 million of 16 KiB), so that many small ones are no more than their bytes.
constexpr std::uint64_t kTlsBytesInKernel = std::uint64_t{1} << 38;

/// Whoever makes its connections anew in time does so before one that has carried this, either way: which end's kernel
/// encrypts the other does not know.
constexpr std::uint64_t kTlsBytesBeforeRenewal = kTlsBytesInKernel / 16 * 15;

struct TlsKeyLimits {
  std::uint64_t records = kTlsRecordsPerKey;
  std::uint64_t bytes_in_kernel = kTlsBytesInKernel;
};

class TlsStream final : public Stream {
 public:
  /// `below` is connected. `clock` is that of its reactor.
  TlsStream(Clock& clock, std::unique_ptr<Stream> below, std::shared_ptr<const TlsContext> context, TlsRole role,
            TlsKeyLimits limits = {});
  /// As close(StreamClose::now).
  ~TlsStream() override;

  /// What the stream below is started with.
  [[nodiscard]] StreamProtocol& lower();
  /// Once, after the stream below was started. `protocol` outlives the stream or closes it first.
  void start(StreamProtocol& protocol);

  void want_send() override;
  void resume_receive() override;
  void close(StreamClose how) override;
  [[nodiscard]] const std::string& local_address() const override;
  [[nodiscard]] const std::string& peer_address() const override;

  /// "TLS_AES_256_GCM_SHA384"; empty before the handshake is over, and without TLS.
  [[nodiscard]] std::string_view cipher() const;
  /// What is sent is encrypted by the kernel.
  [[nodiscard]] bool is_encrypted_by_kernel() const;
  /// Bytes of memory for what is encrypted and has not left.
  [[nodiscard]] std::size_t held_to_send() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
