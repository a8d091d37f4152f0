#include "replication/core/front.hpp"

#include <algorithm>

#include "replication/core/forward_server.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/sequencer.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::Errc;

namespace {
bool carries_data(DiskOpcode opcode) {
  return opcode == DiskOpcode::read || opcode == DiskOpcode::write || opcode == DiskOpcode::verify;
}
bool concerns_blocks(DiskOpcode opcode) {
  return opcode != DiskOpcode::flush && opcode != DiskOpcode::change_state && opcode != DiskOpcode::read_state &&
         opcode != DiskOpcode::check_access;
}
}  // namespace

Front::~Front() {
  held_.for_each([](Op& op) { op.core.ops.destroy(op); });
}

/// The partner may have grown the volume since: only a member that still is one can say what is beyond its end.
bool Front::says_the_size() const {
  return core_.is_alone() || (core_.in_sync() && core_.lease_valid() && !core_.gated);
}

std::error_code Front::check(const DiskRequest& r) const {
  if (!concerns_blocks(r.opcode)) return {};
  if (!r.extent.fits(core_.room()) && !says_the_size()) return Errc::resource_exhausted;
  if (!r.extent.fits(core_.room())) return Errc::out_of_range;
  if (r.extent.offset % core_.info.block_size || r.extent.length % core_.info.block_size) return Errc::misaligned;
  const std::uint64_t wanted = carries_data(r.opcode)                      ? r.extent.length
                               : r.opcode == DiskOpcode::write_same        ? core_.info.block_size
                               : r.opcode == DiskOpcode::compare_and_write ? 2 * r.extent.length
                               : r.opcode == DiskOpcode::find_run          ? engine::kRunSize
                                                                           : 0;
  if (r.data.size() < wanted) return Errc::misaligned;
  if (r.opcode == DiskOpcode::renew_key && !core_.info.encrypted) return Errc::refused;
  if (r.opcode == DiskOpcode::compare_and_write && r.extent.length > kMaxCompareAndWrite) {
    return Errc::resource_exhausted;
  }
  return {};
}

/// Its host may have given it up while this program stood still, and sent it again through the other node: that one's
/// forward may be carried out first, whichever node orders.
bool Front::is_too_old(const DiskRequest& request, const Receipt& receipt) const {
  if (changes_nothing(request.opcode) || receipt.taken - receipt.since <= core_.settings.lease) return false;
  mark<"front.too_old">();
  return true;
}

void Front::submit(DiskRequest& request) {
  const std::uint64_t closings = core_.partner.closings();
  core_.partner.check();
  // Before anything is said of the extent: a node that does not serve may not have heard yet that the volume grew.
  request.status = {};
  request.holder = nullptr;
  if (core_.serves_nothing() && !core_.gated) request.status = Errc::not_serving;
  if (core_.partner.closings() != closings) request.status = Errc::not_serving;  // its session is closed just now
  const Receipt receipt = core_.partner.receipt();
  if (!request.status && is_too_old(request, receipt)) request.status = Errc::resource_exhausted;
  if (!request.status) request.status = check(request);
  if (request.status || (concerns_blocks(request.opcode) && request.extent.empty())) return conclude(request);
  const bool looks = request.opcode == DiskOpcode::verify || request.opcode == DiskOpcode::find_run;
  (request.opcode == DiskOpcode::read || looks ? reads : writes) += 1;
  Parent& parent = parents_.make();
  parent.request = &request;
  parent.receipt = receipt;
  request.holder = &parent;
  const std::uint64_t length = request.extent.length;
  const std::uint64_t step = carries_data(request.opcode) ? kMaxPiece : std::max<std::uint64_t>(length, 1);
  parent.pieces = 1;  // held until all are made: the first may finish at once
  for (std::uint64_t at = 0; at < std::max<std::uint64_t>(length, 1); at += step) {
    ++parent.pieces;
    route(piece(parent, at, std::min(step, length - at)));
  }
  give_back(parent);
}

/// It may be over already, and wait for the sessions to be closed.
void Front::cancel(DiskRequest& request) {
  auto* parent = static_cast<Parent*>(request.holder);
  if (!parent || parent->cancelled) return;
  mark<"front.cancelled">();
  parent->cancelled = true;
  ++parent->pieces;  // until all are looked at: the last one may end here
  core_.end_unstarted(Selection::of(*parent));
  give_back(*parent);
}

/// One piece less; the last one ends the request.
void Front::give_back(Parent& parent) {
  if (--parent.pieces) return;
  DiskRequest& request = *parent.request;
  request.holder = nullptr;
  parents_.destroy(parent);
  conclude(request);
}

/// While the sessions are about to be closed no error goes out: an initiator could take it for the last word, and sends
/// what was not answered again.
void Front::conclude(DiskRequest& request) {
  if (!request.status || !core_.partner.fencing()) return request.done(request);
  request.next = std::exchange(withheld_, &request);
}

void Front::answer_withheld() {
  DiskRequest* next = std::exchange(withheld_, nullptr);
  while (DiskRequest* request = next) {
    next = std::exchange(request->next, nullptr);
    request->done(*request);
  }
}

Op& Front::piece(Parent& parent, std::uint64_t offset, std::uint64_t length) {
  const DiskRequest& request = *parent.request;
  Op& op = core_.ops.make(core_);
  op.parent = &parent;
  op.opcode = request.opcode;
  op.fua = request.fua;
  op.may_unmap = request.may_unmap;
  op.extent = {request.extent.offset + offset, length};
  op.data = carries_data(request.opcode) ? request.data.subspan(offset, length) : request.data;
  if (request.opcode == DiskOpcode::write_same) op.data = request.data.first(core_.info.block_size);
  if (request.opcode == DiskOpcode::compare_and_write) op.data = request.data.first(2 * length);
  if (request.opcode == DiskOpcode::find_run) op.data = request.data.first(engine::kRunSize);
  op.receipt = parent.receipt;
  op.nexus = request.nexus;
  op.port = request.port;
  op.access = request.access;
  return op;
}

void Front::hold(Op& op) {
  if (op.cancelled()) return finish(op, Errc::aborted);
  core_.lu->left(op);
  op.stage = Stage::held;
  op.dropped = false;
  op.scratch.reset();
  held_.push_back(op);
}

void Front::route(Op& op) {
  if (op.cancelled()) return finish(op, Errc::aborted);
  if (core_.gated) {
    // The partner's are not held: it sends them again under the epoch that follows.
    if (op.entry) return finish(op, Errc::stale);
    return hold(op);
  }
  if (core_.serves_nothing()) return finish(op, op.entry ? Errc::stale : Errc::not_serving);
  if (!core_.lu->passes(op)) return;
  if (op.on_state() && core_.lu->answers_here(op)) return core_.lu->run(op);
  if (core_.orders() || (op.reads() && core_.reads_here())) return start_here(op);
  // A forward never goes back to where it came from.
  if (op.entry) return finish(op, Errc::stale);
  core_.forwarder->start(op);
}

// Here the record in force says how large the volume is. A node that forwards may have an older one: whoever carries
// the operation out looks.
void Front::start_here(Op& op) {
  if (op.opcode == DiskOpcode::renew_key) op.extent = {0, core_.volume_size()};
  if (concerns_blocks(op.opcode) && !op.extent.fits(core_.volume_size())) {
    const Errc unsure = op.entry ? Errc::stale : Errc::resource_exhausted;
    return finish(op, says_the_size() ? Errc::out_of_range : unsure);
  }
  core_.sequencer->start(op);
}

void Front::release_held() {
  List<Op> waiting;
  held_.splice_to(waiting);
  while (Op* op = waiting.pop_front()) route(*op);
}

void Front::drop_held(const Selection& which) {
  List<Op> over;
  held_.move_to(over, [&](const Op& op) { return which.covers(op); });
  while (Op* op = over.pop_front()) finish(*op, which.status());
}

/// It was not started, or has an id by which it is known when it comes again.
bool Front::waits_for_this_node(const Op& op, std::error_code status) const {
  if (!core_.keeps_sessions() || op.entry || op.cancelled()) return false;
  return status == Errc::not_serving || (op.opcode == DiskOpcode::change_state && status == Errc::unknown_outcome);
}

void Front::finish(Op& op, std::error_code status) {
  if (waits_for_this_node(op, status)) return hold(op);
  op.status = status;
  core_.lu->left(op);
  if (op.entry) return core_.forwards->finished(op);
  Parent& parent = *op.parent;
  DiskRequest& request = *parent.request;
  if (status) {
    request.status = status;
    request.miscompare_offset = op.extent.offset - request.extent.offset + op.miscompare_offset;
  }
  if ((op.on_state() || op.opcode == DiskOpcode::find_run) && !status) request.transferred = op.transferred;
  if (op.opcode == DiskOpcode::change_state && !status) {
    request.transferred = std::min(op.lu_answer.size(), request.data.size());
    std::copy_n(op.lu_answer.begin(), request.transferred, request.data.begin());
  }
  core_.ops.destroy(op);
  give_back(parent);
}

}  // namespace lockstep::replication
