#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/net/kernel_tls.hpp"
#include "engine/net/socket_address.hpp"
#include "engine/net/tcp.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::engine {
namespace {

constexpr int kReceivesPerTurn = 16;               // then others have their turn
constexpr auto kLinger = std::chrono::seconds(2);  // for the peer to close after our end of the stream

// One a thread: what a receive leaves in it is used up before the next.
std::span<std::byte> scratch() {
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kReceiveScratch);
  return {buffer.get(), kReceiveScratch};
}

/// What one send is made of. One a thread: it is sent before anything else is gathered, and clearing hundreds of them
/// for each send would take longer than what is sent.
struct Gathered {
  std::array<std::span<const std::byte>, kMaxGather> pieces;
  std::array<iovec, kMaxGather> parts;
};
constinit thread_local Gathered gathered{};

void set_option(int fd, int level, int name, int value) { (void)::setsockopt(fd, level, name, &value, sizeof value); }

void prepare_socket(int fd) {
  (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = other.release();
  return *this;
}

TcpSocket::~TcpSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int TcpSocket::release() { return std::exchange(descriptor_, -1); }

std::string TcpSocket::peer_address() const { return peer_address_of(descriptor_); }

struct TcpStream::Impl final : TurnHook, std::enable_shared_from_this<Impl> {
  Impl(Reactor& r, int fd)
      : reactor(r), descriptor(io_context(r), fd), local(local_address_of(fd)), peer(peer_address_of(fd)) {}

  void wait_readable() {
    if (std::exchange(waiting_read, true)) return;
    descriptor.async_wait(ReactorDescriptor::wait_read, [self = shared_from_this()](boost::system::error_code error) {
      self->waiting_read = false;
      if (error) return;
      const ReactorEvent event(self->reactor);
      if (self->protocol != nullptr) return self->receive();
      if (self->lingering) self->discard();
    });
  }

  void wait_writable() {
    if (std::exchange(waiting_write, true)) return;
    descriptor.async_wait(ReactorDescriptor::wait_write, [self = shared_from_this()](boost::system::error_code error) {
      self->waiting_write = false;
      if (error) return;
      const ReactorEvent event(self->reactor);
      if (self->protocol != nullptr) return self->send();
      if (self->lingering && self->encrypts) self->end_encrypted();
    });
  }

  // One part takes the kernel less time than a list of one.
  [[nodiscard]] ssize_t receive_into(std::span<std::byte> first, std::span<std::byte> second) {
    const int fd = descriptor.native_handle();
    if (first.empty()) return ::recv(fd, second.data(), second.size(), MSG_DONTWAIT);
    if (second.empty()) return ::recv(fd, first.data(), first.size(), MSG_DONTWAIT);
    std::array<iovec, 2> parts{{{first.data(), first.size()}, {second.data(), second.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return ::recvmsg(fd, &message, MSG_DONTWAIT);
  }

  [[nodiscard]] ssize_t send_pieces(std::span<iovec> parts) {
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const int fd = descriptor.native_handle();
    if (parts.size() == 1) return ::send(fd, parts[0].iov_base, parts[0].iov_len, kFlags);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return ::sendmsg(fd, &message, kFlags);
  }

  // Receives until the socket is empty, the protocol pauses, or others should have their turn.
  void receive() {
    for (int round = 0; round < kReceivesPerTurn; ++round) {
      const ReceivePlace place = protocol->receive_place();
      const auto rest = scratch().first(std::min(place.scratch, kReceiveScratch));
      const std::size_t room = place.direct.size() + rest.size();
      if (room == 0) return;  // until resume_receive()
      const ssize_t got = receive_into(place.direct, rest);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_readable();
      if (got <= 0) return lost(got < 0 ? errno : 0);
      const auto bytes = static_cast<std::size_t>(got);
      const std::size_t direct = std::min(bytes, place.direct.size());
      protocol->received(direct, rest.first(bytes - direct));
      if (protocol == nullptr) return;
      if (bytes < room) break;
    }
    wait_readable();
  }

  void end_of_turn() override {
    if (protocol != nullptr && !waiting_write) send();
  }

  void send() {
    const auto self = shared_from_this();  // the protocol may drop the stream
    auto& [pieces, parts] = gathered;
    while (protocol != nullptr) {
      const std::size_t count = protocol->gather(pieces);
      if (count == 0 || protocol == nullptr) return;
      std::size_t total = 0;
      for (std::size_t i = 0; i < count; ++i) {
        parts[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
        total += pieces[i].size();
      }
      const ssize_t gone = send_pieces(std::span(parts).first(count));
      if (gone < 0 && errno == EINTR) continue;
      if (gone < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_writable();
      if (gone < 0) return lost(errno);
      protocol->sent(static_cast<std::size_t>(gone));
      if (static_cast<std::size_t>(gone) < total && protocol != nullptr) return wait_writable();
    }
  }

  // The other side, or the system, ended it. 0 stands for an orderly end.
  void lost(int error_number) {
    const auto self = shared_from_this();
    StreamProtocol* const told = std::exchange(protocol, nullptr);
    close_descriptor();
    told->on_stream_closed(error_number == 0 ? std::make_error_code(std::errc::connection_aborted)
                                             : std::error_code(error_number, std::generic_category()));
  }

  void close(StreamClose how) {
    protocol = nullptr;
    if (!descriptor.is_open() || lingering) return;
    if (how == StreamClose::now) {
      const linger reset{.l_onoff = 1, .l_linger = 0};
      (void)::setsockopt(descriptor.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      return close_descriptor();
    }
    // Closing with unread bytes would reset the connection under our last words: wait for the peer's end, for a while.
    lingering = true;
    encrypts ? end_encrypted() : void(::shutdown(descriptor.native_handle(), SHUT_WR));
    linger_timer = reactor.call_after(kLinger, [self = shared_from_this()] {
      self->linger_timer = TimerId::none;
      self->close_descriptor();
    });
    discard();
  }

  // The kernel may have records that TCP has no room for yet, and shutdown() would cut them off.
  void end_encrypted() {
    const int error = send_close_notify(descriptor.native_handle());
    if (error == EAGAIN || error == EWOULDBLOCK) wait_writable();
  }

  void discard() {
    const ssize_t got = ::recv(descriptor.native_handle(), scratch().data(), kReceiveScratch, MSG_DONTWAIT);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return wait_readable();
    close_descriptor();
  }

  void close_descriptor() {
    lingering = false;
    reactor.cancel(std::exchange(linger_timer, TimerId::none));
    boost::system::error_code ignored;
    descriptor.close(ignored);
  }

  Reactor& reactor;
  ReactorDescriptor descriptor;
  StreamProtocol* protocol = nullptr;
  std::string local, peer;
  bool waiting_read = false;
  bool waiting_write = false;
  bool lingering = false;
  bool encrypts = false;  // the kernel does
  TimerId linger_timer = TimerId::none;
};

TcpStream::TcpStream(Reactor& reactor, TcpSocket socket) {
  const int fd = socket.release();
  prepare_socket(fd);
  impl_ = std::make_shared<Impl>(reactor, fd);
}

TcpStream::~TcpStream() { impl_->close(StreamClose::now); }

void TcpStream::start(StreamProtocol& protocol) {
  assert(impl_->protocol == nullptr);
  impl_->protocol = &protocol;
  impl_->wait_readable();
}

void TcpStream::want_send() {
  if (impl_->protocol != nullptr && !impl_->waiting_write) impl_->reactor.at_end_of_turn(*impl_);
}

void TcpStream::resume_receive() {
  if (impl_->protocol != nullptr) impl_->wait_readable();
}

void TcpStream::close(StreamClose how) { impl_->close(how); }

bool TcpStream::encrypt_below(const TlsRecordKey& key) {
  assert(!impl_->encrypts);
  if (impl_->protocol == nullptr) return false;
  impl_->encrypts = let_kernel_encrypt(impl_->descriptor.native_handle(), key);
  return impl_->encrypts;
}

const std::string& TcpStream::local_address() const { return impl_->local; }
const std::string& TcpStream::peer_address() const { return impl_->peer; }

std::optional<TcpFigures> TcpStream::figures() const {
  return impl_->protocol != nullptr ? tcp_figures(impl_->descriptor.native_handle()) : std::nullopt;
}

}  // namespace lockstep::engine
