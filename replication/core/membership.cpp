#include "replication/core/membership.hpp"

#include <cassert>
#include <cstdio>
#include <cstdlib>

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

namespace {
constexpr engine::Duration kExchangeUnsettled = std::chrono::milliseconds(100);
constexpr engine::Duration kExchangeSettled = std::chrono::seconds(2);
constexpr engine::Duration kCleanEvery = std::chrono::milliseconds(200);
}  // namespace

Membership::~Membership() = default;

ReplicaState Membership::state() const {
  ReplicaState s;
  s.record = core_.epoch();
  s.side = core_.side();
  s.running = ran(core_.phase);
  s.set_back = core_.generations->set_back();
  const bool sound = has_begun() && !metadata_failed() && !leaving_ && !closed() && !owes_old_work() && !s.set_back;
  s.able = sound && !core_.store_failed && !suspects_store();
  s.only_failed_operations = sound && core_.store_failed && !core_.flush_failed && !store_owes();
  s.serving = core_.in_sync() || core_.is_alone();
  s.forwarding = core_.is_forwarding();
  s.changing = change_.has_value();
  s.attempted = core_.witnessing->attempted();
  return s;
}

void Membership::begin() {
  attached_ = flush_began_ = last_tick_ = core_.now();
  ++flushing_;
  core_.data.flush([this](std::error_code error) {
    --flushing_;
    if (error) {
      core_.fail_store("The store failed its first flush: " + error.message() + ".");
      return exchange();
    }
    begun_ = Begun::flushed;
    record_what_was_left();
  });
}

std::optional<engine::EpochRecord> Membership::left_record() const {
  if (!core_.seams.left_records) return std::nullopt;
  return core_.seams.left_records->kept(core_.info.id).value_or(std::nullopt);  // what can't be read was not attached
}

bool Membership::has_left_without_metadata() const {
  const auto left = left_record();
  return left && left->id != core_.epoch().id && left->descends_from(core_.epoch());
}

/// This node left an epoch, and the metadata does not know. While it can't be relied on, a late record decides.
void Membership::record_what_was_left() {
  if (closed() || metadata_failed()) return;
  const auto left = left_record();
  if (!has_left_without_metadata()) {
    forget_what_is_recorded();
    begun_ = Begun::wholly;
    return exchange();
  }
  mark<"membership.recorded_what_was_left">();
  const std::uint64_t step = begin_step(Step::recording);
  record(*left, [this, step](std::error_code error) {
    if (!current(step)) return;
    end_step();
    if (error) return;
    forget_what_is_recorded();
    begun_ = Begun::wholly;
    exchange();
  });
}

void Membership::forget_what_is_recorded() {
  const auto left = left_record();
  if (left && core_.epoch().descends_from(*left)) core_.seams.left_records->forget(core_.info.id);
}

void Membership::make_durable() {
  if (closed() || core_.store_failed) return;
  if (flushing_++ == 0) flush_began_ = core_.now();
  core_.data.flush([this](std::error_code error) {
    --flushing_;
    if (error) core_.fail_flush(error);
  });
}

void Membership::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (closed()) return answer(request, m, Errc::foreign);
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

void Membership::act(const ReplicaState& theirs) {
  if (change_ && change_->drains_for.value_or(theirs.record.id) != theirs.record.id) {
    mark<"membership.partner_went_on_meanwhile">();
    end_unrecorded_step();
  }
  if (change_ || !has_begun()) return;
  if (theirs.changing) return let_partner_change();
  if (core_.generations->set_back()) stop_if_set_back();
  const ReplicaState mine = state();
  const Verdict before = verdict_;
  verdict_ = decide(mine, theirs);
  split_ = verdict_ == Verdict::split_brain;
  const bool undecided = core_.serves_nothing();
  switch (verdict_) {
    case Verdict::settled:
      send_refused_again(core_.settings.heartbeat_interval);
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
      apply(event::AloneRecorded{});
      break;
    case Verdict::source:
      if (theirs.record.id == core_.epoch().id) core_.lu->on_target();
      if (!theirs.able && core_.resync->active()) lose_target();
      if (theirs.set_back) break;  // it has not marked yet what is to be compared
      if (theirs.able && theirs.record.id == core_.epoch().id && !core_.resync->active()) start_source();
      send_refused_again(core_.settings.heartbeat_interval);
      break;
    case Verdict::adopt:
      adopt(theirs.record, false);
      break;
    case Verdict::take_over:
      adopt(theirs.record, true);
      break;
    case Verdict::target:
      if (metadata_failed()) break;  // it can't keep the unit's state, and nothing passes without
      if (!core_.is_forwarding()) apply(event::PartnerRecorded{core_.now()});
      if (theirs.serving) settle_left();
      if (theirs.serving && waiter_ && waiter_is_leave_) finish_waiter({});
      break;
    case Verdict::split_brain:
    case Verdict::wait:
    case Verdict::follow:
      break;
  }
  if (verdict_ != before || undecided != (core_.serves_nothing())) core_.changed();
}

/// Its step may wait for orders that this node takes only once it keeps no sessions any more. Whatever the step comes
/// to, they are closed at its end.
void Membership::let_partner_change() {
  if (!core_.keeps_sessions()) return;
  mark<"membership.lets_partner_change">();
  apply(event::NotAlone{});
}

/// Orders that a step refused which was given up then, or that found the link's queue full, or a partner that still
/// kept its sessions.
void Membership::send_refused_again(engine::Duration every) {
  if (!core_.partner_ready || core_.now() - sent_again_ < every) return;
  sent_again_ = core_.now();
  core_.sequencer->resend();
}

/// It may have been serving: a machine's memory is set back with its disks.
void Membership::stop_if_set_back() {
  if (!core_.in_sync() && !core_.is_alone()) return;
  mark<"membership.set_back_while_serving">();
  apply(event::Unfit{});
}

namespace {
[[noreturn]] void stop_the_process(const ReplicaPhase& phase, const PhaseEvent& event, const std::string& why) {
  std::fprintf(stderr, "mirror: %s, then %s: %s\n", name_of(phase), name_of(event), why.c_str());
  std::abort();
}
}  // namespace

/// The one place where the phase changes. A phase that contradicts the durable record would serve what this replica may
/// not: the process ends before it does.
void Membership::apply(const PhaseEvent& event) {
  const ReplicaPhase was = core_.phase;
  auto transition = step(was, event);
  if (!transition) stop_the_process(was, event, "that can't be");
  if (const std::string why = contradiction(transition->next, core_.epoch(), core_.side()); !why.empty()) {
    stop_the_process(was, event, why);
  }
  core_.phase = std::move(transition->next);
  for (const Effect effect : transition->effects) perform(effect, was);
  assert(!core_.keeps_sessions() || core_.gated);
}

std::uint64_t Membership::begin_step(Step kind) {
  change_ = Change{.step = kind, .began = core_.now(), .recording_since = {}, .drains_for = {}};
  return ++step_;
}

void Membership::end_step() {
  change_.reset();
  store_settled_ = nullptr;
  ++step_;
  core_.sequencer->cancel_drain();
  answer_proposal(Errc::refused);
  answer_states();
  if (metadata_failed()) refuse_held();
  if (giving_up_ != GivingUp::no) end_giving_up({});
}

/// Both slots, each flushed. After an error nobody knows what is there: this replica stops.
void Membership::record(const engine::EpochRecord& next, engine::IoCallback done) {
  change_->recording_since = core_.now();
  if (next.members == engine::MemberSet::only(core_.side())) own_record_unknown_ = true;
  core_.meta->write_epoch(next, core_.known,
                          [this, run = ++record_run_, done = std::move(done)](std::error_code error) mutable {
                            if (!error) own_record_unknown_ = false;
                            if (run == late_record_) return on_late_record(error);
                            if (change_) change_->recording_since.reset();
                            if (metadata_failed()) return done(Errc::io_error);
                            if (!error) failure_.clear();
                            if (error == Errc::refused) {
                              refuse_record();
                            } else if (error) {
                              fail_metadata("The epoch record can't be written: " + error.message() + ".");
                            }
                            done(error);
                          });
}

/// It was given up, and its step is over. Without an error it is what counts now, like one that was read at a start.
void Membership::on_late_record(std::error_code error) {
  if (error || !metadata_failed() || !core_.store_may_return) return;
  late_record_is_there_ = change_.has_value();
  if (late_record_is_there_) return;
  mark<"membership.late_record_returned">();
  failure_.clear();
  const bool left = has_left_without_metadata();
  apply(event::LateRecordReturned{!left && core_.epoch().members.contains(core_.side())});
  core_.applier->open(false);  // its step closed it: one of both is resumed only by a node that takes orders
  if (begun_ == Begun::no) return exchange();
  begun_ = Begun::flushed;
  record_what_was_left();
}

/// A record that does not follow the one that is there: nothing was written, and nothing failed. This replica stops
/// where it stands, and looks again.
void Membership::refuse_record() {
  mark<"membership.record_refused">();
  failure_ = "The partner's epoch does not follow the one that is recorded here.";
  apply(event::Unfit{});
}

// ---- the clock ---------------------------------------------------------------------------------------------------

void Membership::tick() {
  if (closed()) return finish_closing();
  assert(change_ || !std::holds_alternative<phase::Recording>(core_.phase));
  const engine::TimePoint now = core_.now();
  watch_own_ticks(now);
  watch_lease(now);
  core_.space->tick();
  watch_stores(now);
  if (late_record_is_there_ && !change_) on_late_record({});
  watch_old_work();
  take_buffers_back(now);
  end_overdue_step(now);
  if (is_changing(Step::driving)) send_refused_again(kExchangeUnsettled / 4);  // the step may wait for just these
  const bool settled = verdict_ == Verdict::settled || verdict_ == Verdict::target || verdict_ == Verdict::source;
  if (!change_ && now - last_exchange_ > (settled ? kExchangeSettled : kExchangeUnsettled)) exchange();
  if (!change_ && has_begun()) decide_without_partner();
  grow_alone();
  go_solo_when_leases_are_over();
  watch_kept_sessions();
  tell_when_decided();
  core_.witnessing->tick();
  core_.resync->tick();
  core_.generations->tick();
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

bool Membership::is_idle() const {
  return core_.front->idle() && core_.sequencer->active() == 0 && core_.forwarder->waiting() == 0 &&
         core_.resync->idle() && flushing_ == 0 && !change_ && !making_room_ && core_.lu->idle() &&
         core_.space->idle() && !core_.applier->busy() && core_.owed_by_store == 0 && core_.meta->idle();
}

/// With each tick. When nothing is under way any more, the store is flushed; what comes after that is looked at anew.
void Membership::finish_closing() {
  if (!closed_done_) return;
  core_.sequencer->settle_after_leaving();  // what was on its way to the partner when that was lost
  take_link_back();
  if (!is_idle()) return;
  if (last_flush_begun_) return std::exchange(closed_done_, nullptr)();
  core_.applier->quiesce(Applier::Wait::unless_failed, [this] {
    last_flush_begun_ = true;
    core_.data.flush(counted(core_.owed_by_store, [](std::error_code) {}));
  });
}

/// A suspended partner answers what it ordered when it goes on, and it may wait for this very volume: with another way
/// out it lets go.
void Membership::take_link_back() {
  if (!core_.partner.connected() || core_.now() < link_back_at_) return;
  link_back_at_ = core_.now() + 3 * core_.settings.lease;
  const engine::TimePoint long_ago = ago(3 * core_.settings.lease);
  if (!core_.forwarder->stuck_on_link(long_ago) && !core_.sequencer->holds_link_since(long_ago)) return;
  mark<"membership.detached_from_a_silent_partner">();
  core_.partner.reset();
}

bool Membership::is_over() const {
  return closed() && !closed_done_ && is_idle() && core_.owed_by_others == 0 && states_to_answer_.empty() && !proposal_;
}

void Membership::watch_lease(engine::TimePoint now) {
  const auto is_long_ago = [&](engine::TimePoint entered) { return now - entered > 2 * core_.settings.lease; };
  if (const auto* p = std::get_if<phase::InSync>(&core_.phase); p && !core_.lease_valid()) {
    if (p->lease || is_long_ago(p->entered)) return lose_lease();
    core_.partner.heartbeat_now();  // the partner may have entered a moment later than this node asked
  }
  // The partner was gone again before contact was made: nobody else tells that it is lost.
  const auto* p = std::get_if<phase::Forwarding>(&core_.phase);
  if (p && !core_.partner.in_contact() && is_long_ago(p->entered)) {
    mark<"membership.contact_never_made">();
    on_contact_lost();
  }
}

/// The partner left, or was left, and never answered what it held: the way out is broken to have the buffers back.
void Membership::take_buffers_back(engine::TimePoint now) {
  const engine::TimePoint long_ago{now.since_origin - std::min(now.since_origin, core_.settings.lease)};
  if (!core_.is_alone() || !core_.partner_ready) return;
  if (!core_.sequencer->stuck_on_link(long_ago) && !core_.forwarder->stuck_on_link(long_ago)) return;
  mark<"membership.buffers_taken_back">();
  core_.partner.reset();
}

/// A step that waits for work to drain does not wait for ever.
void Membership::end_overdue_step(engine::TimePoint now) {
  if (!change_ || change_->step == Step::recording || change_->recording_since) return;
  if (now - change_->began <= 3 * core_.settings.lease) return;
  mark<"membership.step_timed_out">();
  const bool was_serving = !core_.serves_nothing();
  give_step_up();
  if (was_serving) open_gate();
}

}  // namespace lockstep::replication
