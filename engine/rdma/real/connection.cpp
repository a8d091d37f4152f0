#include "engine/rdma/real/connection.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/queue_pair.hpp"

namespace lockstep::rdma {
namespace {

constexpr int kResolveMs = 2000;
constexpr auto kFlushPatience = std::chrono::seconds(1);
constexpr auto kSilentPatience = std::chrono::milliseconds(100);  // of what said that it completes nothing any more
constexpr std::uint8_t kAckTimeout = 14;  // 4.096 us * 2^14 = 67 ms (InfiniBand Architecture volume 1, 9.7.6.1.3)
constexpr std::uint8_t kEndless = 7;      // RNR retries

std::uint8_t at_most(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint8_t>(std::min<std::uint64_t>({a, b, 0xfe}));  // 0xff asks librdmacm to choose
}

}  // namespace

Connection::Connection(RealFabric& fabric, std::shared_ptr<CompletionsCore> core, RealQueuePair& pair, Plan plan)
    : fabric_(fabric), core_(std::move(core)), pair_(&pair), plan_(std::move(plan)), calling_(true) {
  assert(plan_.wanted.windows == 0 || plan_.domain == Domain::link);
}

/// On its reactor; the pair lives until it was told that it is dead.
template <class Work>
void Connection::tell(Work work) {
  assert(pair_ != nullptr);
  core_->reactor().post(engine::Callback<>([pair = pair_, work = std::move(work)]() mutable { work(*pair); }));
}

void Connection::fail(std::error_code why) {
  fabric_.connections.insert(shared_from_this());
  lose(why);
}

void Connection::dial(const engine::SocketAddress& from, const engine::SocketAddress& to) {
  fabric_.connections.insert(shared_from_this());
  if (rdma_create_id(fabric_.control().channel(), &id_, static_cast<CmUser*>(this), RDMA_PS_TCP) != 0) {
    return lose(system_error(errno));
  }
  std::uint8_t timeout = kAckTimeout;
  (void)rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
  auto* source = from.length > 0 ? const_cast<sockaddr*>(from.get()) : nullptr;
  if (rdma_resolve_addr(id_, source, const_cast<sockaddr*>(to.get()), kResolveMs) != 0) lose(system_error(errno));
}

void Connection::answer(std::uint64_t call) {
  fabric_.connections.insert(shared_from_this());
  calling_ = false;
  const PendingCall taken = fabric_.take(call);
  if (taken.id == nullptr) return lose(std::make_error_code(std::errc::connection_reset));
  id_ = taken.id;
  id_->context = static_cast<CmUser*>(this);
  device_ = taken.device;
  offered_ = taken.responder_resources;
  reads_ = taken.initiator_depth;
  prepare();
}

void Connection::resolved() {
  const auto device = fabric_.device_of(*id_);
  if (!device) return lose(device.error());
  device_ = *device;
  ++device_->ids;
  if (rdma_resolve_route(id_, kResolveMs) != 0) lose(system_error(errno));
}

void Connection::prepare() {
  if (device_->removed) return lose(RdmaErrc::device_removed);
  const ibv_device_attr& attributes = device_->attributes();
  const int granted = calling_ ? 0xfe : reads_;
  reads_ = at_most(std::min<std::uint64_t>(plan_.wanted.reads, static_cast<unsigned>(granted)),
                   static_cast<unsigned>(std::max(attributes.max_qp_init_rd_atom, 0)));
  offered_ = at_most(calling_ ? 0xfe : offered_, static_cast<unsigned>(std::max(attributes.max_qp_rd_atom, 0)));
  Limits limits{.sends = plan_.wanted.sends,
                .receives = plan_.wanted.receives,
                .reads = reads_,
                .invalidates = device_->invalidates()};
  if (const auto error = create_queue_pair(limits)) return lose(error);
  if (const auto error = allocate_windows()) return lose(error);
  phase_ = Phase::prepared;
  tell([pair = id_->qp, device = device_, keys = &device_->keys(plan_.domain), limits,
        windows = windows_](RealQueuePair& to) mutable { to.ready(pair, *device, *keys, limits, std::move(windows)); });
}

std::error_code Connection::allocate_windows() {
  if (plan_.wanted.windows > 0 && !device_->has_windows()) return RdmaErrc::no_windows;
  while (windows_.size() < plan_.wanted.windows) {
    ibv_mw* const window = ibv_alloc_mw(device_->domain(plan_.domain), IBV_MW_TYPE_2);
    if (window == nullptr) return RdmaErrc::no_windows;
    windows_.push_back(window);
  }
  std::ranges::sort(windows_, {}, &ibv_mw::rkey);
  return {};
}

std::error_code Connection::create_queue_pair(Limits& limits) {
  if (plan_.domain == Domain::link) {
    if (const auto error = device_->complete(fabric_.arenas(), Domain::link)) return error;
  }
  const auto most = static_cast<std::uint32_t>(device_->attributes().max_qp_wr);
  if (plan_.send_depth > most || plan_.wanted.receives > most) return RdmaErrc::too_many_work;
  ibv_port_attr port{};
  if (const int failed = ibv_query_port(id_->verbs, id_->port_num, &port); failed != 0) return system_error(failed);
  limits.max_message = port.max_msg_sz;
  const auto group = fabric_.group_of(*device_, core_);
  if (!group) return group.error();
  group_ = *group;
  const auto receives = reserve(QueueKind::receives, plan_.wanted.receives);
  if (!receives) return receives.error();
  receives_ = *receives;
  const auto sends = reserve(QueueKind::sends, plan_.send_depth);
  if (!sends) return sends.error();
  sends_ = *sends;
  // Some devices refuse a length of inline data instead of granting less.
  for (std::uint32_t bytes = std::min(plan_.wanted.max_inline, RealQueuePair::kMaxInline);; bytes /= 2) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sends_;
    wanted.recv_cq = receives_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = plan_.send_depth,
                  .max_recv_wr = plan_.wanted.receives,
                  .max_send_sge = static_cast<std::uint32_t>(kMaxPieces),
                  .max_recv_sge = 2,
                  .max_inline_data = bytes};
    if (rdma_create_qp(id_, device_->domain(plan_.domain), &wanted) == 0) {
      limits.max_inline = std::min(bytes, wanted.cap.max_inline_data);
      return {};
    }
    if (bytes == 0) return system_error(errno);
  }
}

rdma_conn_param Connection::parameters() const {
  rdma_conn_param out{};
  out.private_data = plan_.private_data.empty() ? nullptr : plan_.private_data.data();
  out.private_data_len = static_cast<std::uint8_t>(plan_.private_data.size());
  out.responder_resources = offered_;
  out.initiator_depth = reads_;
  out.flow_control = 1;
  out.retry_count = 7;
  out.rnr_retry_count = kEndless;
  return out;
}

void Connection::go() {
  if (phase_ != Phase::prepared || lost_) return;
  phase_ = Phase::answering;
  answered_ = true;
  rdma_conn_param with = parameters();
  if ((calling_ ? rdma_connect(id_, &with) : rdma_accept(id_, &with)) != 0) lose(system_error(errno));
}

void Connection::heard() {
  if (phase_ == Phase::answering) (void)rdma_notify(id_, IBV_EVENT_COMM_EST);
}

void Connection::on_cm_event(const CmEvent& event) {
  const auto self = shared_from_this();
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (phase_ == Phase::resolving && !lost_) resolved();
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (phase_ == Phase::resolving && !lost_) prepare();
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      lose(event_error(event.status, std::errc::host_unreachable));
      break;
    case RDMA_CM_EVENT_REJECTED:
      lose(std::make_error_code(std::errc::connection_refused));
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      established(event);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      disconnect();
      lose(std::make_error_code(std::errc::connection_reset));
      break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
      lose(RdmaErrc::address_changed);
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      if (device_ != nullptr)
        fabric_.removed(*device_);
      else
        lose(RdmaErrc::device_removed);
      break;
    default:
      break;
  }
}

void Connection::established(const CmEvent& event) {
  if (phase_ != Phase::answering) return;
  phase_ = Phase::up;
  // The answer says how many Reads the peer grants of those that were wanted.
  const std::uint8_t reads = calling_ ? at_most(reads_, event.initiator_depth) : reads_;
  RealQueuePair::Names names{to_string(address_of(rdma_get_local_addr(id_))),
                             to_string(address_of(rdma_get_peer_addr(id_)))};
  tell([event, reads, calling = calling_, names = std::move(names)](RealQueuePair& pair) {
    pair.established(calling ? event.private_data() : std::span<const std::byte>{}, reads, names);
  });
}

void Connection::lose(std::error_code why) {
  if (lost_ || phase_ >= Phase::closing) return;
  lost_ = true;
  tell([why](RealQueuePair& pair) { pair.lost(why); });
}

void Connection::disconnect() {
  if (id_ == nullptr || id_->qp == nullptr || device_->removed) return;
  if (answered_) {
    (void)rdma_disconnect(id_);  // which begins with the queue pair's end
    return;
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(id_->qp, &attributes, IBV_QP_STATE);
}

void Connection::close(Rest rest) {
  const auto self = shared_from_this();
  const bool refuse = !calling_ && !answered_ && id_ != nullptr;
  phase_ = Phase::closing;
  rest_ = rest;
  if (refuse) (void)rdma_reject(id_, nullptr, 0);
  disconnect();
  const bool is_over = rest_ != Rest::awaited || id_ == nullptr || id_->qp == nullptr || device_->removed;
  if (is_over) return bury();
  wait_for_flush();
}

void Connection::wait_for_flush() {
  fabric_.control().reactor().cancel(patience_);
  patience_ = fabric_.control().reactor().call_after(silent_ ? kSilentPatience : kFlushPatience, [this] {
    patience_ = engine::TimerId::none;
    // After what was posted meanwhile: this thread may have stood still for longer than the reactor needed.
    fabric_.post([self = shared_from_this()] {
      if (self->phase_ == Phase::closing) self->bury();
    });
  });
}

engine::IoResult<ibv_cq*> Connection::reserve(QueueKind kind, std::uint32_t entries) {
  const auto place = group_->reserve(kind, entries);
  if (!place) return std::unexpected(place.error());
  if (place->is_new) {
    core_->reactor().post(
        [core = core_, group = group_, kind, queue = place->queue] { core->add(*group, kind, queue); });
  }
  return place->queue;
}

void Connection::rests(Rest rest) {
  if (phase_ != Phase::closing) return;
  rest_ = rest;
  bury();
}

/// The queue pair is in error here, so that a peer reads and writes through no window; what was posted has come back,
/// or what is destroyed below gives it back.
void Connection::bury() {
  const auto self = shared_from_this();
  phase_ = Phase::burying;
  fabric_.control().reactor().cancel(std::exchange(patience_, engine::TimerId::none));
  // Before the queue pair, which windows that are open hold on to, and before their domain.
  bool all_shut = true;
  for (ibv_mw* const window : std::exchange(windows_, {})) all_shut &= ibv_dealloc_mw(window) == 0;
  // Others wait for what this connection had: they need not wait until the kernel has destroyed it.
  if (id_ == nullptr || (rest_ == Rest::nothing && all_shut && (device_ == nullptr || !device_->removed))) tell_dead();
  if (id_ == nullptr) return buried();
  fabric_.graveyard().bury(std::exchange(id_, nullptr), [self] { self->buried(); });
}

void Connection::buried() {
  // What did not complete may still stand in the completion queue.
  if (rest_ != Rest::awaited) {
    if (receives_ != nullptr) group_->give_back(receives_, plan_.wanted.receives);
    if (sends_ != nullptr) group_->give_back(sends_, plan_.send_depth);
  }
  const auto self = shared_from_this();
  fabric_.connections.erase(self);
  if (pair_ != nullptr) tell_dead();
  phase_ = Phase::dead;
  if (device_ != nullptr) fabric_.left(*std::exchange(device_, nullptr));
}

void Connection::tell_dead() {
  tell([](RealQueuePair& pair) { pair.dead(); });
  pair_ = nullptr;
}

void Connection::device_removed(const Device& device) {
  if (device_ != &device) return;
  lose(RdmaErrc::device_removed);
  if (phase_ == Phase::closing) bury();
}

void Connection::port_down(const Device& device, int port) {
  // Initiators wait for theirs; a path of the link has others beside it.
  if (device_ == &device && plan_.domain == Domain::link && id_ != nullptr && id_->port_num == port)
    lose(RdmaErrc::port_down);
}

void Connection::completion_queue_failed(const ibv_cq* queue) {
  if (queue == receives_ || queue == sends_) fell_silent();
}

void Connection::queue_pair_failed(const ibv_qp* pair, bool tells_nothing) {
  if (id_ == nullptr || id_->qp != pair) return;
  tells_nothing ? fell_silent() : lose(RdmaErrc::local_operation);
}

void Connection::fell_silent() {
  silent_ = true;
  lose(RdmaErrc::local_operation);
  if (phase_ == Phase::closing) wait_for_flush();
}

}  // namespace lockstep::rdma
