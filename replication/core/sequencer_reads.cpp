// What the sequencer reads: for hosts, to compare, from the partner where its own store fails, and where holes are.
#include <algorithm>
#include <cstring>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/sequencer.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::IoResult;

// ---- reads -------------------------------------------------------------------------------------------------------

void Sequencer::read(Op& op) {
  if (!standing_.is_confirmed(op)) partner_.confirm();  // while it is being read
  if (op.opcode != DiskOpcode::read) {
    if (!op.scratch) op.scratch = buffers_.allocate(op.extent.length);
    if (!op.scratch) return finish(op, Errc::resource_exhausted);
  }
  if (resync_.is_lost(op.extent)) {
    mark<"read.lost_on_both">();
    op.status = Errc::io_error;
    return answer_read(op);
  }
  op.part = op.extent;
  read_part(op);
}

std::span<std::byte> Sequencer::part_of(Op& op) {
  const auto into = op.opcode == DiskOpcode::read ? op.data : op.scratch.span();
  return into.subspan(op.part.offset - op.extent.offset, op.part.length);
}

void Sequencer::read_part(Op& op) {
  op.stage = Stage::reading;
  op.local_busy = true;
  op.since = clock_.now();
  store_.data.read(op.part.offset, part_of(op), [this, &op](std::error_code error) {
    op.local_busy = false;
    store_.note_returned();
    on_read(op, error);
  });
}

/// Neither store can read all of it, but each of its blocks may be readable on one of them.
void Sequencer::next_part(Op& op) {
  const bool first = op.part == op.extent;
  if (first) mark<"read.block_by_block">();
  op.part = {first ? op.extent.offset : op.part.end(), store_.info.block_size};
  if (op.part.offset < op.extent.end()) return read_part(op);
  op.part = op.extent;
  repair(op);
}

void Sequencer::on_read(Op& op, std::error_code error) {
  if (op.dropped) return finish(op, not_started(op));
  if (error) {
    if (op.part == op.extent) ++store_.read_errors.met;
    op.unreadable_here = true;
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
  if (op.part != op.extent) return next_part(op);
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
  m.extent = op.part;
  const auto into = part_of(op);
  op.on_link = true;
  take_share(op, into.size());  // a medium error is rare: it is counted, and does not wait
  outbound_.send(m, {}, into, [this, &op](const IoResult<Message>& result) {
    came_off_link(op);
    on_fetched(op, result);
  });
}

void Sequencer::on_fetched(Op& op, const IoResult<Message>& result) {
  if (op.dropped) return finish(op, not_started(op));
  const bool whole = op.part == op.extent;
  if (result && result->status == Errc::ok && result->payload == op.part.length)
    return whole ? repair(op) : next_part(op);
  const bool lost_on_both = result && result->status == Errc::io_error && !standing_.serves_nothing();
  if (lost_on_both && whole && op.extent.length > store_.info.block_size) return next_part(op);
  if (!lost_on_both) return fail_read(op, Errc::io_error);
  op.status = Errc::io_error;
  answer_read(op);
}

/// Rewrites what could not be read, or what a failed write may have left. The range is locked and the bytes are the
/// partner's, or those that were just read; a tear is covered by the bits. What could not be read is written by whole
/// physical blocks: the one bad sector would cost a member its replica else.
void Sequencer::repair(Op& op) {
  op.part = store_.indeterminate.overlap(op.extent) ? op.extent : store_.whole_blocks(op.extent);
  if (op.part.empty()) return answer_repaired(op);
  op.stage = Stage::repairing;
  op.local_busy = true;
  op.since = clock_.now();
  store_.meta->set_dirty(op.part, [this, &op](std::error_code error) {
    if (error) {
      store_.fail_metadata("The dirty map can't be written.");
      op.local_busy = false;
      return finish(op, Errc::io_error);
    }
    space_.ensure(op.part, [this, &op](std::error_code full) {
      if (full) return on_repaired(op, full);
      store_.data.write(op.part.offset, part_of(op), engine::Durability::durable,
                        [this, &op](std::error_code failed) { on_repaired(op, failed); });
    });
  });
}

void Sequencer::on_repaired(Op& op, std::error_code failed) {
  op.local_busy = false;
  const bool indeterminate = store_.indeterminate.overlap(op.extent);
  if (failed && failed != Errc::no_space) store_.fail("The store could not rewrite what it could not read.");
  if (!failed) store_.indeterminate.settle(op.part);
  if (!failed && op.unreadable_here && op.part == op.extent) ++store_.read_errors.rewritten;
  if (op.dropped) return finish(op, not_started(op));
  if (failed && indeterminate) return fail_read(op, Errc::io_error);
  answer_repaired(op);
}

void Sequencer::answer_repaired(Op& op) { op.opcode == DiskOpcode::read ? answer_read(op) : on_compared(op); }

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

}  // namespace lockstep::replication
