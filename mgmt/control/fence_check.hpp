#pragma once
// Whether this node could power its partner off: asked before it takes part in a pair whose arbiter is a fence.
#include "mgmt/control/configuration.hpp"
#include "mgmt/control/data_plane.hpp"

namespace lockstep::mgmt {

/// Has lockstepd look at the partner's power, if the arbiter is a fence. Refusal invalid with what was run and what it
/// said; data_plane_away where it can't be asked: a pair that nobody may go on in is not made on trust.
[[nodiscard]] Outcome<void> try_fence(DataPlane& data_plane, const Arbiter& arbiter);
/// The same, whatever the arbiter is.
[[nodiscard]] Outcome<void> try_fence(DataPlane& data_plane);
/// The same of a partner whose management answers: a fence that says it is off is refused, too, as one that would power
/// off something else.
[[nodiscard]] Outcome<void> try_fence_of_running(DataPlane& data_plane);

}  // namespace lockstep::mgmt
