#pragma once
// Whether a witness is one that a pair could have: what can be seen in what was said of it, and what it answers itself.
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/data_plane.hpp"

namespace lockstep::mgmt {

/// With JSON pointers below /arbiter. Asks nobody.
[[nodiscard]] std::vector<FieldProblem> problems_of(const Arbiter& arbiter);

/// Has lockstepd ask each endpoint. Refusal invalid when one answers as a witness does not: the wrong certificate, a
/// wrong password, no etcd. One that is not reached now is no refusal, and none can be asked while lockstepd is away:
/// the pair then shows that its witness is lost.
[[nodiscard]] Outcome<void> try_witness(DataPlane& data_plane, const Arbiter& arbiter);

}  // namespace lockstep::mgmt
