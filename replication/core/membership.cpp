#include "replication/core/membership.hpp"

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;
using engine::MemberSet;

namespace {
constexpr engine::Duration kExchangeUnsettled = std::chrono::milliseconds(100);
constexpr engine::Duration kExchangeSettled = std::chrono::seconds(2);
constexpr engine::Duration kLeaveTimeout = std::chrono::seconds(10);
constexpr engine::Duration kCleanEvery = std::chrono::milliseconds(200);
constexpr engine::Duration kTrustAgainAfter = std::chrono::seconds(10);
}  // namespace

Membership::~Membership() = default;

ReplicaState Membership::state() const {
  ReplicaState s;
  s.record = core_.epoch();
  s.side = core_.side();
  s.running = running_;
  s.able = stable_ && !core_.store_failed && !metadata_failed_ && !leaving_ && !closed_;
  s.serving = core_.role == Role::sync || core_.role == Role::solo;
  s.changing = step_kind_ != Step::none;
  s.attempted = core_.witnessing->attempted();
  return s;
}

void Membership::begin() {
  attached_ = core_.now();
  core_.data.flush([this](std::error_code error) {
    if (error) core_.fail_store("The store failed its first flush: " + error.message() + ".");
    stable_ = !error;
    core_.applier->on_work_over = [this] { answer_states(); };
    exchange();
  });
}

void Membership::make_durable() {
  if (closed_ || core_.store_failed) return;
  if (flushing_++ == 0) flush_began_ = core_.now();
  core_.data.flush([this](std::error_code error) {
    --flushing_;
    if (error) core_.fail_store("The store failed a flush: " + error.message() + ".");
  });
}

// ---- exchange ----------------------------------------------------------------------------------------------------

void Membership::exchange() {
  if (!core_.partner.connected() || exchanging_ || closed_) return;
  exchanging_ = true;
  last_exchange_ = core_.now();
  struct Bytes {
    std::vector<std::byte> out, in = std::vector<std::byte>(kMaxStateBytes);
  };
  auto bytes = std::make_unique<Bytes>();
  bytes->out = encode_state(state());
  const std::span<const std::byte> out = bytes->out;
  const std::span<std::byte> in = bytes->in;
  core_.partner.send(state_message(), out, in,
                     [this, run = exchange_run_, keep = std::move(bytes)](const IoResult<Message>& result) {
                       if (result && run == exchange_run_) note_partner_room(*result);
                       const std::size_t got = result ? result->payload : 0;
                       on_state(run, result, std::span(keep->in).first(std::min(got, keep->in.size())));
                     });
}

void Membership::on_state(std::uint64_t run, const IoResult<Message>& result, std::span<const std::byte> payload) {
  if (run != exchange_run_) return;
  exchanging_ = false;
  if (closed_) return;
  partner_unknown_ = result && result->status == Errc::foreign;
  if (!result || result->status != Errc::ok) return;
  const auto theirs = decode_state(payload);
  if (!theirs || theirs->side == core_.side()) {
    mark<"membership.partner_makes_no_sense">();
    failure_ = "The partner's replica of this volume does not fit: same side, or a record that can't be read.";
    return;
  }
  // The volume grew without this replica, which makes room before it goes on.
  partner_is_larger_ = theirs->record.size > core_.room();
  if (partner_is_larger_) return core_.changed();
  const bool first = !core_.partner_ready;
  core_.partner_ready = true;
  partner_ = *theirs;
  agreed_ = theirs->record.id;
  act(*theirs);
  if (!first || !core_.partner_ready) return;
  core_.sequencer->resend();
  core_.forwarder->resend();
  core_.resync->go_on();
}

void Membership::take_state(std::uint64_t session, InboundRequest& request, const Message& m) {
  const auto theirs = decode_state(request.payload());
  if (!theirs) return answer(request, m, Errc::corrupt);
  note_partner_room(m);
  current_session_ = session;
  core_.applier->drop_old(session);
  states_to_answer_.push_back({&request, m, session});
  answer_states();
  if (core_.role == Role::solo && theirs->record.id == core_.epoch().id) core_.lu->on_target();
  const bool news = !partner_ || !(*partner_ == *theirs);
  if (news || verdict_ == Verdict::follow) {
    if (core_.now() - last_exchange_ > std::chrono::milliseconds(20)) exchange();
  }
}

/// The answer is this node's word that whatever came by older sessions is over.
void Membership::answer_states() {
  if (step_kind_ == Step::following || core_.applier->has_old_work(current_session_)) return;
  auto waiting = std::move(states_to_answer_);
  states_to_answer_.clear();
  for (const WaitingState& w : waiting) {
    Message header;
    header.type = MessageType::state;
    header.volume = w.message.volume;
    header.extent.length = core_.room();
    auto bytes = std::make_unique<std::vector<std::byte>>(encode_state(state()));
    const std::span<const std::byte> payload = *bytes;
    answer(*w.request, header, payload, [keep = std::move(bytes)] {});
  }
}

void Membership::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (closed_) return answer(request, m, Errc::foreign);
  switch (m.type) {
    case MessageType::state:
      return take_state(session, request, m);
    case MessageType::propose:
      return take_propose(request, m);
    case MessageType::resume:
      return take_resume(request, m);
    default:
      return answer(request, m, Errc::corrupt);
  }
}

// ---- decide ------------------------------------------------------------------------------------------------------

void Membership::act(const ReplicaState& theirs) {
  if (step_kind_ != Step::none || !stable_ || theirs.changing) return;
  ReplicaState mine = state();
  if (core_.defects().reenter_after_restart && mine.record.members.is_both()) mine.running = theirs.running;
  const Verdict before = verdict_;
  verdict_ = decide(mine, theirs);
  split_ = verdict_ == Verdict::split_brain;
  const bool undecided = core_.role == Role::none;
  switch (verdict_) {
    case Verdict::settled:
      if (core_.is_sequencer() && core_.witnessing->above() >= core_.epoch().number) {
        drive_both(theirs, core_.witnessing->above());
      } else if (may_grow_in_sync()) {
        mark<"membership.grows">();
        drive_both(theirs, 0);
      }
      break;
    case Verdict::drive_resume:
      drive_resume();
      break;
    case Verdict::drive_both:
      drive_both(theirs, 0);
      break;
    case Verdict::drive_solo:
      drive_solo(theirs);
      break;
    case Verdict::start_solo:
      enter_solo();
      break;
    case Verdict::source:
      if (theirs.record.id == core_.epoch().id) core_.lu->on_target();
      if (!theirs.able && core_.resync->active()) lose_target();
      if (theirs.able && theirs.record.id == core_.epoch().id && !core_.resync->active()) start_source();
      break;
    case Verdict::adopt:
      adopt(theirs.record, false);
      break;
    case Verdict::take_over:
      adopt(theirs.record, true);
      break;
    case Verdict::target:
      if (core_.role != Role::forward) enter_forward();
      if (theirs.serving) settle_left();
      if (theirs.serving && waiter_ && waiter_is_leave_) finish_waiter({});
      break;
    case Verdict::split_brain:
    case Verdict::wait:
    case Verdict::follow:
      break;
  }
  if (verdict_ != before || undecided != (core_.role == Role::none)) core_.changed();
}

std::uint64_t Membership::begin_step(Step kind) {
  step_kind_ = kind;
  step_began_ = core_.now();
  step_recording_ = false;
  return ++step_;
}

void Membership::end_step() {
  step_kind_ = Step::none;
  store_settled_ = nullptr;
  ++step_;
  core_.sequencer->cancel_drain();
  answer_proposal(Errc::refused);
  answer_states();
  if (metadata_failed_) refuse_held();
}

/// Both slots, each flushed. After an error nobody knows what is there: this replica stops.
void Membership::record(const engine::EpochRecord& next, engine::IoCallback done) {
  step_recording_ = true;
  record_began_ = core_.now();
  core_.meta->write_epoch(next, [this, done = std::move(done)](std::error_code error) mutable {
    step_recording_ = false;
    if (metadata_failed_) return done(Errc::io_error);  // given up before it returned
    if (error) fail_metadata("The epoch record can't be written: " + error.message() + ".");
    done(error);
  });
}

/// Same epoch, same processes, nothing decided meanwhile: a broken way was mended in time.
void Membership::drive_resume() {
  const std::uint64_t step = begin_step(Step::driving);
  // Whoever is in sync again asks the witness for nothing: what it won then would shut the partner out of a failover.
  core_.witnessing->abandon();
  pending_solo_.reset();
  core_.partner.send(core_.message(MessageType::resume), {}, {}, [this, step](const IoResult<Message>& result) {
    if (!current(step)) return;
    end_step();
    if (result && result->status == Errc::ok && core_.role != Role::solo) resume_sync();
  });
}

void Membership::take_resume(InboundRequest& request, const Message& m) {
  const bool fits = m.epoch == core_.epoch().id && core_.epoch().members.is_both() && running_ && !core_.is_sequencer();
  const bool decided = core_.witnessing->attempted() > core_.epoch().number || pending_solo_;
  const ReplicaState mine = state();
  if (!fits || decided || !mine.able || step_kind_ != Step::none || core_.applier->closed()) {
    mark<"membership.resume_refused">();
    return answer(request, m, Errc::refused);
  }
  core_.witnessing->abandon();
  core_.applier->on_watermark(m.watermark);
  if (core_.role == Role::none) resume_sync();
  answer(request, m, Errc::ok);
}

void Membership::propose(std::uint64_t step, const engine::EpochRecord& next, const engine::Uuid& base, bool equal,
                         engine::Callback<Errc> done) {
  ReplicaState carried;
  carried.record = next;
  carried.side = core_.side();
  auto bytes = std::make_unique<std::vector<std::byte>>(encode_state(carried));
  Message m = core_.message(MessageType::propose);
  m.epoch = base;
  if (equal) m.flags |= kFlagEqual;
  const std::span<const std::byte> out = *bytes;
  core_.partner.send(m, out, {},
                     [this, step, keep = std::move(bytes), done = std::move(done)](const IoResult<Message>& r) mutable {
                       if (current(step)) done(r ? r->status : Errc::unknown_outcome);
                     });
}

/// {A,B}, this node its sequencer. What was ordered in the old epoch ends first; then this node's record, then the
/// other's, then both serve.
void Membership::drive_both(const ReplicaState& theirs, std::uint64_t above) {
  mark<"membership.drive_both">();
  const std::uint64_t step = begin_step(Step::driving);
  close_gate();
  core_.witnessing->abandon();
  pending_solo_.reset();
  const bool joining = core_.role == Role::solo;
  const bool equal = running_ && theirs.running && (joining || !core_.resync->active());
  core_.sequencer->resend();
  core_.sequencer->drain([this, step, theirs, above, joining, equal] {
    if (!current(step)) return;
    // What ended meanwhile may have ended without the target.
    if (!joining || (core_.role == Role::solo && core_.resync->all_equal())) {
      return record_both(step, theirs, above, equal);
    }
    mark<"membership.target_fell_behind">();
    end_step();
    open_gate();
  });
}

void Membership::record_both(std::uint64_t step, const ReplicaState& theirs, std::uint64_t above, bool equal) {
  const std::uint64_t over = std::max({above, theirs.attempted, core_.witnessing->attempted()});
  engine::EpochRecord next =
      next_epoch(core_.epoch(), theirs.record, MemberSet::both(), core_.side(), core_.seams.random.uuid(), over);
  next.size = std::max(next.size, size_to_take());
  const engine::Uuid base = theirs.record.id;
  core_.role = Role::none;
  record(next, [this, step, next, base, equal](std::error_code error) {
    if (!current(step)) return;
    if (error) return end_step();
    const auto arrive = [this, equal](Errc status) {
      end_step();
      if (status == Errc::ok) return enter_sync(equal);
      mark<"membership.proposal_not_taken">();
      suspend();
    };
    if (!core_.partner_ready) return arrive(Errc::unknown_outcome);
    propose(step, next, base, equal, arrive);
  });
}

/// {me}: the partner stops and records first, then this node.
void Membership::drive_solo(const ReplicaState& theirs) {
  mark<"membership.drive_solo">();
  const std::uint64_t step = begin_step(Step::driving);
  core_.witnessing->abandon();
  pending_solo_.reset();
  const std::uint64_t over = std::max(theirs.attempted, core_.witnessing->attempted());
  const engine::EpochRecord next = next_epoch(core_.epoch(), theirs.record, MemberSet::only(core_.side()), core_.side(),
                                              core_.seams.random.uuid(), over);
  propose(step, next, theirs.record.id, false, [this, step, next](Errc status) {
    if (status == Errc::io_error) {
      // It stopped and could not record: this node must win at the witness first.
      mark<"membership.leaver_could_not_record">();
      end_step();
      partner_stopped_ = true;
      if (core_.role == Role::sync) suspend();
      return;
    }
    if (status != Errc::ok) return end_step();
    step_kind_ = Step::recording;  // the partner has recorded: nothing that is lost now takes that back
    settle_store(step, [this, step, next] {
      record(next, [this, step](std::error_code error) {
        if (!current(step)) return;
        end_step();
        if (!error) enter_solo();
      });
    });
  });
}

/// The partner's epoch names only it (then this replica is its target), or only me (then it left in my favour).
void Membership::adopt(const engine::EpochRecord& next, bool serve) {
  if (next.size < core_.epoch().size) return;  // only by force: grow the partner's replica, too
  serve ? mark<"membership.take_over">() : mark<"membership.adopt">();
  const std::uint64_t step = begin_step(Step::recording);
  core_.witnessing->abandon();
  pending_solo_.reset();
  // Whoever was served under the old epoch is not any more: answers under it could be of a truth that is not.
  if (!serve && (core_.role == Role::sync || core_.role == Role::solo || core_.suspended)) {
    core_.role = Role::none;
    close_gate();
    fence();
  } else {
    close_gate();
  }
  auto arrive = [this, step, next, serve] {
    record(next, [this, step, serve](std::error_code error) {
      if (!current(step)) return;
      end_step();
      if (error) return;
      if (serve) return enter_solo();
      running_ = false;
      enter_forward();
      settle_left();  // its record is what was adopted: the partner is alone already
    });
  };
  if (serve) return settle_store(step, std::move(arrive));
  core_.applier->quiesce(Applier::Wait::unless_failed, std::move(arrive));
}

/// Before this node goes on alone: everything that its store was given is over. What it still held could land on what
/// is written from now on.
void Membership::settle_store(std::uint64_t step, engine::Callback<> done) {
  core_.applier->quiesce(Applier::Wait::for_all, [this, step, done = std::move(done)]() mutable {
    if (!current(step)) return;
    if (!core_.store_failed || !store_owes()) return done();
    mark<"membership.waits_for_its_store">();
    store_settled_ = std::move(done);  // asked with each tick
  });
}

// ---- follow ------------------------------------------------------------------------------------------------------

void Membership::take_propose(InboundRequest& request, const Message& m) {
  const auto carried = decode_state(request.payload());
  if (!carried) return answer(request, m, Errc::corrupt);
  const engine::EpochRecord& next = carried->record;
  const bool from_my_record = m.epoch == core_.epoch().id && next.descends_from(core_.epoch());
  const bool higher = next.number > core_.epoch().number && next.number > core_.witnessing->attempted();
  const bool members = next.members.contains(engine::other(core_.side()));
  const bool fits = next.size >= core_.epoch().size && next.size <= core_.room();  // no volume ever shrinks
  if (!from_my_record || !higher || !members || !fits || !stable_ || step_kind_ != Step::none) {
    mark<"membership.proposal_refused">();
    return answer(request, m, Errc::refused);
  }
  const bool state_unknown = core_.role == Role::forward && !core_.lu->may_join();
  if (next.members.is_both() && (!state().able || state_unknown)) return answer(request, m, Errc::refused);
  if (metadata_failed_ && next.members.is_both()) return answer(request, m, Errc::io_error);
  const std::uint64_t step = begin_step(Step::following);
  proposal_ = &request;
  proposal_message_ = m;
  core_.witnessing->abandon();
  pending_solo_.reset();
  if (core_.epoch().sequencer != core_.side()) core_.applier->on_watermark(m.watermark);
  close_gate();
  core_.sequencer->resend();
  next.members.is_both() ? follow_join(step, next, m.flags & kFlagEqual) : follow_leave(step, next);
}

void Membership::answer_proposal(Errc status) {
  if (InboundRequest* request = std::exchange(proposal_, nullptr)) answer(*request, proposal_message_, status);
}

/// Stops serving, ends what was ordered, records, then answers.
void Membership::follow_leave(std::uint64_t step, engine::EpochRecord next) {
  mark<"membership.follow_leave">();
  core_.sequencer->drain([this, step, next = std::move(next)] {
    core_.applier->quiesce(Applier::Wait::unless_failed, [this, step, next] {
      if (!current(step)) return;
      core_.role = Role::none;
      core_.suspended = core_.partner_alone = false;
      if (metadata_failed_) {
        answer_proposal(Errc::io_error);
        return end_step();
      }
      record(next, [this, step](std::error_code error) {
        running_ = running_ && error;
        answer_proposal(error ? Errc::io_error : Errc::ok);
        if (current(step)) end_step();
        if (!error) enter_forward();
      });
    });
  });
}

void Membership::follow_join(std::uint64_t step, engine::EpochRecord next, bool equal) {
  mark<"membership.follow_join">();
  if (core_.role == Role::forward) settle_left();  // only a member that was alone lets another join
  core_.sequencer->drain([this, step, equal, next = std::move(next)] {
    core_.applier->quiesce(Applier::Wait::for_all, [this, step, equal, next] {
      if (!current(step)) return;
      // Copies and writes of a resync are durable before this replica counts as holding them.
      if (flushing_++ == 0) flush_began_ = core_.now();  // a hung one is not excused by a later one
      core_.data.flush([this, step, equal, next](std::error_code failed) {
        --flushing_;
        if (failed) core_.fail_store("The store failed a flush: " + failed.message() + ".");
        if (!current(step)) return;
        if (failed) return end_step();
        core_.role = Role::none;
        record(next, [this, step, equal](std::error_code error) {
          answer_proposal(error ? Errc::io_error : Errc::ok);
          if (current(step)) end_step();
          if (!error) enter_sync(equal);
        });
      });
    });
  });
}

void Membership::join() {
  if (step_kind_ != Step::none || core_.role != Role::solo || !partner_ || !core_.partner_ready) return;
  if (!core_.lu->may_join()) return;  // asked again: the target does not have the unit's state yet
  mark<"membership.join">();
  ReplicaState theirs = *partner_;
  theirs.running = true;
  drive_both(theirs, 0);
}

// ---- the clock ---------------------------------------------------------------------------------------------------

void Membership::tick() {
  if (closed_ && closed_done_) {
    const bool idle = core_.front->idle() && core_.sequencer->active() == 0 && core_.forwarder->waiting() == 0 &&
                      core_.resync->idle() && flushing_ == 0 && step_kind_ == Step::none && !making_room_ &&
                      core_.lu->idle() && core_.space->idle() && !core_.applier->has_old_work(0);
    if (idle) std::exchange(closed_done_, nullptr)();
    return;
  }
  if (closed_) return;
  const engine::TimePoint now = core_.now();
  if (core_.role == Role::sync && !core_.lease_valid()) {
    if (core_.leased || now - entered_ > 2 * core_.settings.lease) {
      lose_lease();
    } else {
      core_.partner.heartbeat_now();  // the partner may have entered a moment later than this node asked
    }
  }
  // The partner was gone again before contact was made: nobody else tells that it is lost.
  const bool alone = core_.role == Role::forward && !core_.partner.in_contact();
  if (alone && now - entered_ > 2 * core_.settings.lease) {
    mark<"membership.contact_never_made">();
    on_contact_lost();
  }
  core_.space->tick();
  watch_stores(now);
  // The partner left and never answered what it held: break the way out to have the buffers back.
  const engine::TimePoint long_ago{now.since_origin - std::min(now.since_origin, core_.settings.lease)};
  if (core_.role == Role::solo && core_.partner_ready && core_.sequencer->stuck_on_link(long_ago)) {
    mark<"membership.buffers_taken_back">();
    core_.partner.reset();
  }
  // A step that waits for work to drain does not wait for ever.
  if ((step_kind_ == Step::driving || step_kind_ == Step::following) && !step_recording_ &&
      now - step_began_ > 3 * core_.settings.lease) {
    mark<"membership.step_timed_out">();
    const bool was_serving = core_.role != Role::none;
    end_step();
    if (was_serving) open_gate();
  }
  const bool settled = verdict_ == Verdict::settled || verdict_ == Verdict::target || verdict_ == Verdict::source;
  if (step_kind_ == Step::none && now - last_exchange_ > (settled ? kExchangeSettled : kExchangeUnsettled)) exchange();
  if (step_kind_ == Step::none && stable_) decide_without_partner();
  grow_alone();
  go_solo_when_leases_are_over();
  tell_when_decided();
  core_.witnessing->tick();
  core_.resync->tick();
  core_.lu->tick();
  if (now - last_clean_ > kCleanEvery) {
    last_clean_ = now;
    core_.cleaner->tick();
  }
  if (waiter_ && now >= waiter_until_) {
    if (waiter_is_leave_) leaving_ = false;
    finish_waiter(engine::fail(Errc::timed_out, "The partner did not agree in time. Look at its state and try again."));
  }
}

/// An operation that a store has not completed in its deadline is a failure, also of the only member's store.
void Membership::watch_stores(engine::TimePoint now) {
  const engine::TimePoint overdue{now.since_origin - std::min(now.since_origin, core_.settings.store_deadline)};
  if (step_recording_ && record_began_ < overdue) {
    fail_metadata("The metadata's store did not complete a write in time.");
    end_step();
  }
  if (store_settled_ && !store_owes()) return std::exchange(store_settled_, nullptr)();
  if (core_.store_failed) return trust_store_again();
  if (!store_owes_since(overdue)) return;
  mark<"store.hung">();
  const std::string why = "The store did not complete an operation within its deadline.";
  if (core_.role != Role::solo) {
    core_.fail_store(why);
    core_.store_may_return = true;
    return;
  }
  core_.store_failed = core_.store_may_return = true;
  core_.store_failed_at = now;
  core_.reason = why + " This is the only member: it goes on when the store has returned everything.";
  core_.role = Role::none;
  core_.resync->stop();
  fence();
  core_.changed();
}

bool Membership::store_owes() const { return store_owes_since({core_.now().since_origin + engine::Duration(1)}); }

bool Membership::store_owes_since(engine::TimePoint limit) const {
  return (flushing_ > 0 && flush_began_ < limit) || core_.sequencer->has_older_than(limit) ||
         core_.applier->has_older_than(limit) || core_.resync->has_older_than(limit);
}

/// A store that was too late and then returned everything, without an error, is whole; so is one that was full and has
/// room again. A member that leaves for it goes on leaving; as a target it waits a little, so that a slow store does
/// not come and go all the time.
void Membership::trust_store_again() {
  if (!core_.store_may_return || metadata_failed_ || step_kind_ != Step::none || core_.role == Role::sync) return;
  if (core_.role == Role::forward && core_.now() - core_.store_failed_at < kTrustAgainAfter) return;
  if (store_owes() || core_.space->lacking()) return;
  mark<"store.returned_everything">();
  core_.store_failed = core_.store_may_return = false;
  core_.reason.clear();
  core_.changed();
  exchange();
}

/// Nobody to talk to (or nobody that can agree): the record, the witness or the preference decides.
void Membership::decide_without_partner() {
  const bool deaf = !core_.partner.in_contact() || partner_stopped_ || (partner_unknown_ && core_.partner.connected());
  if (core_.role != Role::none || !deaf || pending_solo_ || core_.witnessing->asking() || confirming_) return;
  if (verdict_ == Verdict::split_brain && core_.partner.connected()) return;
  AloneRule rule = decide_alone(state(), core_.seams.witness != nullptr);
  const engine::EpochRecord& mine = core_.epoch();
  if (core_.defects().skip_witness && rule != AloneRule::start && mine.members.is_both() && running_) {
    rule = AloneRule::preferred_goes_on;
  }
  switch (rule) {
    case AloneRule::start:
      confirming_ = true;
      core_.witnessing->confirm([this](bool may_start) {
        confirming_ = false;
        if (!may_start || core_.role != Role::none || step_kind_ != Step::none || closed_) return;
        if (core_.epoch().members == MemberSet::only(core_.side())) enter_solo();
      });
      break;
    case AloneRule::ask_witness: {
      // A process that has just started lets its partner call first.
      if (!running_ && core_.now() - attached_ < core_.settings.lease) break;
      core_.witnessing->ask([this, before = mine](WitnessRecord won) {
        if (core_.epoch().id != before.id || core_.role != Role::none || step_kind_ != Step::none) return;
        engine::EpochRecord next =
            next_epoch(before, before, MemberSet::only(core_.side()), core_.side(), won.epoch, 0);
        next.number = won.number;
        want_solo(next, false);
      });
      break;
    }
    case AloneRule::preferred_goes_on:
      want_solo(next_epoch(mine, mine, MemberSet::only(core_.side()), core_.side(), core_.seams.random.uuid(), 0),
                false);
      break;
    case AloneRule::stay:
      break;
  }
}

void Membership::want_solo(engine::EpochRecord next, bool forced) {
  pending_solo_ = PendingSolo{std::move(next), forced};
  go_solo_when_leases_are_over();
}

/// Leases that this node granted, or a process before it may have, have run out by now, on a clock that runs slow.
void Membership::go_solo_when_leases_are_over() {
  if (!pending_solo_ || step_kind_ != Step::none) return;
  const bool witnessed = core_.epoch().arbiter.kind == engine::ArbiterKind::witness && core_.seams.witness;
  if (!pending_solo_->forced && !witnessed && core_.partner.in_contact() && !partner_stopped_ && !partner_unknown_) {
    return pending_solo_.reset();  // the partner is back: no arbiter was asked, nothing is decided
  }
  // Alone with a store that does not return is nothing: a partner that comes back may take over meanwhile.
  if (core_.store_failed) return;
  const auto wait = core_.settings.lease * (100 + core_.settings.drift_percent) / 100;
  const engine::TimePoint since = std::max(core_.last_grant, attached_);
  if (!partner_stopped_ && !core_.defects().skip_lease_wait && core_.now() < since + wait) return;
  mark<"membership.goes_solo">();
  core_.lu->on_partner_lost();
  const engine::EpochRecord next = pending_solo_->next;
  const std::uint64_t step = begin_step(Step::recording);
  pending_solo_.reset();
  close_gate();
  settle_store(step, [this, step, next] {
    record(next, [this, step](std::error_code error) {
      if (!current(step)) return;
      end_step();
      if (error) return;
      enter_solo();
      if (waiter_ && !waiter_is_leave_) finish_waiter({});
    });
  });
}

}  // namespace lockstep::replication
