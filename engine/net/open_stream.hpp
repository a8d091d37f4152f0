#pragma once
// A stream on a connected socket, with TLS where that is wanted.
#include <memory>

#include "engine/net/tcp.hpp"
#include "engine/net/tls_stream.hpp"

namespace lockstep::engine {

/// Without a context: no TLS.
struct StreamProtection {
  std::shared_ptr<const TlsContext> context{};
  TlsRole role = TlsRole::server;
};

/// Not started yet: who speaks on it may want to have it before.
struct OpenedStream {
  std::unique_ptr<Stream> stream;
  TcpStream* tcp = nullptr;  ///< the stream, or the one below it
  TlsStream* tls = nullptr;  ///< the stream, where it has TLS

  /// Once, while the stream is there.
  void start(StreamProtocol& protocol) const;
};

[[nodiscard]] OpenedStream open_stream(Reactor& reactor, TcpSocket socket, const StreamProtection& protection);

}  // namespace lockstep::engine
