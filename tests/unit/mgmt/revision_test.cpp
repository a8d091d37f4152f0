// The table that decides what a node does about its revisions once it knows its partner's.
#include "mgmt/control/revision.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

using enum RevisionVerdict;

engine::Uuid uuid(std::uint8_t n) {
  engine::Uuid id;
  id.bytes[0] = n;
  return id;
}

RevisionId id(std::int64_t n, std::uint8_t change) { return {uuid(1), n, uuid(change)}; }

TEST(CompareRevisions, EqualHeadsAgree) {
  EXPECT_EQ(compare_revisions({id(3, 9), {}, {}, {}}, {id(3, 9), {}, {}, {}}), agree);
}

TEST(CompareRevisions, ANodeWhosePartnerDecidedForItsTentativeRevisionCommitsIt) {
  EXPECT_EQ(compare_revisions({id(3, 9), {}, id(4, 10), {}}, {id(4, 10), {}, {}, {}}), commit_tentative);
}

TEST(CompareRevisions, ANodeWhosePartnerDecidedOtherwiseAdoptsThePartners) {
  EXPECT_EQ(compare_revisions({id(3, 9), {}, id(4, 10), {}}, {id(4, 11), {}, {}, {}}), adopt_theirs);
  EXPECT_EQ(compare_revisions({id(3, 9), {}, {}, {}}, {id(7, 11), {}, {}, {}}), adopt_theirs);
}

TEST(CompareRevisions, ATentativeRevisionIsKeptOnlyWhileItIsInFlight) {
  EXPECT_EQ(compare_revisions({id(3, 9), {}, id(4, 10), {}}, {id(3, 9), {}, {}, uuid(10)}), wait);
  EXPECT_EQ(compare_revisions({id(3, 9), {}, id(4, 10), {}}, {id(3, 9), {}, {}, {}}), discard_tentative);
  EXPECT_EQ(compare_revisions({id(3, 9), {}, id(4, 10), {}}, {id(3, 9), {}, {}, uuid(11)}), discard_tentative);
}

TEST(CompareRevisions, SameNumberDecidedTwiceIsAConflict) {
  EXPECT_EQ(compare_revisions({id(3, 9), {}, {}, {}}, {id(3, 8), {}, {}, {}}), conflict);
}

TEST(CompareRevisions, AnotherEpochIsAConflict) {
  RevisionState other{id(3, 9), {}, {}, {}};
  other.head.epoch = uuid(2);
  EXPECT_EQ(compare_revisions({id(3, 9), {}, {}, {}}, other), conflict);
}

TEST(LacksWhatItDecided, AnOrdererBehindItsFollowerWasSetBackUnlessThatWentOnWithOneProposal) {
  const RevisionState mine{id(3, 9), {.id = uuid(1)}, {}, {}};
  EXPECT_FALSE(lacks_what_it_decided(mine, mine));
  EXPECT_FALSE(lacks_what_it_decided(mine, {id(2, 9), {.id = uuid(1)}, {}, {}}));
  EXPECT_TRUE(lacks_what_it_decided(mine, {id(4, 9), {.id = uuid(1)}, {}, {}}));
  RevisionState alone{{uuid(2), 6, uuid(9)}, {.id = uuid(2), .number = 2}, {}, {}};
  EXPECT_FALSE(lacks_what_it_decided(mine, alone)) << "it does not follow from this epoch";
  for (const auto& [last, lacks] : std::vector<std::pair<std::int64_t, bool>>{{3, false}, {4, false}, {5, true}}) {
    alone.epoch.ancestors = {id(last, 9)};
    EXPECT_EQ(lacks_what_it_decided(mine, alone), lacks) << last;
  }
}

// Over every combination of small states: what one does about the other mirrors what the other does.
TEST(CompareRevisions, VerdictsMirrorEachOther) {
  std::vector<RevisionState> states;
  for (const std::uint8_t epoch : {1, 2})
    for (std::int64_t n = 1; n <= 3; ++n)
      for (const std::uint8_t change : {1, 2})
        for (int tentative = 0; tentative <= 2; ++tentative)
          for (int flight = 0; flight <= 2; ++flight) {
            RevisionState s{{uuid(epoch), n, uuid(change)}, {}, {}, {}};
            if (tentative) s.tentative = RevisionId{uuid(epoch), n + 1, uuid(static_cast<std::uint8_t>(tentative))};
            if (flight) s.in_flight = uuid(static_cast<std::uint8_t>(flight));
            states.push_back(s);
          }
  for (const auto& a : states) {
    for (const auto& b : states) {
      const auto ab = compare_revisions(a, b);
      const auto ba = compare_revisions(b, a);
      ASSERT_EQ(ab == conflict, ba == conflict);
      const bool a_takes = ab == commit_tentative || ab == adopt_theirs;
      const bool b_takes = ba == commit_tentative || ba == adopt_theirs;
      ASSERT_FALSE(a_takes && b_takes) << "both would give up what they have";
      if (ab == conflict) continue;
      ASSERT_EQ(a_takes, b.head.n > a.head.n);
      if (ab == agree) {
        ASSERT_EQ(a.head, b.head);
      }
      if (ab == they_are_behind) {
        ASSERT_TRUE(b_takes);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::mgmt
