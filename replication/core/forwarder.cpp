#include "replication/core/forwarder.hpp"

#include <cassert>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::IoResult;

Forwarder::~Forwarder() {
  clock_.cancel(retry_);
  clock_.cancel(ask_again_);
  ops_.for_each([this](Op& op) { operations_.pool.destroy(op); });
}

void Forwarder::start(Op& op) {
  in_force_.left(op);
  op.tag = ++last_tag_;
  op.stage = Stage::forward_wait;
  op.scratch.reset();
  op.status = {};
  ops_.push_back(op);
  by_tag_.emplace(op.tag, &op);
  unsent_.push_back(op);
  pump();
}

/// By rising tag, as all are.
void Forwarder::wait_again(Op& op) {
  op.stage = Stage::forward_wait;
  List<Op, &Op::link_hook> later;
  unsent_.move_to(later, [&op](const Op& other) { return other.tag > op.tag; });
  unsent_.push_back(op);
  later.splice_to(unsent_);
}

void Forwarder::take_out(Op& op) {
  ops_.remove(op);
  by_tag_.erase(op.tag);
  if (op.link_hook.linked) unsent_.remove(op);
}

/// Its host may have given it up by now, and sent it again through the other node.
bool Forwarder::is_too_old(const Op& op) const {
  return !changes_nothing(op.opcode) && partner_.age(op.receipt) > settings_.lease;
}

/// Those that no partner has seen: the host, if it still waits, sends them again.
void Forwarder::end_too_old() {
  while (Op* op = [this]() -> Op* {
    for (Op* at = unsent_.front(); at; at = decltype(unsent_)::next(at)) {
      if (!at->sent_before && !at->on_link && !at->dropped && is_too_old(*at)) return at;
    }
    return nullptr;
  }()) {
    mark<"forward.waited_too_long">();
    end(*op, Errc::resource_exhausted);
  }
}

bool Forwarder::may_send(Op& op) {
  if (op.stage != Stage::forward_wait || op.on_link || op.dropped) return false;
  const bool to_another = op.sent_before && op.sent_to != partner_.process();
  if (to_another && !changes_nothing(op.opcode)) return false;
  if (!op.in_window && in_window_ >= kWindow) return false;
  // What was sent and may have been carried out goes out as it was: the answer is there, or it was not.
  return op.sent_before || op.state_version == in_force_.version() || in_force_.recheck(op);
}

/// Sends what may be sent: contact holds, states were exchanged, and the window has room.
void Forwarder::pump() {
  partner_.check();
  if (pumping_ || standing_.gated || partner_.fencing()) return;
  if (!standing_.is_forwarding() && !standing_.in_sync()) return;
  if (!outbound_.ready || !partner_.in_contact()) return;
  pumping_ = true;
  end_too_old();
  for (Op *op = unsent_.front(), *following = nullptr; op; op = following) {
    following = decltype(unsent_)::next(op);
    if (may_send(*op)) {
      if (!share_.ready()) {
        mark<"forward.waits_for_its_turn">();
        break;
      }
      send(*op);
    }
    if (!op->in_window && in_window_ >= kWindow) break;
  }
  pumping_ = false;
}

/// A tag whose result the sequencer keeps, and may forget; 0: none.
std::uint64_t Forwarder::next_answered() {
  while (!answered_.empty()) {
    const std::uint64_t tag = answered_.back();
    answered_.pop_back();
    if (tag > ops_.front()->tag) return tag;  // those below the lowest open one are forgotten with it
  }
  return 0;
}

void Forwarder::enter_window(Op& op) {
  if (op.acknowledges == 0) op.acknowledges = next_answered();
  if (!std::exchange(op.in_window, true)) ++in_window_;
  assert(in_window_ <= kWindow);
}

void Forwarder::leave_window(Op& op) {
  if (std::exchange(op.in_window, false)) --in_window_, answered_.push_back(op.tag);
  // What it carried was lost with the way out.
  if (op.acknowledges != 0) answered_.push_back(std::exchange(op.acknowledges, 0));
}

/// Its order may come by reference, and its answer early.
bool Forwarder::may_refer(const Op& op) {
  return op.refusal == Errc::ok && !changes_nothing(op.opcode) && !op.on_state();
}

void Forwarder::send(Op& op) {
  enter_window(op);
  Message m = outbound_.message(MessageType::forward);
  const bool asks_only = op.refusal != Errc::ok;  // whether the state is still the one that refuses it
  m.opcode = asks_only ? DiskOpcode::check_access : op.opcode;
  m.sequence = op.state_version;
  m.flags = outbound_.flags_of(op);
  if (outbound_.refers() && may_refer(op)) m.flags |= kFlagByReference;
  m.tag = op.tag;
  m.lowest_tag = ops_.front()->tag;
  m.watermark = op.acknowledges;
  m.extent = op.extent;
  m.stamp = partner_.contact_stamp();
  m.number = static_cast<std::uint64_t>(partner_.age(op.receipt).count());
  m.nexus = op.nexus;
  if (op.sent_before) mark<"forward.sent_again">();
  op.sent_before |= !asks_only;
  op.ordered = false;
  op.sent_outside |= standing_.is_forwarding() && !asks_only;
  op.sent_to = partner_.process();
  op.stage = Stage::forwarded;
  unsent_.remove(op);
  op.unsettled = false;
  op.on_link = true;
  op.since = clock_.now();
  std::span<std::byte> out = op.data, in;
  if (asks_only) out = {};
  if (!asks_only && op.opcode == DiskOpcode::read) out = {}, in = op.data.first(op.extent.length);
  if (!asks_only && (op.opcode == DiskOpcode::read_state || op.opcode == DiskOpcode::find_run)) out = {}, in = op.data;
  if (!asks_only && op.opcode == DiskOpcode::change_state) in = op.lu_answer;
  op.link_bytes = out.size() + in.size();
  op.on_share = true;
  share_.take(op.link_bytes);
  outbound_.send(m, out, in, [this, &op](const IoResult<Message>& result) { on_answer(op, result); });
}

namespace {
/// The partner could not read the request, or this node can't read the answer: it knows less, or more.
bool makes_no_sense(const IoResult<Message>& result) {
  return result ? result->status == Errc::corrupt : result.error() == Errc::corrupt;
}
}  // namespace

void Forwarder::on_answer(Op& op, const IoResult<Message>& result) {
  partner_.check();
  op.on_link = false;
  if (result) op.acknowledges = 0;
  const bool half_done = result && result->status == Errc::ok && (result->flags & kFlagHalfDone) && may_refer(op);
  op.unsettled = !result || half_done;
  if (half_done && result->epoch == standing_.epoch().id && standing_.in_sync()) return on_half_done(op);
  leave_share(op);
  if (op.dropped) return half_done ? ask_what_is_over() : end_dropped();
  if (makes_no_sense(result) && !standing_.keeps_sessions()) {
    end_unread(op);
    return pump();
  }
  if (result && result->status == Errc::aborted) {
    mark<"forward.checked_under_another_state">();
    // The process that says so has no entry of it: nothing that it was sent before was carried out either.
    op.sent_before = op.sent_outside = false;
  }
  if (result && result->status == Errc::unknown_outcome && !op.on_state()) {
    // It was begun, and whoever says so orders no more and remembers nothing: as good as a process that is gone.
    mark<"forward.begun_and_forgotten">();
    op.sent_to = {};
  }
  const bool asked_only = op.refusal != Errc::ok;
  // Retried with the epoch and contact of that moment: refused as too old, by a gate, or lost with the way out. In
  // that phase it is decided later: what was carried out came here as an order, too.
  const bool again = !result || half_done || standing_.keeps_sessions() || result->status == Errc::stale ||
                     result->status == Errc::not_serving || result->status == Errc::unknown_outcome ||
                     result->status == Errc::aborted ||
                     (result->status == Errc::ok && !asked_only && op.opcode == DiskOpcode::read &&
                      result->payload != op.extent.length) ||
                     (result->status == Errc::ok && !asked_only && op.opcode == DiskOpcode::change_state &&
                      result->payload != op.lu_answer.size());
  if (again) {
    wait_again(op);
    if (result && result->status == Errc::stale && is_too_old(op)) {
      mark<"forward.too_old_to_send_again">();  // it was not carried out there, and never will be
      end(op, Errc::resource_exhausted);
      return pump();
    }
    if (standing_.serves_nothing() && !standing_.gated) return;  // whoever decides routes or drops it
    if (standing_.orders()) return take_over(Taking::what_is_young);
    return retry_soon();
  }
  op.miscompare_offset = result->tag;
  op.transferred = result->payload;
  const std::uint64_t tag = op.tag;
  const bool on_both = result->status == Errc::ok && !asked_only && op.applied_here;
  if (op.unreadable_here && result->status == Errc::ok && !asked_only) {
    user_.on_read_elsewhere(op.extent, op.data.first(op.extent.length));
  }
  end(op, make_error_code(asked_only && result->status == Errc::ok ? op.refusal : result->status));
  if (on_both && standing_.in_sync()) user_.on_both_have(tag);
  pump();
}

/// The sequencer's store has it, and this replica is a member with it. One that was given up is not over before this
/// store has it, too: what is read here until then would not be what was there when it ended.
void Forwarder::on_half_done(Op& op) {
  op.half_done = op.ordered = true;
  if (op.applied_here) {
    end_on_both(op);
    return pump();
  }
  if (!op.dropped) return;
  mark<"forward.half_done_and_given_up">();
  if (!has_given_up()) user_.on_none_given_up();
  ask_soon();
}

/// Nobody can see it undone any more: neither a crash nor the loss of a node takes it from both.
void Forwarder::end_on_both(Op& op) {
  const std::uint64_t tag = op.tag;
  op.unsettled = false;
  op.dropped ? end_dropped() : end(op, {});
  if (standing_.in_sync()) user_.on_both_have(tag);
}

void Forwarder::leave_share(Op& op) {
  if (std::exchange(op.on_share, false)) share_.give_back(op.link_bytes);
}

/// Sent again it would end no better, and hold up what comes a window behind it. An initiator is told BUSY, and sends
/// it again. What made no sense may have been the answer, and an earlier sending may have had its effect.
void Forwarder::end_unread(Op& op) {
  mark<"forward.not_understood">();
  const bool asked_only = op.refusal != Errc::ok;
  if (asked_only || op.opcode != DiskOpcode::find_run) {
    return end(op, op.sent_before ? Errc::unknown_outcome : Errc::aborted);
  }
  op.take_unknown_run();
  end(op, {});
}

void Forwarder::retry_soon() {
  if (retrying_) return;
  retrying_ = true;
  retry_ = clock_.call_after(std::chrono::milliseconds(5), [this] {
    retrying_ = false;
    pump();
  });
}

void Forwarder::give_up(Op& op) {
  dropped_ += !op.dropped;
  op.dropped = true;
}

void Forwarder::end(Op& op, std::error_code status) {
  take_out(op);
  dropped_ -= op.dropped;
  leave_window(op);
  leave_share(op);
  if (status == Errc::ok) status = {};
  completions_.finish(op, status);
}

/// What is half done is asked for again: its order may never come any more, and it may be over.
void Forwarder::resend() {
  ops_.for_each([this](Op& op) {
    if (op.on_link || !std::exchange(op.half_done, false)) return;
    mark<"forward.half_done_sent_again">();
    wait_again(op);
    leave_share(op);
  });
  pump();
}

void Forwarder::drop(const Selection& which) {
  ops_.for_each([&](Op& op) {
    if (op.dropped || !which.covers(op)) return;
    give_up(op);
    op.status = which.status();
    cancel(op);
  });
  ask_what_is_over();
  end_dropped();
}

/// The sequencer is asked not to begin it.
void Forwarder::cancel(const Op& op) {
  if (!op.on_link || changes_nothing(op.opcode) || !partner_.in_contact()) return;
  mark<"forward.cancelled">();
  Message m = outbound_.message(MessageType::cancel);
  m.tag = op.tag;
  outbound_.send(m, {}, {}, [](const IoResult<Message>&) {});
}

void Forwarder::end_dropped() {
  bool ended = false;
  while (Op* over = [this]() -> Op* {
    for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
      if (op->dropped && may_end(*op)) return op;
    }
    return nullptr;
  }()) {
    end(*over, over->sent_before ? make_error_code(Errc::unknown_outcome) : over->status);
    ended = true;
  }
  if (!ended) return;
  if (!has_given_up()) user_.on_none_given_up();
  user_.on_dropped_ended();  // a reset waits for them
}

bool Forwarder::may_end(const Op& op) const {
  return !op.on_link && !(op.unsettled && partner_.in_contact() && !standing_.orders());
}

bool Forwarder::has_dropped() const { return dropped_ != 0; }

bool Forwarder::has_dropped_tasks() const {
  if (!has_dropped()) return false;
  for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
    if (op->dropped && !op->on_state()) return true;
  }
  return false;
}

bool Forwarder::has_given_up() const {
  if (!has_dropped()) return false;
  for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
    if (op->dropped && !op->ordered && !changes_nothing(op->opcode)) return true;
  }
  return false;
}

bool Forwarder::stuck_on_link(engine::TimePoint limit) const {
  for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
    if (op->on_link && op->since < limit) return true;
  }
  return false;
}

/// The partner begins nothing more that came by the way before. What it had begun may still be on its way to a disk;
/// but perhaps it waits for this node's, which takes nothing more when the volume is closed.
void Forwarder::on_connected() { ask_what_is_over(); }

void Forwarder::ask_what_is_over() {
  if (!partner_.connected()) return end_dropped();
  const bool waits = !partner_.hurried() && !standing_.closed();
  ops_.for_each([waits](Op& op) { op.unsettled &= waits && !changes_nothing(op.opcode); });
  end_dropped();
  ops_.for_each([this](Op& op) {
    if (!op.unsettled || !op.dropped) return;
    mark<"forward.asked_whether_it_is_over">();
    Message m = outbound_.message(MessageType::cancel);
    m.tag = op.tag;
    auto answered = [this, tag = op.tag](const IoResult<Message>& result) { on_over(tag, result); };
    outbound_.send(m, {}, {}, counted(outbound_.owed, std::move(answered)));
  });
}

/// Once for many that are given up at a time.
void Forwarder::ask_soon() {
  if (ask_again_ != engine::TimerId::none) return;
  ask_again_ = clock_.call_after(std::chrono::milliseconds(5), [this] {
    ask_again_ = engine::TimerId::none;
    ask_what_is_over();
  });
}

/// Without an answer the way is lost again, and the next one brings another question.
void Forwarder::on_over(std::uint64_t tag, const IoResult<Message>& result) {
  if (!result) return;
  if (result->status == Errc::unknown_outcome) return ask_soon();
  ops_.for_each([tag](Op& op) { op.unsettled &= op.tag != tag; });
  end_dropped();
}

void Forwarder::take_over(Taking which) {
  end_dropped();
  while (Op* op = [this]() -> Op* {
    for (Op* at = ops_.front(); at; at = List<Op>::next(at)) {
      if (!at->on_link && !at->dropped) return at;
    }
    return nullptr;
  }()) {
    if (op->applied_here) {
      mark<"forward.done_by_order">();
      end(*op, {});
    } else if (op->sent_outside) {
      mark<"forward.outcome_unknown">();
      end(*op, Errc::unknown_outcome);
    } else if (which == Taking::what_is_young && is_too_old(*op)) {
      mark<"forward.too_old_to_take_over">();
      end(*op, Errc::resource_exhausted);
    } else {
      mark<"forward.taken_over">();
      take_out(*op);
      leave_window(*op);
      leave_share(*op);
      op->half_done = false;
      op->tag = 0;
      op->sent_before = false;
      user_.route(*op);
    }
  }
}

/// What its host sends again is ordered after it, since the sequencer keeps its range until it is over. Were orders not
/// answered until then, it might wait for them: behind a read here, which waits for the watermark.
void Forwarder::note_ordered(std::uint64_t tag) {
  if (Op* op = find(tag)) op->ordered = true;
}

Op* Forwarder::find(std::uint64_t tag) {
  const auto found = by_tag_.find(tag);
  return found == by_tag_.end() ? nullptr : found->second;
}

/// Tags of another process's may be the same: its clock began anew.
std::span<const std::byte> Forwarder::data_of(const Message& order) {
  const Op* op = order.forwarder == settings_.process ? find(order.tag) : nullptr;
  if (!op || !op->sent_before || op->extent != order.extent) return {};
  const bool compares = op->opcode == DiskOpcode::compare_and_write;
  if (order.opcode != (compares ? DiskOpcode::write : op->opcode)) return {};
  if (op->dropped) op->cancelled() ? mark<"forward.order_after_abort">() : mark<"forward.order_after_its_session">();
  return compares ? op->data.subspan(op->extent.length) : op->data;
}

/// What a member holds is the truth; what is no member holds a copy of it, that may yet be written over by another.
void Forwarder::note_applied(std::uint64_t tag) {
  if (!standing_.epoch().members.is_both()) return;
  if (Op* op = find(tag)) op->applied_here = true;
}

void Forwarder::end_applied(std::uint64_t tag) {
  Op* op = find(tag);
  if (!op || !op->applied_here || !op->half_done || op->on_link || !standing_.in_sync()) return;
  end_on_both(*op);
  pump();
}

/// The new process does not remember what the last one carried out: sent again it might take effect twice. A replica
/// that is no member will never know. A member does: what the last process finished came here as an order; such
/// forwards wait until this node takes over, or is no member any more.
void Forwarder::on_partner_restarted() {
  answered_.clear();
  ops_.for_each([this](Op& op) {
    op.acknowledges = 0;
    op.unsettled = false;
    if (standing_.is_forwarding() && op.sent_before && !changes_nothing(op.opcode)) give_up(op);
  });
  end_dropped();
}

/// Of what was sent to a process of the partner's that is gone it can't be told whether it had its effect. What this
/// store holds counts for nothing any more: the partner's does.
void Forwarder::on_no_member() {
  ops_.for_each([this](Op& op) {
    op.sent_outside |= std::exchange(op.applied_here, false);
    op.unsettled &= op.sent_to == partner_.process();
    if (op.sent_before && op.sent_to != partner_.process() && !changes_nothing(op.opcode)) give_up(op);
  });
  end_dropped();
}

}  // namespace lockstep::replication
