// What is posted and polled: work requests are carried out when they are posted, in order.
#include <algorithm>
#include <optional>

#include "tests/support/verbs_library/state.hpp"

namespace lockstep::test::verbs_library {
namespace {

using Kind = VerbsLibrary::Kind;

struct Outcome {
  bool waits = false;  ///< for the peer
  ibv_wc_status status = IBV_WC_SUCCESS;
};

Kind kind_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return Kind::write;
    case IBV_WR_RDMA_READ:
      return Kind::read;
    case IBV_WR_BIND_MW:
      return Kind::bind;
    case IBV_WR_LOCAL_INV:
      return Kind::invalidate;
    default:
      return Kind::send;
  }
}

std::optional<ibv_wc_status> injected(const Qp& pair, Kind kind) {
  auto& statuses = state().statuses;
  const int device = of(pair.context).device;
  const auto found =
      std::ranges::find_if(statuses, [&](const auto& each) { return each.device == device && each.kind == kind; });
  if (found == statuses.end()) return std::nullopt;
  const ibv_wc_status status = found->status;
  statuses.erase(found);
  return status;
}

void complete(ibv_cq* queue, ibv_wc entry) {
  auto& cq = static_cast<Cq&>(*queue);
  if (is_gone(of(cq.context))) return;
  if (std::cmp_equal(cq.entries.size(), cq.cqe)) fault("a completion queue has overrun");
  cq.entries.push_back(entry);
  if (!std::exchange(cq.is_armed, false)) return;
  auto& channel = static_cast<CompChannel&>(*cq.channel);
  channel.events.push_back(queue);
  channel.bell.ring();
}

ibv_wc entry_of(const Qp& pair, std::uint64_t id, ibv_wc_status status) {
  ibv_wc entry{};
  entry.wr_id = id;
  entry.status = status;
  entry.qp_num = pair.qp_num;
  return entry;
}

/// Of the memory that these describe: nothing when a region does not have it.
std::optional<std::vector<std::span<std::byte>>> memory_of(const Qp& pair, const std::vector<ibv_sge>& pieces,
                                                           bool is_written) {
  std::vector<std::span<std::byte>> memory;
  for (const ibv_sge& piece : pieces) {
    if (piece.length == 0) continue;
    bool has = false;
    for_each_living<Mr>([&](const Mr& region) {
      const auto begin = reinterpret_cast<std::uintptr_t>(region.addr);
      has |= region.lkey == piece.lkey && region.pd == pair.pd && piece.addr >= begin &&
             piece.addr + piece.length <= begin + region.length &&
             (!is_written || (region.access & IBV_ACCESS_LOCAL_WRITE) != 0);
    });
    if (!has) return std::nullopt;
    memory.emplace_back(reinterpret_cast<std::byte*>(piece.addr), piece.length);
  }
  return memory;
}

std::vector<std::byte> gathered(const std::vector<std::span<std::byte>>& memory) {
  std::vector<std::byte> bytes;
  for (const auto piece : memory) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

void scatter(std::span<const std::byte> bytes, const std::vector<std::span<std::byte>>& memory) {
  for (const auto piece : memory) {
    const auto part = bytes.first(std::min(piece.size(), bytes.size()));
    std::ranges::copy(part, piece.begin());
    bytes = bytes.subspan(part.size());
  }
}

Mw* window_of(const Qp& pair, std::uint32_t key) {
  Mw* found = nullptr;
  for_each_living<Mw>([&](Mw& window) {
    if (window.bound == &pair && window.key == key) found = &window;
  });
  return found;
}

/// The peer's, if it would take a packet.
Qp* reached_from(const Qp& pair) {
  if (pair.id->peer == nullptr || pair.id->peer->qp == nullptr || state().loses_packets) return nullptr;
  auto& peer = static_cast<Qp&>(*pair.id->peer->qp);
  return peer.state == IBV_QPS_RTS && !is_gone(of(peer.context)) ? &peer : nullptr;
}

/// What the peer's device tells its own of a request that it refuses.
void refused_by(Qp& peer) {
  ibv_async_event told{};
  told.event_type = IBV_EVENT_QP_ACCESS_ERR;
  told.element.qp = &peer;
  raise(of(peer.context), told);
  to_error(peer);
}

Outcome move(Qp& pair, const Request& request) {
  const bool reads = request.work.opcode == IBV_WR_RDMA_READ;
  const auto memory = memory_of(pair, request.pieces, reads);
  if (!memory) return {.status = IBV_WC_LOC_PROT_ERR};
  Qp* const peer = reached_from(pair);
  if (peer == nullptr) return {.waits = true};
  std::size_t length = 0;
  for (const auto piece : *memory) length += piece.size();
  const auto& target = request.work.wr.rdma;
  if (length > 0) {
    const Mw* const window = window_of(*peer, target.rkey);
    const unsigned right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if (window == nullptr || (window->access & right) == 0 || target.remote_addr < window->begin ||
        target.remote_addr - window->begin > window->length ||
        length > window->length - (target.remote_addr - window->begin)) {
      refused_by(*peer);
      return {.status = IBV_WC_REM_ACCESS_ERR};
    }
  }
  const std::span<std::byte> remote(reinterpret_cast<std::byte*>(target.remote_addr), length);
  if (reads) {
    scatter(remote, *memory);
  } else {
    std::ranges::copy(gathered(*memory), remote.begin());
  }
  return {};
}

/// The peer's receive ends with an error, and the message with another one.
Outcome refuse_message(Qp& peer, ibv_wc_status at_peer, ibv_wc_status here) {
  complete(peer.recv_cq, entry_of(peer, peer.receives.front().id, at_peer));
  peer.receives.pop_front();
  to_error(peer);
  return {.status = here};
}

Outcome send(Qp& pair, const Request& request) {
  std::vector<std::byte> message = request.copied;
  if ((request.work.send_flags & IBV_SEND_INLINE) == 0) {
    const auto memory = memory_of(pair, request.pieces, false);
    if (!memory) return {.status = IBV_WC_LOC_PROT_ERR};
    message = gathered(*memory);
  }
  Qp* const peer = reached_from(pair);
  if (peer == nullptr) return {.waits = true};
  if (peer->receives.empty()) {
    if (state().is_patient) return {.waits = true};
    ++state().no_receive;
    return {.status = IBV_WC_RNR_RETRY_EXC_ERR};
  }
  const Receive& receive = peer->receives.front();
  if (const auto status = injected(*peer, Kind::receive)) {
    return refuse_message(*peer, *status, *status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
  }
  const auto into = memory_of(*peer, receive.pieces, true);
  if (!into) return refuse_message(*peer, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  std::size_t room = 0;
  for (const auto piece : *into) room += piece.size();
  if (message.size() > room) return refuse_message(*peer, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  ibv_wc entry = entry_of(*peer, receive.id, IBV_WC_SUCCESS);
  entry.opcode = IBV_WC_RECV;
  entry.byte_len = static_cast<std::uint32_t>(message.size());
  if (request.work.opcode == IBV_WR_SEND_WITH_INV) {
    Mw* const window = window_of(*peer, request.work.invalidate_rkey);
    if (window == nullptr) return refuse_message(*peer, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR);
    window->bound = nullptr;
    entry.wc_flags = IBV_WC_WITH_INV;
    entry.invalidated_rkey = request.work.invalidate_rkey;
  }
  scatter(message, *into);
  peer->receives.pop_front();
  complete(peer->recv_cq, entry);
  return {};
}

Outcome bind(Qp& pair, const Request& request) {
  const auto& wanted = request.work.bind_mw;
  auto& window = static_cast<Mw&>(*wanted.mw);
  auto& region = static_cast<Mr&>(*wanted.bind_info.mr);
  if (!check(window, "binding") || !check(region, "binding to")) return {.status = IBV_WC_MW_BIND_ERR};
  const auto begin = reinterpret_cast<std::uintptr_t>(region.addr);
  const bool lies_inside =
      wanted.bind_info.addr >= begin && wanted.bind_info.addr + wanted.bind_info.length <= begin + region.length;
  const bool may = window.pd == pair.pd && region.pd == pair.pd && (region.access & IBV_ACCESS_MW_BIND) != 0 &&
                   window.bound == nullptr && lies_inside;
  const bool has_next_key =
      request.window_key == window.key && wanted.rkey >> 8 == window.key >> 8 && wanted.rkey != window.key;
  if (!may || !has_next_key) return {.status = IBV_WC_MW_BIND_ERR};
  window.key = wanted.rkey;
  window.bound = &pair;
  window.region = &region;
  window.begin = wanted.bind_info.addr;
  window.length = wanted.bind_info.length;
  window.access = wanted.bind_info.mw_access_flags;
  return {};
}

Outcome invalidate(Qp& pair, const Request& request) {
  Mw* const window = window_of(pair, request.work.invalidate_rkey);
  if (window == nullptr) return {.status = IBV_WC_LOC_QP_OP_ERR};
  window->bound = nullptr;
  return {};
}

Outcome carry_out_one(Qp& pair, const Request& request) {
  const Kind kind = kind_of(request.work.opcode);
  if (const auto status = injected(pair, kind)) return {.status = *status};
  switch (kind) {
    case Kind::bind:
      return bind(pair, request);
    case Kind::invalidate:
      return invalidate(pair, request);
    case Kind::read:
    case Kind::write:
      return move(pair, request);
    default:
      return send(pair, request);
  }
}

std::vector<ibv_sge> pieces_of(const ibv_sge* list, int count) { return {list, list + count}; }

int post_send(ibv_qp* to, ibv_send_wr* work, ibv_send_wr** refused) {
  const auto locked = lock();
  auto& pair = static_cast<Qp&>(*to);
  *refused = work;
  if (!check(pair, "ibv_post_send")) return EINVAL;
  int failed = is_refusing(of(to->context)) ? EIO : 0;
  for (; work != nullptr; work = work->next) {
    *refused = work;
    if (failed == 0) failed = step("ibv_post_send");
    if (failed == 0 && (pair.state == IBV_QPS_INIT || work->num_sge > static_cast<int>(pair.limits.max_send_sge))) {
      failed = EINVAL;
    }
    if (failed == 0 && pair.sends.size() == pair.limits.max_send_wr) failed = ENOMEM;
    if (failed != 0) break;
    Request request{.work = *work, .pieces = pieces_of(work->sg_list, work->num_sge), .copied = {}};
    if ((work->send_flags & IBV_SEND_INLINE) != 0) {
      for (const ibv_sge& piece : request.pieces) {
        const auto* const bytes = reinterpret_cast<const std::byte*>(piece.addr);
        request.copied.insert(request.copied.end(), bytes, bytes + piece.length);
      }
      request.pieces.clear();
      if (request.copied.size() > pair.limits.max_inline_data) fault("more bytes are sent inline than were granted");
    }
    if (work->opcode == IBV_WR_BIND_MW) request.window_key = work->bind_mw.mw->rkey;
    pair.sends.push_back(std::move(request));
  }
  if (pair.state == IBV_QPS_ERR) {
    to_error(pair);
  } else {
    carry_out(pair);
  }
  return failed;
}

int post_receive(ibv_qp* to, ibv_recv_wr* work, ibv_recv_wr** refused) {
  const auto locked = lock();
  auto& pair = static_cast<Qp&>(*to);
  *refused = work;
  if (!check(pair, "ibv_post_recv")) return EINVAL;
  int failed = is_refusing(of(to->context)) ? EIO : 0;
  for (; work != nullptr; work = work->next) {
    *refused = work;
    if (failed == 0) failed = step("ibv_post_recv");
    if (failed == 0 && pair.receives.size() == pair.limits.max_recv_wr) failed = ENOMEM;
    if (failed != 0) break;
    pair.receives.push_back({work->wr_id, pieces_of(work->sg_list, work->num_sge)});
  }
  if (pair.state == IBV_QPS_ERR) {
    to_error(pair);
  } else if (Id* const peer = pair.id->peer; peer != nullptr && peer->qp != nullptr) {
    carry_out(static_cast<Qp&>(*peer->qp));
  }
  return failed;
}

int poll(ibv_cq* queue, int most, ibv_wc* into) {
  const auto locked = lock();
  auto& cq = static_cast<Cq&>(*queue);
  if (!check(cq, "ibv_poll_cq") || cq.entries.empty()) return 0;
  if (step("ibv_poll_cq") != 0) return -1;
  int count = 0;
  for (; count < most && !cq.entries.empty(); ++count) {
    into[count] = cq.entries.front();
    cq.entries.pop_front();
  }
  return count;
}

int arm(ibv_cq* queue, int) {
  const auto locked = lock();
  auto& cq = static_cast<Cq&>(*queue);
  if (!check(cq, "ibv_req_notify_cq")) return EINVAL;
  if (const int error = step("ibv_req_notify_cq")) return error;
  if (is_refusing(of(cq.context))) return EIO;
  cq.is_armed = true;
  return 0;
}

ibv_mw* allocate_window(ibv_pd* domain, ibv_mw_type type) {
  const auto locked = lock();
  auto& pd = static_cast<Pd&>(*domain);
  (void)check(pd, "ibv_alloc_mw");
  int error = step("ibv_alloc_mw");
  if (error == 0 && is_gone(of(domain->context))) error = EIO;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto made = std::make_unique<Mw>();
  made->context = domain->context;
  made->pd = domain;
  made->type = type;
  made->key = made->rkey = ++state().last_key << 8;
  ++pd.children;
  auto* const visible = static_cast<ibv_mw*>(made.get());
  return &enter(std::move(made), visible);
}

int free_window(ibv_mw* window) {
  const auto locked = lock();
  auto& gone = static_cast<Mw&>(*window);
  if (!check(gone, "ibv_dealloc_mw")) return EINVAL;
  gone.bound = nullptr;
  --static_cast<Pd&>(*gone.pd).children;
  (void)bury(gone, "ibv_dealloc_mw");
  return 0;
}

}  // namespace

void to_error(Qp& pair) {
  if (pair.is_dead) return;
  pair.state = IBV_QPS_ERR;
  for (const Request& request : std::exchange(pair.sends, {})) {
    complete(pair.send_cq, entry_of(pair, request.work.wr_id, IBV_WC_WR_FLUSH_ERR));
  }
  for (const Receive& receive : std::exchange(pair.receives, {})) {
    complete(pair.recv_cq, entry_of(pair, receive.id, IBV_WC_WR_FLUSH_ERR));
  }
}

void carry_out(Qp& pair) {
  if (is_gone(of(pair.context))) return;
  while (pair.state == IBV_QPS_RTS && !pair.sends.empty()) {
    const Outcome outcome = carry_out_one(pair, pair.sends.front());
    if (outcome.waits) return;
    // What the peer's end did may have ended this one, too.
    if (pair.sends.empty()) return;
    const Request over = std::move(pair.sends.front());
    pair.sends.pop_front();
    const bool is_told = outcome.status != IBV_WC_SUCCESS || (over.work.send_flags & IBV_SEND_SIGNALED) != 0;
    if (is_told) complete(pair.send_cq, entry_of(pair, over.work.wr_id, outcome.status));
    if (outcome.status != IBV_WC_SUCCESS) to_error(pair);
  }
}

ibv_context_ops work_functions() {
  ibv_context_ops functions{};
  functions.alloc_mw = allocate_window;
  functions.dealloc_mw = free_window;
  functions.poll_cq = poll;
  functions.req_notify_cq = arm;
  functions.post_send = post_send;
  functions.post_recv = post_receive;
  return functions;
}

}  // namespace lockstep::test::verbs_library
