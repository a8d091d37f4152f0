#include "mgmt/control/revision.hpp"

#include <algorithm>

namespace lockstep::mgmt {

RevisionVerdict compare_revisions(const RevisionState& mine, const RevisionState& theirs) {
  using enum RevisionVerdict;
  if (mine.head.epoch != theirs.head.epoch) {
    // Whoever begins an epoch takes over all that the one before may have decided. A node that has more of that one
    // than was taken over met a database that was set back: nothing of it is thrown away by a program.
    if (theirs.epoch.descends_from(mine.head)) return adopt_theirs;
    return mine.epoch.descends_from(theirs.head) ? they_are_behind : conflict;
  }
  if (theirs.head.n > mine.head.n) return mine.tentative == theirs.head ? commit_tentative : adopt_theirs;
  const bool same = theirs.head == mine.head;
  if (theirs.head.n == mine.head.n && !same) return conflict;
  if (mine.tentative) return theirs.in_flight == mine.tentative->change ? wait : discard_tentative;
  return same ? agree : they_are_behind;
}

bool lacks_what_it_decided(const RevisionState& mine, const RevisionState& theirs) {
  if (theirs.head.epoch == mine.head.epoch) return theirs.head.n > mine.head.n;
  const auto& taken_over = theirs.epoch.ancestors;
  const auto last = std::ranges::find(taken_over, mine.head.epoch, &RevisionId::epoch);
  return last != taken_over.end() && last->n > mine.head.n + 1;
}

}  // namespace lockstep::mgmt
