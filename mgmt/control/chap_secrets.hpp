#pragma once
// A CHAP secret has one use (RFC 7143 9.2.1, 12.1.3): whoever knows a secret for one of its uses could pass for
// somebody else in the other. Only the target's own secret may be the same towards several hosts, since it is one
// target. Pure.
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// What the initiator's credentials have against them by themselves and beside those that are there, old ones too, but
/// not their names.
[[nodiscard]] std::vector<FieldProblem> chap_problems(const Initiator& wanted, const Configuration& configuration);
/// The same of discovery's.
[[nodiscard]] std::vector<FieldProblem> discovery_problems(const Chap& wanted, const Configuration& configuration);

}  // namespace lockstep::mgmt
