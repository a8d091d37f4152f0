#include "engine/rdma/real/fabric.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <netinet/in.h>

#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/connection.hpp"
#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/listener.hpp"
#include "engine/rdma/real/queue_pair.hpp"
#include "engine/rdma/real/real_fabric.hpp"

namespace lockstep::rdma {

engine::Result<std::unique_ptr<Fabric>> open_fabric() {
  auto control = Control::open();
  if (!control) return std::unexpected(control.error());
  return std::make_unique<RealFabric>(std::move(*control));
}

ibv_qp* verbs_of(QueuePair& pair) { return static_cast<RealQueuePair&>(pair).verbs(); }

engine::SocketAddress address_of(const sockaddr* address) {
  engine::SocketAddress out;
  out.length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&out.storage, address, out.length);
  return out;
}

RealFabric::RealFabric(std::unique_ptr<Control> control) : control_(std::move(control)) {}

RealFabric::~RealFabric() {
  token_.reset();
  control_->ask([this] {
    close_all();
    return true;
  });
  control_.reset();
}

void RealFabric::close_all() {
  graveyard_.wait();
  assert(connections.empty());
  end_calls(nullptr);
  for (const auto& listener : std::exchange(listeners, {})) listener->close();
  for (const auto& device : devices_) {
    for (const auto& group : device->groups) group->close();
  }
  devices_.clear();
}

void RealFabric::add_arena(std::span<std::byte> arena) {
  control_->ask([&] {
    arenas_.push_back(arena);
    // Where one can't have it, what lies in it is refused by Keys::find(). A link that needs it tries again, and says
    // so.
    for (const auto& device : devices_) {
      if (!device->removed) (void)device->add_arena(arena);
    }
    return true;
  });
}

void RealFabric::remove_arena(std::span<std::byte> arena) {
  control_->ask([&] {
    const auto found = std::ranges::find_if(
        arenas_, [&](auto each) { return each.data() == arena.data() && each.size() == arena.size(); });
    assert(found != arenas_.end());
    arenas_.erase(found);
    for (const auto& device : devices_) device->remove_arena(arena);
    return true;
  });
}

std::unique_ptr<Completions> RealFabric::attach(engine::Reactor& reactor) {
  return std::make_unique<RealCompletions>(*this, reactor);
}

engine::Result<std::unique_ptr<Listener>> RealFabric::listen(Completions& home, std::string_view address,
                                                             engine::Callback<std::unique_ptr<Call>> called) {
  const auto parsed = engine::parse_address(address);
  if (!parsed) return std::unexpected(parsed.error());
  auto core = std::make_shared<ListenerCore>(*this, static_cast<RealCompletions&>(home).core()->reactor(), *parsed,
                                             std::move(called));
  const auto opened = control_->ask([&] { return core->open(); });
  if (!opened) return std::unexpected(opened.error());
  return std::make_unique<RealListener>(*this, std::move(core));
}

std::unique_ptr<QueuePair> RealFabric::connect(Completions& completions, Domain domain, std::string_view from,
                                               std::string_view to, const Wanted& wanted,
                                               std::span<const std::byte> private_data, QueuePairUser& user) {
  const auto& core = static_cast<RealCompletions&>(completions).core();
  auto pair = std::make_unique<RealQueuePair>(*this, core, wanted, true,
                                              RealQueuePair::Names{std::string(from), std::string(to)}, user);
  Connection::Plan plan{domain, wanted, {private_data.begin(), private_data.end()}, pair->send_depth()};
  const auto connection = std::make_shared<Connection>(*this, core, *pair, std::move(plan));
  pair->begin(connection);
  const auto target = engine::parse_address(to);
  const auto source = from.empty() ? engine::SocketAddress{} : engine::parse_address(from);
  post([connection, target, source] {
    if (!target || !source) return connection->fail(std::make_error_code(std::errc::invalid_argument));
    connection->dial(*source, *target);
  });
  return pair;
}

engine::IoResult<Device*> RealFabric::device_of(rdma_cm_id& id) {
  if (id.verbs == nullptr) return std::unexpected(make_error_code(RdmaErrc::device_removed));
  for (const auto& device : devices_) {
    if (device->context() != id.verbs) continue;
    if (device->removed) return std::unexpected(make_error_code(RdmaErrc::device_removed));
    if (!device->is_guarded()) guard(*device, id);
    return device.get();
  }
  if (id.verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
    return std::unexpected(make_error_code(RdmaErrc::iwarp_reads));
  }
  auto made = std::make_unique<Device>(id.verbs, *control_, registrations_);
  made->serial = ++last_serial_;
  guard(*made, id);
  if (const auto error = made->open(arenas_)) return std::unexpected(error);
  Device& device = *devices_.emplace_back(std::move(made));
  device.watch([this, &device](const ibv_async_event& event) { happened(device, event); });
  return &device;
}

void RealFabric::guard(Device& device, rdma_cm_id& id) {
  device.guard(rdma_get_local_addr(&id), [this, &device] { removed_later(device); });
}

engine::IoResult<QueueGroup*> RealFabric::group_of(Device& device, const std::shared_ptr<CompletionsCore>& core) {
  for (const auto& group : device.groups) {
    if (group->core.lock() == core) return group.get();
  }
  auto made = std::make_shared<QueueGroup>(device.context(), device.attributes().max_cqe);
  if (const auto error = made->open()) return std::unexpected(error);
  made->core = core;
  device.groups.push_back(made);
  core->reactor().post([core, made] { core->add(made); });
  return made.get();
}

void RealFabric::detach(CompletionsCore& core, const std::vector<std::shared_ptr<QueueGroup>>& groups) {
  control_->ask([&] {
    core.detached = true;
    for (const auto& group : groups) returned(group);
    return true;
  });
}

void RealFabric::returned(const std::shared_ptr<QueueGroup>& group) {
  graveyard_.wait();  // its queues are of queue pairs in there, and what is buried may be a device's last
  for (const auto& device : devices_) {
    if (std::erase(device->groups, group) == 0) continue;
    group->close();
    return forget_when_empty(*device);
  }
}

void RealFabric::happened(Device& device, const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      for (const auto& connection : connections)
        connection->queue_pair_failed(event.element.qp, event.event_type == IBV_EVENT_QP_FATAL);
      break;
    case IBV_EVENT_CQ_ERR:
      completion_queue_failed(event.element.cq);
      break;
    case IBV_EVENT_PORT_ERR:
      for (const auto& connection : connections) connection->port_down(device, event.element.port_num);
      break;
    case IBV_EVENT_DEVICE_FATAL:
      removed_later(device);
      break;
    default:
      break;
  }
}

void RealFabric::completion_queue_failed(const ibv_cq* queue) {
  for (const auto& device : devices_) {
    for (const auto& group : device->groups) group->failed(queue);
  }
  for (const auto& connection : connections) connection->completion_queue_failed(queue);
}

/// Not in the midst of what the device tells.
void RealFabric::removed_later(Device& device) {
  post([this, serial = device.serial] {
    const auto found = std::ranges::find_if(devices_, [&](const auto& each) { return each->serial == serial; });
    if (found != devices_.end()) removed(**found);
  });
}

void RealFabric::removed(Device& device) {
  if (std::exchange(device.removed, true)) return;
  ++device.ids;  // until all of them know
  end_calls(&device);
  for (const auto& connection : std::vector(connections.begin(), connections.end())) {
    connection->device_removed(device);
  }
  for (const auto& listener : std::vector(listeners.begin(), listeners.end())) listener->device_removed(device);
  left(device);
}

void RealFabric::left(Device& device) {
  assert(device.ids > 0);
  if (--device.ids > 0 || !device.removed) return;
  for (const auto& group : device.groups) {
    const auto core = group->core.lock();
    if (!core || core->detached) continue;
    core->reactor().post([this, core, group] {
      if (core->remove(group)) post([this, group] { returned(group); });
    });
  }
  forget_when_empty(device);
}

void RealFabric::forget_when_empty(Device& device) {
  if (!device.removed || device.ids > 0 || !device.groups.empty()) return;
  const int library = device.context()->cmd_fd;
  const int events = device.context()->async_fd;
  std::string file = file_of_context(library);
  std::erase_if(devices_, [&](const auto& each) { return each.get() == &device; });
  forget_context(control_->reactor(), library, events, std::move(file));
}

void RealFabric::Callers::on_cm_event(const CmEvent& event) {
  const auto& calls = fabric_.calls_;
  const auto found = std::ranges::find_if(calls, [&](const auto& each) { return each.second.id == event.id; });
  if (found == calls.end()) return;
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) return fabric_.removed(*found->second.device);
  fabric_.refuse(found->first);  // it has hung up
}

std::uint64_t RealFabric::keep(PendingCall call) {
  call.id->context = static_cast<CmUser*>(&callers_);
  calls_.emplace(next_call_, call);
  return next_call_++;
}

PendingCall RealFabric::take(std::uint64_t call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return {};
  const PendingCall taken = found->second;
  calls_.erase(found);
  return taken;
}

void RealFabric::refuse(std::uint64_t call) {
  const PendingCall taken = take(call);
  if (taken.id == nullptr) return;
  (void)rdma_reject(taken.id, nullptr, 0);
  rdma_destroy_id(taken.id);
  left(*taken.device);
}

void RealFabric::end_calls(const Device* device) {
  std::vector<std::uint64_t> ended;
  for (const auto& [number, call] : calls_) {
    if (device == nullptr || call.device == device) ended.push_back(number);
  }
  for (const std::uint64_t number : ended) refuse(number);
}

}  // namespace lockstep::rdma
