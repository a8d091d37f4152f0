#pragma once
// On which machines a pair's witness is, as its endpoints say. Pure.
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// Each of the witness's endpoints with the machine of the pair's own that it is on, "http://10.0.0.11:2379 on node-a,
/// http://localhost:2379 on each node itself", where all of them are: with that machine the witness is lost, too.
/// Nothing where one is elsewhere, or has a name that says nothing of it, and for a pair on loopback addresses, whose
/// nodes are on one machine for a trial.
[[nodiscard]] std::optional<std::string> own_machines_of(const Arbiter& arbiter, const std::vector<Node>& nodes);

/// The same as what is wrong with the field; nothing: it may be used.
[[nodiscard]] std::vector<FieldProblem> problems_of_place(const Arbiter& arbiter, const std::vector<Node>& nodes);

}  // namespace lockstep::mgmt
