// libibverbs' objects, and the queue pairs that librdmacm makes of them.
#include <algorithm>
#include <cstring>

#include "tests/support/verbs_library/state.hpp"

// They are macros over functions of the same name.
#undef ibv_reg_mr
#undef ibv_query_port

using namespace lockstep::test;
using namespace lockstep::test::verbs_library;

namespace {

template <class T>
T* none(int error_number) {
  errno = error_number;
  return nullptr;
}

/// A device that is gone does nothing for anybody.
int begin(ibv_context* context, std::string_view function) {
  if (const int error = step(function)) return error;
  return is_gone(of(context)) ? EIO : 0;
}

std::uint32_t next_key() { return ++state().last_key << 8; }

bool is_used(const Mr& region, const std::vector<ibv_sge>& pieces) {
  return std::ranges::any_of(pieces,
                             [&](const ibv_sge& piece) { return piece.length > 0 && piece.lkey == region.lkey; });
}

/// By a work request that was posted, or a window.
bool is_used(const Mr& region) {
  bool used = false;
  for_each_living<Mw>([&](const Mw& window) { used |= window.bound != nullptr && window.region == &region; });
  for_each_living<Qp>([&](const Qp& pair) {
    for (const auto& receive : pair.receives) used |= is_used(region, receive.pieces);
    for (const auto& request : pair.sends) used |= is_used(region, request.pieces);
  });
  return used;
}

}  // namespace

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const auto locked = lock();
  if (const int error = begin(context, "ibv_query_device")) return error;
  *attributes = state().attributes;
  return 0;
}

/// Of programs from before there was another one.
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) { return EOPNOTSUPP; }

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const auto locked = lock();
  if (const int error = begin(context, "ibv_alloc_pd")) return none<ibv_pd>(error);
  auto made = std::make_unique<Pd>();
  made->context = context;
  ++of(context).children;
  auto* const visible = static_cast<ibv_pd*>(made.get());
  return &enter(std::move(made), visible);
}

int ibv_dealloc_pd(ibv_pd* domain) {
  const auto locked = lock();
  auto& gone = static_cast<Pd&>(*domain);
  if (!check(gone, "ibv_dealloc_pd")) return EINVAL;
  if (gone.children > 0) {
    fault("a protection domain is destroyed that is in use");
    return EBUSY;
  }
  --of(gone.context).children;
  (void)bury(gone, "ibv_dealloc_pd");
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* begin_of, std::size_t length, std::uint64_t, unsigned access) {
  const auto locked = lock();
  auto& pd = static_cast<Pd&>(*domain);
  (void)check(pd, "ibv_reg_mr");
  if (const int error = begin(domain->context, "ibv_reg_mr")) return none<ibv_mr>(error);
  auto made = std::make_unique<Mr>();
  made->context = domain->context;
  made->pd = domain;
  made->addr = begin_of;
  made->length = length;
  made->lkey = made->rkey = next_key();
  made->access = access;
  ++pd.children;
  auto* const visible = static_cast<ibv_mr*>(made.get());
  return &enter(std::move(made), visible);
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* begin_of, std::size_t length, int access) {
  return ibv_reg_mr_iova2(domain, begin_of, length, 0, static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* region) {
  const auto locked = lock();
  auto& gone = static_cast<Mr&>(*region);
  if (!check(gone, "ibv_dereg_mr")) return EINVAL;
  if (const int error = step_if_named("ibv_dereg_mr")) return error;
  if (is_used(gone)) {
    fault("memory is deregistered that is in use");
    return EBUSY;
  }
  --static_cast<Pd&>(*gone.pd).children;
  (void)bury(gone, "ibv_dereg_mr");
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const auto locked = lock();
  if (const int error = begin(context, "ibv_create_comp_channel")) return none<ibv_comp_channel>(error);
  auto made = std::make_unique<CompChannel>();
  made->context = context;
  made->fd = made->bell.descriptor();
  ++of(context).children;
  auto* const visible = static_cast<ibv_comp_channel*>(made.get());
  return &enter(std::move(made), visible);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const auto locked = lock();
  auto& gone = static_cast<CompChannel&>(*channel);
  if (!check(gone, "ibv_destroy_comp_channel")) return EINVAL;
  if (gone.queues > 0) {
    fault("a completion channel is destroyed that has queues");
    return EBUSY;
  }
  --of(gone.context).children;
  (void)bury(gone, "ibv_destroy_comp_channel");
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* of_user, ibv_comp_channel* channel, int) {
  const auto locked = lock();
  if (const int error = begin(context, "ibv_create_cq")) return none<ibv_cq>(error);
  if (entries > state().attributes.max_cqe) return none<ibv_cq>(EINVAL);
  auto made = std::make_unique<Cq>();
  made->context = context;
  made->channel = channel;
  made->cq_context = of_user;
  made->cqe = entries;
  ++of(context).children;
  ++static_cast<CompChannel&>(*channel).queues;
  auto* const visible = static_cast<ibv_cq*>(made.get());
  return &enter(std::move(made), visible);
}

int ibv_destroy_cq(ibv_cq* queue) {
  const auto locked = lock();
  auto& gone = static_cast<Cq&>(*queue);
  if (!check(gone, "ibv_destroy_cq")) return EINVAL;
  if (gone.pairs > 0) {
    fault("a completion queue is destroyed that has queue pairs");
    return EBUSY;
  }
  if (gone.unacknowledged > 0) fault("a completion queue is destroyed that has events not acknowledged: it would wait");
  auto& channel = static_cast<CompChannel&>(*gone.channel);
  std::erase(channel.events, queue);
  if (channel.events.empty()) channel.bell.rest();
  --channel.queues;
  --of(gone.context).children;
  (void)bury(gone, "ibv_destroy_cq");
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  const auto locked = lock();
  auto& from = static_cast<CompChannel&>(*channel);
  (void)check(from, "ibv_get_cq_event");
  if (from.events.empty()) {
    from.bell.rest();
    if (from.bell.may_block()) fault("ibv_get_cq_event would block");
    errno = is_refusing(of(from.context)) ? EIO : EAGAIN;
    return -1;
  }
  if (const int error = step("ibv_get_cq_event")) {
    errno = error;
    return -1;
  }
  *queue = from.events.front();
  *context = (*queue)->cq_context;
  ++static_cast<Cq&>(**queue).unacknowledged;
  from.events.pop_front();
  return 0;
}

void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  const auto locked = lock();
  auto& of_queue = static_cast<Cq&>(*queue);
  if (!check(of_queue, "ibv_ack_cq_events")) return;
  of_queue.unacknowledged -= static_cast<int>(count);
  if (of_queue.unacknowledged < 0) fault("an event of a completion queue is acknowledged twice");
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const auto locked = lock();
  Context& from = of(context);
  if (from.events.empty()) {
    from.bell.rest();
    if (from.bell.may_block()) fault("ibv_get_async_event would block");
    errno = is_refusing(from) ? EIO : EAGAIN;
    return -1;
  }
  if (const int error = step("ibv_get_async_event")) {
    errno = error;
    return -1;
  }
  *event = from.events.front();
  from.events.pop_front();
  ++from.unacknowledged;
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {
  const auto locked = lock();
  bool was_taken = false;
  for_each_living<Context>([&](Context& context) {
    if (!was_taken && context.unacknowledged > 0) {
      --context.unacknowledged;
      was_taken = true;
    }
  });
  if (!was_taken) fault("an event of a device is acknowledged twice");
}

int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int) {
  const auto locked = lock();
  auto& changed = static_cast<Qp&>(*pair);
  if (!check(changed, "ibv_modify_qp")) return EINVAL;
  if (const int error = begin(pair->context, "ibv_modify_qp")) return error;
  if (attributes->qp_state == IBV_QPS_ERR) to_error(changed);
  return 0;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* wanted) {
  const auto locked = lock();
  auto& owner = static_cast<Id&>(*id);
  auto& pd = static_cast<Pd&>(*domain);
  (void)check(owner, "rdma_create_qp"), (void)check(pd, "rdma_create_qp");
  int error = step("rdma_create_qp");
  const auto most = static_cast<std::uint32_t>(state().attributes.max_qp_wr);
  const bool fits = wanted->cap.max_send_wr <= most && wanted->cap.max_recv_wr <= most &&
                    wanted->cap.max_inline_data <= state().max_inline;
  if (error == 0 && (owner.verbs == nullptr || owner.verbs != domain->context || owner.qp != nullptr || !fits)) {
    error = EINVAL;
  }
  if (error == 0 && is_gone(of(owner.verbs))) error = EIO;
  if (error != 0) {
    errno = error;
    return -1;
  }
  auto made = std::make_unique<Qp>();
  made->context = domain->context;
  made->pd = domain;
  made->send_cq = wanted->send_cq;
  made->recv_cq = wanted->recv_cq;
  made->qp_num = ++state().last_number;
  made->state = IBV_QPS_INIT;
  made->limits = wanted->cap;
  made->id = &owner;
  ++pd.children;
  ++static_cast<Cq&>(*wanted->send_cq).pairs;
  auto* const visible = static_cast<ibv_qp*>(made.get());
  owner.qp = &enter(std::move(made), visible);
  return 0;
}

void rdma_destroy_qp(rdma_cm_id* id) {
  state().holds_destroying.wait(true);
  const auto locked = lock();
  auto& owner = static_cast<Id&>(*id);
  if (!check(owner, "rdma_destroy_qp")) return;
  auto& gone = static_cast<Qp&>(*owner.qp);
  for_each_living<Mw>([&](const Mw& window) {
    if (window.bound == &gone) fault("a queue pair is destroyed that has open windows");
  });
  for_each_living<Context>([&](const Context& context) {
    const auto is_of = [&](const ibv_async_event& event) {
      return event.event_type <= IBV_EVENT_PATH_MIG_ERR && event.event_type != IBV_EVENT_CQ_ERR &&
             event.element.qp == &gone;
    };
    (void)std::erase_if(const_cast<Context&>(context).events, is_of);
  });
  --static_cast<Pd&>(*gone.pd).children;
  --static_cast<Cq&>(*gone.send_cq).pairs;
  owner.qp = nullptr;
  (void)bury(gone, "rdma_destroy_qp");
}

/// To a channel of its own, which nobody reads.
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel*) {
  const auto locked = lock();
  auto& it = static_cast<Id&>(*id);
  (void)check(it, "rdma_migrate_id");
  if (const int error = step("rdma_migrate_id")) {
    errno = error;
    return -1;
  }
  if (it.unacknowledged > 0) fault("an id moves that has an event which was not acknowledged: it would wait");
  auto made = std::make_unique<EventChannel>();
  auto* const visible = static_cast<rdma_event_channel*>(made.get());
  it.own_channel = &enter(std::move(made), visible);
  auto& from = static_cast<EventChannel&>(*it.channel);
  const auto is_its = [&](const Event* event) { return event->about == &it || event->owner == &it; };
  std::ranges::copy_if(from.events, std::back_inserter(it.own_channel->events), is_its);
  std::erase_if(from.events, is_its);
  --from.ids;
  ++it.own_channel->ids;
  it.channel = it.own_channel;
  return 0;
}

}  // extern "C"
