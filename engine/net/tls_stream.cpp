#include "engine/net/tls_stream.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "engine/base/copy_bytes.hpp"
#include "engine/net/tls_bio.hpp"

namespace lockstep::engine {
namespace {

constexpr std::size_t kRecord = std::size_t{16} << 10;       // of plain bytes, RFC 8446 5.1
constexpr std::size_t kMostUnsent = std::size_t{256} << 10;  // encrypted ahead of the socket
constexpr std::size_t kPieces = 256;                         // asked of the protocol at once
constexpr auto kLastWords = std::chrono::seconds(2);         // for what was encrypted to leave
constexpr std::byte kHandshakeRecord{22};                    // the first byte that any TLS client sends
constexpr std::size_t kRecordOverhead = 64;                  // counted for each record, besides its bytes
constexpr std::uint16_t kAes256Gcm = 0x1302;                 // RFC 8446 B.4

// One a thread: used up before the next use.
std::span<std::byte> plain_scratch() {
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kRecord);
  return {buffer.get(), kRecord};
}
std::span<std::byte> gather_scratch() {
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kRecord);
  return {buffer.get(), kRecord};
}

struct FreeConnection {
  void operator()(SSL* connection) const { SSL_free(connection); }
};

}  // namespace

struct TlsStream::Impl final : StreamProtocol, std::enable_shared_from_this<Impl> {
  enum class Phase : std::uint8_t {
    undecided,  ///< a server that takes either, before the first byte
    handshake,
    open,
    plain,    ///< the other end speaks no TLS, and need not
    failed,   ///< the last words are on their way, then the protocol is told
    closing,  ///< closed by the protocol; the last words are on their way
    closed,
  };

  /// Who makes records of what the protocol says, once the handshake is over.
  enum class Encrypts : std::uint8_t { undecided, openssl, kernel };

  Impl(Clock& c, std::unique_ptr<Stream> b, std::shared_ptr<const TlsContext> t, TlsRole r, TlsKeyLimits l)
      : clock(c), context(std::move(t)), limits(l), role(r), below(std::move(b)) {
    tls.reset(context->connection());
    if (tls && context->kernel_may_encrypt()) TlsContext::tell_secret(tls.get(), send_secret);
    BIO* const bio = tls ? bytes.make_bio() : nullptr;
    if (!bio) return;  // start() fails
    SSL_set_bio(tls.get(), bio, bio);
    role == TlsRole::client ? SSL_set_connect_state(tls.get()) : SSL_set_accept_state(tls.get());
  }
  ~Impl() { clock.cancel(timer); }

  void start(StreamProtocol& protocol) {
    assert(!above);
    above = &protocol;
    phase = role == TlsRole::server_or_plain ? Phase::undecided : Phase::handshake;
    if (!tls || !SSL_get_rbio(tls.get())) return fail(make_error_code(Errc::resource_exhausted));
    if (role == TlsRole::client) (void)shake_hands();
  }

  // ---- what comes ----

  ReceivePlace receive_place() override {
    if (phase == Phase::plain) return holds_back ? ReceivePlace{{}, 0} : above->receive_place();
    const bool takes = phase == Phase::undecided || phase == Phase::handshake || phase == Phase::open;
    // An undecided one hands bytes on, and they have to fit somewhere.
    return {{}, takes && !holds_back ? SIZE_MAX : 0};
  }

  void received(std::size_t direct, std::span<const std::byte> scratch) override {
    const auto self = shared_from_this();
    if (phase == Phase::plain) return above->received(direct, scratch);
    if (scratch.empty()) return;
    if (phase == Phase::undecided) decide(scratch.front());
    bytes.came(scratch);
    take_in();
    bytes.keep_rest();
  }

  void decide(std::byte first) { phase = first == kHandshakeRecord ? Phase::handshake : Phase::plain; }

  /// Gives the protocol what there is for it, as far as it takes it.
  void take_in() {
    if (phase == Phase::handshake && !shake_hands()) return;
    if (phase == Phase::plain) return hand_on();
    while (phase == Phase::open && read_some()) {
    }
    // Something to be sent may have come up by itself: an alert, an answer to a change of keys.
    if (phase == Phase::open && !bytes.unsent().empty()) below->want_send();
  }

  bool shake_hands() {
    if (role != TlsRole::client && bytes.has_unread() && !begun && bytes.first() != kHandshakeRecord) {
      fail(TlsErrc::not_tls);  // not one byte for whoever speaks no TLS
      return false;
    }
    begun = true;
    ERR_clear_error();
    const int result = SSL_do_handshake(tls.get());
    if (result == 1) {
      phase = Phase::open;
      written_by_handshake = bytes.written();
      below->want_send();
      return true;
    }
    if (SSL_get_error(tls.get(), result) != SSL_ERROR_WANT_READ) {
      fail(TlsContext::why_failed(tls.get()));
      return false;
    }
    below->want_send();
    return false;
  }

  /// False: nothing more can be read now.
  bool read_some() {
    const ReceivePlace place = above->receive_place();
    const bool direct = !place.direct.empty();
    const auto into = direct ? place.direct : plain_scratch().first(std::min(place.scratch, kRecord));
    if (into.empty()) {
      holds_back = true;
      return false;
    }
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(tls.get(), into.data(), into.size(), &got);
    const int error = SSL_get_error(tls.get(), result);
    if ((result == 1 || error == SSL_ERROR_WANT_READ) && encrypts == Encrypts::kernel && wants_to_answer()) {
      fail(TlsErrc::asks_for_keys);
      return false;
    }
    if (result == 1) {
      direct ? above->received(got, {}) : above->received(0, into.first(got));
      return true;
    }
    if (error == SSL_ERROR_ZERO_RETURN) fail(TlsErrc::ended);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN) fail(TlsContext::why_failed(tls.get()));
    return false;
  }

  /// What came before it was known that no TLS is spoken.
  void hand_on() {
    while (phase == Phase::plain && bytes.has_unread()) {
      const ReceivePlace place = above->receive_place();
      const auto into = !place.direct.empty() ? place.direct : plain_scratch().first(std::min(place.scratch, kRecord));
      if (into.empty()) {
        holds_back = true;
        return;
      }
      const std::size_t got = bytes.read(into);
      !place.direct.empty() ? above->received(got, {}) : above->received(0, into.first(got));
    }
  }

  void resume_receive() {
    if (!above) return;
    if (!holds_back) return below->resume_receive();
    if (timer != TimerId::none) return;
    timer = clock.call_after(Duration{0}, [self = shared_from_this()] {
      self->timer = TimerId::none;
      if (!self->above) return;
      self->holds_back = false;
      self->take_in();
      if (self->above && !self->holds_back) self->below->resume_receive();
    });
  }

  // ---- what goes ----

  std::size_t gather(std::span<std::span<const std::byte>> pieces) override {
    const auto self = shared_from_this();
    const auto last = std::move(kept_alive);  // the last one, where the protocol has closed it
    if (phase == Phase::plain) return above->gather(pieces);
    if (phase == Phase::open && encrypts == Encrypts::undecided && bytes.unsent().empty()) decide_who_encrypts();
    if (phase == Phase::open && encrypts == Encrypts::kernel) {
      if (const std::size_t count = gather_for_kernel(pieces)) return count;
    }
    if (phase == Phase::open && encrypts == Encrypts::openssl) encrypt();
    if (!bytes.unsent().empty()) {
      if (phase == Phase::closing) kept_alive = self;
      pieces[0] = bytes.unsent();
      return 1;
    }
    if (phase == Phase::failed) tell_end(failure);
    if (phase == Phase::closing) end_below(StreamClose::gently);
    return 0;
  }

  void sent(std::size_t count) override {
    if (phase == Phase::plain) return above->sent(count);
    if (encrypts != Encrypts::kernel) return bytes.sent(count);
    given_to_kernel += count + (count / kRecord + 1) * kRecordOverhead;
    above->sent(count);
  }

  // ---- the kernel encrypts ----

  /// The kernel begins with record 0, under the key that OpenSSL has: not if that one has made such a record.
  void decide_who_encrypts() {
    encrypts = Encrypts::openssl;
    const auto key = is_for_kernel() ? send_secret.record_key() : std::nullopt;
    send_secret.forget();
    if (!key || !below->encrypt_below(*key)) return;
    // From here on OpenSSL would make records with the kernel's numbers: what it writes goes nowhere.
    bytes.drop_writes();
    encrypts = Encrypts::kernel;
  }

  [[nodiscard]] bool is_for_kernel() const {
    return context->kernel_may_encrypt() && !wants_to_answer() &&
           SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(tls.get())) == kAes256Gcm;
  }

  /// OpenSSL has said something since the handshake, or wants to: an answer to a change of keys.
  [[nodiscard]] bool wants_to_answer() const {
    return bytes.written() != written_by_handshake || SSL_get_key_update_type(tls.get()) != SSL_KEY_UPDATE_NONE;
  }

  /// 0 also where the connection ends.
  std::size_t gather_for_kernel(std::span<std::span<const std::byte>> pieces) {
    if (given_to_kernel >= limits.bytes_in_kernel) {
      fail(TlsErrc::keys_used_up);
      return 0;
    }
    const std::size_t count = above->gather(pieces);
    return phase == Phase::open ? count : 0;
  }

  // ---- OpenSSL encrypts ----

  void encrypt() {
    std::array<std::span<const std::byte>, kPieces> pieces;
    while (phase == Phase::open && bytes.unsent().size() < kMostUnsent) {
      const std::size_t count = above->gather(pieces);
      if (count == 0 || phase != Phase::open) return;
      std::size_t room = kMostUnsent, taken = 0, filled = 0;
      const auto record = gather_scratch();
      for (auto piece : std::span(pieces).first(count)) {
        piece = piece.first(std::min(piece.size(), room - taken));
        taken += piece.size();
        while (!piece.empty()) {
          const bool whole = filled == 0 && piece.size() >= kRecord;
          const auto part = piece.first(std::min(piece.size(), kRecord - filled));
          piece = piece.subspan(part.size());
          if (whole) {
            if (!write(part)) return;
            continue;
          }
          copy_bytes(part, record.subspan(filled));
          filled += part.size();
          if (filled == kRecord && !write(record.first(std::exchange(filled, 0)))) return;
        }
      }
      if (filled > 0 && !write(record.first(filled))) return;
      above->sent(taken);
    }
  }

  /// One record at the most.
  bool write(std::span<const std::byte> part) {
    ERR_clear_error();
    if (++records % limits.records == 0) (void)SSL_key_update(tls.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    std::size_t taken = 0;
    if (SSL_write_ex(tls.get(), part.data(), part.size(), &taken) == 1 && taken == part.size()) return true;
    fail(TlsContext::why_failed(tls.get()));
    return false;
  }

  // ---- the end ----

  /// The protocol is told when what OpenSSL still had to say has left.
  void fail(std::error_code why) {
    phase = Phase::failed;
    failure = why;
    below->want_send();
  }

  void tell_end(std::error_code why) {
    // Two kernels' ends have no end of TCP's stream, and would wait for each other's.
    const bool answers = encrypts == Encrypts::kernel && why == TlsErrc::ended;
    end_below(answers ? StreamClose::now : StreamClose::gently);
    if (StreamProtocol* const told = std::exchange(above, nullptr)) told->on_stream_closed(why);
  }

  /// Whoever calls this holds it.
  void end_below(StreamClose how) {
    phase = Phase::closed;
    kept_alive.reset();
    clock.cancel(std::exchange(timer, TimerId::none));
    below->close(how);
  }

  void on_stream_closed(std::error_code why) override {
    const auto self = shared_from_this();
    const auto last = std::move(kept_alive);
    const bool midway = phase == Phase::handshake && role == TlsRole::client;
    if (phase == Phase::failed) why = failure;
    if (midway && why == std::errc::connection_aborted) why = TlsErrc::broke_off;
    phase = Phase::closed;
    clock.cancel(std::exchange(timer, TimerId::none));
    if (StreamProtocol* const told = std::exchange(above, nullptr)) told->on_stream_closed(why);
  }

  void close(StreamClose how) {
    above = nullptr;
    if (phase == Phase::closing || phase == Phase::closed) return;
    if (phase == Phase::plain || how == StreamClose::now) return end_below(how);
    if (phase == Phase::open && encrypts != Encrypts::kernel) (void)SSL_shutdown(tls.get());
    phase = Phase::closing;
    kept_alive = shared_from_this();
    clock.cancel(timer);
    timer = clock.call_after(kLastWords, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->timer = TimerId::none;
      const auto last = std::move(self->kept_alive);
      self->end_below(StreamClose::now);
    });
    below->want_send();
  }

  Clock& clock;
  std::shared_ptr<const TlsContext> context;
  const TlsKeyLimits limits;
  const TlsRole role;
  TlsBytes bytes;             // outlives `tls`, which reads from and writes to it
  TlsSendSecret send_secret;  // outlives `tls`, which tells it
  std::unique_ptr<SSL, FreeConnection> tls;
  std::unique_ptr<Stream> below;
  StreamProtocol* above = nullptr;
  std::shared_ptr<Impl> kept_alive;  // while closing
  Phase phase = Phase::closed;
  std::error_code failure;
  std::uint64_t records = 0;
  Encrypts encrypts = Encrypts::undecided;
  std::uint64_t written_by_handshake = 0;
  std::uint64_t given_to_kernel = 0;  // and what its records add
  TimerId timer = TimerId::none;
  bool begun = false;       // the handshake
  bool holds_back = false;  // bytes that the protocol did not take yet
};

TlsStream::TlsStream(Clock& clock, std::unique_ptr<Stream> below, std::shared_ptr<const TlsContext> context,
                     TlsRole role, TlsKeyLimits limits)
    : impl_(std::make_shared<Impl>(clock, std::move(below), std::move(context), role, limits)) {}

TlsStream::~TlsStream() { impl_->close(StreamClose::now); }

StreamProtocol& TlsStream::lower() { return *impl_; }
void TlsStream::start(StreamProtocol& protocol) { impl_->start(protocol); }

void TlsStream::want_send() {
  if (impl_->above) impl_->below->want_send();
}

void TlsStream::resume_receive() { impl_->resume_receive(); }
void TlsStream::close(StreamClose how) { impl_->close(how); }
const std::string& TlsStream::local_address() const { return impl_->below->local_address(); }
const std::string& TlsStream::peer_address() const { return impl_->below->peer_address(); }

std::size_t TlsStream::held_to_send() const { return impl_->bytes.held(); }

std::string_view TlsStream::cipher() const {
  if (impl_->phase != Impl::Phase::open) return {};
  return SSL_CIPHER_standard_name(SSL_get_current_cipher(impl_->tls.get()));
}

bool TlsStream::is_encrypted_by_kernel() const {
  return impl_->phase == Impl::Phase::open && impl_->encrypts == Impl::Encrypts::kernel;
}

}  // namespace lockstep::engine
