#include "engine/net/open_stream.hpp"

#include <utility>

namespace lockstep::engine {

void OpenedStream::start(StreamProtocol& protocol) const {
  if (!tls) return tcp->start(protocol);
  tcp->start(tls->lower());
  tls->start(protocol);
}

OpenedStream open_stream(Reactor& reactor, TcpSocket socket, const StreamProtection& protection) {
  OpenedStream opened;
  auto tcp = std::make_unique<TcpStream>(reactor, std::move(socket));
  opened.tcp = tcp.get();
  if (!protection.context) {
    opened.stream = std::move(tcp);
    return opened;
  }
  auto tls = std::make_unique<TlsStream>(reactor, std::move(tcp), protection.context, protection.role);
  opened.tls = tls.get();
  opened.stream = std::move(tls);
  return opened;
}

}  // namespace lockstep::engine
