#include "replication/core/applier.hpp"

#include <algorithm>

#include "engine/base/copy_bytes.hpp"
#include "replication/core/marks.hpp"
#include "replication/core/write_same.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;
using engine::LockMode;

Applier::~Applier() {
  applies_.for_each([](Apply& a) { a.lock.granted = [](engine::RangeLock::Node&) {}; });
  applies_.for_each([this](Apply& a) {
    store_.locks.cancel(a.lock);
    pool_.destroy(a);
  });
}

/// Orders come from the sequencer of the very epoch that is durable here, to its other member or its target. While
/// sessions are kept, and from the end of the lease on, none is taken: what this node holds for its initiators must not
/// come after what the partner acknowledges.
bool Applier::accepts(const Message& m) const {
  const bool lease_is_over = standing_.has_lease() && !standing_.lease_valid();
  return !closed_ && !standing_.keeps_sessions() && !lease_is_over && m.epoch == standing_.epoch().id &&
         standing_.epoch().sequencer != standing_.side() && !store_.failed;
}

void Applier::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (m.type == MessageType::map) return map(request, m);
  const bool of_resync = m.type == MessageType::copy || m.type == MessageType::clear || m.type == MessageType::flush;
  if (of_resync && !may_be_resynced()) {
    mark<"apply.source_has_another_map">();
    return answer(request, m, Errc::stale);
  }
  if (m.type == MessageType::fetch || m.type == MessageType::flush) {
    if (m.epoch != standing_.epoch().id || closed_ || store_.failed) return answer(request, m, Errc::stale);
    if (m.epoch == standing_.epoch().id && standing_.epoch().sequencer != standing_.side()) on_watermark(m.watermark);
    return m.type == MessageType::fetch ? fetch(session, request, m) : flush(session, request, m);
  }
  if (!accepts(m)) {
    mark<"apply.stale_order_refused">();
    return answer(request, m, Errc::stale);
  }
  on_watermark(m.watermark);
  switch (m.type) {
    case MessageType::replicate:
      return replicate(session, request, m);
    case MessageType::copy:
      return copy(session, request, m);
    case MessageType::clear:
      return clear(request, m);
    case MessageType::reserve:
      return reserve(session, request, m);
    case MessageType::equal:
      user_.on_stores_equal();
      [[fallthrough]];
    default:
      return answer(request, m, Errc::ok);
  }
}

Apply& Applier::make(std::uint64_t session, InboundRequest& request, const Message& m) {
  Apply& a = pool_.make(*this);
  a.request = &request;
  a.session = session;
  a.message = m;
  applies_.push_back(a);
  if (m.type == MessageType::replicate) highest_ = std::max(highest_, m.sequence);
  return a;
}

template <class Pred>
Apply* Applier::find_if(Pred pred) {
  for (Apply* a = applies_.front(); a; a = List<Apply>::next(a)) {
    if (pred(*a)) return a;
  }
  return nullptr;
}

/// An order that comes for the first time has a higher number than all before, mostly.
Apply* Applier::find(std::uint64_t sequence) {
  if (sequence > highest_) return nullptr;
  return find_if(
      [&](const Apply& a) { return a.message.type == MessageType::replicate && a.message.sequence == sequence; });
}

bool Applier::is_well_formed(const Message& m, std::size_t payload) const {
  const std::uint64_t block = store_.info.block_size;
  const bool refers = m.flags & kFlagByReference;
  if (refers && (payload != 0 || m.tag == 0)) return false;
  if (refers) payload = m.opcode == DiskOpcode::write_same ? block : m.extent.length;
  if (m.extent.empty() || !m.extent.fits(store_.volume_size())) return false;
  if (m.extent.offset % block || m.extent.length % block) return false;
  switch (m.opcode) {
    case DiskOpcode::write:
      return payload == m.extent.length;
    case DiskOpcode::write_same:
      return payload == block;
    case DiskOpcode::write_zeroes:
    case DiskOpcode::unmap:
      return payload == 0;
    case DiskOpcode::renew_key:
      return payload == 0 && store_.info.encrypted && m.extent == engine::Extent{0, store_.volume_size()};
    default:
      return false;
  }
}

void Applier::replicate(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (!is_well_formed(m, request.payload().size())) return answer(request, m, Errc::corrupt);
  if (m.tag) forwarder_.note_ordered(m.tag);
  if (m.tag && !forwarder_.has_given_up()) release_answers();
  // Its sender waits for no number that its own watermark covers.
  if (m.sequence <= watermark_) return refuse_number(request, m);
  if (Apply* twin = find(m.sequence)) return take_again(*twin, session, request, m);
  Apply& a = make(session, request, m);
  if ((m.flags & kFlagByReference) && !take_data(a)) {
    if (!keeps_places()) return end(a, Errc::refused);
    a.stage = Apply::Stage::lacks;
    answer(*std::exchange(a.request, nullptr), m, Errc::refused);
  }
  start(a);
}

void Applier::refuse_number(InboundRequest& request, const Message& m) {
  mark<"apply.number_used_twice">();
  answer(request, m, Errc::stale);
  user_.on_number_used_twice(m.process);
}

void Applier::take_again(Apply& twin, std::uint64_t session, InboundRequest& request, const Message& m) {
  const Message& first = twin.message;
  if (m.extent != first.extent || m.opcode != first.opcode || m.tag != first.tag) return refuse_number(request, m);
  if (twin.stage == Apply::Stage::lacks) return take_what_lacked(twin, session, request, m);
  mark<"apply.duplicate">();
  const bool applied = twin.stage == Apply::Stage::applied;
  if (applied && !twin.held) return answer(request, m, twin.failed ? Errc::stale : Errc::ok);
  // It came by a session that is gone, and the store still has it, or the answer is held back.
  applied ? mark<"apply.duplicate_held_back">() : mark<"apply.duplicate_under_way">();
  if (twin.again) answer(*twin.again, m, Errc::stale);
  twin.again = &request;
  twin.session = session;
}

void Applier::take_what_lacked(Apply& a, std::uint64_t session, InboundRequest& request, const Message& m) {
  a.message = m;
  if ((m.flags & kFlagByReference) && !take_data(a)) return answer(request, m, Errc::refused);
  mark<"apply.data_came_after_all">();
  a.stage = Apply::Stage::waits;
  a.request = &request;
  a.session = session;
  if (a.lock.held()) run(a);
}

/// False: the forward is over, or of another process, or there is no memory. The sequencer has the data.
bool Applier::take_data(Apply& a) {
  const auto data = forwarder_.data_of(a.message);
  if (data.empty()) {
    mark<"apply.unknown_reference">();
    return false;
  }
  a.buffer = buffers_.allocate(data.size());
  if (!a.buffer) {
    mark<"apply.no_memory_for_reference">();
    return false;
  }
  engine::copy_bytes(data, a.buffer.span());
  return true;
}

std::span<const std::byte> Applier::data_of(const Apply& a) {
  return a.buffer ? std::span<const std::byte>(a.buffer.span()) : a.request->payload();
}

void Applier::start(Apply& a) {
  a.lock.owner = &a;
  a.lock.granted = &Applier::on_granted;
  if (store_.locks.acquire(a.lock, a.message.extent, LockMode::exclusive)) return run(a);
  commit(a.message.extent);
}

/// The sequencer orders nothing that overlaps an operation before that one is finished on both: those that are done
/// here are committed, though the watermark waits for a slower one somewhere else.
void Applier::commit(engine::Extent extent) {
  const auto finished = [&](const Apply& a) { return a.is_shown_later() && a.message.extent.overlaps(extent); };
  while (Apply* done = find_if(finished)) let_go(*done);  // which may let others run
}

void Applier::show(std::uint64_t tag) {
  Apply* a = find_if([&](const Apply& x) { return x.message.tag == tag && x.is_shown_later(); });
  if (a) unlock(*a);
}

void Applier::on_granted(engine::RangeLock::Node& node) {
  Apply& a = *static_cast<Apply*>(node.owner);
  a.applier.run(a);
}

namespace {
bool may_unmap(const Message& m) { return m.flags & kFlagMayUnmap; }
}  // namespace

/// A member was asked for the space before; a target is not, and what makes stores equal asks nobody.
void Applier::run(Apply& a) {
  if (a.stage != Apply::Stage::waits) return;
  const Message& m = a.message;
  a.stage = Apply::Stage::at_work;
  a.since = clock_.now();
  const bool asks = m.type == MessageType::copy || !standing_.epoch().members.contains(standing_.side());
  if (!asks || !space_.takes(m.opcode, may_unmap(m))) return mark_dirty(a);
  space_.ensure(m.extent, [this, &a](std::error_code error) { error ? on_stored(a, error) : mark_dirty(a); });
}

void Applier::mark_dirty(Apply& a) {
  if (store_.meta->is_durably_dirty(a.message.extent)) return store(a);
  store_.meta->set_dirty(a.message.extent, [this, &a](std::error_code error) {
    if (!error) return store(a);
    store_.fail_metadata("The dirty map can't be written.");
    end(a, Errc::io_error);
  });
}

void Applier::store(Apply& a) {
  const Message& m = a.message;
  const bool copied = m.type == MessageType::copy;
  // A target's copies are flushed before it joins; a member's are used as soon as they are answered.
  const bool lazily = copied && standing_.is_forwarding();
  const auto durability = lazily   ? engine::Durability::cached
                          : copied ? engine::Durability::durable
                                   : store_.durability(m.flags & kFlagFua);
  auto done = [this, &a](std::error_code error) { on_stored(a, error); };
  if (space_.frees(m.opcode, may_unmap(m))) space_.begin_freeing(m.extent);
  switch (m.opcode) {
    case DiskOpcode::write_zeroes:
      if (!may_unmap(m) || !store_.info.thin) return store_.data.write_zeroes(m.extent, durability, std::move(done));
      [[fallthrough]];
    case DiskOpcode::unmap:
      return store_.data.discard(m.extent, durability, std::move(done));
    case DiskOpcode::renew_key:
      store_.note_new_key();
      return store_.data.renew_key(std::move(done));
    case DiskOpcode::write_same:
      return write_same(store_.data, buffers_, clock_, m.extent, data_of(a), durability, a.since, std::move(done));
    default:
      return store_.data.write(m.extent.offset, data_of(a), durability, std::move(done));
  }
}

void Applier::on_stored(Apply& a, std::error_code error) {
  store_.note_returned();
  if (space_.frees(a.message.opcode, may_unmap(a.message))) space_.end_freeing();
  error ? store_.indeterminate.add(a.message.extent) : store_.indeterminate.settle(a.message.extent);
  if (!error && a.message.opcode != DiskOpcode::renew_key) store_.note_written(a.message.extent);
  if (error) store_.fail("The store failed a write of the partner's: " + error.message() + ".", error);
  // No watermark will ever cover an order of an epoch that is over: what a hung store kept until now ends here.
  const bool over_already = a.message.epoch != standing_.epoch().id;
  if (over_already) mark<"apply.outlived_its_epoch">();
  const bool ends = a.message.type != MessageType::replicate || standing_.is_forwarding() || over_already;
  if (error) {
    if (ends) return end(a, Errc::io_error);
  } else {
    if (a.message.type == MessageType::replicate && a.message.tag && !over_already) {
      forwarder_.note_applied(a.message.tag);
    }
    if (ends) return end(a, over_already ? Errc::stale : Errc::ok);
  }
  a.stage = Apply::Stage::applied;
  a.failed = bool(error);
  a.buffer.reset();
  const std::uint64_t tag = a.message.tag;
  // A host whose session ended here may have sent its write again through the sequencer, and this be it (it is none of
  // this node's forwards): what it sent first may still be on its way there.
  a.held = a.message.tag == 0 && forwarder_.has_given_up();
  if (a.held) {
    ++held_;
    mark<"apply.answer_held_back">();
    return over();
  }
  answer_both(a, error ? Errc::io_error : Errc::ok);
  if (a.message.sequence <= watermark_ && !error) let_go(a);
  over();
  if (tag != 0 && !error) forwarder_.end_applied(tag);
}

void Applier::answer_both(Apply& a, Errc status) {
  InboundRequest* again = std::exchange(a.again, nullptr);
  InboundRequest* request = std::exchange(a.request, nullptr);  // none: it lacks its data
  if (request) answer(*request, a.message, status);
  if (again) answer(*again, a.message, status);
}

void Applier::release_answers() {
  while (held_ != 0) {
    Apply* const a = find_if([](const Apply& x) { return x.held; });
    a->held = false;
    --held_;
    answer_both(*a, a->failed ? Errc::io_error : Errc::ok);
    if (a->message.sequence <= watermark_ && !a->failed) let_go(*a);
  }
}

void Applier::end(Apply& a, Errc status) {
  answer_both(a, status);
  let_go(a);
  over();
}

void Applier::let_go(Apply& a) {
  if (a.held) --held_;
  if (std::exchange(a.held, false)) answer_both(a, Errc::stale);
  applies_.remove(a);
  unlock(a);
  pool_.destroy(a);
}

void Applier::unlock(Apply& a) {
  if (a.lock.idle()) return;
  a.lock.granted = nullptr;
  store_.locks.cancel(a.lock);
}

void Applier::on_watermark(std::uint64_t watermark) {
  if (watermark <= watermark_) return;
  watermark_ = watermark;
  const auto covered = [&](const Apply& a) {
    return a.stage == Apply::Stage::applied && a.message.sequence <= watermark_;
  };
  while (Apply* done = find_if(covered)) let_go(*done);  // which may let others run
}

// ---- epochs ------------------------------------------------------------------------------------------------------

void Applier::over() {
  if (!quiet_) return;
  // A store that failed may never return what it has.
  const bool waits = quiet_waits_ == Wait::for_all || !store_.failed;
  if (waits && busy()) return;
  auto done = std::exchange(quiet_, nullptr);
  done();
}

void Applier::quiesce(Wait wait, engine::Callback<> done) {
  closed_ = true;
  while (Apply* waiting = find_if([](const Apply& a) { return !a.is_started(); })) {
    mark<"apply.dropped_with_its_epoch">();
    end(*waiting, Errc::stale);
  }
  quiet_ = std::move(done);
  quiet_waits_ = wait;
  over();
}

void Applier::open(bool new_epoch) {
  closed_ = false;
  quiet_ = nullptr;
  if (!new_epoch) return;
  watermark_ = 0;
  while (Apply* done = find_if([](const Apply& a) { return a.stage == Apply::Stage::applied; })) let_go(*done);
}

void Applier::drop_old(std::uint64_t current) {
  const auto is_old = [&](const Apply& a) { return a.stage == Apply::Stage::waits && a.session != current; };
  while (Apply* waiting = find_if(is_old)) {
    mark<"apply.dropped_with_its_session">();
    const bool keeps_its_place = waiting->message.type == MessageType::replicate && keeps_places();
    keeps_its_place ? lose_data(*waiting) : end(*waiting, Errc::stale);
  }
}

/// Nobody reads at a target, be it one that is suspended, and its source may go on without it before it hears that the
/// data lack: nothing would ever take such a place.
bool Applier::keeps_places() const { return standing_.epoch().members.is_both(); }

/// It comes again by the next session. A read that stood before it by then might wait for a later order's watermark,
/// which waits for this one.
void Applier::lose_data(Apply& a) {
  answer_both(a, Errc::stale);
  a.buffer.reset();
  a.stage = Apply::Stage::lacks;
}

void Applier::forget_sequences() {
  watermark_ = 0;
  while (Apply* lacking = find_if([](const Apply& a) { return a.stage == Apply::Stage::lacks; }))
    end(*lacking, Errc::stale);
}

/// What waits is not: it may wait for the partner, or behind what does, and that may be gone for good.
bool Applier::busy() {
  return find_if([](const Apply& a) { return a.stage == Apply::Stage::at_work; }) != nullptr;
}

bool Applier::has_older_than(engine::TimePoint limit) {
  return find_if([limit](const Apply& a) {
           return a.stage == Apply::Stage::at_work && a.since + allowance(a.message.opcode, a.message.extent) < limit;
         }) != nullptr;
}

bool Applier::has_failed() {
  return find_if([](const Apply& a) { return a.stage == Apply::Stage::applied && a.failed; }) != nullptr;
}

}  // namespace lockstep::replication
