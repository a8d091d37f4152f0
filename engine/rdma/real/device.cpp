#include "engine/rdma/real/device.hpp"

#include <cerrno>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fcntl.h>
#include <sys/resource.h>

#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/errors.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::rdma {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

std::error_code registration_error(int error_number) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (error_number == ENOMEM && limited) return RdmaErrc::memory_not_pinned;
  return system_error(error_number);
}

}  // namespace

struct Device::Watch {
  Watch(engine::Reactor& reactor, int fd, engine::Callback<const ibv_async_event&> callback)
      : descriptor(engine::io_context(reactor), fd), happened(std::move(callback)) {}
  ~Watch() { descriptor.release(); }  // the library's
  Descriptor descriptor;
  engine::Callback<const ibv_async_event&> happened;
};

Device::Device(ibv_context* context, engine::Reactor& control) : context_(context), control_(control) {}

Device::~Device() {
  watch_.reset();
  for (ibv_mr* region : regions_) ibv_dereg_mr(region);
  for (ibv_pd* domain : domains_) {
    if (domain != nullptr) ibv_dealloc_pd(domain);
  }
}

std::error_code Device::open(std::span<const std::span<std::byte>> arenas) {
  if (const int failed = ibv_query_device(context_, &attributes_); failed != 0) return system_error(failed);
  for (ibv_pd*& domain : domains_) {
    domain = ibv_alloc_pd(context_);
    if (domain == nullptr) return system_error(errno);
  }
  for (const auto arena : arenas) {
    if (const auto error = add_arena(arena)) return error;
  }
  return {};
}

std::error_code Device::add_arena(std::span<std::byte> arena) {
  for (std::size_t i = 0; i < domains_.size(); ++i) {
    if (keys_[i].count() == Keys::kMost) return RdmaErrc::too_many_arenas;
    ibv_mr* region = ibv_reg_mr(domains_[i], arena.data(), arena.size(), IBV_ACCESS_LOCAL_WRITE);
    if (region == nullptr) return registration_error(errno);
    regions_.push_back(region);
    keys_[i].add(arena, region->lkey);
  }
  return {};
}

void Device::watch(engine::Callback<const ibv_async_event&> happened) {
  ::fcntl(context_->async_fd, F_SETFL, ::fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
  watch_ = std::make_unique<Watch>(control_, context_->async_fd, std::move(happened));
  wait();
}

void Device::wait() {
  watch_->descriptor.async_wait(Descriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    ibv_async_event event;
    while (ibv_get_async_event(context_, &event) == 0) {
      watch_->happened(event);
      ibv_ack_async_event(&event);
    }
    wait();
  });
}

}  // namespace lockstep::rdma
