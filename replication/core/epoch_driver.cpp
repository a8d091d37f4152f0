#include "replication/core/epoch_driver.hpp"

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;
using engine::MemberSet;

EpochDriver::EpochDriver(const StepParts& parts, DriverUser& user)
    : clock_(parts.clock),
      random_(parts.random),
      partner_(parts.partner),
      standing_(parts.standing),
      store_(parts.store),
      outbound_(parts.outbound),
      resync_(parts.resync),
      sequencer_(parts.sequencer),
      applier_(parts.applier),
      witnessing_(parts.witnessing),
      lu_(parts.lu),
      growth_(parts.growth),
      exchange_(parts.exchange),
      steps_(parts.steps),
      phases_(parts.phases),
      alone_(parts.alone),
      user_(user) {}

/// Same epoch, same processes, nothing decided meanwhile: a broken way was mended in time.
void EpochDriver::drive_resume() {
  phases_.apply(event::NotAlone{});
  const std::uint64_t step = steps_.begin(Step::driving);
  // Whoever is in sync again asks the witness for nothing: what it won then would shut the partner out of a failover.
  witnessing_.abandon();
  alone_.forget();
  auto answered = [this, step](const IoResult<Message>& result) {
    if (!steps_.current(step)) return;
    steps_.end();
    if (result && result->status == Errc::ok) user_.resume();
  };
  outbound_.send(outbound_.message(MessageType::resume), {}, {}, counted(outbound_.owed, std::move(answered)));
}

void EpochDriver::propose(std::uint64_t step, const engine::EpochRecord& next, const engine::Uuid& base, bool equal,
                          engine::Callback<Errc> done) {
  ReplicaState carried;
  carried.record = next;
  carried.side = standing_.side();
  auto bytes = std::make_unique<std::vector<std::byte>>(encode_state(carried));
  Message m = outbound_.message(MessageType::propose);
  m.epoch = base;
  if (equal) m.flags |= kFlagEqual;
  const std::span<const std::byte> out = *bytes;
  auto answered = [this, step, keep = std::move(bytes), done = std::move(done)](const IoResult<Message>& r) mutable {
    if (steps_.current(step)) done(r ? r->status : Errc::unknown_outcome);
  };
  outbound_.send(m, out, {}, counted(outbound_.owed, std::move(answered)));
}

/// {A,B}, this node its sequencer. What was ordered in the old epoch ends first; then this node's record, then the
/// other's, then both serve.
void EpochDriver::drive_both(const ReplicaState& theirs, std::uint64_t above) {
  mark<"membership.drive_both">();
  phases_.apply(event::NotAlone{});
  const std::uint64_t step = steps_.begin(Step::driving);
  steps_.drain_for(theirs.record.id);
  phases_.close_gate();
  witnessing_.abandon();
  alone_.forget();
  const bool joining = standing_.is_alone();
  const bool equal = ran(standing_.phase) && theirs.running && (joining || !resync_.active());
  sequencer_.resend();
  sequencer_.drain([this, step, theirs, above, joining, equal] {
    if (!steps_.current(step)) return;
    steps_.drained();
    // What ended meanwhile may have ended without the target.
    if (!joining || (standing_.is_alone() && resync_.all_equal())) {
      return record_both(step, theirs, above, equal);
    }
    mark<"membership.target_fell_behind">();
    steps_.end();
    phases_.open_gate();
  });
}

void EpochDriver::record_both(std::uint64_t step, const ReplicaState& theirs, std::uint64_t above, bool equal) {
  const std::uint64_t over = std::max({above, theirs.attempted, witnessing_.attempted()});
  engine::EpochRecord next =
      next_epoch(user_.state(), theirs, MemberSet::both(), standing_.side(), random_.uuid(), over);
  next.size = std::max(next.size, growth_.size_to_take());
  if (auto arbiter = next_arbiter(user_.state(), theirs)) next.arbiter = std::move(*arbiter);
  const engine::Uuid base = theirs.record.id;
  phases_.apply(event::RecordBegins{});
  steps_.record(next, [this, step, next, base, equal, run = exchange_.run()](std::error_code error) {
    if (!steps_.current(step)) return;
    if (error) return steps_.end();
    const auto arrive = [this, equal](Errc status) {
      if (status == Errc::ok) {
        steps_.end();
        return phases_.apply(event::BothRecorded{clock_.now(), equal, standing_.is_sequencer()});
      }
      mark<"membership.proposal_not_taken">();
      steps_.give_up();
    };
    // A partner that was lost meanwhile may have lost, with its power, what its store had not flushed.
    if (run != exchange_.run() || !outbound_.ready) return arrive(Errc::unknown_outcome);
    propose(step, next, base, equal, arrive);
  });
}

/// {me}: the partner stops and records first, then this node.
void EpochDriver::drive_solo(const ReplicaState& theirs) {
  mark<"membership.drive_solo">();
  if (store_.failed) mark<"membership.goes_on_with_a_failed_store">();
  const std::uint64_t step = steps_.begin(Step::driving);
  witnessing_.abandon();
  alone_.forget();
  const std::uint64_t over = std::max(theirs.attempted, above_witness());
  const engine::EpochRecord next =
      next_epoch(user_.state(), theirs, MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), over);
  propose(step, next, theirs.record.id, false, [this, step, next](Errc status) {
    if (status == Errc::io_error) {
      // It stopped and could not record: this node must win at the witness first.
      mark<"membership.leaver_could_not_record">();
      steps_.end();
      phases_.partner_stopped = true;
      return user_.lose_lease();  // nobody serves now: what waits goes on as soon as this node may go on alone
    }
    if (status != Errc::ok) return steps_.end();
    steps_.partner_recorded();  // the partner has recorded: nothing that is lost now takes that back
    steps_.settle_store(step, [this, step, next] {
      steps_.record(next, [this, step](std::error_code error) {
        if (!steps_.current(step)) return;
        steps_.end();
        if (error) return;
        exchange_.note_agreed();
        phases_.apply(event::AloneRecorded{});
      });
    });
  });
}

/// The only member records a join first: a partner that went on alone from its epoch means that it was set back since.
/// What it acknowledged then is nowhere else, and is not thrown away unasked. So its line gets an epoch of its own, of
/// which the partner's knows nothing: both see that they parted ways. By that record this replica is no member, and
/// starts nothing.
void EpochDriver::part_ways() {
  if (standing_.metadata_failed()) return;
  mark<"membership.parts_ways">();
  if (standing_.is_alone()) phases_.apply(event::Unfit{});
  const engine::NodeSide partner = engine::other(standing_.side());
  engine::EpochRecord next = next_epoch(standing_.epoch(), MemberSet::only(partner), partner, random_.uuid(), 0);
  next.ancestors.clear();
  const std::uint64_t step = steps_.begin(Step::recording);
  witnessing_.abandon();
  alone_.forget();
  steps_.record(next, [this, step](std::error_code) {
    if (steps_.current(step)) steps_.end();
  });
}

/// The partner's epoch names only it (then this replica is its target), or only me (then it left in my favour).
void EpochDriver::adopt(const engine::EpochRecord& next, bool serve) {
  if (standing_.metadata_failed()) return;
  if (next.size < standing_.epoch().size || next.number <= standing_.epoch().number) {
    mark<"membership.partner_makes_no_sense">();
    return user_.on_partner_unfit("The partner's epoch does not follow the one that is recorded here.");
  }
  serve ? mark<"membership.take_over">() : mark<"membership.adopt">();
  const std::uint64_t step = steps_.begin(Step::recording);
  witnessing_.abandon();
  alone_.forget();
  // Whoever was served under the old epoch is not any more: answers under it could be of a truth that is not.
  const bool served = standing_.in_sync() || standing_.is_alone() || standing_.suspended();
  phases_.close_gate();
  if (!serve && served) {
    phases_.apply(event::NotAlone{});
    phases_.apply(event::RecordBegins{});
    phases_.fence();
  }
  auto arrive = [this, step, next, serve] {
    if (!steps_.current(step)) return;  // the volume was detached meanwhile
    steps_.record(next, [this, step, serve](std::error_code error) {
      if (!steps_.current(step)) return;
      steps_.end();
      if (error) return;
      if (serve) return phases_.apply(event::AloneRecorded{});
      phases_.apply(event::PartnerRecorded{clock_.now()});
      phases_.settle_left();  // its record is what was adopted: the partner is alone already
    });
  };
  if (serve && standing_.is_alone()) {  // it serves, and the partner gave up its own line
    return sequencer_.drain([this, step, arrive = std::move(arrive)]() mutable {
      if (steps_.current(step)) steps_.settle_store(step, std::move(arrive));
    });
  }
  if (serve) return steps_.settle_store(step, std::move(arrive));
  applier_.quiesce(Applier::Wait::unless_failed, std::move(arrive));
}

void EpochDriver::join() {
  if (steps_.busy() || !standing_.is_alone() || !exchange_.partner() || !outbound_.ready) return;
  if (!lu_.may_join()) return;  // asked again: the target does not have the unit's state yet
  mark<"membership.join">();
  ReplicaState theirs = *exchange_.partner();
  theirs.running = true;
  drive_both(theirs, 0);
}

bool EpochDriver::may_change_in_sync() const {
  return standing_.is_sequencer() && standing_.in_sync() && !standing_.gated && !resync_.active();
}

/// The only member, and nobody there who would serve another size: its next epoch names it again. A partner that comes
/// back makes room and adopts.
void EpochDriver::grow_alone() {
  if (!may_renew_alone()) return;
  if (partner_.connected() || partner_.in_contact() || resync_.active()) return;
  const std::uint64_t size = growth_.size_to_take_alone();
  if (size == 0) return;
  mark<"membership.grows_alone">();
  engine::EpochRecord next = next_epoch(standing_.epoch(), engine::MemberSet::only(standing_.side()), standing_.side(),
                                        random_.uuid(), above_witness());
  next.size = size;
  renew_alone(next);
}

/// What the partner won and never recorded stands at the witness with its number, and would deny this replica.
std::uint64_t EpochDriver::above_witness() const {
  return std::max({witnessing_.attempted(), witnessing_.above(), store_.known.record_number});
}

bool EpochDriver::go_above(std::uint64_t number) {
  if (!may_renew_alone()) return false;
  mark<"membership.goes_above_the_witness">();
  renew_alone(
      next_epoch(standing_.epoch(), MemberSet::only(standing_.side()), standing_.side(), random_.uuid(), number));
  return true;
}

bool EpochDriver::may_renew_alone() const {
  return standing_.is_alone() && !standing_.gated && !steps_.busy() && !standing_.closed() && !store_.failed;
}

void EpochDriver::renew_alone(const engine::EpochRecord& next) {
  const std::uint64_t step = steps_.begin(Step::driving);
  phases_.close_gate();
  sequencer_.drain([this, step, next] {
    if (!steps_.current(step)) return;
    steps_.record(next, [this, step](std::error_code error) {
      if (!steps_.current(step)) return;
      steps_.end();
      if (!error) phases_.apply(event::AloneRecorded{});
    });
  });
}

}  // namespace lockstep::replication
