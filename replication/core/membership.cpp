#include "replication/core/membership.hpp"

#include <cassert>
#include <cstdio>
#include <cstdlib>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;

namespace {
constexpr engine::Duration kExchangeUnsettled = std::chrono::milliseconds(100);
constexpr engine::Duration kExchangeSettled = std::chrono::seconds(2);
constexpr engine::Duration kTrustAgainAfter = std::chrono::seconds(10);
constexpr engine::Duration kCleanEvery = std::chrono::milliseconds(200);
}  // namespace

Membership::Membership(const MirrorParts& parts)
    : settings_(parts.settings),
      clock_(parts.clock),
      random_(parts.random),
      witness_(parts.witness),
      partner_(parts.partner),
      standing_(parts.standing),
      store_(parts.store),
      outbound_(parts.outbound),
      forward_entries_(parts.forward_entries),
      completions_(parts.completions),
      space_(parts.space),
      forwarder_(parts.forwarder),
      resync_(parts.resync),
      sequencer_(parts.sequencer),
      applier_(parts.applier),
      generations_(parts.generations),
      cleaner_(parts.cleaner),
      witnessing_(parts.witnessing),
      lu_(parts.lu),
      front_(parts.front),
      changed_(parts.changed),
      store_watch_(settings_, clock_, standing_, store_, sequencer_, applier_, resync_),
      left_epoch_(parts.left_records, standing_, store_),
      growth_(standing_, store_, [this] { exchange(); }),
      exchange_(clock_, partner_, standing_, store_, outbound_, applier_, generations_, parts.witness_agreement, lu_,
                growth_, changed_, *this),
      steps_(settings_, clock_, standing_, store_, store_watch_, sequencer_, applier_, *this),
      phases_(parts, store_watch_, left_epoch_, exchange_, steps_, *this),
      alone_(parts, store_watch_, exchange_, steps_, phases_, *this),
      driver_(step_parts(), *this),
      follower_(step_parts(), *this),
      giving_up_(step_parts(), command_, *this) {}

Membership::~Membership() = default;

StepParts Membership::step_parts() {
  return {.settings = settings_,
          .clock = clock_,
          .random = random_,
          .partner = partner_,
          .standing = standing_,
          .store = store_,
          .outbound = outbound_,
          .resync = resync_,
          .sequencer = sequencer_,
          .applier = applier_,
          .witnessing = witnessing_,
          .lu = lu_,
          .store_watch = store_watch_,
          .left_epoch = left_epoch_,
          .growth = growth_,
          .exchange = exchange_,
          .steps = steps_,
          .phases = phases_,
          .alone = alone_};
}

ReplicaState Membership::state() const {
  ReplicaState s;
  s.record = standing_.epoch();
  s.side = standing_.side();
  s.running = ran(standing_.phase);
  s.set_back = generations_.set_back();
  const bool sound = has_begun() && !standing_.metadata_failed() && !leaving_ && !closed() &&
                     !store_watch_.owes_old_work() && !s.set_back;
  s.able = sound && !store_.failed && !store_watch_.is_suspect();
  s.only_failed_operations = sound && store_.failed && !store_.flush_failed && !store_watch_.owes();
  s.serving = standing_.in_sync() || standing_.is_alone();
  s.forwarding = standing_.is_forwarding();
  s.changing = steps_.busy();
  s.attempted = witnessing_.attempted();
  s.wish = wish_;
  return s;
}

void Membership::begin() {
  alone_.begin();
  store_watch_.begin();
  store_watch_.flush([this](std::error_code error) {
    if (error) {
      store_.fail("The store failed its first flush: " + error.message() + ".");
      return exchange();
    }
    begun_ = Begun::flushed;
    record_what_was_left();
  });
}

/// This node left an epoch, and the metadata does not know. While it can't be relied on, a late record decides.
void Membership::record_what_was_left() {
  if (closed() || standing_.metadata_failed()) return;
  const auto left = left_epoch_.record();
  if (!left_epoch_.is_ahead()) {
    left_epoch_.forget_if_recorded();
    begun_ = Begun::wholly;
    return exchange();
  }
  mark<"membership.recorded_what_was_left">();
  const std::uint64_t step = steps_.begin(Step::recording);
  steps_.record(*left, [this, step](std::error_code error) {
    if (!steps_.current(step)) return;
    steps_.end();
    if (error) return;
    left_epoch_.forget_if_recorded();
    begun_ = Begun::wholly;
    exchange();
  });
}

void Membership::make_durable() {
  if (closed() || store_.failed) return;
  store_watch_.flush([this](std::error_code error) {
    if (error) store_.fail_flush(error);
  });
}

void Membership::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (closed()) return answer(request, m, Errc::foreign);
  switch (m.type) {
    case MessageType::state:
      return exchange_.take(session, request, m);
    case MessageType::propose:
      return follower_.take_propose(request, m);
    case MessageType::resume:
      return follower_.take_resume(request, m);
    default:
      return answer(request, m, Errc::corrupt);
  }
}

void Membership::on_partner_state(const ReplicaState& theirs, bool first) {
  act(theirs);
  if (!first || !outbound_.ready) return;
  sequencer_.resend();
  forwarder_.resend();
  resync_.go_on();
}

/// Nothing differs from a copy that the partner has not got any more.
void Membership::on_asked(bool learnt) {
  giving_up_.on_partner_asked(learnt);
  if (!exchange_.partner_unknown() || !std::exchange(split_, false)) return;
  mark<"membership.split_ended_by_its_absence">();
  verdict_ = Verdict::wait;
  changed_();
}

/// All is well, and yet the next epoch of both is due.
void Membership::change_in_sync(const ReplicaState& theirs) {
  if (standing_.is_sequencer() && witnessing_.above() >= standing_.epoch().number) {
    return driver_.drive_both(theirs, witnessing_.above());
  }
  if (!driver_.may_change_in_sync()) return;
  if (growth_.is_due()) {
    mark<"membership.grows">();
    driver_.drive_both(theirs, 0);
  } else if (next_arbiter(state(), theirs)) {
    mark<"membership.changes_arbiter">();
    driver_.drive_both(theirs, 0);
  }
}

void Membership::want_arbiter(ArbiterWish wish) {
  if (std::exchange(wish_, wish) != wish) exchange();
}

void Membership::act(const ReplicaState& theirs) {
  if (steps_.drains_for_another(theirs.record.id)) {
    mark<"membership.partner_went_on_meanwhile">();
    steps_.end_unrecorded();
  }
  if (steps_.busy() || !has_begun()) return;
  if (theirs.changing) return let_partner_change();
  if (generations_.set_back()) stop_if_set_back();
  const ReplicaState mine = state();
  const Verdict before = verdict_;
  verdict_ = decide(mine, theirs);
  split_ = verdict_ == Verdict::split_brain;
  const bool undecided = standing_.serves_nothing();
  if (went_on_without(standing_.epoch(), theirs)) {
    alone_.note_left_behind();
    if (phases_.wrote_alone()) return driver_.part_ways();
  }
  switch (verdict_) {
    case Verdict::settled:
      send_refused_again(settings_.heartbeat_interval);
      change_in_sync(theirs);
      break;
    case Verdict::drive_resume:
      sequencer_.has_outlived() ? driver_.drive_both(theirs, 0) : driver_.drive_resume();
      break;
    case Verdict::drive_both:
      driver_.drive_both(theirs, 0);
      break;
    case Verdict::drive_solo:
      driver_.drive_solo(theirs);
      break;
    case Verdict::start_solo:
      start_in_touch();
      break;
    case Verdict::source:
      if (theirs.record.id == standing_.epoch().id) lu_.on_target();
      if (!theirs.able && resync_.active()) phases_.lose_target();
      if (theirs.set_back) break;  // it has not marked yet what is to be compared
      if (theirs.able && theirs.record.id == standing_.epoch().id && !resync_.active()) phases_.start_source();
      send_refused_again(settings_.heartbeat_interval);
      break;
    case Verdict::adopt:
      driver_.adopt(theirs.record, false);
      break;
    case Verdict::take_over:
      driver_.adopt(theirs.record, true);
      break;
    case Verdict::target:
      if (standing_.metadata_failed()) break;  // it can't keep the unit's state, and nothing passes without
      if (!standing_.is_forwarding()) phases_.apply(event::PartnerRecorded{clock_.now()});
      if (theirs.serving) phases_.settle_left();
      if (theirs.serving && command_.waits_for(OperatorCommand::Kind::leave)) command_.finish({});
      break;
    case Verdict::split_brain:
      if (is_left_to_this(theirs)) start_in_touch();
      break;
    case Verdict::wait:
      stop_if_left_behind(theirs);
      break;
    case Verdict::follow:
      break;
  }
  if (verdict_ != before || undecided != (standing_.serves_nothing())) changed_();
}

/// Of a later state of this very replica, which was set back then, its target need not know.
void Membership::start_in_touch() {
  if (!ran(standing_.phase) && !witnessing_.has_told_of_this_replica([this] { exchange(); })) return;
  phases_.apply(event::AloneRecorded{});
}

/// The two parted ways, and the partner is no member by its own record: nobody else will serve.
bool Membership::is_left_to_this(const ReplicaState& theirs) const {
  const bool only_this = standing_.epoch().members == engine::MemberSet::only(standing_.side());
  // Who parted ways took the number that follows; a new copy of a later epoch of this very node has a higher one.
  const bool parted = !theirs.record.members.contains(theirs.side) && theirs.record.number <= standing_.epoch().number;
  return standing_.serves_nothing() && only_this && state().able && parted;
}

/// Nobody knows which of the two was set back: this one has acknowledged nothing yet, and does not begin to.
void Membership::stop_if_left_behind(const ReplicaState& theirs) {
  if (!standing_.is_alone() || !went_on_without(standing_.epoch(), theirs)) return;
  mark<"membership.left_behind_while_alone">();
  phases_.apply(event::Unfit{});
}

/// Its step may wait for orders that this node takes only once it keeps no sessions any more. Whatever the step comes
/// to, they are closed at its end.
void Membership::let_partner_change() {
  if (!standing_.keeps_sessions()) return;
  mark<"membership.lets_partner_change">();
  phases_.apply(event::NotAlone{});
}

/// Orders that a step refused which was given up then, or that found the link's queue full, or a partner that still
/// kept its sessions.
void Membership::send_refused_again(engine::Duration every) {
  if (!outbound_.ready || clock_.now() - sent_again_ < every) return;
  sent_again_ = clock_.now();
  sequencer_.resend();
}

/// It may have been serving: a machine's memory is set back with its disks.
void Membership::stop_if_set_back() {
  if (!standing_.in_sync() && !standing_.is_alone()) return;
  mark<"membership.set_back_while_serving">();
  phases_.apply(event::Unfit{});
}

/// It serves alone by what it knew when it started, or lost its partner, and has heard better since. Whoever is in
/// touch with the partner goes by what that says. An operator's word, given here, stands, and the witness is told of
/// it: once, for he may have forced both.
void Membership::heed_witness() {
  forced_ &= standing_.is_alone();
  if (!standing_.is_alone() || steps_.busy()) return;
  if (!forced_ && generations_.set_back()) return stop_if_set_back();
  if (outbound_.ready) return;
  if (forced_) {
    if (witnessing_.overruled() && !told_of_force_) told_of_force_ = driver_.go_above(witnessing_.above());
    return;
  }
  // By the number of an epoch that the partner has recorded it may have won before that, and have lost its memory of it
  // since. That is void, and no other process of this replica would know so.
  if (agreed() && witnessing_.above() >= standing_.epoch().number) {
    static_cast<void>(driver_.go_above(witnessing_.above()));
    return;
  }
  if (!witnessing_.overruled()) return;
  mark<"membership.overruled">();
  phases_.apply(event::Unfit{});
}

void Membership::resume() {
  failure_.clear();
  phases_.apply(event::Resumed{clock_.now(), standing_.is_sequencer()});
}

void Membership::on_step_ended() {
  follower_.answer_proposal(Errc::refused);
  exchange_.answer_states();
  if (standing_.metadata_failed()) phases_.refuse_held();
  giving_up_.on_step_ended();
}

void Membership::on_step_given_up() {
  if (std::holds_alternative<phase::Recording>(standing_.phase)) phases_.apply(event::NotAgreed{clock_.now()});
}

void Membership::on_late_record() {
  failure_.clear();
  const bool left = left_epoch_.is_ahead();
  phases_.apply(event::LateRecordReturned{!left && standing_.epoch().members.contains(standing_.side())});
  applier_.open(false);  // its step closed it: one of both is resumed only by a node that takes orders
  if (begun_ == Begun::no) return exchange();
  begun_ = Begun::flushed;
  record_what_was_left();
}

/// A record that does not follow the one that is there: nothing was written, and nothing failed. This replica stops
/// where it stands, and looks again.
void Membership::on_record_refused() {
  mark<"membership.record_refused">();
  failure_ = "The partner's epoch does not follow the one that is recorded here.";
  phases_.apply(event::Unfit{});
  applier_.open(false);  // its step closed it, and this epoch may be resumed
}

// ---- the clock ---------------------------------------------------------------------------------------------------

void Membership::tick() {
  if (closed()) return finish_closing();
  assert(steps_.busy() || !std::holds_alternative<phase::Recording>(standing_.phase));
  const engine::TimePoint now = clock_.now();
  store_watch_.watch_own_ticks(now);
  watch_lease(now);
  space_.tick();
  watch_stores(now);
  steps_.watch_late_record();
  applier_.tick();
  if (store_watch_.old_work_ended()) exchange();
  take_buffers_back(now);
  end_overdue_step(now);
  if (steps_.is(Step::driving)) send_refused_again(kExchangeUnsettled / 4);  // the step may wait for just these
  const bool settled = verdict_ == Verdict::settled || verdict_ == Verdict::target || verdict_ == Verdict::source;
  if (!steps_.busy() && now - exchange_.asked_at() > (settled ? kExchangeSettled : kExchangeUnsettled)) exchange();
  heed_witness();
  if (!steps_.busy() && has_begun()) alone_.decide_without_partner();
  driver_.grow_alone();
  alone_.go_when_leases_are_over();
  alone_.watch_kept_sessions();
  tell_when_decided();
  witnessing_.tick();
  resync_.tick();
  generations_.tick();
  end_what_partner_held(now);
  let_sessions_end(now);
  lu_.tick();
  if (now - last_clean_ > kCleanEvery) {
    last_clean_ = now;
    cleaner_.tick();
  }
  if (command_.is_overdue(now)) {
    if (command_.waits_for(OperatorCommand::Kind::leave)) leaving_ = false;
    command_.finish(
        engine::fail(Errc::timed_out, "The partner did not agree in time. Look at its state and try again."));
  }
}

/// An operation that a store has not completed in its deadline is a failure, also of the only member's store.
void Membership::watch_stores(engine::TimePoint now) {
  steps_.watch_record();
  if (steps_.store_settled()) return;
  if (store_.failed) return trust_store_again();
  if (!steps_.busy() && needs_another_epoch()) return store_.fail("", Errc::no_space);
  if (!store_watch_.hangs()) return;
  mark<"store.hung">();
  const std::string why = "The store did not complete an operation within its deadline.";
  if (!standing_.is_alone()) {
    store_.fail(why);
    store_.may_return = true;
    return;
  }
  store_.failed = store_.may_return = true;
  store_.failed_at = now;
  store_.reason = why + " This is the only member: it goes on when the store has returned everything.";
  phases_.apply(event::Unfit{});
}

/// Something that the store failed for want of space is open, and only another epoch ends it: whoever counts as whole
/// meanwhile gives nobody a reason to begin one. With the partner out of reach, it is whole to go on alone.
bool Membership::needs_another_epoch() const {
  const bool is_heard = outbound_.ready && partner_.in_contact() && !exchange_.partner_unknown();
  const bool may_go_on_in_this = standing_.in_sync() || (is_heard && standing_.epoch().members.is_both());
  return may_go_on_in_this && store_watch_.left_failed_work();
}

/// A store that was too late and then returned everything, without an error, is whole; so is one that was full and has
/// room again. A member that leaves for it goes on leaving; as a target it waits a little, so that a slow store does
/// not come and go all the time.
void Membership::trust_store_again() {
  if (!store_.may_return || standing_.metadata_failed() || steps_.busy()) return;
  if (standing_.is_forwarding() && clock_.now() - store_.failed_at < kTrustAgainAfter) return;
  if (store_watch_.owes() || space_.lacking()) return;
  if (needs_another_epoch()) return;
  mark<"store.returned_everything">();
  store_.failed = store_.may_return = false;
  store_.reason.clear();
  if (standing_.in_sync()) phases_.open_gate();  // the partner's store stood still, too: neither could leave
  changed_();
  exchange();
}

bool Membership::is_idle() const {
  return completions_.idle() && sequencer_.active() == 0 && forwarder_.waiting() == 0 && resync_.idle() &&
         store_watch_.idle() && !steps_.busy() && growth_.idle() && lu_.idle() && space_.idle() && !applier_.busy() &&
         store_.owed == 0 && store_.meta->idle();
}

/// With each tick. When nothing is under way any more, the store is flushed; what comes after that is looked at anew.
void Membership::finish_closing() {
  if (!closed_done_) return;
  sequencer_.settle_after_leaving();  // what was on its way to the partner when that was lost
  take_link_back();
  if (!is_idle()) return;
  if (last_flush_begun_) return std::exchange(closed_done_, nullptr)();
  applier_.quiesce(Applier::Wait::unless_failed, [this] {
    last_flush_begun_ = true;
    store_.data.flush(counted(store_.owed, [](std::error_code) {}));
  });
}

/// A suspended partner answers what it ordered when it goes on, and it may wait for this very volume: with another way
/// out it lets go.
void Membership::take_link_back() {
  if (!partner_.connected() || clock_.now() < link_back_at_) return;
  link_back_at_ = clock_.now() + 3 * settings_.lease;
  const engine::TimePoint long_ago = store_watch_.ago(3 * settings_.lease);
  if (!forwarder_.stuck_on_link(long_ago) && !sequencer_.holds_link_since(long_ago) &&
      !resync_.stuck_on_link(long_ago)) {
    return;
  }
  mark<"membership.detached_from_a_silent_partner">();
  partner_.reset();
}

bool Membership::is_over() const {
  return closed() && !closed_done_ && is_idle() && outbound_.owed == 0 && left_epoch_.idle() && witnessing_.idle() &&
         exchange_.idle() && follower_.idle();
}

void Membership::watch_lease(engine::TimePoint now) {
  const auto is_long_ago = [&](engine::TimePoint entered) { return now - entered > 2 * settings_.lease; };
  if (const auto* p = std::get_if<phase::InSync>(&standing_.phase); p && !standing_.lease_valid()) {
    if (p->lease || is_long_ago(p->entered)) return lose_lease();
    partner_.heartbeat_now();  // the partner may have entered a moment later than this node asked
  }
  // The partner was gone again before contact was made: nobody else tells that it is lost.
  const auto* p = std::get_if<phase::Forwarding>(&standing_.phase);
  if (p && !partner_.in_contact() && is_long_ago(p->entered)) {
    mark<"membership.contact_never_made">();
    on_contact_lost();
  }
}

/// The partner left, or was left, and never answered what it held: the way out is broken to have the buffers back, and
/// the locks.
void Membership::take_buffers_back(engine::TimePoint now) {
  const engine::TimePoint long_ago{now.since_origin - std::min(now.since_origin, settings_.lease)};
  if (!standing_.is_alone() || !outbound_.ready) return;
  if (!sequencer_.stuck_on_link(long_ago) && !forwarder_.stuck_on_link(long_ago) && !resync_.stuck_on_link(long_ago))
    return;
  mark<"membership.buffers_taken_back">();
  partner_.reset();
}

/// A step that waits for work to drain does not wait for ever.
void Membership::end_overdue_step(engine::TimePoint now) {
  if (!steps_.is_overdue(now, 3 * settings_.lease)) return;
  mark<"membership.step_timed_out">();
  const bool was_serving = !standing_.serves_nothing();
  steps_.give_up();
  if (was_serving) phases_.open_gate();
}

}  // namespace lockstep::replication
