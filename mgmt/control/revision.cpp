#include "mgmt/control/revision.hpp"

namespace lockstep::mgmt {

RevisionVerdict compare_revisions(const RevisionState& mine, const RevisionState& theirs) {
  using enum RevisionVerdict;
  if (mine.head.epoch != theirs.head.epoch) return conflict;
  if (theirs.head.n > mine.head.n) return mine.tentative == theirs.head ? commit_tentative : adopt_theirs;
  const bool same = theirs.head == mine.head;
  if (theirs.head.n == mine.head.n && !same) return conflict;
  if (mine.tentative) return theirs.in_flight == mine.tentative->change ? wait : discard_tentative;
  return same ? agree : they_are_behind;
}

}  // namespace lockstep::mgmt
