#include "replication/core/front.hpp"

#include <algorithm>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::Errc;

namespace {
bool carries_data(DiskOpcode opcode) {
  return opcode == DiskOpcode::read || opcode == DiskOpcode::write || opcode == DiskOpcode::verify;
}
bool concerns_blocks(DiskOpcode opcode) { return opcode != DiskOpcode::flush && !on_state(opcode); }
}  // namespace

/// The partner may have grown the volume since: only a member that still is one can say what is beyond its end.
bool Front::says_the_size() const {
  return standing_.is_alone() || (standing_.in_sync() && standing_.lease_valid() && !standing_.gated);
}

std::error_code Front::check(const DiskRequest& r) const {
  if (!concerns_blocks(r.opcode)) return {};
  if (!r.extent.fits(store_.room()) && !says_the_size()) return Errc::resource_exhausted;
  if (!r.extent.fits(store_.room())) return Errc::out_of_range;
  if (r.extent.offset % store_.info.block_size || r.extent.length % store_.info.block_size) return Errc::misaligned;
  const std::uint64_t wanted = carries_data(r.opcode)                      ? r.extent.length
                               : r.opcode == DiskOpcode::write_same        ? store_.info.block_size
                               : r.opcode == DiskOpcode::compare_and_write ? 2 * r.extent.length
                               : r.opcode == DiskOpcode::find_run          ? engine::kRunSize
                                                                           : 0;
  if (r.data.size() < wanted) return Errc::misaligned;
  if (r.opcode == DiskOpcode::renew_key && !store_.info.encrypted) return Errc::refused;
  if (r.opcode == DiskOpcode::compare_and_write && r.extent.length > kMaxCompareAndWrite) {
    return Errc::resource_exhausted;
  }
  return {};
}

/// Its host may have given it up while this program stood still, and sent it again through the other node: that one's
/// forward may be carried out first, whichever node orders.
bool Front::is_too_old(const DiskRequest& request, const Receipt& receipt) const {
  if (changes_nothing(request.opcode) || !partner_.is_older_than_lease(receipt)) return false;
  mark<"front.too_old">();
  return true;
}

void Front::submit(DiskRequest& request) {
  const std::uint64_t closings = partner_.closings();
  const engine::TimePoint now = partner_.check();
  // Before anything is said of the extent: a node that does not serve may not have heard yet that the volume grew.
  request.status = {};
  request.holder = nullptr;
  if (standing_.serves_nothing() && !standing_.gated) request.status = Errc::not_serving;
  if (partner_.closings() != closings) request.status = Errc::not_serving;  // its session is closed just now
  Receipt receipt = partner_.receipt(now);
  if (request.came_since.since_origin.count() != 0) receipt.since = std::min(receipt.since, request.came_since);
  if (!request.status && is_too_old(request, receipt)) request.status = Errc::resource_exhausted;
  if (!request.status && lu_.has_ended(request)) request.status = Errc::aborted;
  if (!request.status) request.status = check(request);
  if (request.status || (concerns_blocks(request.opcode) && request.extent.empty()))
    return completions_.conclude(request);
  const bool looks = request.opcode == DiskOpcode::verify || request.opcode == DiskOpcode::find_run;
  (request.opcode == DiskOpcode::read || looks ? reads : writes) += 1;
  Parent& parent = completions_.begin(request);
  parent.receipt = receipt;
  const std::uint64_t length = request.extent.length;
  const std::uint64_t step = carries_data(request.opcode) ? kMaxPiece : std::max<std::uint64_t>(length, 1);
  parent.pieces = 1;  // held until all are made: the first may finish at once
  for (std::uint64_t at = 0; at < std::max<std::uint64_t>(length, 1); at += step) {
    ++parent.pieces;
    route(piece(parent, at, std::min(step, length - at)));
  }
  completions_.give_back(parent);
}

/// It may be over already, and wait for the sessions to be closed.
void Front::cancel(DiskRequest& request) {
  auto* parent = static_cast<Parent*>(request.holder);
  if (!parent || parent->cancelled) return;
  mark<"front.cancelled">();
  parent->cancelled = true;
  ++parent->pieces;  // until all are looked at: the last one may end here
  end_unstarted(Selection::of(*parent));
  completions_.give_back(*parent);
}

Op& Front::piece(Parent& parent, std::uint64_t offset, std::uint64_t length) {
  const DiskRequest& request = *parent.request;
  Op& op = operations_.pool.make();
  op.parent = &parent;
  op.opcode = request.opcode;
  op.fua = request.fua;
  op.may_unmap = request.may_unmap;
  op.extent = {request.extent.offset + offset, length};
  op.data = carries_data(request.opcode) ? request.data.subspan(offset, length) : request.data;
  if (request.opcode == DiskOpcode::write_same) op.data = request.data.first(store_.info.block_size);
  if (request.opcode == DiskOpcode::compare_and_write) op.data = request.data.first(2 * length);
  if (request.opcode == DiskOpcode::find_run) op.data = request.data.first(engine::kRunSize);
  op.receipt = parent.receipt;
  op.nexus = request.nexus;
  op.port = request.port;
  op.access = request.access;
  return op;
}

void Front::route(Op& op) {
  if (op.cancelled()) return completions_.finish(op, Errc::aborted);
  if (standing_.gated) {
    // The partner's are not held: it sends them again under the epoch that follows.
    if (op.entry) return completions_.finish(op, Errc::stale);
    return completions_.hold(op);
  }
  if (standing_.serves_nothing()) return completions_.finish(op, op.entry ? Errc::stale : Errc::not_serving);
  if (!lu_.passes(op)) return;
  if (op.on_state() && lu_.answers_here(op)) return lu_.run(op);
  if (standing_.orders() || (op.reads() && standing_.reads_here())) return start_here(op);
  // A forward never goes back to where it came from.
  if (op.entry) return completions_.finish(op, Errc::stale);
  forwarder_.start(op);
}

// Here the record in force says how large the volume is. A node that forwards may have an older one: whoever carries
// the operation out looks.
void Front::start_here(Op& op) {
  if (op.opcode == DiskOpcode::renew_key) op.extent = {0, store_.volume_size()};
  if (concerns_blocks(op.opcode) && !op.extent.fits(store_.volume_size())) {
    const Errc unsure = op.entry ? Errc::stale : Errc::resource_exhausted;
    return completions_.finish(op, says_the_size() ? Errc::out_of_range : unsure);
  }
  sequencer_.start(op);
}

void Front::end_unstarted(const Selection& which) {
  sequencer_.drop(which);
  forwarder_.drop(which);
  lu_.drop(which);
  drop_held(which);
}

void Front::release_held() {
  List<Op> waiting;
  completions_.held.splice_to(waiting);
  while (Op* op = waiting.pop_front()) route(*op);
}

void Front::drop_held(const Selection& which) {
  List<Op> over;
  completions_.held.move_to(over, [&](const Op& op) { return which.covers(op); });
  while (Op* op = over.pop_front()) completions_.finish(*op, which.status());
}

}  // namespace lockstep::replication
