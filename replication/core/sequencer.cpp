#include "replication/core/sequencer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/write_same.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::IoResult;
using engine::LockMode;

Sequencer::~Sequencer() {
  clock_.cancel(watermark_timer_);
  // The process is gone: no lock is handed on, nothing is answered.
  active_.for_each([](Op& op) { op.lock.granted = [](engine::RangeLock::Node&) {}; });
  active_.for_each([this](Op& op) {
    store_.locks.cancel(op.lock);
    operations_.pool.destroy(op);
  });
}

bool Sequencer::mirrored() const { return standing_.in_sync() || (standing_.is_alone() && resync_.mirroring()); }

void Sequencer::start(Op& op) {
  op.room_here = op.room_there = false;  // of an earlier try: what it found may have been given back
  op.unreadable_here = false;
  op.status = {};
  active_.push_back(op);
  if (op.opcode == DiskOpcode::flush) return flush(op);
  if (op.opcode == DiskOpcode::find_run) return run(op);
  if (resync_.must_equalize(op.extent)) {
    op.stage = Stage::equal_wait;
    return resync_.equalize(op);
  }
  lock(op);
}

void Sequencer::lock(Op& op) {
  op.stage = Stage::lock_wait;
  op.lock.owner = &op;
  op.sequencer = this;
  op.lock.granted = &Sequencer::on_granted;
  if (store_.locks.acquire(op.lock, op.extent, op.reads() ? LockMode::shared : LockMode::exclusive)) run(op);
}

void Sequencer::on_granted(engine::RangeLock::Node& node) {
  Op& op = *static_cast<Op*>(node.owner);
  op.sequencer->run(op);
}

/// Losing contact or the lease ends every operation that is not in use: this one is, until its caller ends it. The time
/// at which contact was looked at.
engine::TimePoint Sequencer::check_contact(Op& op) {
  op.local_busy = true;
  const engine::TimePoint now = partner_.check();
  op.local_busy = false;
  return now;
}

void Sequencer::lose_lease(Op& op) {
  op.local_busy = true;
  user_.lose_lease();
  op.local_busy = false;
}

/// After check_contact(): nothing that was received before contact was lost is started after it, and no forward that
/// its sender may have dropped since.
bool Sequencer::may_start(Op& op) {
  if (op.dropped) return false;
  if (op.entry && !partner_.is_fresh(op.entry->stamp)) {
    mark<"forward.too_old_to_start">();
    op.status = Errc::stale;
    return false;
  }
  if (standing_.serves_nothing()) return false;
  return true;
}

void Sequencer::run(Op& op) {
  const engine::TimePoint now = check_contact(op);
  if (!may_start(op)) return finish(op, op.status ? op.status : make_error_code(Errc::not_serving));
  if (standing_.in_sync() && !standing_.lease_valid(now)) {
    if (standing_.has_lease()) {
      lose_lease(op);
      return finish(op, Errc::not_serving);
    }
    op.stage = Stage::lease_wait;
    return;
  }
  if (op.opcode == DiskOpcode::find_run) return find_run(op);
  if (op.reads() || op.opcode == DiskOpcode::compare_and_write) return read(op);
  op.payload = op.data;
  make_room(op);
}

void Sequencer::on_leased() {
  while (Op* op = find([this](const Op& o) { return o.stage == Stage::confirm_wait && standing_.is_confirmed(o); })) {
    answer_read(*op);
  }
  if (find([](const Op& o) { return o.stage == Stage::confirm_wait; })) partner_.confirm();
  while (Op* op = find([](const Op& o) { return o.stage == Stage::lease_wait; })) {
    op->stage = Stage::lock_wait;
    run(*op);
    if (standing_.in_sync() && !standing_.lease_valid()) return;
  }
}

// ---- flush -------------------------------------------------------------------------------------------------------

/// Where the write cache was never on, every acknowledged write is durable already. Else both stores are flushed: one
/// that was put off leaves in them what was written before, and what was on its way then.
void Sequencer::flush(Op& op) {
  const engine::TimePoint now = check_contact(op);
  if (!may_start(op)) return finish(op, op.status ? op.status : make_error_code(Errc::not_serving));
  if (!store_.was_cached) return answer_read(op);  // it says that this node may answer for the unit
  op.stage = Stage::issued;
  op.local_busy = true;
  op.since = now;
  op.remote = mirrored() ? Remote::wanted : Remote::none;
  store_.data.flush([this, &op](std::error_code error) { on_stored(op, error); });
  if (op.remote == Remote::wanted) send(op);
}

// ---- writes ------------------------------------------------------------------------------------------------------

void Sequencer::mark_dirty(Op& op) {
  if (store_.meta->is_durably_dirty(op.extent)) return issue(op);
  op.stage = Stage::marking;
  op.local_busy = true;
  op.since = clock_.now();
  store_.meta->set_dirty(op.extent, [this, &op](std::error_code error) {
    if (error) store_.fail_metadata("The dirty map can't be written.");
    op.local_busy = false;
    if (error) {
      return finish(op, Errc::not_serving);
    }
    issue(op);
  });
}

void Sequencer::issue(Op& op) {
  const engine::TimePoint now = check_contact(op);
  if (!may_start(op)) return finish(op, op.status ? op.status : make_error_code(Errc::not_serving));
  // A lazy clearing may have begun while other bits of this write were being made durable.
  if (!store_.meta->is_durably_dirty(op.extent)) return mark_dirty(op);
  // Nor is it sent to the target, which could not become equal while hosts try again and again.
  if (standing_.is_alone() && store_.data.refuses_writes()) return finish(op, Errc::io_error);
  regions_.begin_write(op.extent, now);
  if (space_.frees(op.opcode, op.may_unmap)) space_.begin_freeing(op.extent);
  op.tracked = true;
  op.stage = Stage::issued;
  op.local_busy = true;
  op.since = now;
  op.remote = mirrored() ? Remote::wanted : Remote::none;
  store(op);
  if (op.remote == Remote::wanted) send(op);
}

void Sequencer::store(Op& op) {
  const auto durability = store_.durability(op.fua);
  auto done = [this, &op](std::error_code error) { on_stored(op, error); };
  switch (op.opcode) {
    case DiskOpcode::write_zeroes:
      if (!op.may_unmap || !store_.info.thin) return store_.data.write_zeroes(op.extent, durability, std::move(done));
      [[fallthrough]];
    case DiskOpcode::unmap:
      return store_.data.discard(op.extent, durability, std::move(done));
    case DiskOpcode::renew_key:
      store_.note_new_key();
      return store_.data.renew_key(std::move(done));
    case DiskOpcode::write_same:
      return write_same(store_.data, buffers_, clock_, op.extent, op.payload, durability, op.since, std::move(done));
    default:
      return store_.data.write(op.extent.offset, op.payload, durability, std::move(done));
  }
}

/// The order of a forward does not wait (link_budget.hpp): the partner may even keep back its answer to another order
/// until this forward is answered. Nor does one that has its number and comes again: later ones would pass it.
void Sequencer::send(Op& op) {
  if (!outbound_.ready || op.on_link || op.link_hook.linked) return;
  if (op.entry || op.sequence != 0) return put_on_link(op);
  if (!for_link_.empty() || !share_.ready()) return for_link_.push_back(op);
  put_on_link(op);
}

void Sequencer::send_waiting() {
  while (Op* op = for_link_.front()) {
    const bool wanted = outbound_.ready && op->remote == Remote::wanted && !op->on_link;
    if (wanted && !share_.ready()) return;
    for_link_.remove(*op);
    if (wanted) put_on_link(*op);
  }
  ask_again();
}

void Sequencer::came_off_link(Op& op) {
  op.on_link = false;
  if (std::exchange(op.on_share, false)) share_.give_back(op.link_bytes);
}

void Sequencer::take_share(Op& op, std::uint64_t bytes) {
  op.on_share = true;
  op.link_bytes = bytes;
  share_.take(bytes);
}

/// Numbered when it is sent for the first time, so that orders come to the partner by rising numbers: a read there that
/// waits for the watermark to cover one order must not be in the way of an earlier one.
void Sequencer::put_on_link(Op& op) {
  if (op.sequence == 0) op.sequence = outbound_.sequences.next();
  Message m = outbound_.message(op.opcode == DiskOpcode::flush ? MessageType::flush : MessageType::replicate);
  m.opcode = op.opcode == DiskOpcode::compare_and_write ? DiskOpcode::write : op.opcode;
  m.flags = outbound_.flags_of(op);
  m.sequence = op.sequence;
  m.stamp = static_cast<std::uint64_t>(clock_.now().since_origin.count());  // two orders are never the same bytes
  m.extent = op.opcode == DiskOpcode::flush ? engine::Extent{} : op.extent;
  if (op.entry) m.tag = op.entry->tag;
  std::span<const std::byte> data = op.payload;
  if (may_refer(op)) {
    m.flags |= kFlagByReference;
    m.forwarder = op.entry->message.process;
    data = {};
  }
  op.remote = Remote::sent;
  op.remote_error = {};
  op.on_link = true;
  if (!op.entry) take_share(op, data.size());
  if (m.type == MessageType::replicate) note_told(m.watermark);
  outbound_.send(m, data, {}, [this, &op](const IoResult<Message>& result) { on_replicated(op, result); });
}

/// The partner keeps what it forwarded until the order has come.
bool Sequencer::may_refer(const Op& op) const {
  return op.entry && !op.payload.empty() && !op.with_data && (op.entry->message.flags & kFlagByReference) &&
         outbound_.refers();
}

void Sequencer::on_stored(Op& op, std::error_code error) {
  op.local_busy = false;
  store_.note_returned();
  op.local_error = error;
  if (op.tracked) error ? store_.indeterminate.add(op.extent) : store_.indeterminate.settle(op.extent);
  if (error && op.opcode == DiskOpcode::flush) {
    store_.fail_flush(error);
  } else if (error) {
    store_.fail("The store failed a write: " + error.message() + ".", error);
  }
  // Whoever forwarded it has to know no more than that, beside what its own store says.
  if (op.entry && op.tracked && !error && standing_.in_sync() && op.remote != Remote::done) tell_half_done(op);
  settle(op);
}

/// Nothing ends the operation while it is told, whatever the link does meanwhile.
void Sequencer::tell_half_done(Op& op) {
  op.local_busy = true;
  completions_.half_done(op);
  op.local_busy = false;
}

void Sequencer::on_replicated(Op& op, const IoResult<Message>& result) {
  const bool lacks_data = result && result->status == Errc::refused && may_refer(op);
  if (op.remote != Remote::none) {
    const bool done = result && result->status == Errc::ok;
    op.remote = done ? Remote::done : Remote::wanted;
    // Who did not take the order need not have taken its watermark.
    if (!done && !lacks_data) {
      told_ = 0;
      owe_watermark();
    }
    if (!done && result && !lacks_data) {
      mark<"replicate.refused">();
      op.remote_error = make_error_code(result->status);
      user_.on_partner_refused();  // may settle every other operation; this one is still on the link
    }
  }
  came_off_link(op);
  if (lacks_data) {
    op.with_data = true;
    if (op.remote == Remote::wanted) {
      mark<"replicate.sent_with_its_data">();
      send(op);
    }
  }
  settle(op);
}

/// Ends the write when neither store holds its buffer and the epoch's members have it.
void Sequencer::settle(Op& op) {
  if (op.local_busy || op.on_link) return;
  if (op.remote != Remote::none && op.remote != Remote::done && !mirrored() && standing_.is_alone()) {
    op.remote = Remote::none;
  }
  if (standing_.is_forwarding() && standing_.partner_went_on()) {
    return finish(op, op.remote == Remote::done ? std::error_code{} : make_error_code(Errc::unknown_outcome));
  }
  if (op.local_error) return settle_failed(op);
  if (op.remote == Remote::none || op.remote == Remote::done) return finish(op, {});
  check_drained();
}

/// The local store failed it. Alone, the initiator is told; in sync this replica leaves and the partner's answer
/// counts.
void Sequencer::settle_failed(Op& op) {
  if (standing_.is_alone()) {
    if (op.remote != Remote::none && op.tracked) resync_.note_unequal(op.extent);
    return finish(op, op.local_error);
  }
  if (standing_.is_forwarding()) {
    return finish(op, op.remote == Remote::done ? std::error_code{} : make_error_code(Errc::unknown_outcome));
  }
  check_drained();
}

void Sequencer::finish(Op& op, std::error_code status) {
  if (op.tracked) regions_.end_write(op.extent, clock_.now());
  if (op.tracked && !status && op.opcode != DiskOpcode::renew_key) {
    store_.note_written(op.extent);
    resync_.note_written(op.extent);
  }
  if (op.tracked && space_.frees(op.opcode, op.may_unmap)) space_.end_freeing();
  if (op.sequence) {
    const std::uint64_t sequence = std::exchange(op.sequence, 0);
    const std::uint64_t before = outbound_.sequences.watermark();
    outbound_.sequences.finish(sequence);
    const bool covers_nothing_else = before + 1 == sequence && outbound_.sequences.watermark() == sequence;
    owe_watermark(covers_nothing_else && op.entry && op.entry->half_done ? kKnownWithin : kWatermarkWithin);
  }
  active_.remove(op);
  if (op.link_hook.linked) for_link_.remove(op);
  if (op.stage == Stage::equal_wait) resync_.forget(op);
  if (!op.lock.idle()) store_.locks.cancel(op.lock);
  completions_.finish(op, status);
  check_drained();
}

/// Also while this node serves nothing and drains: an order waits at the partner for the watermark to cover an earlier
/// one that it overlaps.
bool Sequencer::owes_watermarks() const {
  return mirrored() || (drained_ && standing_.is_sequencer() && standing_.epoch().members.is_both());
}

void Sequencer::note_told(std::uint64_t watermark) {
  told_ = std::max(told_, watermark);
  watermark_due_.reset();
}

/// The next order tells it, where one comes in time. While each does, an alarm for what the last one leaves need not
/// ring as often.
void Sequencer::owe_watermark(engine::Duration within) {
  if (!owes_watermarks()) return;
  const engine::TimePoint due = clock_.now() + std::max(within, kWatermarkWithin * (1 << alarms_in_vain_));
  if (watermark_due_ && *watermark_due_ <= due) return;
  watermark_due_ = due;
  if (watermark_timer_ == engine::TimerId::none || watermark_timer_at_ > due) wait_to_tell_watermark();
}

/// A timer that an order has overtaken is left running: it costs less than setting it anew with each.
void Sequencer::wait_to_tell_watermark() {
  clock_.cancel(watermark_timer_);
  watermark_timer_at_ = *watermark_due_;
  watermark_timer_ = clock_.call_after(watermark_timer_at_ - clock_.now(), [this] {
    watermark_timer_ = engine::TimerId::none;
    const bool in_vain = !watermark_due_ || clock_.now() < *watermark_due_;
    alarms_in_vain_ = in_vain ? std::min(alarms_in_vain_ + 1, kMostInVain) : 0;
    if (!watermark_due_) return;
    if (in_vain) return wait_to_tell_watermark();
    watermark_due_.reset();
    if (!outbound_.ready || !owes_watermarks() || told_ == watermark()) return;
    outbound_.send(outbound_.message(MessageType::watermark), {}, {}, [](const IoResult<Message>&) {});
  });
}

}  // namespace lockstep::replication
