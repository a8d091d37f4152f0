// librdmacm: ids that find each other by address, and what they are told.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include "tests/support/verbs_library/state.hpp"

namespace lockstep::test::verbs_library {
namespace {

using S = Id::State;

constexpr std::size_t kAskedBytes = 56, kAnsweredBytes = 196;  // as RoCE and InfiniBand show private data
constexpr int kNobodyListens = 8, kRefused = 28;               // InfiniBand's reasons of a reject

int fail(int error_number) {
  errno = error_number;
  return -1;
}

struct Address {
  explicit Address(const sockaddr& of) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool is_v6 = of.sa_family == AF_INET6;
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(of);
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(of);
    ::inet_ntop(of.sa_family, is_v6 ? static_cast<const void*>(&v6.sin6_addr) : &v4.sin_addr, text.data(), text.size());
    host = text.data();
    port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
  }
  [[nodiscard]] bool is_any() const { return host == "0.0.0.0" || host == "::"; }
  [[nodiscard]] int device() const {
    return host == "10.0.0.2" || host.ends_with(":2") ? VerbsLibrary::kFar : VerbsLibrary::kNear;
  }
  [[nodiscard]] bool meets(const Address& other) const {
    return port == other.port && (host == other.host || is_any() || other.is_any());
  }
  std::string host;
  std::uint16_t port;
};

std::size_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}
void set_port(sockaddr& address, std::uint16_t port) {
  (address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(address).sin_port) = htons(port);
}

EventChannel& channel_of(Id& id) { return static_cast<EventChannel&>(*id.channel); }

bool use(Id& id, int number) {
  Device& device = state().devices[static_cast<std::size_t>(number)];
  if (id.opened != nullptr) return true;
  if (device.is_removed) return false;
  if (device.context == nullptr) {
    look_for_devices();
    auto made = std::make_unique<Context>(number);
    auto* const visible = static_cast<verbs_context*>(made.get());
    device.context = &enter(std::move(made), visible);
  }
  id.opened = device.context;
  id.verbs = &device.context->context;
  id.port_num = 1;
  ++device.context->ids;
  return true;
}

void push(std::unique_ptr<Event> made) {
  EventChannel& channel = channel_of(*made->about);
  auto* const visible = static_cast<rdma_cm_event*>(made.get());
  Event& event = enter(std::move(made), visible);
  channel.events.push_back(&event);
  channel.bell.ring();
}

std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status, const rdma_conn_param* param,
                                  std::size_t padded) {
  auto made = std::make_unique<Event>();
  for (auto it = state().replaced.begin(); it != state().replaced.end(); ++it) {
    if (it->usual != type) continue;
    type = it->other;
    status = it->status;
    param = nullptr;
    state().replaced.erase(it);
    break;
  }
  made->event = type;
  made->status = status;
  made->id = made->about = made->owner = &id;
  if (param != nullptr) {
    // What one side asks to have under way the other one is to serve.
    made->param.conn.responder_resources = param->initiator_depth;
    made->param.conn.initiator_depth = param->responder_resources;
    if (param->private_data_len > 0) std::memcpy(made->data.data(), param->private_data, param->private_data_len);
    made->param.conn.private_data = made->data.data();
    made->param.conn.private_data_len = static_cast<std::uint8_t>(padded);
  }
  return made;
}

void destroy(Id& id);

void drop_events(Id& id) {
  auto& events = channel_of(id).events;
  for (std::size_t i = 0; i < events.size();) {
    Event& event = *events[i];
    if (event.about != &id && event.owner != &id) {
      ++i;
      continue;
    }
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
    (void)bury(event, "dropping");
  }
  if (events.empty()) channel_of(id).bell.rest();
}

/// Its peer hears that it has gone.
void part(Id& id) {
  Id* const peer = std::exchange(id.peer, nullptr);
  if (peer == nullptr) return;
  peer->peer = nullptr;
  if (state().loses_packets) return;
  if (id.state == S::asked || id.state == S::called || id.state == S::answered) {
    push(*peer, RDMA_CM_EVENT_REJECTED, kRefused);
  } else if (id.state == S::connected || id.state == S::left) {
    push(*peer, RDMA_CM_EVENT_DISCONNECTED);
  }
  peer->state = S::over;
}

void destroy(Id& id) {
  if (id.qp != nullptr) fault("an id is destroyed that has a queue pair");
  if (id.unacknowledged > 0) fault("an id is destroyed that has an event which was not acknowledged: it would wait");
  part(id);
  for_each_living<Id>([&](Id& each) {
    if (each.listener == &id) destroy(each);
  });
  drop_events(id);
  --channel_of(id).ids;
  Context* const opened = id.opened;
  if (id.own_channel != nullptr) (void)bury(*id.own_channel, "rdma_destroy_id");
  (void)bury(id, "rdma_destroy_id");
  if (opened == nullptr) return;
  --opened->ids;
  close_if_missed(*opened);
}

Id* listener_for(const Address& address) {
  Id* found = nullptr;
  for_each_living<Id>([&](Id& id) {
    if (id.state == S::listening && Address(id.route.addr.src_addr).meets(address)) found = &id;
  });
  return found;
}

int bind(Id& id, const sockaddr& address) {
  const Address wanted(address);
  if (!wanted.is_any() && state().devices[static_cast<std::size_t>(wanted.device())].is_removed) return ENODEV;
  std::memcpy(&id.route.addr.src_storage, &address, length_of(address));
  if (wanted.port == 0) {
    state().last_port = static_cast<std::uint16_t>(state().last_port % 9000 + 1);
    set_port(id.route.addr.src_addr, static_cast<std::uint16_t>(40000 + state().last_port));
  }
  bool is_taken = false;
  for_each_living<Id>([&](Id& each) {
    const bool has_own = each.state == S::bound || each.state == S::listening;
    if (&each != &id && has_own && Address(each.route.addr.src_addr).meets(Address(id.route.addr.src_addr))) {
      is_taken = true;
    }
  });
  if (is_taken) return EADDRINUSE;
  return 0;
}

/// The caller's word that the connection stands, which may get lost on its way.
void confirm(Id& answerer) {
  const bool is_lost =
      std::ranges::any_of(state().replaced, [](const auto& each) { return each.usual == RDMA_CM_EVENT_ESTABLISHED; });
  if (!is_lost) answerer.state = S::connected;
  if (!answerer.is_told) push(answerer, RDMA_CM_EVENT_ESTABLISHED);
  answerer.is_told = !is_lost;
}

/// What the library does on the way of an event from the kernel to who takes it. False: it is told nobody.
bool prepare(Event& event) {
  Id& id = *event.about;
  const auto turn_into = [&](rdma_cm_event_type type) {
    event.event = type;
    event.status = -1;
  };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (step("rdma_get_cm_event: address") != 0 || !use(id, Address(id.route.addr.src_addr).device())) {
        turn_into(RDMA_CM_EVENT_ADDR_ERROR);
      }
      return true;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      id.state = S::resolved;
      if (step("rdma_get_cm_event: route") != 0) turn_into(RDMA_CM_EVENT_ROUTE_ERROR);
      return true;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      id.listener = nullptr;
      if (step("rdma_get_cm_event: request") == 0 && use(id, Address(id.route.addr.src_addr).device())) return true;
      destroy(id);
      return false;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      Id* const peer = id.peer;
      if (step("rdma_get_cm_event: response") != 0 || id.state != S::asked || peer == nullptr || id.qp == nullptr) {
        turn_into(RDMA_CM_EVENT_CONNECT_ERROR);
        id.has_failed = true;
        if (id.qp != nullptr) to_error(static_cast<Qp&>(*id.qp));
        return true;
      }
      event.event = RDMA_CM_EVENT_ESTABLISHED;
      id.qp->state = IBV_QPS_RTS;
      id.state = S::connected;
      confirm(*peer);
      return true;
    }
    case RDMA_CM_EVENT_REJECTED:
      if (id.qp != nullptr) to_error(static_cast<Qp&>(*id.qp));
      return !id.has_failed;
    case RDMA_CM_EVENT_DISCONNECTED:
      return !id.has_failed;
    default:
      return true;
  }
}

}  // namespace

Context::Context(int number) : Object("context"), verbs_context{}, device(number) {
  sz = sizeof(verbs_context);
  context.device = &state().devices[static_cast<std::size_t>(number)].device;
  context.ops = work_functions();
  context.cmd_fd = ::memfd_create("uverbs", MFD_CLOEXEC);
  context.async_fd = bell.descriptor();
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  query_port = [](ibv_context* of_device, std::uint8_t, ibv_port_attr* attributes, std::size_t) {
    const auto locked = lock();
    if (const int error = step("ibv_query_port")) return error;
    if (is_gone(of(of_device))) return EIO;
    attributes->state = IBV_PORT_ACTIVE;
    attributes->max_msg_sz = 1u << 30;
    return 0;
  };
}

void push(Id& id, rdma_cm_event_type type, int status, const rdma_conn_param* param, std::size_t padded) {
  push(make_event(id, type, status, param, padded));
}

}  // namespace lockstep::test::verbs_library

using namespace lockstep::test::verbs_library;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  const auto locked = lock();
  if (const int error = step("rdma_create_event_channel")) return (void)fail(error), nullptr;
  if (::getenv("RDMAV_ALLOW_DISASSOC_DESTROY") == nullptr) fault("what is left of a removed device can't be destroyed");
  auto made = std::make_unique<EventChannel>();
  made->fd = made->bell.descriptor();
  auto* const visible = static_cast<rdma_event_channel*>(made.get());
  return &enter(std::move(made), visible);
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  const auto locked = lock();
  auto& gone = static_cast<EventChannel&>(*channel);
  if (gone.ids > 0) fault("an event channel is destroyed that has ids");
  (void)bury(gone, "rdma_destroy_event_channel");
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  const auto locked = lock();
  if (const int error = step("rdma_create_id")) return fail(error);
  auto made = std::make_unique<Id>();
  made->channel = channel;
  made->context = context;
  made->ps = space;
  auto* const visible = static_cast<rdma_cm_id*>(made.get());
  *id = &enter(std::move(made), visible);
  ++static_cast<EventChannel&>(*channel).ids;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  const auto locked = lock();
  auto& gone = static_cast<Id&>(*id);
  if (check(gone, "rdma_destroy_id")) destroy(gone);
  return 0;
}

int rdma_set_option(rdma_cm_id* id, int, int, void*, std::size_t) {
  const auto locked = lock();
  (void)check(static_cast<Id&>(*id), "rdma_set_option");
  const int error = step("rdma_set_option");
  return error != 0 ? fail(error) : 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_bind_addr");
  if (const int error = step("rdma_bind_addr")) return fail(error);
  if (const int error = bind(it, *address)) return fail(error);
  it.state = S::bound;
  const Address bound(*address);
  if (!bound.is_any()) (void)use(it, bound.device());
  return 0;
}

int rdma_listen(rdma_cm_id* id, int) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_listen");
  if (const int error = step("rdma_listen")) return fail(error);
  if (it.state != S::bound) return fail(EINVAL);
  if (it.opened != nullptr && is_gone(*it.opened)) return fail(ENODEV);
  it.state = S::listening;
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_resolve_addr");
  if (const int error = step("rdma_resolve_addr")) return fail(error);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  ::inet_pton(AF_INET, "10.0.0.2", &any.sin_addr);
  if (const int error = bind(it, from != nullptr ? *from : reinterpret_cast<sockaddr&>(any))) return fail(error);
  std::memcpy(&it.route.addr.dst_storage, to, length_of(*to));
  it.is_caller = true;
  it.state = S::resolving;
  push(it, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_resolve_route");
  if (const int error = step("rdma_resolve_route")) return fail(error);
  if (it.state != S::resolving || it.opened == nullptr) return fail(EINVAL);
  push(it, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_connect");
  if (const int error = step("rdma_connect")) return fail(error);
  if (it.state != S::resolved || it.qp == nullptr || param->private_data_len > kAskedBytes) return fail(EINVAL);
  if (is_gone(*it.opened)) return fail(ENODEV);
  const Address target(it.route.addr.dst_addr);
  it.state = S::asked;
  if (state().loses_packets || state().devices[static_cast<std::size_t>(target.device())].is_removed) return 0;
  Id* const listener = listener_for(target);
  if (listener == nullptr) {
    push(it, RDMA_CM_EVENT_REJECTED, kNobodyListens);
    return 0;
  }
  auto made = std::make_unique<Id>();
  made->channel = listener->channel;
  made->context = listener->context;
  made->ps = listener->ps;
  made->route.addr.src_storage = it.route.addr.dst_storage;
  made->route.addr.dst_storage = it.route.addr.src_storage;
  made->state = S::called;
  made->listener = listener;
  made->peer = &it;
  auto* const visible = static_cast<rdma_cm_id*>(made.get());
  Id& child = enter(std::move(made), visible);
  it.peer = &child;
  ++channel_of(child).ids;
  auto event = make_event(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, kAskedBytes);
  event->owner = listener;
  event->listen_id = listener;
  push(std::move(event));
  return 0;
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_accept");
  if (it.qp == nullptr || param->private_data_len > kAnsweredBytes) return fail(EINVAL);
  it.qp->state = IBV_QPS_RTS;
  const int injected = step("rdma_accept");
  if (const int error = injected != 0 ? injected : it.state != S::called || it.peer == nullptr ? EINVAL : 0) {
    to_error(static_cast<Qp&>(*it.qp));
    return fail(error);
  }
  it.state = S::answered;
  if (!state().loses_packets) push(*it.peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param, kAnsweredBytes);
  return 0;
}

int rdma_reject(rdma_cm_id* id, const void*, std::uint8_t) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_reject");
  if (const int error = step("rdma_reject")) return fail(error);
  if (it.state != S::called || it.peer == nullptr) return fail(EINVAL);
  part(it);
  it.state = S::over;
  return 0;
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_notify");
  if (const int error = step("rdma_notify")) return fail(error);
  if (event != IBV_EVENT_COMM_EST || it.state != S::answered || it.is_told) return fail(EINVAL);
  it.is_told = true;
  it.state = S::connected;
  push(it, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int rdma_disconnect(rdma_cm_id* id) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_disconnect");
  if (const int error = step("rdma_disconnect")) return fail(error);
  if (it.qp != nullptr) to_error(static_cast<Qp&>(*it.qp));
  if (it.state < S::asked) return fail(EINVAL);
  if (it.peer == nullptr || state().loses_packets) return 0;
  if (it.state == S::connected) {
    it.state = S::leaving;
    it.peer->state = S::left;
    push(*it.peer, RDMA_CM_EVENT_DISCONNECTED);
  } else if (it.state == S::left) {
    it.state = it.peer->state = S::over;
    push(*it.peer, RDMA_CM_EVENT_DISCONNECTED);
  }
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  const auto locked = lock();
  auto& from = static_cast<EventChannel&>(*channel);
  (void)check(from, "rdma_get_cm_event");
  while (!from.events.empty()) {
    if (const int error = step("rdma_get_cm_event")) return fail(error);
    Event& next = *from.events.front();
    from.events.pop_front();
    if (!prepare(next)) {
      if (!next.is_dead) (void)bury(next, "dropping");
      continue;
    }
    ++next.owner->unacknowledged;
    if (from.events.empty()) from.bell.rest();
    *event = &next;
    return 0;
  }
  from.bell.rest();
  if (from.bell.may_block()) fault("rdma_get_cm_event would block");
  return fail(EAGAIN);
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  const auto locked = lock();
  auto& it = static_cast<Event&>(*event);
  if (!bury(it, "rdma_ack_cm_event")) return fail(EINVAL);
  --it.owner->unacknowledged;
  return 0;
}

ibv_context** rdma_get_devices(int* count) {
  const auto locked = lock();
  int found = 0;
  for (const Device& device : state().devices) found += device.is_removed ? 0 : 1;
  if (found == 0) return (void)fail(ENODEV), nullptr;
  look_for_devices();
  if (count != nullptr) *count = found;
  return static_cast<ibv_context**>(std::calloc(static_cast<std::size_t>(found) + 1, sizeof(ibv_context*)));
}

void rdma_free_devices(ibv_context** list) { std::free(list); }

}  // extern "C"
