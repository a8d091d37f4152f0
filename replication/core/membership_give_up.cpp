// After a split brain, on the replica that the operator does not keep.
//
// It records first, as one that leaves does: an epoch of the partner alone that follows both lines. From then on it
// serves nothing, whatever becomes of the partner, which takes that record over when it hears of it, and brings this
// replica up to date. Before it records, the partner's answer to a question of this moment shows that it is there, and
// does not give up itself: each is `changing` from before it asks until it has recorded.
//
// What differs is in the union of both maps, as after any time alone: a bit is durable before its region is written,
// and is cleared only in an epoch that orders both replicas, when both are equal and flushed there. Neither line has
// such an epoch, so that each map has everything that its own side wrote since the two were last equal, and what was
// under way at that moment. The resync copies the union from the survivor: where only the other wrote, what the
// survivor has had there all along.
#include <algorithm>

#include "replication/core/applier.hpp"
#include "replication/core/front.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;

void Membership::give_up(Done done) {
  if (waiter_ || change_) {
    return done(fail(Errc::refused, "Another change of this volume has not ended yet. Try again in a moment."));
  }
  if (const std::string why = why_not_give_up(); !why.empty()) return done(fail(Errc::refused, why));
  waiter_ = std::move(done);
  waiter_is_leave_ = false;
  waiter_until_ = core_.now() + 4 * core_.settings.lease + 2 * core_.settings.store_deadline;
  giving_up_ = GivingUp::asking;
  begin_step(Step::driving);
  ++exchange_run_;  // an answer that is on its way was given before this step began
  exchanging_ = false;
  exchange();
}

/// Empty: it may.
std::string Membership::why_not_give_up() const {
  if (metadata_failed())
    return "This replica's metadata failed: it can't record that it gives up. Restart lockstepd when its disk works.";
  if (!core_.partner.connected()) return "The partner is away. It must be there: its copy is the one that is kept.";
  if (partner_is_larger_)
    return "The volume has grown there to more than this replica has room for. Make room here first.";
  if (!core_.partner_ready || !partner_) return "The partner has not told yet where it stands. Try again in a moment.";
  if (decide(state(), *partner_) != Verdict::split_brain) {
    return "No split brain is seen with the partner: there is nothing to give up.";
  }
  if (!partner_->record.members.contains(engine::other(core_.side()))) {
    return "The partner's copy may not serve alone. Force it first (force_solo), or keep this one.";
  }
  if (!partner_->able) return "The partner's copy can't be used: its store failed, or it is being detached.";
  if (partner_->changing) return "The partner is in the middle of a change. Try again in a moment.";
  if (core_.epoch().size > partner_->record.size && core_.epoch().size > partner_room_) {
    return "This copy has grown to " + std::to_string(core_.epoch().size) + " bytes, and the partner has room for " +
           std::to_string(partner_room_) + ". Make room there first: no volume shrinks.";
  }
  return {};
}

void Membership::on_partner_asked(bool answered) {
  std::string why = why_not_give_up();
  if (why.empty() && !answered) why = "The partner did not answer.";
  if (!why.empty()) {
    end_giving_up(why);
    return end_step();
  }
  mark<"membership.gives_up">();
  giving_up_ = GivingUp::doing;
  core_.witnessing->abandon();
  pending_solo_.reset();
  const std::uint64_t over = std::max(partner_->attempted, core_.witnessing->attempted());
  stop_for_good(step_, epoch_after_giving_up(partner_->record, core_.epoch(), engine::other(core_.side()),
                                             core_.seams.random.uuid(), over));
}

/// Answers of this line are of a truth that ends here: the sessions are closed, and what was started ends first.
void Membership::stop_for_good(std::uint64_t step, engine::EpochRecord next) {
  close_gate();
  if (core_.is_alone() || core_.suspended()) fence();
  if (!core_.is_alone()) return record_giving_up(step, std::move(next));
  core_.sequencer->drain([this, step, next = std::move(next)]() mutable {
    if (current(step)) record_giving_up(step, std::move(next));
  });
}

void Membership::record_giving_up(std::uint64_t step, engine::EpochRecord next) {
  core_.applier->quiesce(Applier::Wait::unless_failed, [this, step, next = std::move(next)] {
    if (!current(step)) return;
    apply(event::RecordBegins{});
    record(next, [this, step](std::error_code error) {
      if (!current(step)) return;
      giving_up_ = GivingUp::no;
      end_step();
      if (error) {
        return finish_waiter(fail(Errc::io_error, "It could not be recorded: " + error.message() +
                                                      ". Look at this replica's state before you try again."));
      }
      if (closed()) return;
      mark<"membership.gave_up">();
      apply(event::PartnerRecorded{core_.now()});
      finish_waiter({});
    });
  });
}

/// `why`: it is not even begun. Otherwise its step was ended from outside: by the loss of the partner, by its time, or
/// by metadata that did not return.
void Membership::end_giving_up(const std::string& why) {
  const bool begun = std::exchange(giving_up_, GivingUp::no) == GivingUp::doing;
  if (begun && core_.serves_nothing()) refuse_held();
  if (metadata_failed()) {
    return finish_waiter(fail(Errc::io_error, "Whether it was recorded is not known: the metadata failed."));
  }
  const std::string what = why.empty() ? "The partner went away, or this replica's store was too slow." : why;
  finish_waiter(fail(Errc::refused, what + " Nothing was given up."));
}

}  // namespace lockstep::replication
