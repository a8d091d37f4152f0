// What two nodes decide of one another: every combination of what they may know, from both sides.
#include "replication/core/verdict.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "replication/core/arbiter.hpp"

namespace lockstep::replication {
namespace {

using engine::EpochRecord;
using engine::MemberSet;
using engine::NodeSide;
using engine::Uuid;

Uuid id(std::uint8_t n) {
  Uuid u;
  u.bytes[15] = n;
  return u;
}

EpochRecord record(std::uint64_t number, std::uint8_t name, MemberSet members, std::vector<Uuid> ancestors) {
  EpochRecord r;
  r.number = number;
  r.id = id(name);
  r.members = members;
  r.sequencer = members.contains(NodeSide::a) ? NodeSide::a : NodeSide::b;
  r.ancestors = std::move(ancestors);
  r.size = 1 << 20;
  return r;
}

/// Records of a small family tree: a root, children of every membership, grandchildren, and a stranger.
std::vector<EpochRecord> records() {
  std::vector<EpochRecord> all;
  std::uint8_t name = 1;
  const MemberSet sets[] = {MemberSet::both(), MemberSet::only(NodeSide::a), MemberSet::only(NodeSide::b)};
  for (const MemberSet root : sets) all.push_back(record(1, name++, root, {}));
  for (const MemberSet child : sets) all.push_back(record(2, name++, child, {id(1)}));
  for (const MemberSet other : sets) all.push_back(record(2, name++, other, {id(1)}));
  for (const MemberSet grand : sets) all.push_back(record(3, name++, grand, {id(4), id(1)}));
  for (const MemberSet grand : sets) all.push_back(record(3, name++, grand, {id(5), id(1)}));
  return all;
}

template <class Visit>
void for_every_pair(Visit visit) {
  for (const EpochRecord& ra : records()) {
    for (const EpochRecord& rb : records()) {
      for (unsigned bits = 0; bits < 1024; ++bits) {
        ReplicaState a, b;
        a.record = ra;
        b.record = rb;
        b.side = NodeSide::b;
        a.running = bits & 1;
        b.running = bits & 2;
        a.able = bits & 4;
        b.able = bits & 8;
        a.serving = bits & 16;
        b.serving = bits & 32;
        a.attempted = bits & 64 ? 9 : 0;
        b.attempted = bits & 128 ? 9 : 0;
        a.only_failed_operations = bits & 256;
        b.only_failed_operations = bits & 512;
        visit(a, b);
      }
    }
  }
}

bool drives(Verdict v) { return v == Verdict::drive_both || v == Verdict::drive_resume || v == Verdict::drive_solo; }
bool fits(Verdict x, Verdict y) {
  if (drives(x)) return y == Verdict::follow;
  switch (x) {
    case Verdict::settled:
      return y == Verdict::settled;
    case Verdict::split_brain:
      return y == Verdict::split_brain;
    case Verdict::source:
    case Verdict::start_solo:
      return y == Verdict::target || y == Verdict::adopt;
    case Verdict::take_over:
      return y == Verdict::follow;
    case Verdict::target:
    case Verdict::adopt:
      return y == Verdict::source || y == Verdict::start_solo || y == Verdict::wait;
    case Verdict::follow:
      return drives(y) || y == Verdict::take_over || y == Verdict::wait;
    case Verdict::wait:
      return y == Verdict::wait || y == Verdict::target || y == Verdict::adopt || y == Verdict::follow;
    default:
      return false;
  }
}

TEST(Verdict, WhatADecidesAboutBFitsWhatBDecidesAboutAInEveryCombination) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    const Verdict va = decide(a, b), vb = decide(b, a);
    ASSERT_TRUE(fits(va, vb) && fits(vb, va))
        << to_string(va) << " against " << to_string(vb) << ", records " << int(a.record.id.bytes[15]) << " and "
        << int(b.record.id.bytes[15]) << " running " << a.running << b.running << " able " << a.able << b.able;
  });
}

TEST(Verdict, NobodyServesOrDrivesFromARecordThatNamesOnlyTheOther) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    const Verdict v = decide(a, b);
    if (a.record.members == MemberSet::only(NodeSide::b) && a.record.id == b.record.id) {
      ASSERT_EQ(v, Verdict::target);
    }
    if (v == Verdict::source || v == Verdict::start_solo) {
      ASSERT_TRUE(a.record.members == MemberSet::only(NodeSide::a));
    }
    if (v == Verdict::adopt) {
      ASSERT_TRUE(b.record.members == MemberSet::only(NodeSide::b));
    }
  });
}

TEST(Verdict, NobodyWhoIsNotAbleServesAlone) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    const Verdict v = decide(a, b);
    ASSERT_TRUE(a.able || (v != Verdict::source && v != Verdict::start_solo));
  });
}

namespace {
ReplicaState holding(NodeSide side, const EpochRecord& record) {
  ReplicaState s;
  s.side = side;
  s.record = record;
  s.running = s.able = true;
  return s;
}
}  // namespace

/// Whatever came between may have been served by one of the two alone.
TEST(Verdict, OnlyTheDirectHeirOfARecordOfBothLeavesBothWithTheWholeTruth) {
  const MemberSet both = MemberSet::both(), only_a = MemberSet::only(NodeSide::a);
  const EpochRecord first = record(1, 1, both, {}), alone = record(2, 2, only_a, {id(1)});
  const auto decided = [](const EpochRecord& of_a, const EpochRecord& of_b) {
    return decide(holding(NodeSide::a, of_a), holding(NodeSide::b, of_b));
  };
  EXPECT_EQ(decided(record(2, 3, both, {id(1)}), first), Verdict::drive_both);
  EXPECT_EQ(decided(record(3, 3, both, {id(2), id(1)}), first), Verdict::drive_solo) << "b lacks what a wrote alone";
  EXPECT_EQ(decided(alone, record(3, 3, both, {id(2), id(1)})), Verdict::wait) << "a records a join first";
}

TEST(Verdict, ARestartedProcessNeverReentersTheEpochThatItsPartnerStillRuns) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    if (a.record.id != b.record.id || a.running == b.running) return;
    const Verdict v = decide(a, b);
    ASSERT_NE(v, Verdict::settled);
    ASSERT_NE(v, Verdict::drive_resume);
    ASSERT_NE(v, Verdict::drive_both);
  });
}

TEST(Verdict, TheNextEpochHasTheLargerSizeOfTheTwo) {
  for_every_pair([](ReplicaState a, ReplicaState b) {
    b.record.size = 2 * a.record.size;
    ASSERT_EQ(next_epoch(a, b, MemberSet::both(), NodeSide::a, id(99), 7).size, b.record.size);
    ASSERT_EQ(next_epoch(b, a, MemberSet::both(), NodeSide::b, id(99), 7).size, b.record.size);
  });
}

TEST(Verdict, TheNextEpochDescendsFromBothAndIsAboveEverythingAttempted) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    const EpochRecord next = next_epoch(a, b, MemberSet::both(), NodeSide::a, id(99), 7);
    ASSERT_TRUE(next.descends_from(a.record) && next.descends_from(b.record));
    ASSERT_GT(next.number, std::max({a.record.number, b.record.number, std::uint64_t{7}}));
  });
}

/// What it is to descend from, and what its other fields are taken from, may have been served; the older one is over.
TEST(Verdict, TheNextEpochHasTheNewerRecordForItsParentWhoeverMakesIt) {
  EpochRecord newer = record(2, 2, MemberSet::only(NodeSide::a), {id(1)});
  newer.arbiter.kind = engine::ArbiterKind::preferred;
  const ReplicaState a = holding(NodeSide::a, newer);
  const ReplicaState b = holding(NodeSide::b, record(1, 1, MemberSet::both(), {}));
  for (const EpochRecord& next : {next_epoch(a, b, MemberSet::both(), NodeSide::a, id(9), 0),
                                  next_epoch(b, a, MemberSet::both(), NodeSide::a, id(9), 0)}) {
    EXPECT_EQ(next.ancestors.front(), id(2));
    EXPECT_EQ(next.arbiter, newer.arbiter);
  }
}

TEST(Verdict, OnlyAMemberTakesOver) {
  const EpochRecord only_b = record(1, 1, MemberSet::only(NodeSide::b), {});
  const ReplicaState b = holding(NodeSide::b, record(2, 2, MemberSet::only(NodeSide::a), {id(1)}));
  EXPECT_EQ(decide(holding(NodeSide::a, only_b), b), Verdict::wait);
  EXPECT_EQ(decide(holding(NodeSide::a, record(1, 1, MemberSet::both(), {})), b), Verdict::take_over);
}

/// B recorded an epoch {A,B} that A never did, and then another one over it, or one that leaves all to A: A, which
/// knows neither, may have gone on alone from the last one that both had. That is no split: nobody served what B
/// recorded.
TEST(Verdict, WhatNobodyServedIsVoidHoweverManyEpochsItIs) {
  ReplicaState a, b;
  b.side = NodeSide::b;
  a.record = record(4, 4, MemberSet::both(), {id(1)});
  b.record = record(5, 5, MemberSet::both(), {id(4), id(1)});
  a.record.sequencer = b.record.sequencer = NodeSide::b;
  a.able = b.able = true;
  ReplicaState a_alone = a;
  a_alone.record = next_epoch(a.record, MemberSet::only(NodeSide::a), NodeSide::a, id(50), 0);
  for (const MemberSet members : {MemberSet::both(), MemberSet::only(NodeSide::a)}) {
    ReplicaState again = b;
    for (std::uint8_t name = 6; name < 9; ++name) {
      const NodeSide driver = members.is_both() ? NodeSide::b : NodeSide::a;
      const EpochRecord next = driver == NodeSide::b ? next_epoch(again, a, members, driver, id(name), 0)
                                                     : next_epoch(a, again, members, driver, id(name), 0);
      EXPECT_TRUE(next.descends_from(again.record) && next.descends_from(a.record));
      again.record = next;
      EXPECT_EQ(decide(a_alone, again), Verdict::drive_solo);
      EXPECT_EQ(decide(again, a_alone), Verdict::follow);
    }
  }
}

/// What that line won at the witness is known to be over.
TEST(GivingUp, KnowsTheWholeLineThatEnds) {
  const EpochRecord kept = record(4, 4, MemberSet::only(NodeSide::a), {id(1)});
  const EpochRecord given_up = record(5, 5, MemberSet::only(NodeSide::b), {id(3), id(2), id(1)});
  const EpochRecord next = epoch_after_giving_up(kept, given_up, NodeSide::a, id(9), 0);
  for (const EpochRecord& before : {record(1, 1, {}, {}), record(2, 2, {}, {}), record(3, 3, {}, {}), kept, given_up})
    EXPECT_TRUE(next.descends_from(before)) << int(before.id.bytes[15]);
}

TEST(GivingUp, LeavesEverythingToTheOtherInAnEpochAboveBothLines) {
  for_every_pair([](const ReplicaState& a, const ReplicaState& b) {
    if (decide(a, b) != Verdict::split_brain || !a.record.members.contains(NodeSide::a)) return;
    ReplicaState victim = b;
    victim.record = epoch_after_giving_up(a.record, b.record, NodeSide::a, id(99), 7);
    ASSERT_TRUE(victim.record.descends_from(a.record) && victim.record.descends_from(b.record));
    ASSERT_GT(victim.record.number, std::max({a.record.number, b.record.number, std::uint64_t{7}}));
    ASSERT_EQ(decide(victim, a), Verdict::follow);
    ASSERT_EQ(decide(a, victim), a.able ? Verdict::take_over : Verdict::wait);
    ReplicaState taken = a;
    taken.record = victim.record;
    ASSERT_EQ(decide(victim, taken), Verdict::target);
  });
}

/// The survivor did not hear of it, and made a step of its own: by force, through its arbiter, or to grow.
TEST(GivingUp, IsVoidBesideWhateverTheSurvivorMadeOfItsLineMeanwhile) {
  for_every_pair([](ReplicaState a, const ReplicaState& b) {
    if (decide(a, b) != Verdict::split_brain || !a.record.members.contains(NodeSide::a)) return;
    ReplicaState victim = b;
    victim.record = epoch_after_giving_up(a.record, b.record, NodeSide::a, id(99), 7);
    for (const std::uint64_t above : {std::uint64_t{0}, victim.record.number, victim.record.number + 5}) {
      ReplicaState went_on = a;
      went_on.able = true;
      went_on.record = next_epoch(a.record, MemberSet::only(NodeSide::a), NodeSide::a, id(100), above);
      ASSERT_EQ(decide(went_on, victim), Verdict::drive_solo);
      ASSERT_EQ(decide(victim, went_on), Verdict::follow);
    }
  });
}

TEST(Alone, PreferredNeverDecidesForAProcessThatWasNotInSync) {
  ReplicaState mine;
  mine.able = true;
  mine.record = record(1, 1, MemberSet::both(), {});
  mine.record.arbiter.kind = engine::ArbiterKind::preferred;
  mine.record.arbiter.preferred = NodeSide::a;
  EXPECT_EQ(decide_alone(mine, {.witness = true}), AloneRule::stay);
  mine.running = true;
  EXPECT_EQ(decide_alone(mine, {.witness = true}), AloneRule::preferred_goes_on);
  mine.side = NodeSide::b;
  EXPECT_EQ(decide_alone(mine, {.witness = true}), AloneRule::stay);
}

TEST(Alone, AFenceDecidesOnlyForAMemberThatWasInSyncAndHasACommand) {
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    ReplicaState mine;
    mine.side = side;
    mine.able = mine.running = true;
    mine.record = record(1, 1, MemberSet::both(), {});
    mine.record.arbiter.kind = engine::ArbiterKind::fence;
    EXPECT_EQ(decide_alone(mine, {.fence = true}), AloneRule::fence_partner);
    EXPECT_EQ(decide_alone(mine, {.witness = true}), AloneRule::stay);
    mine.running = false;
    EXPECT_EQ(decide_alone(mine, {.fence = true}), AloneRule::stay);
    mine.running = true;
    mine.able = false;
    EXPECT_EQ(decide_alone(mine, {.fence = true}), AloneRule::stay);
    mine.able = true;
    mine.record.members = MemberSet::only(engine::other(side));
    EXPECT_EQ(decide_alone(mine, {.fence = true}), AloneRule::stay);
  }
}

TEST(Alone, AWitnessRecordAboveMineForbidsUnlessItNamesOnlyMe) {
  ReplicaState mine;
  mine.record = record(5, 1, MemberSet::both(), {});
  EXPECT_EQ(judge(mine, nullptr, true), WitnessWord::no_record);
  WitnessRecord there{5, id(9), MemberSet::only(NodeSide::b)};
  EXPECT_EQ(judge(mine, &there, true), WitnessWord::may_try);  // at my own number: void
  there.number = 6;
  EXPECT_EQ(judge(mine, &there, true), WitnessWord::lost);
  there.members = MemberSet::only(NodeSide::a);
  EXPECT_EQ(judge(mine, &there, true), WitnessWord::may_try);
  there.members = MemberSet::both();
  EXPECT_EQ(judge(mine, &there, true), WitnessWord::lost);
}

TEST(Alone, APartnersWinStandsBesideAnEpochThatThePartnerMayNotHaveRecorded) {
  ReplicaState mine;
  mine.record = record(6, 1, MemberSet::both(), {id(2)});  // a drove it and recorded it first
  const WitnessRecord there{5, id(9), MemberSet::only(NodeSide::b)};
  EXPECT_EQ(judge(mine, &there, false), WitnessWord::lost);
  EXPECT_EQ(judge(mine, &there, true), WitnessWord::may_try);
  mine.record.ancestors.push_back(id(9));
  EXPECT_EQ(judge(mine, &there, false), WitnessWord::may_try);  // the win was used and joined since
  mine.record.ancestors.pop_back();
  mine.record.sequencer = NodeSide::b;
  EXPECT_EQ(judge(mine, &there, false), WitnessWord::may_try);  // b recorded before a did
  mine.record.sequencer = NodeSide::a;
  EXPECT_EQ(judge(mine, nullptr, false), WitnessWord::no_record);
}

TEST(Alone, APartnersWinAtOrAboveTheNumberOfALoneEpochForbidsThat) {
  ReplicaState mine;
  mine.record = record(7, 7, MemberSet::only(NodeSide::a), {id(6)});
  const auto word = [&](std::uint64_t number, std::uint8_t name, MemberSet members) {
    const WitnessRecord there{number, id(name), members};
    return judge(mine, &there, false);
  };
  EXPECT_EQ(word(7, 7, MemberSet::only(NodeSide::a)), WitnessWord::may_try);
  EXPECT_EQ(word(6, 9, MemberSet::only(NodeSide::b)), WitnessWord::may_try) << "it comes late";
  EXPECT_EQ(word(7, 9, MemberSet::only(NodeSide::b)), WitnessWord::lost) << "no agreement gives a number twice";
  EXPECT_EQ(word(7, 6, MemberSet::only(NodeSide::b)), WitnessWord::may_try) << "mine followed";
  EXPECT_EQ(word(8, 9, MemberSet::only(NodeSide::b)), WitnessWord::lost);
  EXPECT_EQ(word(8, 9, MemberSet::both()), WitnessWord::lost);
}

/// Its two records become durable one after the other.
TEST(NextArbiter, IsNamedOnlyWhereBothWishItAndNeverInThePlaceOfAnotherThatDecides) {
  constexpr ArbiterWish kWishes[] = {ArbiterWish::none, ArbiterWish::nobody, ArbiterWish::preferred_a,
                                     ArbiterWish::preferred_b, ArbiterWish::fence};
  const engine::ArbiterSettings kNamed[] = {{engine::ArbiterKind::witness, NodeSide::a, "http://w"},
                                            {engine::ArbiterKind::preferred, NodeSide::a, ""},
                                            {engine::ArbiterKind::preferred, NodeSide::b, ""},
                                            {engine::ArbiterKind::fence, NodeSide::a, "x"}};
  for (const auto& named : kNamed)
    for (const auto mine_wishes : kWishes)
      for (const auto theirs_wishes : kWishes) {
        ReplicaState mine, theirs;
        mine.record.members = MemberSet::both();
        mine.record.arbiter = named;
        mine.wish = mine_wishes;
        theirs = mine;
        theirs.side = NodeSide::b;
        theirs.wish = theirs_wishes;
        const auto next = next_arbiter(mine, theirs);
        const bool by_witness = named.kind == engine::ArbiterKind::witness;
        const bool to_fence = mine_wishes == ArbiterWish::fence;
        const bool to_a_side = mine_wishes == ArbiterWish::preferred_a || mine_wishes == ArbiterWish::preferred_b;
        const bool to_nobody = mine_wishes == ArbiterWish::nobody;
        const bool agreed = mine_wishes == theirs_wishes && mine_wishes != ArbiterWish::none;
        ASSERT_EQ(next.has_value(), agreed && (by_witness ? to_a_side || to_fence : to_nobody));
        if (!next) continue;
        EXPECT_EQ(next->kind, !by_witness ? engine::ArbiterKind::witness
                              : to_fence  ? engine::ArbiterKind::fence
                                          : engine::ArbiterKind::preferred);
        if (to_a_side) {
          EXPECT_EQ(next->preferred, mine_wishes == ArbiterWish::preferred_a ? NodeSide::a : NodeSide::b);
        }
        theirs.record.id.bytes[0] = 9;
        EXPECT_FALSE(next_arbiter(mine, theirs)) << "they do not share the epoch";
        theirs.record.id = mine.record.id;
        mine.record.members = theirs.record.members = MemberSet::only(NodeSide::a);
        EXPECT_FALSE(next_arbiter(mine, theirs)) << "alone nothing is changed";
      }
}

}  // namespace
}  // namespace lockstep::replication
