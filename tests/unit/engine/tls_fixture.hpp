#pragma once
// Two protocols that talk over two TLS streams, over a wire that cuts what goes over it as it likes.
#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "engine/base/openssl.hpp"
#include "engine/net/tls_stream.hpp"
#include "tests/unit/engine/record_maker.hpp"

namespace lockstep::engine::test {

struct MadeCertificate {
  std::string certificate, key, fingerprint;
};

inline std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

inline openssl::Key key_of(const MadeCertificate& made) {
  const openssl::Bio bio(BIO_new_mem_buf(made.key.data(), static_cast<int>(made.key.size())));
  return openssl::Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
}

/// Valid from and until so many seconds from now; signed by itself, or by another.
inline MadeCertificate make_certificate(long from = -3600, long until = 3600, const MadeCertificate* signer = nullptr) {
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Certificate x(X509_new());
  X509_set_version(x.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(x.get()), until);
  X509_set_pubkey(x.get(), key.get());
  X509_sign(x.get(), signer ? key_of(*signer).get() : key.get(), EVP_sha256());
  const openssl::Bio certificate(BIO_new(BIO_s_mem())), secret(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate.get(), x.get());
  PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::array<unsigned char, 32> digest{};
  X509_digest(x.get(), EVP_sha256(), digest.data(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return {text_of(certificate.get()) + (signer ? signer->certificate : ""), text_of(secret.get()), hex};
}

inline std::shared_ptr<const TlsContext> context_of(const MadeCertificate& own, std::vector<std::string> peers) {
  auto made = TlsContext::create({own.certificate, own.key, std::move(peers)});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

/// Runs what is due when it is told to.
class HandClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return {now_}; }
  TimerId call_after(Duration delay, Callback<> action) override {
    timers_.push_back({++last_, now_ + delay, std::move(action)});
    return TimerId{last_};
  }
  void cancel(TimerId timer) override {
    std::erase_if(timers_, [&](const Timer& t) { return t.id == static_cast<std::uint64_t>(timer); });
  }
  /// True when something ran.
  bool advance(Duration by) {
    now_ += by;
    bool ran = false;
    while (true) {
      const auto due = std::ranges::find_if(timers_, [&](const Timer& t) { return t.at <= now_; });
      if (due == timers_.end()) return ran;
      auto action = std::move(due->action);
      timers_.erase(due);
      action();
      ran = true;
    }
  }

 private:
  struct Timer {
    std::uint64_t id;
    Duration at;
    Callback<> action;
  };
  Duration now_{0};
  std::uint64_t last_ = 0;
  std::vector<Timer> timers_;
};

/// One end of a wire: what it sends waits in `sent` until it is carried to the other.
struct WireEnd {
  StreamProtocol* protocol = nullptr;
  std::deque<std::byte> arriving;
  std::vector<std::byte> last_words;  ///< after all that was sent
  bool wants_send = false, closed = false;
  bool can_encrypt = false;  ///< as a socket whose kernel can
  std::optional<RecordMaker> encrypts;
  std::string address = "10.0.0.1:3261";

  void want_send() { wants_send = true; }
  void close(StreamClose how) {
    if (!closed && encrypts && how == StreamClose::gently) last_words = encrypts->close_notify();
    closed = true;
    protocol = nullptr;
  }
  bool encrypt_below(const TlsRecordKey& key) {
    if (can_encrypt) encrypts.emplace(key);
    return can_encrypt;
  }
};

/// What a stream has of its end, which outlives it.
struct WireHold final : Stream {
  explicit WireHold(std::shared_ptr<WireEnd> held) : end(std::move(held)) {}
  void want_send() override { end->want_send(); }
  void resume_receive() override {}
  void close(StreamClose how) override { end->close(how); }
  bool encrypt_below(const TlsRecordKey& key) override { return end->encrypt_below(key); }
  [[nodiscard]] const std::string& local_address() const override { return end->address; }
  [[nodiscard]] const std::string& peer_address() const override { return end->address; }
  std::shared_ptr<WireEnd> end;
};

/// Sends what it is given, and notes what comes.
struct TalkingProtocol final : StreamProtocol {
  std::vector<std::byte> to_send;
  std::size_t sent_bytes = 0;
  std::vector<std::byte> heard;
  std::vector<std::byte> buffer;  ///< the place for the next bytes, where there is one
  bool takes = true;
  std::error_code ended;
  std::size_t piece = 5000;
  std::function<void()> when_all_is_sent;

  ReceivePlace receive_place() override { return {buffer, takes && buffer.empty() ? 3000U : 0U}; }
  void received(std::size_t direct, std::span<const std::byte> scratch) override {
    heard.insert(heard.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(direct));
    heard.insert(heard.end(), scratch.begin(), scratch.end());
  }
  std::size_t gather(std::span<std::span<const std::byte>> pieces) override {
    std::size_t count = 0;
    for (std::size_t at = sent_bytes; at < to_send.size() && count < pieces.size(); at += piece) {
      pieces[count++] = std::span<const std::byte>(to_send).subspan(at, std::min(piece, to_send.size() - at));
    }
    if (count == 0 && when_all_is_sent) std::exchange(when_all_is_sent, nullptr)();
    return count;
  }
  void sent(std::size_t bytes) override { sent_bytes += bytes; }
  void on_stream_closed(std::error_code why) override { ended = why; }
};

struct TlsEnd {
  std::shared_ptr<WireEnd> wire;
  std::unique_ptr<TlsStream> stream;
  TalkingProtocol protocol;
};

class TlsPair {
 public:
  explicit TlsPair(std::uint32_t seed = 1) : random_(seed) {}

  void start(TlsEnd& end, std::shared_ptr<const TlsContext> context, TlsRole role, TlsKeyLimits limits = {},
             bool can_encrypt = false) {
    end.wire = std::make_shared<WireEnd>();
    end.wire->can_encrypt = can_encrypt;
    end.stream =
        std::make_unique<TlsStream>(clock, std::make_unique<WireHold>(end.wire), std::move(context), role, limits);
    end.wire->protocol = &end.stream->lower();
    end.stream->start(end.protocol);
    end.stream->want_send();
  }

  /// Until nothing moves any more.
  void run(TlsEnd& one, TlsEnd& other) {
    for (bool moved = true; moved;) {
      moved = carry(*one.wire, *other.wire);
      moved = carry(*other.wire, *one.wire) || moved;
      moved = clock.advance(std::chrono::microseconds(1)) || moved;
    }
  }

  HandClock clock;
  std::size_t most = 70000;                              ///< bytes that a send takes at once
  std::function<void(std::vector<std::byte>&)> on_wire;  ///< may change what goes over it

 private:
  bool carry(WireEnd& from, WireEnd& to) {
    bool moved = false;
    if (from.protocol && std::exchange(from.wants_send, false)) {
      std::array<std::span<const std::byte>, 8> pieces;
      while (from.protocol) {
        const std::size_t count = from.protocol->gather(pieces);
        if (count == 0) break;
        std::vector<std::byte> bytes;
        for (const auto& piece : std::span(pieces).first(count)) bytes.insert(bytes.end(), piece.begin(), piece.end());
        bytes.resize(std::min<std::size_t>(bytes.size(), 1 + random_() % most));
        from.protocol->sent(bytes.size());
        put_on_wire(from.encrypts ? from.encrypts->data(bytes) : std::move(bytes), to);
        moved = true;
      }
    }
    if (!from.last_words.empty()) put_on_wire(std::exchange(from.last_words, {}), to);
    while (to.protocol && !to.arriving.empty()) {
      const ReceivePlace place = to.protocol->receive_place();
      std::vector<std::byte> scratch(std::min({place.scratch, to.arriving.size(), std::size_t{1} + random_() % 65536}));
      const std::size_t direct = std::min(place.direct.size(), to.arriving.size());
      if (direct == 0 && scratch.empty()) break;
      scratch.resize(std::min(scratch.size(), to.arriving.size() - direct));
      const auto begin = to.arriving.begin();
      std::copy_n(begin, direct, place.direct.begin());
      std::copy_n(begin + static_cast<std::ptrdiff_t>(direct), scratch.size(), scratch.begin());
      to.arriving.erase(begin, begin + static_cast<std::ptrdiff_t>(direct + scratch.size()));
      to.protocol->received(direct, scratch);
      moved = true;
    }
    return moved;
  }

  void put_on_wire(std::vector<std::byte> bytes, WireEnd& to) {
    if (on_wire) on_wire(bytes);
    to.arriving.insert(to.arriving.end(), bytes.begin(), bytes.end());
  }

  std::mt19937 random_;
};

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> out(size);
  std::mt19937 random(seed);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

}  // namespace lockstep::engine::test
