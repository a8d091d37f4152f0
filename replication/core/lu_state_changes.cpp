// Changes of the logical unit's state: decided by the node that orders, durable on both, then in force.
#include <algorithm>
#include <cstring>

#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;
using scsi::LuEvent;
using scsi::LuState;

namespace {
/// Changes were missed, and nobody says which: a reset may be among them, a reservation was perhaps preempted, a mode
/// parameter changed.
const LuEvent kMissedSome{.kind = scsi::LuAttention::bus_reset};

bool ends_some_tasks(std::span<const LuEvent> events) { return std::ranges::any_of(events, scsi::ends_tasks); }
}  // namespace

/// Whichever node the reset came to. What waits here ends now, what is under way is waited for, and what is still to
/// come of a command that came before is refused (has_ended()).
void LuStateKeeper::end_tasks(std::vector<LuEvent> events) {
  if (!ends_some_tasks(events)) return;
  ended_.note(events, clock_.now());
  user_.end_unstarted(Selection::ended_by(events));
}

/// Of what is told here.
bool LuStateKeeper::has_missed_some(const Message& m, const LuState& told) const {
  const std::uint64_t mine = in_force_.state().version;
  const bool late = m.flags & (standing_.in_sync() ? kFlagAgree : kFlagLate);
  return told.version > mine + 1 || (told.version != mine && late);
}

/// One thing at a time; whatever ends one of them pumps again.
void LuStateKeeper::pump() {
  again_ = true;
  if (pumping_) return;
  pumping_ = true;
  while (std::exchange(again_, false)) {
    while (step()) {
    }
  }
  pumping_ = false;
}

/// True: something was done, look again.
bool LuStateKeeper::step() {
  if (writing_ || telling_) return false;
  if (incoming_) return step_incoming();
  if (standing_.serves_nothing()) {
    in_force_.open = false;
    return false;
  }
  return standing_.orders() ? step_ordering() : step_following();
}

bool LuStateKeeper::step_ordering() {
  if (standing_.in_sync() && !agreed_) {
    in_force_.open = false;
    const bool newest = change_ && change_->written;
    if (may_tell())
      tell(newest ? change_->state : in_force_.state(), newest ? change_->events : std::vector<LuEvent>{}, true);
    return false;
  }
  if (change_) return step_change();
  if (begin_next()) return true;
  if (!in_force_.open) set_open(true);
  if (standing_.is_alone() && target_there_ && !target_told_ && may_tell() && !change_)
    tell(in_force_.state(), {}, false);
  return false;
}

/// Its own requests first: what a crash ended is ended before anything else is judged.
bool LuStateKeeper::begin_next() {
  if (std::exchange(power_on_, false)) return begin(own_request(scsi::LuRequestKind::power_on), nullptr), true;
  if (standing_.is_alone() && std::exchange(port_lost_, false)) {
    return begin(own_request(scsi::LuRequestKind::port_lost), nullptr), true;
  }
  Op* op = changes_.pop_front();
  if (!op) return false;
  partner_.check();
  const auto request = scsi::LuRequest::decode(op->data);
  if (!request) {
    completions_.finish(*op, Errc::corrupt);
  } else {
    begin(*request, op);
  }
  return true;
}

scsi::LuRequest LuStateKeeper::own_request(scsi::LuRequestKind kind) const {
  const auto port_of = [](engine::NodeSide side) { return static_cast<std::uint16_t>(unsigned(side) + 1); };
  scsi::LuRequest request;
  request.kind = kind;
  request.port = port_of(engine::other(standing_.side()));
  request.survivor = port_of(standing_.side());
  return request;
}

bool LuStateKeeper::ends_with_power(const LuState& state) const {
  return scsi::apply(state, own_request(scsi::LuRequestKind::power_on)).changed;
}

void LuStateKeeper::begin(const scsi::LuRequest& request, Op* op) {
  scsi::LuOutcome outcome = scsi::apply(in_force_.state(), request);
  if (op) op->lu_answer = outcome.answer.encode();
  if (!outcome.changed) {
    if (op) answer_op(*op, {});
    return;
  }
  mark<"lu_state.changed">();
  in_force_.open = false;
  change_.emplace(Change{std::move(outcome.next), std::move(outcome.events), outcome.answer, op, false, false});
  end_tasks(change_->events);
}

bool LuStateKeeper::step_change() {
  if (in_force_.passed() > 0 && !change_->written) return false;  // the last of them pumps
  if (!change_->written) {
    write(change_->state, [this] {
      if (change_) change_->written = true;
    });
    return false;
  }
  if (!change_->told && (standing_.in_sync() || (target_there_ && partner_.in_contact()))) {
    if (may_tell()) tell(change_->state, change_->events, false);
    if (outbound_.ready || standing_.in_sync()) return false;
  }
  Change done = std::move(*change_);
  change_.reset();
  install(std::move(done.state), std::move(done.events));
  if (done.op) answer_op(*done.op, {}, true);
  return true;
}

/// Both slots, each flushed. An area without room keeps nothing: it was made before there was such a state.
void LuStateKeeper::write(const LuState& state, engine::Callback<> then) {
  writing_ = true;
  writing_since_ = clock_.now();
  auto over = [this, then = std::move(then)](std::error_code error) mutable {
    if (error) return fail_write(error);
    writing_ = false;
    then();
    pump();
  };
  if (!store_.meta->keeps_state()) {
    timer_ = clock_.call_after(engine::Duration(0), [over = std::move(over)]() mutable { over({}); });
    return;
  }
  store_.meta->write_state(state.encode(), std::move(over));
}

/// Nobody knows what is on the store: this replica stops, and what was to be written is an unknown outcome.
void LuStateKeeper::fail_write(std::error_code error) {
  store_.fail_metadata("The unit's state can't be written: " + error.message() + ".");
  writing_ = false;
  change_.reset();
  if (!incoming_) return;
  if (incoming_->request) answer(*incoming_->request, incoming_->message, Errc::io_error);
  incoming_.reset();
}

// ---- told by the one, done by the other --------------------------------------------------------------------------

void LuStateKeeper::tell(const LuState& state, std::span<const LuEvent> events, bool agree) {
  struct Bytes {
    std::vector<std::byte> out;
    std::vector<std::byte> in = std::vector<std::byte>(scsi::kMaxLuState);
  };
  auto bytes = std::make_unique<Bytes>();
  const auto encoded_state = state.encode();
  const auto encoded_events = scsi::encode_events(events);
  bytes->out = encoded_state;
  bytes->out.insert(bytes->out.end(), encoded_events.begin(), encoded_events.end());
  Message m = outbound_.message(MessageType::lu_state);
  m.sequence = state.version;
  m.extent = {encoded_state.size(), encoded_events.size()};
  if (agree) m.flags |= kFlagAgree;
  if (agree && power_on_ && ends_with_power(state)) m.flags |= kFlagPowerOn;
  if (!agree && !change_) m.flags |= kFlagLate;
  telling_ = true;
  const std::span<const std::byte> out = bytes->out;
  const std::span<std::byte> in = bytes->in;
  auto answered = [this, version = state.version, agree, run = telling_run_, epoch = standing_.epoch().id,
                   keep = std::move(bytes)](const IoResult<Message>& result) {
    if (run != telling_run_) return;
    const std::size_t got = result ? std::min<std::size_t>(result->payload, keep->in.size()) : 0;
    on_told(version, agree, epoch, result, std::span(keep->in).first(got));
  };
  outbound_.send(m, out, in, counted(outbound_.owed, std::move(answered)));
}

/// In another role nobody waits for an answer to what was told in the last one; a partner whose disk hangs never
/// gives it.
void LuStateKeeper::forget_telling() {
  ++telling_run_;
  telling_ = false;
}

/// What did not get through is told again with the next tick, as long as this node orders.
void LuStateKeeper::on_told(std::uint64_t version, bool agree, const engine::Uuid& epoch,
                            const IoResult<Message>& result, std::span<const std::byte> payload) {
  telling_ = false;
  if (epoch != standing_.epoch().id || !standing_.orders()) return pump();
  const bool done = result && result->status == Errc::ok;
  if (!done) next_tell_ = clock_.now() + std::chrono::milliseconds(20);
  if (standing_.is_alone()) {
    target_told_ = done;
    if (change_ && change_->state.version == version) change_->told = true;
    return pump();
  }
  if (agree && result && result->status == Errc::miscompare) {
    if (auto theirs = LuState::decode(payload); theirs && theirs->version > version) take_theirs(std::move(*theirs));
    return pump();
  }
  if (done && agree) agreed_ = true;
  if (!done) return;
  if (change_ && change_->state.version == version) change_->told = true;
  pump();
}

/// The other member saw a newer state than this one: it may have been in force, and is now.
void LuStateKeeper::take_theirs(LuState theirs) {
  mark<"lu_state.partner_knew_newer">();
  if (change_ && change_->op) {
    change_->op->stage = Stage::held;
    changes_.push_back(*change_->op);  // asked again of the newer state, which knows the requests that it came from
  }
  change_.reset();
  incoming_.emplace(Incoming{nullptr, {}, std::move(theirs), {kMissedSome}, false});
  end_tasks(incoming_->events);
}

void LuStateKeeper::take(InboundRequest& request, const Message& m) {
  const bool follows = standing_.is_forwarding() || standing_.in_sync();
  if (m.epoch != standing_.epoch().id || standing_.epoch().sequencer == standing_.side() || !follows || incoming_ ||
      writing_) {
    return answer(request, m, Errc::stale);
  }
  const auto payload = request.payload();
  if (m.extent.offset > payload.size() || m.extent.length != payload.size() - m.extent.offset) {
    return answer(request, m, Errc::corrupt);
  }
  auto state = LuState::decode(payload.first(m.extent.offset));
  auto events = scsi::decode_events(payload.subspan(m.extent.offset));
  if (!state || !events || state->version != m.sequence) {
    mark<"lu_state.makes_no_sense">();
    return answer(request, m, Errc::corrupt);
  }
  const bool current = standing_.in_sync() || known_;
  if (standing_.in_sync() && (m.flags & kFlagAgree) && in_force_.state().version > state->version) {
    auto bytes = std::make_unique<std::vector<std::byte>>(in_force_.state().encode());
    if (bytes->size() > request.max_answer_payload()) return answer(request, m, Errc::corrupt);
    Message header;
    header.type = m.type;
    header.volume = m.volume;
    header.status = Errc::miscompare;
    const std::span<const std::byte> mine = *bytes;
    return answer(request, header, mine, [keep = std::move(bytes)] {});
  }
  if (current && state->version == in_force_.state().version) {
    note_told(m);
    answer(request, m, Errc::ok);
    return pump();
  }
  in_force_.open = false;
  incoming_.emplace(Incoming{&request, m, std::move(*state), std::move(*events), false});
  if (has_missed_some(m, incoming_->state)) incoming_->events.push_back(kMissedSome);
  end_tasks(incoming_->events);
  pump();
}

/// By the node that orders, in the epoch in force.
void LuStateKeeper::note_told(const Message& m) {
  power_on_ = (m.flags & kFlagAgree) && (m.flags & kFlagPowerOn);
  agreed_ |= (m.flags & kFlagAgree) != 0;
}

bool LuStateKeeper::step_incoming() {
  if (in_force_.passed() > 0 && standing_.in_sync()) return false;  // reads that were checked under the old state
  // Until none can be begun there.
  if (ends_some_tasks(incoming_->events) && forwarder_.has_dropped_tasks()) return false;
  if (!incoming_->written) {
    write(incoming_->state, [this] {
      if (incoming_) incoming_->written = true;
    });
    return false;
  }
  Incoming done = std::move(*incoming_);
  incoming_.reset();
  mark<"lu_state.taken">();
  install(std::move(done.state), std::move(done.events));
  if (!done.request) return true;
  const bool same = done.message.epoch == standing_.epoch().id;
  if (same && standing_.is_forwarding()) known_ = true;
  if (same) note_told(done.message);
  answer(*done.request, done.message, same ? Errc::ok : Errc::stale);
  return true;
}

/// Not the node that orders: what waits here goes there; what was made durable here may be in force there.
bool LuStateKeeper::step_following() {
  if (change_ && change_->written && standing_.in_sync()) {
    Change done = std::move(*change_);
    change_.reset();
    if (done.op) changes_.push_back(*done.op);
    install(std::move(done.state), std::move(done.events));
  } else if (change_) {
    if (change_->op) changes_.push_back(*change_->op);
    change_.reset();
  }
  List<Op> waiting;
  changes_.splice_to(waiting);
  while (Op* op = waiting.pop_front()) user_.route(*op);
  const bool may_open = standing_.in_sync() ? agreed_ && !power_on_ : known_;
  if (may_open == in_force_.open) return false;
  set_open(may_open);
  return may_open;
}

}  // namespace lockstep::replication
