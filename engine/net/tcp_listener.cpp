#include <cerrno>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/net/socket_address.hpp"
#include "engine/net/tcp.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::engine {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;
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
      : reactor(r), descriptor(io_context(r), fd), address(local_address_of(fd)), accepted(std::move(callback)) {}

  void wait() {
    descriptor.async_wait(Descriptor::wait_read, [self = shared_from_this()](boost::system::error_code error) {
      if (!error && self->open) self->accept_some();
    });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && open; ++i) {
      const int fd = ::accept4(descriptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        accepted(TcpSocket(fd));
        continue;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        retry = reactor.call_after(kOutOfDescriptors, [self = shared_from_this()] {
          self->retry = TimerId::none;
          if (self->open) self->wait();
        });
        return;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    }
    if (open) wait();
  }

  void close() {
    open = false;
    reactor.cancel(std::exchange(retry, TimerId::none));
    boost::system::error_code ignored;
    descriptor.close(ignored);
  }

  Reactor& reactor;
  Descriptor descriptor;
  std::string address;
  Callback<TcpSocket> accepted;
  TimerId retry = TimerId::none;
  bool open = true;
};

TcpListener::TcpListener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpListener::~TcpListener() { impl_->close(); }
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
  impl->wait();
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(impl)));
}

}  // namespace lockstep::engine
