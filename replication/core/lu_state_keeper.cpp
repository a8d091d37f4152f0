// What operations meet: the gate, the check, the answer. The changes themselves are in lu_state_changes.cpp.
#include "replication/core/lu_state_keeper.hpp"

#include <algorithm>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;

engine::Result<scsi::LuState> LuStateKeeper::load(const engine::MetadataArea& meta) {
  if (meta.state().empty()) return scsi::LuState{};
  return scsi::LuState::decode(meta.state());
}

LuStateKeeper::~LuStateKeeper() {
  clock_.cancel(timer_);
  for (List<Op>* list : {&held_, &changes_}) {
    list->for_each([this](Op& op) { operations_.pool.destroy(op); });
  }
  if (change_ && change_->op) operations_.pool.destroy(*change_->op);
}

void LuStateKeeper::set_listener(std::shared_ptr<scsi::LuStateListener> listener) {
  listener_ = std::move(listener);
  if (listener_) listener_->on_state(in_force_.state(), {});
}

void LuStateKeeper::install(scsi::LuState state, std::vector<scsi::LuEvent> events) {
  in_force_.install(std::move(state));
  if (listener_) listener_->on_state(in_force_.state(), events);
}

// ---- operations --------------------------------------------------------------------------------------------------

bool LuStateKeeper::passes(Op& op) {
  if (op.opcode == DiskOpcode::change_state) return true;
  if (!in_force_.open) return hold(op), false;
  op.refusal = Errc::ok;
  if (in_force_.restricted() && !op.entry) {
    op.refusal = in_force_.state().check(op.port, op.access);
    if (op.refusal != Errc::ok && !standing_.is_forwarding()) return answer_op(op, op.refusal), false;
  }
  in_force_.enter(op);
  return true;
}

bool LuStateKeeper::has_ended(const engine::DiskRequest& request) const {
  if (!request.port || request.command_came.since_origin.count() == 0 || on_state(request.opcode)) return false;
  if (!ended_.covers(*request.port, request.command_came)) [[likely]]
    return false;
  mark<"lu_state.command_ended_before">();
  return true;
}

void LuStateKeeper::hold(Op& op) {
  if (op.entry) return completions_.finish(op, Errc::aborted);
  op.stage = Stage::held;
  held_.push_back(op);
  in_force_.left(op);  // whoever goes on is checked again
}

void LuStateKeeper::set_open(bool open) {
  in_force_.open = open;
  if (!open) return;
  List<Op> waiting;
  held_.splice_to(waiting);
  while (Op* op = waiting.pop_front()) user_.route(*op);
}

bool LuStateKeeper::answers_here(const Op& op) const {
  return standing_.orders() || (standing_.in_sync() && op.opcode != DiskOpcode::change_state);
}

bool LuStateKeeper::takes(const Message& m) {
  if (m.opcode == DiskOpcode::change_state) return true;
  if (in_force_.open && m.sequence == in_force_.state().version) return true;
  if (in_force_.open && standing_.is_alone()) {  // it seems to know an older one
    target_there_ = true;
    target_told_ = false;
  }
  mark<"lu_state.forward_under_another_state">();
  return false;
}

/// Whether an answer that reveals state may leave. False: `op` was answered otherwise, or waits for the lease.
bool LuStateKeeper::lease_holds(Op& op, bool changed) {
  partner_.check();
  if (standing_.in_sync() && !standing_.lease_valid()) {
    // The epoch is new. Asked again, a change is known by its id.
    if (!standing_.has_lease() && !op.entry) return hold(op), false;
    if (standing_.has_lease()) user_.lose_lease();
  }
  if (standing_.in_sync() && standing_.lease_valid() && !standing_.is_confirmed(op) && !changed) {
    partner_.confirm();
    return hold(op), false;
  }
  if (!standing_.serves_nothing() && (!standing_.in_sync() || standing_.lease_valid())) return true;
  mark<"lu_state.no_lease">();
  const Errc status = op.entry ? Errc::stale : changed ? Errc::unknown_outcome : Errc::not_serving;
  completions_.finish(op, status);
  return false;
}

void LuStateKeeper::answer_op(Op& op, std::error_code status, bool changed) {
  if (lease_holds(op, changed)) completions_.finish(op, status);
}

void LuStateKeeper::run(Op& op) {
  switch (op.opcode) {
    case DiskOpcode::change_state:
      if (changes_.size() >= kMaxWaiting) return completions_.finish(op, Errc::resource_exhausted);
      op.stage = Stage::held;
      changes_.push_back(op);
      return pump();
    case DiskOpcode::read_state: {
      const auto bytes = in_force_.state().encode();
      if (bytes.size() > op.data.size()) return completions_.finish(op, Errc::misaligned);
      std::ranges::copy(bytes, op.data.begin());
      op.transferred = bytes.size();
      return answer_op(op, {});
    }
    default:
      return answer_op(op, {});
  }
}

// ---- what happens around -----------------------------------------------------------------------------------------

/// Of a change that is being written nobody knows whether it will be in force. One that was given up by itself ends as
/// it does. What nobody waits for is this node's own: what a crash ended has ended, whoever serves.
void LuStateKeeper::drop(const Selection& which) {
  if (which.is_all()) set_open(false);
  List<Op> over;
  const auto covered = [&](const Op& op) { return which.covers(op); };
  held_.move_to(over, covered);
  changes_.move_to(over, covered);
  const bool unknown = change_ && (change_->written || writing_);
  const bool ends = change_ && change_->op && covered(*change_->op) && !(unknown && which.is_one());
  Op* waiting = ends ? std::exchange(change_->op, nullptr) : nullptr;
  if (!unknown && waiting) change_.reset();
  while (Op* op = over.pop_front()) completions_.finish(*op, op->entry ? Errc::stale : which.status());
  if (waiting)
    completions_.finish(*waiting, waiting->entry ? Errc::stale : unknown ? Errc::unknown_outcome : which.status());
  if (waiting && !which.is_all()) pump();
}

void LuStateKeeper::on_solo(bool fresh) {
  forget_telling();
  agreed_ = known_ = target_told_ = target_there_ = false;
  power_on_ |= fresh;
  pump();
}

/// Of two that were both without power the one that follows remembers it, too, until it is told otherwise: the other
/// may be gone before it has ended anything.
void LuStateKeeper::on_sync(bool fresh, bool partner_ran) {
  forget_telling();
  agreed_ = known_ = target_told_ = target_there_ = port_lost_ = false;
  power_on_ = (power_on_ || fresh) && (standing_.is_sequencer() || !partner_ran);
  if (change_) change_->told = false;
  pump();
}

void LuStateKeeper::on_forward() {
  forget_telling();
  agreed_ = known_ = target_told_ = target_there_ = port_lost_ = power_on_ = false;
  pump();
}

void LuStateKeeper::on_target() {
  if (!std::exchange(target_there_, true) || !target_told_) pump();
}

void LuStateKeeper::forget_target() { target_told_ = target_there_ = false; }

void LuStateKeeper::on_leased() {
  if (in_force_.open && !held_.empty()) set_open(true);
}

void LuStateKeeper::on_partner_lost() {
  target_told_ = target_there_ = false;
  port_lost_ = true;
}

/// Nobody can tell when the store returns it, or whether.
void LuStateKeeper::refuse_incoming() {
  InboundRequest* request = incoming_ ? std::exchange(incoming_->request, nullptr) : nullptr;
  if (request) answer(*request, incoming_->message, Errc::io_error);
}

void LuStateKeeper::tick() {
  if (writing_ && clock_.now() - writing_since_ > settings_.store_silence) {
    store_.fail_metadata("The metadata's store did not complete a write in time.");
    refuse_incoming();
  }
  pump();
}

}  // namespace lockstep::replication
