#include "replication/core/completions.hpp"

#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::Errc;

Completions::~Completions() {
  held.for_each([this](Op& op) { operations_.pool.destroy(op); });
}

Parent& Completions::begin(DiskRequest& request) {
  Parent& parent = parents_.make();
  parent.request = &request;
  parent.turn = turn_;
  ++under_way_[turn_];
  request.holder = &parent;
  return parent;
}

/// One piece less; the last one ends the request.
void Completions::give_back(Parent& parent) {
  if (--parent.pieces) return;
  DiskRequest& request = *parent.request;
  request.holder = nullptr;
  --under_way_[parent.turn];
  parents_.destroy(parent);
  conclude(request);
}

/// While the sessions are about to be closed no error goes out: an initiator could take it for the last word, and sends
/// what was not answered again.
void Completions::conclude(DiskRequest& request) {
  const bool withheld = partner_.set_back() || (request.status && partner_.fencing());
  if (!withheld) return request.done(request);
  request.next = std::exchange(withheld_, &request);
}

void Completions::answer_withheld() {
  if (partner_.set_back()) return;
  DiskRequest* next = std::exchange(withheld_, nullptr);
  while (DiskRequest* request = next) {
    next = std::exchange(request->next, nullptr);
    request->done(*request);
  }
}

void Completions::hold(Op& op) {
  if (op.cancelled()) return finish(op, Errc::aborted);
  in_force_.left(op);
  op.stage = Stage::held;
  op.dropped = false;
  op.scratch.reset();
  held.push_back(op);
}

/// It was not started, or has an id by which it is known when it comes again.
bool Completions::waits_for_this_node(const Op& op, std::error_code status) const {
  if (!standing_.keeps_sessions() || op.entry || op.cancelled()) return false;
  return status == Errc::not_serving || (op.opcode == DiskOpcode::change_state && status == Errc::unknown_outcome);
}

/// Of the partner's, from when the store had it: when its initiator's command came is another clock's.
void Completions::note_latency(const Op& op) {
  const engine::TimePoint since = op.entry ? op.since : op.receipt.taken;
  if (op.on_state() || since.since_origin.count() == 0) return;
  governor_->note(op.reads() ? ResyncGovernor::Kind::read : ResyncGovernor::Kind::write, partner_.now() - since);
}

void Completions::half_done(const Op& op) { ForwardEntries::half_done(*op.entry, standing_.epoch().id); }

void Completions::end_request_of(Op& op, std::error_code status) {
  Parent& parent = *std::exchange(op.parent, nullptr);
  op.data = {};
  op.port = nullptr;
  parent.request->status = status;
  give_back(parent);
}

/// Of several pieces that fail, in whatever order, the first of the request is told.
void Completions::note_failure(DiskRequest& request, const Op& op, std::error_code status) {
  const std::uint64_t at = op.extent.offset - request.extent.offset + op.miscompare_offset;
  if (request.status && request.miscompare_offset <= at) return;
  request.status = status;
  request.miscompare_offset = at;
}

void Completions::finish(Op& op, std::error_code status) {
  if (op.outlives_its_request()) {
    in_force_.left(op);
    return operations_.pool.destroy(op);
  }
  if (waits_for_this_node(op, status)) return hold(op);
  if (governor_ && !status) note_latency(op);
  op.status = status;
  in_force_.left(op);
  if (op.entry) return entries_.finished(op);
  Parent& parent = *op.parent;
  DiskRequest& request = *parent.request;
  if (status) note_failure(request, op, status);
  if ((op.on_state() || op.opcode == DiskOpcode::find_run) && !status) request.transferred = op.transferred;
  if (op.opcode == DiskOpcode::change_state && !status) {
    request.transferred = std::min(op.lu_answer.size(), request.data.size());
    std::copy_n(op.lu_answer.begin(), request.transferred, request.data.begin());
  }
  operations_.pool.destroy(op);
  give_back(parent);
}

}  // namespace lockstep::replication
