#include "replication/core/forwarder.hpp"

#include "replication/core/front.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::IoResult;

Forwarder::~Forwarder() {
  core_.seams.clock.cancel(retry_);
  ops_.for_each([](Op& op) { op.core.ops.destroy(op); });
}

void Forwarder::start(Op& op) {
  core_.lu->left(op);
  op.tag = ++last_tag_;
  op.stage = Stage::forward_wait;
  op.scratch.reset();
  op.status = {};
  ops_.push_back(op);
  pump();
}

/// Sends what may be sent: contact holds, states were exchanged, and the oldest open tag is not too far back.
void Forwarder::pump() {
  core_.partner.check();
  if (pumping_ || core_.gated || core_.partner.fencing()) return;
  if (core_.role != Role::forward && core_.role != Role::sync) return;
  if (!core_.partner_ready || !core_.partner.in_contact()) return;
  pumping_ = true;
  for (Op* op = ops_.front(); op && op->tag < ops_.front()->tag + kWindow; op = List<Op>::next(op)) {
    if (op->stage != Stage::forward_wait || op->on_link || op->doomed) continue;
    // What was sent and may have been carried out goes out as it was: the answer is there, or it was not.
    if (!op->sent_before && op->state_version != core_.lu->version() && !core_.lu->recheck(*op)) continue;
    send(*op);
  }
  pumping_ = false;
}

void Forwarder::send(Op& op) {
  Message m = core_.message(MessageType::forward);
  m.watermark = 0;
  const bool asks_only = op.refusal != Errc::ok;  // whether the state is still the one that refuses it
  m.opcode = asks_only ? DiskOpcode::check_access : op.opcode;
  m.sequence = op.state_version;
  m.flags = core_.flags_of(op);
  m.tag = op.tag;
  m.lowest_tag = ops_.front()->tag;
  m.extent = op.extent;
  m.stamp = core_.partner.contact_stamp();
  m.nexus = op.nexus;
  if (op.sent_before) mark<"forward.sent_again">();
  op.unsure = op.sent_before;
  op.unsure_outside = op.sent_outside;
  op.sent_before |= !asks_only;
  op.sent_outside |= core_.role == Role::forward && !asks_only;
  op.stage = Stage::forwarded;
  op.on_link = true;
  op.since = core_.now();
  std::span<std::byte> out = op.data, in;
  if (asks_only) out = {};
  if (!asks_only && op.opcode == DiskOpcode::read) out = {}, in = op.data.first(op.extent.length);
  if (!asks_only && (op.opcode == DiskOpcode::read_state || op.opcode == DiskOpcode::find_run)) out = {}, in = op.data;
  if (!asks_only && op.opcode == DiskOpcode::change_state) in = op.lu_answer;
  core_.partner.send(m, out, in, [&op](const IoResult<Message>& result) { op.core.forwarder->on_answer(op, result); });
}

namespace {
/// The partner could not read the request, or this node can't read the answer: it knows less, or more.
bool makes_no_sense(const IoResult<Message>& result) {
  return result ? result->status == Errc::corrupt : result.error() == Errc::corrupt;
}
}  // namespace

void Forwarder::on_answer(Op& op, const IoResult<Message>& result) {
  core_.partner.check();
  op.on_link = false;
  if (op.doomed) {
    op.unsettled = !result;
    return end_doomed();
  }
  if (makes_no_sense(result) && !core_.in_limbo) {
    end_unread(op);
    return pump();
  }
  if (result && result->status == Errc::aborted) {
    mark<"forward.checked_under_another_state">();
    op.sent_before = op.unsure;
    op.sent_outside = op.unsure_outside;
  }
  const bool asked_only = op.refusal != Errc::ok;
  // Retried with the epoch and contact of that moment: refused as too old, by a gate, or lost with the way out. In
  // limbo it is decided later: what was carried out came here as an order, too.
  const bool again = !result || core_.in_limbo || result->status == Errc::stale ||
                     result->status == Errc::not_serving || result->status == Errc::unknown_outcome ||
                     result->status == Errc::aborted ||
                     (result->status == Errc::ok && !asked_only && op.opcode == DiskOpcode::read &&
                      result->payload != op.extent.length) ||
                     (result->status == Errc::ok && !asked_only && op.opcode == DiskOpcode::change_state &&
                      result->payload != op.lu_answer.size());
  if (again) {
    op.stage = Stage::forward_wait;
    if (core_.role == Role::none && !core_.gated) return;  // whoever decides routes or drops it
    if (core_.orders()) return take_over();
    return retry_soon();
  }
  op.miscompare_offset = result->tag;
  op.transferred = result->payload;
  end(op, make_error_code(asked_only && result->status == Errc::ok ? op.refusal : result->status));
  pump();
}

/// Sent again it would end no better, and hold up what comes a window behind it. An initiator repeats an aborted
/// command a few times. What made no sense may have been the answer, and an earlier sending may have had its effect.
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
  retry_ = core_.seams.clock.call_after(std::chrono::milliseconds(5), [this] {
    retrying_ = false;
    pump();
  });
}

void Forwarder::end(Op& op, std::error_code status) {
  ops_.remove(op);
  if (status == Errc::ok) status = {};
  core_.front->finish(op, status);
}

void Forwarder::resend() { pump(); }

void Forwarder::doom() {
  if (core_.defects().keep_held_when_fenced) return;
  ops_.for_each([](Op& op) { op.doomed = true; });
  end_doomed();
}

void Forwarder::end_doomed() {
  while (Op* over = [this]() -> Op* {
    for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
      if (op->doomed && may_end(*op)) return op;
    }
    return nullptr;
  }()) {
    end(*over, over->sent_before ? Errc::unknown_outcome : Errc::not_serving);
  }
}

bool Forwarder::may_end(const Op& op) const {
  return !op.on_link && !(op.unsettled && core_.partner.in_contact() && !core_.orders());
}

bool Forwarder::has_doomed() const {
  for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
    if (op->doomed) return true;
  }
  return false;
}

bool Forwarder::stuck_on_link(engine::TimePoint limit) const {
  for (Op* op = ops_.front(); op; op = List<Op>::next(op)) {
    if (op->on_link && op->since < limit) return true;
  }
  return false;
}

void Forwarder::on_connected() {
  ops_.for_each([](Op& op) { op.unsettled = false; });
  end_doomed();
}

void Forwarder::take_over() {
  end_doomed();
  while (Op* op = [this]() -> Op* {
    for (Op* at = ops_.front(); at; at = List<Op>::next(at)) {
      if (!at->on_link && !at->doomed) return at;
    }
    return nullptr;
  }()) {
    if (op->applied_here) {
      mark<"forward.done_by_order">();
      end(*op, {});
    } else if (op->sent_outside) {
      mark<"forward.outcome_unknown">();
      end(*op, Errc::unknown_outcome);
    } else {
      mark<"forward.taken_over">();
      ops_.remove(*op);
      op->tag = 0;
      op->sent_before = false;
      core_.front->route(*op);
    }
  }
}

void Forwarder::note_applied(std::uint64_t tag) {
  for (Op* op = ops_.front(); op && op->tag <= tag; op = List<Op>::next(op)) {
    if (op->tag == tag) op->applied_here = true;
  }
}

/// A solo sequencer that restarted may have carried them out and does not remember: sent again they might take effect
/// twice. In sync it does not matter: what it finished came here as an order.
void Forwarder::on_partner_restarted() {
  if (core_.role != Role::forward) return;
  ops_.for_each([](Op& op) {
    const bool harmless = op.opcode == DiskOpcode::read || op.opcode == DiskOpcode::find_run;
    op.doomed |= op.sent_before && !harmless && op.opcode != DiskOpcode::read_state;
  });
  end_doomed();
}

}  // namespace lockstep::replication
