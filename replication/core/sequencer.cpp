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

// ---- reads -------------------------------------------------------------------------------------------------------

void Sequencer::read(Op& op) {
  if (!standing_.is_confirmed(op)) partner_.confirm();  // while it is being read
  std::span<std::byte> into = op.data;
  if (op.opcode != DiskOpcode::read) {
    if (!op.scratch) op.scratch = buffers_.allocate(op.extent.length);
    if (!op.scratch) return finish(op, Errc::resource_exhausted);
    into = op.scratch.span();
  }
  op.stage = Stage::reading;
  op.local_busy = true;
  op.since = clock_.now();
  store_.data.read(op.extent.offset, into.first(op.extent.length), [this, &op](std::error_code error) {
    op.local_busy = false;
    store_.note_returned();
    on_read(op, error);
  });
}

void Sequencer::on_read(Op& op, std::error_code error) {
  if (op.dropped) return finish(op, not_started(op));
  if (error) {
    if (standing_.in_sync() && !standing_.is_sequencer()) {
      mark<"read.error_forwarded">();
      store_.locks.release(op.lock);
      active_.remove(op);
      user_.forward(op);
      return check_drained();
    }
    if (standing_.in_sync() && outbound_.ready) return fetch(op);
    return fail_read(op, error);
  }
  if (store_.indeterminate.overlap(op.extent)) {
    mark<"read.settled_a_failed_write">();
    return repair(op);
  }
  if (op.opcode == DiskOpcode::read) return answer_read(op);
  on_compared(op);
}

/// A medium error is the last word on these bytes, and this node's to say only while it is alone. With its sessions
/// kept the operation waits for whoever goes on; else it comes again: by itself where it was forwarded, or when its
/// initiator was told BUSY. An aborted command is repeated at once, and only a few times.
void Sequencer::fail_read(Op& op, std::error_code error) {
  if (standing_.serves_nothing()) return finish(op, Errc::not_serving);
  if (standing_.is_alone()) return finish(op, error);
  mark<"read.error_comes_again">();
  finish(op, op.entry ? Errc::stale : Errc::resource_exhausted);
}

/// What was read reveals state: it passes the lease, checked after the reading.
void Sequencer::answer_read(Op& op) {
  const engine::TimePoint now = check_contact(op);
  if (op.dropped) return finish(op, not_started(op));
  if (standing_.serves_nothing()) return finish(op, Errc::not_serving);
  if (standing_.in_sync() && !standing_.lease_valid(now)) {
    mark<"read.lease_ran_out_meanwhile">();
    lose_lease(op);
    return finish(op, Errc::not_serving);
  }
  if (standing_.is_confirmed(op)) return finish(op, op.status);
  mark<"read.waits_for_confirmation">();
  op.stage = Stage::confirm_wait;
  drained_ ? take_back(op) : partner_.confirm();
}

void Sequencer::on_compared(Op& op) {
  const auto have = op.scratch.span().first(op.extent.length);
  const auto want = op.data.first(op.extent.length);
  const auto differ = std::ranges::mismatch(have, want);
  if (differ.in1 != have.end()) {
    op.miscompare_offset = static_cast<std::uint64_t>(differ.in1 - have.begin());
    op.status = Errc::miscompare;
    return answer_read(op);
  }
  if (op.opcode == DiskOpcode::verify) return answer_read(op);
  op.payload = op.data.subspan(op.extent.length, op.extent.length);
  make_room(op);
}

/// A medium error here: the partner has the same bytes, since this node orders and holds the range.
void Sequencer::fetch(Op& op) {
  mark<"read.fetched_from_partner">();
  if (op.opcode != DiskOpcode::read && !op.scratch) return finish(op, Errc::io_error);
  op.stage = Stage::fetching;
  Message m = outbound_.message(MessageType::fetch);
  m.extent = op.extent;
  const auto into = (op.opcode == DiskOpcode::read ? op.data : op.scratch.span()).first(op.extent.length);
  op.on_link = true;
  take_share(op, into.size());  // a medium error is rare: it is counted, and does not wait
  outbound_.send(m, {}, into, [this, &op](const IoResult<Message>& result) {
    came_off_link(op);
    on_fetched(op, result);
  });
}

void Sequencer::on_fetched(Op& op, const IoResult<Message>& result) {
  if (op.dropped) return finish(op, not_started(op));
  if (result && result->status == Errc::ok && result->payload == op.extent.length) return repair(op);
  const bool lost_on_both = result && result->status == Errc::io_error && !standing_.serves_nothing();
  lost_on_both ? finish(op, Errc::io_error) : fail_read(op, Errc::io_error);
}

/// Rewrites what could not be read, or what a failed write may have left. The range is locked and the bytes are the
/// partner's, or those that were just read; a tear is covered by the bits.
void Sequencer::repair(Op& op) {
  op.stage = Stage::repairing;
  op.local_busy = true;
  op.since = clock_.now();
  store_.meta->set_dirty(op.extent, [this, &op](std::error_code error) {
    if (error) {
      store_.fail_metadata("The dirty map can't be written.");
      op.local_busy = false;
      return finish(op, Errc::io_error);
    }
    const auto bytes = (op.opcode == DiskOpcode::read ? op.data : op.scratch.span()).first(op.extent.length);
    space_.ensure(op.extent, [this, &op, bytes](std::error_code full) {
      if (full) return on_repaired(op, full);
      store_.data.write(op.extent.offset, bytes, engine::Durability::durable,
                        [this, &op](std::error_code failed) { on_repaired(op, failed); });
    });
  });
}

void Sequencer::on_repaired(Op& op, std::error_code failed) {
  op.local_busy = false;
  const bool indeterminate = store_.indeterminate.overlap(op.extent);
  if (failed && failed != Errc::no_space) store_.fail("The store could not rewrite what it could not read.");
  if (!failed) store_.indeterminate.settle(op.extent);
  if (op.dropped) return finish(op, not_started(op));
  if (failed && indeterminate) return fail_read(op, Errc::io_error);
  op.opcode == DiskOpcode::read ? answer_read(op) : on_compared(op);
}

// ---- holes -------------------------------------------------------------------------------------------------------

/// Takes no lock: what it finds may be otherwise the moment after, as for any who asks. Thick volumes have no holes,
/// whatever their store can tell of blocks that were never written.
void Sequencer::find_run(Op& op) {
  op.stage = Stage::reading;
  if (!store_.info.thin || !store_.data.info().knows_holes) return on_run_found(op, engine::StoreRun{op.extent.length});
  op.local_busy = true;
  op.since = clock_.now();
  store_.data.next_run(op.extent.offset, [this, &op](const IoResult<engine::StoreRun>& found) {
    op.local_busy = false;
    on_run_found(op, found);
  });
}

void Sequencer::on_run_found(Op& op, const IoResult<engine::StoreRun>& found) {
  found ? op.take_run({found->length, found->hole}) : op.take_unknown_run();
  answer_read(op);
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
      return store_.data.renew_key(std::move(done));
    case DiskOpcode::write_same:
      return write_same(store_.data, buffers_, clock_, op.extent, op.payload, durability, std::move(done));
    default:
      return store_.data.write(op.extent.offset, op.payload, durability, std::move(done));
  }
}

/// The order of a forward does not wait (link_budget.hpp): the partner may even keep back its answer to another order
/// until this forward is answered.
void Sequencer::send(Op& op) {
  if (!outbound_.ready || op.on_link || op.link_hook.linked) return;
  if (op.entry) return put_on_link(op);
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
  m.extent = op.opcode == DiskOpcode::flush ? engine::Extent{} : op.extent;
  if (op.entry) m.tag = op.entry->tag;
  std::span<const std::byte> data = op.payload;
  if (may_refer(op)) {
    m.flags |= kFlagByReference;
    m.forwarder = op.entry->message.process;
    data = {};
  }
  op.remote = Remote::sent;
  op.on_link = true;
  if (!op.entry) take_share(op, data.size());
  if (m.type == MessageType::replicate) told_ = std::max(told_, m.watermark);
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
  } else if (error && !standing_.is_alone()) {
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

void Sequencer::owe_watermark(engine::Duration within) {
  if (!owes_watermarks()) return;
  const engine::TimePoint due = clock_.now() + within;
  if (watermark_timer_ != engine::TimerId::none && watermark_due_ <= due) return;
  clock_.cancel(watermark_timer_);
  watermark_due_ = due;
  watermark_timer_ = clock_.call_after(within, [this] {
    watermark_timer_ = engine::TimerId::none;
    if (!outbound_.ready || !owes_watermarks() || told_ == watermark()) return;
    outbound_.send(outbound_.message(MessageType::watermark), {}, {}, [](const IoResult<Message>&) {});
  });
}

}  // namespace lockstep::replication
