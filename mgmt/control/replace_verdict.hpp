#pragma once
// Whether a copy of a volume may be replaced now, from what both lockstepds say of it. Pure.
#include "mgmt/control/configuration.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/node_report.hpp"

namespace lockstep::mgmt {

/// One node's word on a volume.
struct CopyView {
  const Node* node = nullptr;
  NodeReport report;

  [[nodiscard]] const ReplicaStatus* status(const Volume& volume) const {
    return report.status ? report.status->volume(volume.id) : nullptr;
  }
  /// What lockstepd found wrong with the volume when it was last told of it; empty when nothing.
  [[nodiscard]] std::string problem(const Volume& volume) const;
};

/// lockstepd runs there, should have the copy in use, and can't: it does not find it, or its disk failed.
[[nodiscard]] bool is_lost(const CopyView& copy, const Volume& volume);

/// The epoch of which `survivor` is the only member and which it serves; nothing when it is not known to be whole.
[[nodiscard]] std::optional<LoneEpoch> lone_epoch_of(const CopyView& survivor, const Volume& volume);

/// `copy` serves the volume alone, so that it has what nobody else has: a sentence; nothing: it is not known to. Where
/// both do, one of the two was forced, and the link between them is cut, or they would say that they differ.
[[nodiscard]] std::optional<std::string> why_not_dropped(const CopyView& copy, const Volume& volume);

struct ReplacePlan {
  bool moves = false;   ///< the copy is not lost: its files go when the new one is whole
  bool leaves = false;  ///< it is in sync, and has to leave first
};
/// `elsewhere`: another folder than the copy's was named. No job is at work on the volume. A refusal says what to do
/// instead.
[[nodiscard]] Outcome<ReplacePlan> plan_replacement(const CopyView& named, const CopyView& survivor,
                                                    const Volume& volume, bool elsewhere);

}  // namespace lockstep::mgmt
