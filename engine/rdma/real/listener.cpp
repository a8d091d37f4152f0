#include "engine/rdma/real/listener.hpp"

#include <cassert>
#include <cerrno>
#include <utility>

#include <netinet/in.h>

#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/connection.hpp"
#include "engine/rdma/real/queue_pair.hpp"

namespace lockstep::rdma {
namespace {

constexpr int kBacklog = 128;
constexpr auto kRetry = std::chrono::seconds(1);

std::string_view advice(int error_number) {
  switch (error_number) {
    // The kernel says the second of a port that is taken, too.
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ENODEV:
      return "Another program listens there (\"rdma resource show cm_id\" shows which), or no RDMA device of this "
             "machine has that address (\"rdma link\" shows the devices and their interfaces), or lockstepd may not "
             "open "
             "/dev/infiniband/uverbs* (their permissions, DeviceAllow in its unit).";
    default:
      return {};
  }
}

}  // namespace

ListenerCore::ListenerCore(RealFabric& fabric, engine::Reactor& home, const engine::SocketAddress& address,
                           engine::Callback<std::unique_ptr<Call>> called)
    : fabric_(fabric), home_(home), address_(address), called_(std::move(called)) {}

engine::Result<void> ListenerCore::open() {
  if (auto bound = bind(); !bound) return bound;
  // The port that was picked is kept when it has to be opened again.
  address_ = address_of(rdma_get_local_addr(id_));
  name_ = to_string(address_);
  fabric_.listeners.insert(shared_from_this());
  return {};
}

engine::Result<void> ListenerCore::bind() {
  const std::string what = "Cannot listen for RDMA on " + to_string(address_);
  const auto failed = [&](int error_number) {
    unbind();
    return std::unexpected(engine::socket_error(what, error_number, advice(error_number)));
  };
  if (rdma_create_id(fabric_.control().channel(), &id_, static_cast<CmUser*>(this), RDMA_PS_TCP) != 0) {
    id_ = nullptr;
    return failed(errno);
  }
  int on = 1;
  if (address_.family() == AF_INET6) {
    (void)rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on);
  }
  if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&address_.storage)) != 0) return failed(errno);
  if (id_->verbs != nullptr) {
    const auto device = fabric_.device_of(*id_);
    if (!device) {
      unbind();
      return std::unexpected(engine::Error{device.error(), what + ": " + device.error().message() + "."});
    }
    device_ = *device;
    ++device_->ids;
  }
  if (rdma_listen(id_, kBacklog) != 0) return failed(errno);
  return {};
}

void ListenerCore::unbind() {
  if (id_ != nullptr) rdma_destroy_id(std::exchange(id_, nullptr));
  if (device_ != nullptr) fabric_.left(*std::exchange(device_, nullptr));
}

void ListenerCore::close() {
  closed = true;
  fabric_.control().reactor().cancel(std::exchange(retry_, engine::TimerId::none));
  unbind();
  fabric_.listeners.erase(shared_from_this());
}

void ListenerCore::device_removed(const Device& device) {
  if (device_ != &device) return;
  unbind();
  try_again();
}

void ListenerCore::try_again() {
  assert(retry_ == engine::TimerId::none);
  retry_ = fabric_.control().reactor().call_after(kRetry, [this] {
    retry_ = engine::TimerId::none;
    if (!bind()) try_again();
  });
}

void ListenerCore::on_cm_event(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return called(event);
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && device_ != nullptr) fabric_.removed(*device_);
}

void ListenerCore::called(const CmEvent& event) {
  const auto device = fabric_.device_of(*event.id);
  if (!device || closed || !fabric_.has_room_for_calls()) {
    (void)rdma_reject(event.id, nullptr, 0);
    rdma_destroy_id(event.id);
    return;
  }
  ++(*device)->ids;
  const auto data = event.private_data();
  RealCall::About about{to_string(address_of(rdma_get_local_addr(event.id))),
                        to_string(address_of(rdma_get_peer_addr(event.id))),
                        {data.begin(), data.end()},
                        (*device)->invalidates()};
  const auto number = fabric_.keep({event.id, *device, event.responder_resources, event.initiator_depth});
  home_.post(
      [self = shared_from_this(), call = std::make_unique<RealCall>(fabric_, number, std::move(about))]() mutable {
        self->hand_out(std::move(call));
      });
}

void ListenerCore::hand_out(std::unique_ptr<Call> call) {
  if (!closed) called_(std::move(call));
}

RealListener::~RealListener() {
  core_->closed = true;
  fabric_.post([core = std::move(core_)] { core->close(); });
}

RealCall::~RealCall() {
  if (number_ == 0) return;
  if (const auto fabric = token_.lock())
    (*fabric)->post([fabric = *fabric, number = number_] { fabric->refuse(number); });
}

std::unique_ptr<QueuePair> RealCall::accept(Completions& completions, Domain domain, const Wanted& wanted,
                                            std::span<const std::byte> private_data, QueuePairUser& user) {
  assert(number_ != 0);
  const auto& core = static_cast<RealCompletions&>(completions).core();
  auto pair = std::make_unique<RealQueuePair>(fabric_, core, wanted, false,
                                              RealQueuePair::Names{about_.local, about_.peer}, user);
  Connection::Plan plan{domain, wanted, {private_data.begin(), private_data.end()}, pair->send_depth()};
  const auto connection = std::make_shared<Connection>(fabric_, core, *pair, std::move(plan));
  pair->begin(connection);
  fabric_.post([connection, number = std::exchange(number_, 0)] { connection->answer(number); });
  return pair;
}

}  // namespace lockstep::rdma
