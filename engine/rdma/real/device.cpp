#include "engine/rdma/real/device.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "engine/net/socket_address.hpp"
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

Device::Device(ibv_context* context, Control& control, RegistrationCount& count)
    : context_(context), control_(control), count_(count) {}

Device::~Device() {
  watch_.reset();
  for (const auto& regions : regions_) {
    for (ibv_mr* region : regions) deregister(region);
  }
  for (ibv_mr* region : stuck_) deregister(region);
  for (ibv_pd* domain : domains_) {
    if (domain != nullptr) ibv_dealloc_pd(domain);
  }
  if (guard_id_ != nullptr) rdma_destroy_id(guard_id_);
}

/// For good: with the device's end the system takes back what the call does not.
void Device::deregister(ibv_mr* region) {
  count_.gone(region->length);
  ibv_dereg_mr(region);
}

void Device::Guard::on_cm_event(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) device_.gone_();
}

void Device::guard(const sockaddr* address, engine::Callback<> gone) {
  gone_ = std::move(gone);
  engine::SocketAddress any_port;
  const bool is_v6 = address->sa_family == AF_INET6;
  any_port.length = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&any_port.storage, address, any_port.length);
  (is_v6 ? reinterpret_cast<sockaddr_in6&>(any_port.storage).sin6_port
         : reinterpret_cast<sockaddr_in&>(any_port.storage).sin_port) = 0;
  if (rdma_create_id(control_.channel(), &guard_id_, static_cast<CmUser*>(&guard_), RDMA_PS_TCP) != 0) {
    guard_id_ = nullptr;
    return;
  }
  const bool bound = rdma_bind_addr(guard_id_, reinterpret_cast<sockaddr*>(&any_port.storage)) == 0;
  if (!bound || guard_id_->verbs != context_) rdma_destroy_id(std::exchange(guard_id_, nullptr));
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
  std::error_code first;
  for (std::size_t i = 0; i < domains_.size(); ++i) {
    const auto error = add_arena(arena, i);
    if (!first) first = error;
  }
  return first;
}

std::error_code Device::add_arena(std::span<std::byte> arena, std::size_t domain) {
  if (keys_[domain].is_full()) return RdmaErrc::too_many_arenas;
  // A window may give the peer a right that the region has for nobody but us.
  const bool is_for_windows = domain == static_cast<std::size_t>(Domain::link) && has_windows();
  const int access = is_for_windows ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND : IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* region = ibv_reg_mr(domains_[domain], arena.data(), arena.size(), access);
  if (region == nullptr) {
    const int why = errno;
    count_.refused();
    return registration_error(why);
  }
  count_.made(arena.size());
  regions_[domain].push_back(region);
  keys_[domain].add(arena, {region->lkey, region});
  return {};
}

bool Device::has_arena(std::span<const std::byte> arena, std::size_t domain) const {
  return std::ranges::any_of(regions_[domain], [&](const ibv_mr* region) {
    return region->addr == arena.data() && region->length == arena.size();
  });
}

std::error_code Device::complete(std::span<const std::span<std::byte>> arenas, Domain domain) {
  const auto which = static_cast<std::size_t>(domain);
  for (const auto arena : arenas) {
    if (has_arena(arena, which)) continue;
    if (const auto error = add_arena(arena, which)) return error;
  }
  return {};
}

void Device::remove_arena(std::span<std::byte> arena) {
  for (Keys& keys : keys_) keys.remove(arena);
  for (auto& regions : regions_) {
    std::erase_if(regions, [&](ibv_mr* region) {
      if (region->addr != arena.data() || region->length != arena.size()) return false;
      if (ibv_dereg_mr(region) == 0)
        count_.gone(arena.size());
      else
        stuck_.push_back(region);  // nobody has a key of it any more
      return true;
    });
  }
}

void Device::watch(engine::Callback<const ibv_async_event&> happened) {
  ::fcntl(context_->async_fd, F_SETFL, ::fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
  watch_ = std::make_unique<Watch>(control_.reactor(), context_->async_fd, std::move(happened));
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
    if (errno == EAGAIN || errno == EINTR) wait();  // else the device is gone
  });
}

}  // namespace lockstep::rdma
