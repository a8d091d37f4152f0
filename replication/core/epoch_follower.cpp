#include "replication/core/epoch_follower.hpp"

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;

EpochFollower::EpochFollower(const StepParts& parts, FollowerUser& user)
    : clock_(parts.clock),
      standing_(parts.standing),
      store_(parts.store),
      sequencer_(parts.sequencer),
      applier_(parts.applier),
      witnessing_(parts.witnessing),
      lu_(parts.lu),
      store_watch_(parts.store_watch),
      left_epoch_(parts.left_epoch),
      exchange_(parts.exchange),
      steps_(parts.steps),
      phases_(parts.phases),
      alone_(parts.alone),
      user_(user) {}

void EpochFollower::take_propose(InboundRequest& request, const Message& m) {
  const auto carried = decode_state(request.payload());
  if (!carried) return answer(request, m, Errc::corrupt);
  const engine::EpochRecord& next = carried->record;
  const bool from_my_record = m.epoch == standing_.epoch().id && next.descends_from(standing_.epoch());
  const bool higher = next.number > standing_.epoch().number && next.number > witnessing_.attempted();
  const bool members = next.members.contains(engine::other(standing_.side()));
  // What it acknowledges alone is nowhere else (EpochDriver::part_ways), also what it has begun with.
  const bool loses = (standing_.is_alone() || phases_.wrote_alone()) && !next.members.contains(standing_.side());
  const bool fits = next.size >= standing_.epoch().size && next.size <= store_.room();  // no volume ever shrinks
  const bool begun = user_.has_begun() || store_.failed;  // one that can't even begin may still leave
  if (!from_my_record || !higher || !members || loses || !fits || !begun || steps_.busy()) {
    mark<"membership.proposal_refused">();
    return answer(request, m, Errc::refused);
  }
  const bool state_unknown = standing_.is_forwarding() && !lu_.may_join();
  if (next.members.is_both() && (!user_.state().able || state_unknown)) return answer(request, m, Errc::refused);
  if (next.members.is_both() && !applier_.may_be_resynced()) return answer(request, m, Errc::refused);
  if (standing_.metadata_failed() && next.members.is_both()) return answer(request, m, Errc::io_error);
  phases_.apply(event::NotAlone{});
  const std::uint64_t step = steps_.begin(Step::following);
  proposal_ = &request;
  proposal_message_ = m;
  witnessing_.abandon();
  alone_.forget();
  if (standing_.epoch().sequencer != standing_.side()) applier_.on_watermark(m.watermark);
  phases_.close_gate();
  sequencer_.resend();
  next.members.is_both() ? follow_join(step, next, m.flags & kFlagEqual) : follow_leave(step, next);
}

void EpochFollower::answer_proposal(Errc status) {
  if (InboundRequest* request = std::exchange(proposal_, nullptr)) answer(*request, proposal_message_, status);
}

/// Stops serving, ends what was ordered, records, then answers.
void EpochFollower::follow_leave(std::uint64_t step, engine::EpochRecord next) {
  mark<"membership.follow_leave">();
  const auto drained = [this, step, next = std::move(next)] {
    applier_.quiesce(Applier::Wait::unless_failed, [this, step, next] {
      if (!steps_.current(step)) return;
      phases_.apply(event::RecordBegins{});
      if (standing_.metadata_failed()) return leave_without_metadata(step, next);
      steps_.record(next, [this, step, next](std::error_code error) {
        if (error && steps_.current(step)) return leave_without_metadata(step, next);
        answer_proposal(error ? Errc::io_error : Errc::ok);
        if (steps_.current(step)) steps_.end();
        if (!error) phases_.apply(event::PartnerRecorded{clock_.now()});
      });
    });
  };
  const auto& theirs = exchange_.partner();
  const bool restarted = theirs && !theirs->running;
  sequencer_.drain(drained, restarted ? Sequencer::Drain::leaves_to_next_process : Sequencer::Drain::leaves);
}

/// With a witness the partner has to win there. Without one nobody else remembers that this replica is none any more.
/// One that tried to record that it goes on alone can't take that back, whatever it keeps beside it.
void EpochFollower::leave_without_metadata(std::uint64_t step, const engine::EpochRecord& next) {
  const bool witnessed = standing_.epoch().arbiter.kind == engine::ArbiterKind::witness;
  if (witnessed || steps_.own_record_unknown() || !left_epoch_.can_keep() || !standing_.metadata_failed()) {
    answer_proposal(Errc::io_error);
    return steps_.end();
  }
  mark<"membership.left_without_metadata">();
  steps_.recording_begins();
  left_epoch_.keep(next, [this, step](std::error_code error) {
    if (!steps_.current(step)) return;
    steps_.recording_ends();
    answer_proposal(error ? Errc::io_error : Errc::ok);
    steps_.end();
  });
}

void EpochFollower::follow_join(std::uint64_t step, engine::EpochRecord next, bool equal) {
  mark<"membership.follow_join">();
  if (standing_.is_forwarding()) phases_.settle_left();  // only a member that was alone lets another join
  sequencer_.drain([this, step, equal, next = std::move(next)] {
    applier_.quiesce(Applier::Wait::for_all, [this, step, equal, next] {
      if (!steps_.current(step)) return;
      // Copies and writes of a resync are durable before this replica counts as holding them.
      store_watch_.flush([this, step, equal, next](std::error_code failed) {
        if (failed) store_.fail_flush(failed);
        if (!steps_.current(step)) return;
        if (failed) return steps_.end();
        phases_.apply(event::RecordBegins{});
        steps_.record(next, [this, step, equal](std::error_code error) {
          answer_proposal(error ? Errc::io_error : Errc::ok);
          if (steps_.current(step)) steps_.end();
          if (!error) phases_.apply(event::BothRecorded{clock_.now(), equal, standing_.is_sequencer()});
        });
      });
    });
  });
}

void EpochFollower::take_resume(InboundRequest& request, const Message& m) {
  const bool fits = m.epoch == standing_.epoch().id && standing_.epoch().members.is_both() && ran(standing_.phase) &&
                    !standing_.is_sequencer();
  const bool decided = witnessing_.attempted() > standing_.epoch().number || alone_.is_wanted();
  const ReplicaState mine = user_.state();
  if (!fits || decided || !mine.able || steps_.busy() || applier_.closed()) {
    mark<"membership.resume_refused">();
    return answer(request, m, Errc::refused);
  }
  witnessing_.abandon();
  applier_.on_watermark(m.watermark);
  phases_.apply(event::NotAlone{});
  if (standing_.serves_nothing()) user_.resume();
  answer(request, m, Errc::ok);
}

}  // namespace lockstep::replication
