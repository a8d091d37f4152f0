#pragma once
// A byte stream and what speaks on it. The protocol is a core: it is given bytes and asked for bytes, and knows no
// socket; the stream (a TCP connection, or a test) knows no PDU. Both live on one reactor.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>

namespace lockstep::engine {

struct TlsRecordKey;

/// Where the next bytes should go: `direct` first, what exceeds it into the stream's shared receive buffer, of which
/// at most `scratch` bytes are used. Both empty: take nothing in until Stream::resume_receive().
struct ReceivePlace {
  std::span<std::byte> direct;
  std::size_t scratch = SIZE_MAX;
};

class StreamProtocol {
 public:
  virtual ReceivePlace receive_place() = 0;
  /// `direct` bytes of the place were filled, then `scratch` came; it is valid during the call and must be used up.
  virtual void received(std::size_t direct, std::span<const std::byte> scratch) = 0;
  /// What to send, in order, at most pieces.size() of them; gives how many. The memory stays valid until sent() has
  /// counted it or the stream is closed. Called again with what is left: the answer may grow but not change.
  virtual std::size_t gather(std::span<std::span<const std::byte>> pieces) = 0;
  virtual void sent(std::size_t bytes) = 0;
  /// The peer, the network or the system ended the stream; nothing is called afterwards. Not called after
  /// Stream::close(). The protocol may destroy the stream in here.
  virtual void on_stream_closed(std::error_code why) = 0;

 protected:
  ~StreamProtocol() = default;
};

enum class StreamClose : std::uint8_t {
  now,     ///< reset: what the system has not sent yet is dropped
  gently,  ///< what was counted by sent() still arrives; then the end of the stream
};

/// All members on the stream's reactor.
class Stream {
 public:
  virtual ~Stream() = default;
  /// gather() will be called at the end of this turn. Cheap and idempotent.
  virtual void want_send() = 0;
  virtual void resume_receive() = 0;
  /// The protocol hears nothing more; may be called from inside any of its members. Idempotent.
  virtual void close(StreamClose how) = 0;
  /// From now on the system itself makes TLS records under this key of what gather() gives, and close(gently) ends with
  /// TLS's close_notify. False: it can't, and all is as before. For a protocol that is TLS.
  [[nodiscard]] virtual bool encrypt_below(const TlsRecordKey&) { return false; }
  [[nodiscard]] virtual const std::string& local_address() const = 0;  ///< "127.0.0.1:3260", "[::1]:3260"
  [[nodiscard]] virtual const std::string& peer_address() const = 0;
};

}  // namespace lockstep::engine
