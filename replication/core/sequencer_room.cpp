// Room for a write on thin stores, before any member has any of it: a member that has none refuses it for all, and
// nothing of it is written anywhere. Its range stays locked meanwhile, so that nothing that overlaps overtakes it.
#include "replication/core/marks.hpp"
#include "replication/core/sequencer.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

/// The target of a resync is no member: what it has no room for ends the resync, not the write.
void Sequencer::make_room(Op& op) {
  const Space& space = space_;
  if (!space.takes(op.opcode, op.may_unmap)) return mark_dirty(op);
  const bool here = op.room_here || space.is_here(op.extent);
  const bool there = op.room_there || !standing_.in_sync() || space.is_there(op.extent);
  if (here && there) return mark_dirty(op);
  there || (!here && !space.partner_was_full()) ? reserve_here(op) : reserve_there(op);
}

void Sequencer::reserve_here(Op& op) {
  op.stage = Stage::reserving;
  op.local_busy = true;
  op.since = clock_.now();
  space_.reserve(op.extent, [this, &op](std::error_code error) { on_room_here(op, error); });
}

void Sequencer::on_room_here(Op& op, std::error_code error) {
  if (error && error != Errc::no_space && !op.dropped && !standing_.is_alone()) {
    store_.fail("The store can't set space aside: " + error.message() + ".");
  }
  op.local_busy = false;
  if (op.dropped) return finish(op, not_started(op));
  if (error == Errc::no_space) return refuse(op);
  if (error && standing_.is_alone()) return finish(op, error);
  if (error) {
    standing_.gated ? take_back(op) : finish(op, not_started(op));
    return check_drained();
  }
  op.room_here = true;
  make_room(op);
}

void Sequencer::reserve_there(Op& op) {
  if (!outbound_.ready || (!op.entry && !share_.ready())) return wait_for_partner(op);
  mark<"space.asked_the_partner">();
  op.stage = Stage::reserving;
  op.on_link = true;
  if (!op.entry) take_share(op, 0);
  op.since = clock_.now();
  Message m = outbound_.message(MessageType::reserve);
  m.extent = space_.around(op.extent);
  outbound_.send(m, {}, {}, [this, &op, asked = space_.moment()](const IoResult<Message>& result) {
    on_room_there(op, result, asked);
  });
}

void Sequencer::on_room_there(Op& op, const IoResult<Message>& result, std::uint64_t asked) {
  // One of an earlier version finds out when it writes.
  const bool never_says = !result && result.error() == Errc::corrupt;
  const bool said = never_says || (result && (result->status == Errc::ok || result->status == Errc::no_space));
  // Said of the epoch that it was asked in: of a target since then it says nothing.
  if (!said && result && standing_.in_sync()) user_.on_partner_refused();
  came_off_link(op);
  if (op.dropped) return finish(op, not_started(op));
  if (said && result && result->status == Errc::no_space) {
    space_.note_partner_full();
    if (standing_.in_sync()) return refuse(op);
  } else if (said) {
    space_.note_there(never_says ? engine::Extent{0, store_.volume_size()} : result->extent, asked);
    op.room_there = true;
  } else if (standing_.in_sync()) {
    return wait_for_partner(op);
  }
  make_room(op);
}

/// Until the two talk again, there is room on the link, or it goes on without the partner; a transition waits for
/// nobody who waits.
void Sequencer::wait_for_partner(Op& op) {
  op.stage = Stage::reserve_wait;
  if (drained_) take_back(op);
  check_drained();
}

void Sequencer::ask_again() {
  const auto may = [this](const Op& o) {
    if (o.stage != Stage::reserve_wait) return false;
    if (standing_.is_alone()) return true;
    return standing_.in_sync() && outbound_.ready && (o.entry || share_.ready());
  };
  while (Op* op = find(may)) {
    op->stage = Stage::reserving;
    make_room(*op);
  }
}

void Sequencer::refuse(Op& op) {
  mark<"space.refused">();
  finish(op, Errc::no_space);
}

/// It is nobody's loss when it comes again, on this path or another.
std::error_code Sequencer::not_started(const Op& op) {
  if (op.entry) return Errc::stale;
  return op.dropped && op.status ? op.status : make_error_code(Errc::not_serving);
}

/// Back to where operations are held while a transition is under way, or to the partner who sent it.
void Sequencer::take_back(Op& op) {
  if (op.stage == Stage::equal_wait) resync_.forget(op);
  op.stage = Stage::held;
  active_.remove(op);
  op.scratch.reset();
  if (!op.lock.idle()) store_.locks.cancel(op.lock);
  user_.route(op);
}

}  // namespace lockstep::replication
