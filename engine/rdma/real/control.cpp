#include "engine/rdma/real/control.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fcntl.h>

#include "engine/net/socket_address.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::rdma {

constexpr int kEvents = 32;

using Descriptor = boost::asio::posix::stream_descriptor;

struct Control::Watch {
  explicit Watch(engine::Reactor& reactor, int fd) : descriptor(engine::io_context(reactor), fd) {}
  ~Watch() { descriptor.release(); }  // the channel's
  Descriptor descriptor;
};

// librdmacm (44) sorts its devices by address with a comparison that is right for neighbours only, and ends in a
// deadlock with itself once it has lost some by that. So all of them are found on one thread, from its part of the
// heap.
engine::Result<std::unique_ptr<Control>> Control::open() {
  // Read by the library when it is first called: what is left of a device that has gone may be destroyed.
  ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
  std::unique_ptr<Control> control(new Control());
  control->reactor_.start();
  if (const int failed = control->ask([&] { return control->start(); }); failed != 0) {
    if (failed == ENODEV) {
      return engine::fail(engine::Errc::not_ready,
                          "There is no RDMA device, or its driver or the kernel's module rdma_ucm is not loaded.");
    }
    return std::unexpected(engine::socket_error(
        "RDMA is not available", failed,
        "rdma-core and ibverbs-providers must be installed, and lockstepd be allowed to open /dev/infiniband."));
  }
  return control;
}

Control::Control() : reactor_({.name = "rdma-cm"}) {}

Control::~Control() {
  reactor_.stop();
  reactor_.join();
  watch_.reset();
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

int Control::start() {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return errno != 0 ? errno : ENODEV;
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  watch_ = std::make_unique<Watch>(reactor_, channel_->fd);
  wait();
  return 0;
}

void Control::wait() {
  watch_->descriptor.async_wait(Descriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    take_events();
    wait();
  });
}

void Control::take_events() {
  rdma_cm_event* taken = nullptr;
  // A few at a time, so that callers do not keep this thread from what it was asked to do.
  for (int n = 0; n < kEvents && rdma_get_cm_event(channel_, &taken) == 0; ++n) {
    CmEvent event{.type = taken->event, .status = taken->status, .id = taken->id};
    event.responder_resources = taken->param.conn.responder_resources;
    event.initiator_depth = taken->param.conn.initiator_depth;
    event.length = std::min<std::size_t>(taken->param.conn.private_data_len, event.bytes.size());
    if (event.length > 0) std::memcpy(event.bytes.data(), taken->param.conn.private_data, event.length);
    auto* user = static_cast<CmUser*>((taken->listen_id != nullptr ? taken->listen_id : taken->id)->context);
    rdma_ack_cm_event(taken);
    user->on_cm_event(event);
  }
}

}  // namespace lockstep::rdma
