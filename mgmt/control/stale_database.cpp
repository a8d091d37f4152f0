#include "mgmt/control/stale_database.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::mgmt {
namespace {

/// One that takes this node for its partner, or may when it is back.
bool is_brought_up_to_date(const PairView& view) {
  return std::ranges::any_of(view.nodes, [](const NodeView& n) {
    return n.node && !n.local && (n.trouble == PartnerTrouble::none || n.trouble == PartnerTrouble::away);
  });
}

}  // namespace

DatabaseTime judge_time(const TimeSigns& signs) {
  if (signs.by_copy == DatabaseTime::past) return DatabaseTime::past;
  if (!signs.in_pair) return DatabaseTime::now;
  if (signs.lacks_decided || signs.lockstepd_is_later.value_or(false)) return DatabaseTime::past;
  const bool heard = signs.lockstepd_is_later.has_value();
  if (signs.agreed && heard) return DatabaseTime::now;
  if (signs.agreed && !signs.may_hear) return DatabaseTime::presumed;
  if (signs.by_copy == DatabaseTime::unknown) return DatabaseTime::unknown;
  if (heard && !signs.has_partner) return DatabaseTime::now;
  return signs.may_hear ? DatabaseTime::unknown : DatabaseTime::presumed;
}

std::string without_the_database(const std::string& name, NodeSide side) {
  return fmt::format(
      "stop lockstep-mgmtd on {0}, move mgmt.db and what begins with that name away, and start it again. Then, where "
      "the other node has the pair, run `lockstep node replace {1}` there and `lockstep pair join` on {0}; where none "
      "has it, `lockstep pair recover` on {0}.",
      name, side_name(side));
}

void judge_copy(const PairView& view, std::vector<HealthProblem>& problems) {
  if (view.newer_copy != 0)
    problems.push_back(
        {Severity::warning,
         "node",
         view.local_side,
         {},
         fmt::format(
             "The database of this node's management is of an earlier time: it has revision {}, and the copy of "
             "the configuration beside the volumes has revision {}.",
             view.revision.head.n, view.newer_copy),
         is_brought_up_to_date(view)
             ? "The other node brings it up to date by itself. If that one is lost, take the copy before anything is "
               "changed: stop lockstep-mgmtd here, move mgmt.db and what begins with that name away, start it again, "
               "and run `lockstep pair recover`."
             : "No other node brings it up to date. Before anything is changed " +
                   without_the_database("this node", view.local_side.value_or(NodeSide::a))});
  else if (!view.save_problem.empty())
    problems.push_back(
        {Severity::warning,
         "node",
         view.local_side,
         {},
         fmt::format("The copy of the configuration beside the volumes is not of now: {}", view.save_problem),
         "It is written again by itself, a moment after that is possible."});
}

}  // namespace lockstep::mgmt
