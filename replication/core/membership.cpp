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
      damping_(settings_),
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
                     !store_watch_.owes_old_work() && !s.set_back && !leaves_it_to_partner();
  s.able = sound && !store_.failed && !store_watch_.is_suspect();
  const bool may_have_lost = store_.flush_failed || (store_.was_cached && store_.data.refuses_writes());
  s.only_failed_operations = sound && store_.failed && !may_have_lost && !store_watch_.owes();
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

void Membership::make_durable(engine::IoCallback done) {
  if (closed()) return done(Errc::not_serving);
  if (store_.failed) return done({});  // nothing of it counts
  store_watch_.flush([this, done = std::move(done)](std::error_code error) mutable {
    if (error) store_.fail_flush(error);
    done(error);
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
  if (damping_.tick(now, partner_.in_contact())) exchange();
  watch_lease(now);
  space_.tick();
  watch_stores(now);
  steps_.watch_late_record();
  applier_.tick();
  if (store_watch_.old_work_ended()) exchange();
  take_buffers_back(now);
  end_overdue_step(now);
  help_step_on(now);
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
  cleaner_.tick();
  if (command_.is_overdue(now)) {
    if (command_.waits_for(OperatorCommand::Kind::leave)) leaving_ = false;
    command_.finish(
        engine::fail(Errc::timed_out, "The partner did not agree in time. Look at its state and try again."));
  }
}

/// It may wait for just these: orders of this node's that were refused; or of the partner's, which this one takes only
/// when it keeps no sessions.
void Membership::help_step_on(engine::TimePoint now) {
  const bool may_wait_for_orders = steps_.is(Step::driving) || steps_.is(Step::following);
  if (may_wait_for_orders && !leaves_partner_out()) send_refused_again(kExchangeUnsettled / 4);
  const auto& theirs = exchange_.partner();
  const bool partner_may_have_ordered = !standing_.is_sequencer() && theirs && theirs->running;
  const bool waits = steps_.is(Step::driving) && steps_.is_overdue(now, kExchangeUnsettled);
  if (waits && partner_may_have_ordered) let_partner_change();
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
/// meanwhile gives nobody a reason to begin one. With the partner out of reach, it is whole to go on alone; and where
/// the partner has another record, as one that left in this one's favour and whose answer came too late.
bool Membership::needs_another_epoch() const {
  const bool is_heard = outbound_.ready && partner_.in_contact() && !exchange_.partner_unknown();
  const auto& theirs = exchange_.partner();
  const bool is_shared = standing_.epoch().members.is_both() && (!theirs || theirs->record.id == standing_.epoch().id);
  const bool may_go_on_in_this = standing_.in_sync() || (is_heard && is_shared);
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
