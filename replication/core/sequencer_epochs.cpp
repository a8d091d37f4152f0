// What becomes of operations when the way to the partner breaks, a transition begins, or an epoch ends.
#include <algorithm>
#include <vector>

#include "replication/core/marks.hpp"
#include "replication/core/sequencer.hpp"

namespace lockstep::replication {

using engine::Errc;

/// By rising numbers, as they were sent first; then those that were not sent yet.
void Sequencer::resend() {
  told_ = 0;
  while (for_link_.pop_front()) {
  }
  std::vector<Op*> again;
  active_.for_each([&](Op& op) {
    if (op.stage != Stage::issued || op.remote != Remote::wanted || op.on_link) return;
    again.push_back(&op);
  });
  std::ranges::stable_sort(again, {}, [](const Op* op) { return op->sequence - 1; });
  for (Op* op : again) {
    mark<"replicate.resent">();
    send(*op);
  }
  ask_again();
  owe_watermark();
}

void Sequencer::drop_remote() {
  const auto waits = [](const Op& o) {
    return o.stage == Stage::issued && (o.remote == Remote::wanted || o.remote == Remote::sent);
  };
  while (Op* op = find(waits)) {
    op->remote = Remote::none;
    settle(*op);
  }
  ask_again();
}

/// After drop_remote(). The partner has it, or was not asked: a store that hung alone may fail it while nobody serves.
void Sequencer::end_failed() {
  const auto failed = [](const Op& o) {
    return o.stage == Stage::issued && o.local_error && !o.local_busy && !o.on_link;
  };
  while (Op* op = find(failed)) settle(*op);
}

bool Sequencer::has_failed() const {
  bool found = false;
  active_.for_each([&](const Op& op) { found |= op.stage == Stage::issued && op.local_error; });
  return found;
}

/// Marks what was not issued and ends what nothing uses; the rest ends when the store or the link returns it.
void Sequencer::drop(const Selection& which) {
  active_.for_each([&](Op& op) {
    if (op.dropped || op.stage == Stage::issued || !which.covers(op)) return;
    op.dropped = true;
    op.status = which.status();
  });
  const auto can_end = [](const Op& o) { return o.dropped && o.stage != Stage::issued && !o.local_busy && !o.on_link; };
  while (Op* op = find(can_end)) finish(*op, not_started(*op));
}

bool Sequencer::counts_for_drain(const Op& op) const {
  // It would be sent again for ever. What becomes of it is for the partner's epoch to say: this replica is made equal.
  const bool refused = op.remote == Remote::wanted && op.remote_error;
  if (refused && drain_ == Drain::leaves_to_next_process) return op.local_busy && !store_.failed;
  // A write that the local store failed or holds for ever waits for the transition that the drain belongs to.
  if (store_.failed && op.local_busy) return op.remote == Remote::wanted || op.remote == Remote::sent;
  const bool failed = op.stage == Stage::issued && !op.local_busy && op.local_error && !op.on_link;
  return !failed || !(op.remote == Remote::done || (refused && drain_ == Drain::leaves));
}

void Sequencer::take_back_waiting() {
  const auto waits = [](const Op& o) {
    const bool waiting = o.stage == Stage::equal_wait || o.stage == Stage::lock_wait || o.stage == Stage::lease_wait ||
                         o.stage == Stage::confirm_wait || o.stage == Stage::reserve_wait;
    return waiting && !o.local_busy;
  };
  while (Op* op = find(waits)) take_back(*op);  // held, or sent back to the partner
}

void Sequencer::drain(engine::Callback<> done, Drain how) {
  drain_ = how;
  take_back_waiting();
  drained_ = std::move(done);
  owe_watermark();
  check_drained();
}

void Sequencer::check_drained() {
  if (!drained_) return;
  bool busy = false;
  active_.for_each([&](Op& op) { busy |= counts_for_drain(op); });
  if (busy) return;
  auto done = std::exchange(drained_, nullptr);
  done();
}

/// What only the partner has counts only in an epoch of the partner's alone: in one of both, this replica may be the
/// one that orders after both lost power.
void Sequencer::settle_after_leaving() {
  const bool counts = !standing_.epoch().members.contains(standing_.side());
  const auto over = [](const Op& o) { return o.stage == Stage::issued && !o.local_busy && !o.on_link; };
  while (Op* op = find(over)) {
    const bool known = op->remote == Remote::done && (counts || !op->local_error);
    finish(*op, known ? std::error_code{} : make_error_code(Errc::unknown_outcome));
  }
}

/// Where there is no memory for the copy, the next call tries again: each request that ends gives back as much.
void Sequencer::end_requests_given_up() {
  const auto waits = [](const Op& o) {
    return o.stage == Stage::issued && o.cancelled() && !o.local_busy && !o.on_link;
  };
  while (Op* op = find(waits)) {
    if (!op->payload.empty()) {
      engine::Buffer copy = buffers_.allocate(op->payload.size());
      if (!copy) return;
      std::ranges::copy(op->payload, copy.data());
      op->scratch = std::move(copy);
      op->payload = op->scratch.span();
    }
    mark<"sequencer.outlives_its_request">();
    completions_.end_request_of(*op, Errc::unknown_outcome);
  }
}

bool Sequencer::has_outlived() const {
  bool found = false;
  active_.for_each([&](const Op& op) { found |= op.outlives_its_request(); });
  return found;
}

bool Sequencer::on_link() {
  return find([](const Op& o) { return o.on_link; }) != nullptr;
}

bool Sequencer::holds_link_since(engine::TimePoint limit) {
  return find([&](const Op& o) { return o.on_link && o.since < limit; }) != nullptr;
}

bool Sequencer::stuck_on_link(engine::TimePoint limit) {
  return find([&](const Op& o) { return o.on_link && o.remote == Remote::none && o.since < limit; }) != nullptr;
}

bool Sequencer::has_older_than(engine::TimePoint limit) {
  bool found = false;
  active_.for_each([&](Op& op) { found |= op.local_busy && op.is_overdue(limit); });
  return found;
}

}  // namespace lockstep::replication
