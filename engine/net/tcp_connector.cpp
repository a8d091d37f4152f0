#include <cerrno>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/net/socket_address.hpp"
#include "engine/net/tcp.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::engine {

struct TcpConnector::Impl : std::enable_shared_from_this<Impl> {
  using Descriptor = boost::asio::posix::stream_descriptor;

  Impl(Reactor& r, Callback<Result<TcpSocket>> callback)
      : reactor(r), descriptor(io_context(r)), done(std::move(callback)) {}

  void begin(std::string_view from, std::string_view to, Duration timeout) {
    what = "Cannot connect to " + std::string(to);
    const auto target = parse_address(to);
    if (!target) return later(std::unexpected(target.error()));
    const int fd = ::socket(target->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return later(std::unexpected(socket_error(what, errno)));
    descriptor.assign(fd);
    if (!from.empty()) {
      const auto local = parse_address(from);
      if (!local) return later(std::unexpected(local.error()));
      if (::bind(fd, local->get(), local->length) != 0) {
        return later(std::unexpected(socket_error(what + " from " + std::string(from), errno)));
      }
    }
    if (::connect(fd, target->get(), target->length) != 0 && errno != EINPROGRESS) {
      return later(std::unexpected(socket_error(what, errno)));
    }
    timer = reactor.call_after(timeout, [self = shared_from_this()] {
      self->timer = TimerId::none;
      self->finish(fail(Errc::timed_out, self->what + ": no answer in time. Is the other side up, and does a firewall "
                                                      "let us through?"));
    });
    descriptor.async_wait(Descriptor::wait_write, [self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->writable();
    });
  }

  void writable() {
    int error = 0;
    socklen_t length = sizeof error;
    (void)::getsockopt(descriptor.native_handle(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return finish(std::unexpected(socket_error(what, error)));
    finish(TcpSocket(descriptor.release()));
  }

  // Never from inside the constructor.
  void later(Result<TcpSocket> result) {
    timer = reactor.call_after(Duration{0}, [self = shared_from_this(), result = std::move(result)]() mutable {
      self->timer = TimerId::none;
      self->finish(std::move(result));
    });
  }

  void finish(Result<TcpSocket> result) {
    if (!done) return;
    auto callback = std::exchange(done, nullptr);
    give_up();
    callback(std::move(result));
  }

  void give_up() {
    done = nullptr;
    reactor.cancel(std::exchange(timer, TimerId::none));
    boost::system::error_code ignored;
    descriptor.close(ignored);
  }

  Reactor& reactor;
  Descriptor descriptor;
  std::string what;
  Callback<Result<TcpSocket>> done;
  TimerId timer = TimerId::none;
};

TcpConnector::TcpConnector(Reactor& reactor, std::string_view from, std::string_view to, Duration timeout,
                           Callback<Result<TcpSocket>> done)
    : impl_(std::make_shared<Impl>(reactor, std::move(done))) {
  impl_->begin(from, to, timeout);
}

TcpConnector::~TcpConnector() { impl_->give_up(); }

}  // namespace lockstep::engine
