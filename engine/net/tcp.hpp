#pragma once
// TCP on a reactor: connections, a listener that hands accepted sockets to whichever reactor is to have them, and the
// way out. Addresses are literal: "127.0.0.1:3260", "[::1]:3260"; port 0 picks a free one.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "engine/net/stream.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

/// Bytes, one buffer a thread. More falls out of the processor's cache before it is looked at.
constexpr std::size_t kReceiveScratch = std::size_t{64} << 10;
constexpr std::size_t kMaxGather = 256;  ///< pieces in one send

/// A connected socket that has no reactor yet; closed when dropped. May be moved between threads.
class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int descriptor) : descriptor_(descriptor) {}
  TcpSocket(TcpSocket&& other) noexcept : descriptor_(other.release()) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept;
  ~TcpSocket();
  [[nodiscard]] int release();
  [[nodiscard]] explicit operator bool() const { return descriptor_ >= 0; }
  /// "address:port" of the peer, or "?" when it is gone already.
  [[nodiscard]] std::string peer_address() const;

 private:
  int descriptor_ = -1;
};

/// What the system knows of a connection since it was made (tcp(7), TCP_INFO).
struct TcpFigures {
  std::chrono::microseconds round_trip{};  ///< smoothed
  std::uint64_t bytes_out = 0;             ///< that the other end has confirmed
  std::uint64_t bytes_in = 0;
  std::uint64_t segments_out = 0;
  std::uint64_t segments_sent_again = 0;
  std::uint32_t path_mtu = 0;  ///< bytes; 0: not known
  bool operator==(const TcpFigures&) const = default;
};
/// Nothing where the system does not tell.
[[nodiscard]] std::optional<TcpFigures> tcp_figures(int descriptor);

/// One receive a turn while bytes come, one gathering send at the end of the turn. TCP_NODELAY and keepalive are set.
class TcpStream final : public Stream {
 public:
  TcpStream(Reactor& reactor, TcpSocket socket);
  /// As close(StreamClose::now).
  ~TcpStream() override;

  /// Starts receiving for `protocol`, which outlives the stream or closes it first. Once.
  void start(StreamProtocol& protocol);
  void want_send() override;
  void resume_receive() override;
  void close(StreamClose how) override;
  [[nodiscard]] bool encrypt_below(const TlsRecordKey& key) override;
  [[nodiscard]] const std::string& local_address() const override;
  [[nodiscard]] const std::string& peer_address() const override;
  /// Nothing once it is closed.
  [[nodiscard]] std::optional<TcpFigures> figures() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

class TcpListener {
 public:
  /// `accepted` runs on `reactor`. A failure names the address and says what to do about it. Any thread.
  [[nodiscard]] static Result<std::unique_ptr<TcpListener>> open(Reactor& reactor, std::string_view address,
                                                                 Callback<TcpSocket> accepted);
  /// Any thread. The address is free at once; from another thread than the reactor's `accepted` may still run once.
  ~TcpListener();
  [[nodiscard]] const std::string& address() const;  ///< with the port that was picked

 private:
  struct Impl;
  explicit TcpListener(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// One attempt to connect. Destroying it gives the attempt up; `done` does not run then. On the reactor.
class TcpConnector {
 public:
  /// `done` runs once, never from in here: a started socket's owner makes a TcpStream of it. Errors are whole
  /// sentences. `from` is a local address to bind to ("10.0.0.1:0"), empty for any.
  TcpConnector(Reactor& reactor, std::string_view from, std::string_view to, Duration timeout,
               Callback<Result<TcpSocket>> done);
  ~TcpConnector();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
