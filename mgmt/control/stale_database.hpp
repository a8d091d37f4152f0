#pragma once
// A node whose database is of the past, or whose copy of the configuration is: how that is told, what is said of it,
// and the way out.
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/node_core.hpp"
#include "mgmt/control/pair_view.hpp"

namespace lockstep::mgmt {

/// What tells the time of a database. Pure.
struct TimeSigns {
  DatabaseTime by_copy = DatabaseTime::unknown;
  bool in_pair = true, has_partner = true;
  bool agreed = false;                       ///< the partner has what is in force here. Both may have been set back
  bool lacks_decided = false;                ///< the partner has more than this node can lack of what it decided itself
  std::optional<bool> lockstepd_is_later{};  ///< its orders are of a later revision; nothing: it has not been heard yet
  bool may_hear = true;                      ///< there is time left for the two to say so
};
[[nodiscard]] DatabaseTime judge_time(const TimeSigns& signs);

/// A node whose database is of the past takes part anew. Its management must have nothing before the other one replaces
/// it.
[[nodiscard]] std::string without_the_database(const std::string& name, NodeSide side);

/// Of this node, and of the copy of the configuration beside its volumes.
void judge_copy(const PairView& view, std::vector<HealthProblem>& problems);

}  // namespace lockstep::mgmt
