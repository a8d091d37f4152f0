#include "replication/core/giving_up.hpp"

#include <algorithm>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;

GivingUp::GivingUp(const StepParts& parts, OperatorCommand& command, const GivingUpUser& user)
    : settings_(parts.settings),
      clock_(parts.clock),
      random_(parts.random),
      partner_(parts.partner),
      standing_(parts.standing),
      outbound_(parts.outbound),
      sequencer_(parts.sequencer),
      applier_(parts.applier),
      witnessing_(parts.witnessing),
      growth_(parts.growth),
      exchange_(parts.exchange),
      steps_(parts.steps),
      phases_(parts.phases),
      alone_(parts.alone),
      command_(command),
      user_(user) {}

void GivingUp::begin(OperatorCommand::Done done) {
  if (command_.waits() || steps_.busy()) {
    return done(fail(Errc::refused, "Another change of this volume has not ended yet. Try again in a moment."));
  }
  if (const std::string why = why_not(); !why.empty()) return done(fail(Errc::refused, why));
  command_.begin(OperatorCommand::Kind::give_up, std::move(done),
                 clock_.now() + 4 * settings_.lease + 2 * settings_.store_deadline);
  stage_ = Stage::asking;
  steps_.begin(Step::driving);
  exchange_.restart();  // an answer that is on its way was given before this step began
  exchange_.ask();
}

/// Empty: it may.
std::string GivingUp::why_not() const {
  if (standing_.metadata_failed())
    return "This replica's metadata failed: it can't record that it gives up. Restart lockstepd when its disk works.";
  if (!partner_.connected()) return "The partner is away. It must be there: its copy is the one that is kept.";
  if (exchange_.partner_is_larger())
    return "The volume has grown there to more than this replica has room for. Make room here first.";
  if (!outbound_.ready || !exchange_.partner())
    return "The partner has not told yet where it stands. Try again in a moment.";
  if (decide(user_.state(), *exchange_.partner()) != Verdict::split_brain) {
    return "No split brain is seen with the partner: there is nothing to give up.";
  }
  if (!exchange_.partner()->record.members.contains(engine::other(standing_.side()))) {
    return "The partner's copy may not serve alone. Force it first (force_solo), or keep this one.";
  }
  if (!exchange_.partner()->able) return "The partner's copy can't be used: its store failed, or it is being detached.";
  if (exchange_.partner()->changing) return "The partner is in the middle of a change. Try again in a moment.";
  if (standing_.epoch().size > exchange_.partner()->record.size && standing_.epoch().size > growth_.partner_room()) {
    return "This copy has grown to " + std::to_string(standing_.epoch().size) +
           " bytes, and the partner has room for " + std::to_string(growth_.partner_room()) +
           ". Make room there first: no volume shrinks.";
  }
  return {};
}

void GivingUp::on_partner_asked(bool answered) {
  if (stage_ != Stage::asking) return;
  std::string why = why_not();
  if (why.empty() && !answered) why = "The partner did not answer.";
  if (!why.empty()) {
    end(why);
    return steps_.end();
  }
  mark<"membership.gives_up">();
  stage_ = Stage::doing;
  witnessing_.abandon();
  alone_.forget();
  const std::uint64_t over = std::max(exchange_.partner()->attempted, witnessing_.attempted());
  stop_for_good(steps_.token(), epoch_after_giving_up(exchange_.partner()->record, standing_.epoch(),
                                                      engine::other(standing_.side()), random_.uuid(), over));
}

/// Answers of this line are of a truth that ends here: the sessions are closed, and what was started ends first.
void GivingUp::stop_for_good(std::uint64_t step, engine::EpochRecord next) {
  phases_.close_gate();
  if (standing_.is_alone() || standing_.suspended()) phases_.fence();
  if (!standing_.is_alone()) return record(step, std::move(next));
  sequencer_.drain([this, step, next = std::move(next)]() mutable {
    if (steps_.current(step)) record(step, std::move(next));
  });
}

void GivingUp::record(std::uint64_t step, engine::EpochRecord next) {
  applier_.quiesce(Applier::Wait::unless_failed, [this, step, next = std::move(next)] {
    if (!steps_.current(step)) return;
    phases_.apply(event::RecordBegins{});
    steps_.record(next, [this, step](std::error_code error) {
      if (!steps_.current(step)) return;
      stage_ = Stage::no;
      steps_.end();
      if (error) {
        return command_.finish(fail(Errc::io_error, "It could not be recorded: " + error.message() +
                                                        ". Look at this replica's state before you try again."));
      }
      if (standing_.closed()) return;
      mark<"membership.gave_up">();
      phases_.apply(event::PartnerRecorded{clock_.now()});
      command_.finish({});
    });
  });
}

/// `why`: it is not even begun. Otherwise its step was ended from outside: by the loss of the partner, by its time, or
/// by metadata that did not return.
void GivingUp::end(const std::string& why) {
  const bool begun = std::exchange(stage_, Stage::no) == Stage::doing;
  if (begun && standing_.serves_nothing()) phases_.refuse_held();
  if (standing_.metadata_failed()) {
    return command_.finish(fail(Errc::io_error, "Whether it was recorded is not known: the metadata failed."));
  }
  const std::string what = why.empty() ? "The partner went away, or this replica's store was too slow." : why;
  command_.finish(fail(Errc::refused, what + " Nothing was given up."));
}

}  // namespace lockstep::replication
