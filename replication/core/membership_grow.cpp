// The steps by which a volume grows in use (growth.hpp).
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

bool Membership::may_change_in_sync() const {
  return standing_.is_sequencer() && standing_.in_sync() && !standing_.gated && !resync_.active();
}

/// The only member, and nobody there who would serve another size: its next epoch names it again. A partner that comes
/// back makes room and adopts.
void Membership::grow_alone() {
  if (!standing_.is_alone() || standing_.gated || steps_.busy() || closed() || store_.failed) return;
  if (partner_.connected() || partner_.in_contact() || resync_.active()) return;
  const std::uint64_t size = growth_.size_to_take_alone();
  if (size == 0) return;
  mark<"membership.grows_alone">();
  engine::EpochRecord next = next_epoch(standing_.epoch(), engine::MemberSet::only(standing_.side()), standing_.side(),
                                        random_.uuid(), witnessing_.attempted());
  next.size = size;
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
