#include "tests/support/rdma_between/packet_socket.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::test::between {

struct PacketSocket::Impl {
  Impl(engine::Reactor& reactor, Descriptor taken) : socket(engine::io_context(reactor), taken.release()) {}
  boost::asio::posix::stream_descriptor socket;
  bool is_over = false;
};

PacketSocket::PacketSocket(engine::Reactor& reactor, Descriptor descriptor)
    : impl_(std::make_shared<Impl>(reactor, std::move(descriptor))) {}

PacketSocket::~PacketSocket() {
  impl_->is_over = true;
  boost::system::error_code ignored;
  impl_->socket.close(ignored);
}

void PacketSocket::when_readable(engine::Callback<> action) {
  impl_->socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [impl = impl_, action = std::move(action)](boost::system::error_code error) mutable {
                             if (!error && !impl->is_over) action();
                           });
}

void PacketSocket::when_writable(engine::Callback<> action) {
  impl_->socket.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                           [impl = impl_, action = std::move(action)](boost::system::error_code error) mutable {
                             if (!error && !impl->is_over) action();
                           });
}

int PacketSocket::number() const { return impl_->socket.native_handle(); }

Descriptor PacketSocket::take() {
  impl_->is_over = true;
  return Descriptor(impl_->socket.release());
}

}  // namespace lockstep::test::between
