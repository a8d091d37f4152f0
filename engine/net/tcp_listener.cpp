#include <cerrno>
#include <optional>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/net/socket_address.hpp"
#include "engine/net/tcp.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::engine {
namespace {

using SocketDescriptor = boost::asio::posix::stream_descriptor;
constexpr int kBacklog = 512;
constexpr int kAcceptsPerTurn = 64;
constexpr auto kOutOfDescriptors = std::chrono::milliseconds(100);  // before we try again

std::string_view listen_advice(int error_number) {
  switch (error_number) {
    case EADDRINUSE:
      return "Another program listens there (\"ss -ltnp\" shows which): stop it, or configure another address or port.";
    case EADDRNOTAVAIL:
      return "This machine has no such address: configure one that \"ip address\" shows.";
    case EACCES:
      return "Ports below 1024 need the right CAP_NET_BIND_SERVICE: use a port above, or grant it.";
    default:
      return {};
  }
}

}  // namespace

struct TcpListener::Impl : std::enable_shared_from_this<Impl> {
  Impl(Reactor& r, int fd, Callback<TcpSocket> callback)
      : reactor(r), socket(fd), address(local_address_of(fd)), accepted(std::move(callback)) {}

  // On the reactor, as everything but the constructor.
  void start() {
    if (closing) return close();
    descriptor.emplace(io_context(reactor), socket);
    wait();
  }

  void wait() {
    descriptor->async_wait(SocketDescriptor::wait_read, [self = shared_from_this()](boost::system::error_code error) {
      if (!error && !self->closing) self->accept_some();
    });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && !closing; ++i) {
      const int fd = ::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        accepted(TcpSocket(fd));
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        retry = reactor.call_after(kOutOfDescriptors, [self = shared_from_this()] {
          self->retry = TimerId::none;
          if (!self->closing) self->wait();
        });
        return;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    }
    if (!closing) wait();
  }

  void close() {
    reactor.cancel(std::exchange(retry, TimerId::none));
    if (descriptor) {
      boost::system::error_code ignored;
      descriptor->close(ignored);
    } else if (socket >= 0) {
      ::close(socket);
    }
    socket = -1;
  }

  ~Impl() {
    if (!descriptor && socket >= 0) ::close(socket);
  }

  Reactor& reactor;
  int socket;
  std::optional<SocketDescriptor> descriptor;  // owns the socket once it is there
  std::string address;
  Callback<TcpSocket> accepted;
  TimerId retry = TimerId::none;
  std::atomic<bool> closing = false;
};

TcpListener::TcpListener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

TcpListener::~TcpListener() {
  impl_->closing = true;
  if (impl_->reactor.on_this_thread()) {
    impl_->close();
    return;
  }
  ::shutdown(impl_->socket, SHUT_RDWR);
  impl_->reactor.post([impl = impl_] { impl->close(); });
}

const std::string& TcpListener::address() const { return impl_->address; }

Result<std::unique_ptr<TcpListener>> TcpListener::open(Reactor& reactor, std::string_view address,
                                                       Callback<TcpSocket> accepted) {
  const auto parsed = parse_address(address);
  if (!parsed) return std::unexpected(parsed.error());
  const std::string what = "Cannot listen on " + std::string(address);
  TcpSocket socket(::socket(parsed->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return std::unexpected(socket_error(what, errno));
  const int fd = socket.release();
  TcpSocket guard(fd);
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (parsed->family() == AF_INET6) (void)::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, parsed->get(), parsed->length) != 0 || ::listen(fd, kBacklog) != 0) {
    return std::unexpected(socket_error(what, errno, listen_advice(errno)));
  }
  auto impl = std::make_shared<Impl>(reactor, guard.release(), std::move(accepted));
  if (reactor.on_this_thread()) {
    impl->start();
  } else {
    reactor.post([impl] { impl->start(); });
  }
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(impl)));
}

}  // namespace lockstep::engine
