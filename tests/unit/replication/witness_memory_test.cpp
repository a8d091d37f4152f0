// What a witness says beside what is known of it: every combination.
#include "replication/core/witness_memory.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using engine::Knowledge;
using engine::MemberSet;
using engine::NodeSide;
using engine::Uuid;
using enum WitnessTrust;

Uuid id(std::uint8_t n) {
  Uuid u;
  u.bytes[15] = n;
  return u;
}

constexpr std::uint64_t kCluster = 7;
constexpr std::int64_t kRevision = 5;
const auto kA = MemberSet::only(NodeSide::a), kB = MemberSet::only(NodeSide::b);

using Record = std::optional<WitnessRecord>;
const Record kNone, kSeen = WitnessRecord{3, id(3), kA};
const Record kOlder = WitnessRecord{2, id(2), MemberSet::both()}, kOtherId = WitnessRecord{3, id(4), kA};
const Record kOtherMembers = WitnessRecord{3, id(3), kB}, kNewer = WitnessRecord{4, id(5), kB};
const std::array kRecords = {kNone, kSeen, kOlder, kOtherId, kOtherMembers, kNewer};

/// The witness's revision, and that of the record if there is one.
struct Revisions {
  std::int64_t now, written;
};
constexpr std::array<Revisions, 4> kRevisions = {{{4, 4}, {5, 5}, {9, 5}, {9, 9}}};

Knowledge known(const Record& record, std::uint64_t cluster = kCluster) {
  Knowledge k;
  k.generation = 11;
  k.partner_generation = 12;
  k.witness_repairs = 2;
  k.witness_cluster = cluster;
  if (cluster != 0) k.witness_revision = kRevision;
  if (!record) return k;
  k.record_number = record->number;
  k.record_epoch = record->epoch;
  k.record_members = record->members;
  return k;
}
const Knowledge kNothing = known(kNone, 0);

WitnessView view(const Record& record, const Revisions& revisions, std::uint64_t cluster = kCluster) {
  return {record, record ? revisions.written : 0, cluster, revisions.now};
}

void expect(const Knowledge& k, const Record& record, const std::array<WitnessTrust, 4>& row) {
  for (std::size_t i = 0; i < kRevisions.size(); ++i) {
    const auto trust = judge_witness(k, view(record, kRevisions[i]));
    EXPECT_EQ(trust, row[i]) << to_string(trust) << ", record " << (record ? record->number : 0) << " at "
                             << kRevisions[i].now << ", written at " << kRevisions[i].written;
  }
}

TEST(WitnessMemory, OfARecordThatWasSeenNothingMayBeMissing) {
  const Knowledge k = known(kSeen);
  expect(k, kNone, {no_record_any_more, no_record_any_more, no_record_any_more, no_record_any_more});
  expect(k, kSeen, {behind, ok, ok, ok});
  expect(k, kOlder, {behind, behind, behind, behind});
  expect(k, kOtherId, {behind, behind, behind, behind});
  expect(k, kOtherMembers, {behind, behind, behind, behind});
  expect(k, kNewer, {behind, behind, behind, ok});
}

TEST(WitnessMemory, AfterAWitnessWithoutARecordOneMustHaveBeenWrittenSince) {
  const Knowledge k = known(kNone);
  expect(k, kNone, {behind, ok, ok, ok});
  for (const Record& record : kRecords) {
    if (record) expect(k, record, {behind, behind, behind, ok});
  }
}

TEST(WitnessMemory, AnotherClusterIsNeverTrustedAndOneNeverSeenBeforeIs) {
  for (const Record& record : kRecords) {
    for (const Revisions& r : kRevisions) {
      EXPECT_EQ(judge_witness(known(kSeen), view(record, r, 8)), record ? other_cluster : no_record_any_more);
      EXPECT_EQ(judge_witness(known(kNone), view(record, r, 8)), other_cluster);
      EXPECT_EQ(judge_witness(known(kSeen), view(record, r, 0)), record ? other_cluster : no_record_any_more);
      EXPECT_EQ(judge_witness(kNothing, view(record, r, 8)), ok);
    }
  }
}

TEST(WitnessMemory, WhatSomebodyElseWroteIsNeverTrusted) {
  WitnessView tampered = view(kNone, {9, 9});
  tampered.tampered = true;
  for (const Knowledge& k : {kNothing, known(kNone), known(kSeen)}) {
    EXPECT_EQ(judge_witness(k, tampered), WitnessTrust::tampered);
    EXPECT_EQ(learn(k, tampered), k);
  }
}

template <class Visit>
void for_every_combination(Visit visit) {
  for (const Knowledge& k : {kNothing, known(kNone), known(kSeen)}) {
    for (const Record& record : kRecords) {
      for (const Revisions& r : kRevisions) {
        for (const std::uint64_t cluster : {kCluster, std::uint64_t{8}}) visit(k, view(record, r, cluster));
      }
    }
  }
}

TEST(WitnessMemory, WhatIsLearntOfATrustedOneMakesItTheOneThatIsKnown) {
  for_every_combination([](const Knowledge& k, const WitnessView& v) {
    const Knowledge after = learn(k, v);
    EXPECT_TRUE(k.may_become(after));
    EXPECT_EQ(after.generation, k.generation);
    EXPECT_EQ(after.partner_generation, k.partner_generation);
    EXPECT_EQ(after.witness_repairs, k.witness_repairs);
    if (judge_witness(k, v) != ok || !v.record) {
      EXPECT_EQ(after, k);
      return;
    }
    EXPECT_EQ(after.witness_cluster, v.cluster);
    EXPECT_EQ(after.witness_revision, v.revision);
    EXPECT_EQ(after.record_number, v.record->number);
    EXPECT_EQ(judge_witness(after, v), ok);
    EXPECT_EQ(learn(after, v), after);
  });
}

TEST(WitnessMemory, AnAnswerThatWasOvertakenTeachesNothing) {
  const Knowledge then = known(kSeen);
  const Knowledge now = learn(then, view(kNewer, {9, 9}));
  EXPECT_EQ(judge_witness(then, view(kSeen, {5, 5})), ok) << "as of when it was asked";
  EXPECT_EQ(learn(now, view(kSeen, {5, 5})), now);
}

TEST(WitnessMemory, WhatBothPutRightIsTheOneThatIsKnownAndNoOther) {
  for_every_combination([](const Knowledge& k, const WitnessView& v) {
    const Knowledge after = accept_witness(k, v);
    EXPECT_TRUE(k.may_become(after));
    EXPECT_EQ(judge_witness(after, v), ok);
    const bool trusted = judge_witness(k, v) == ok;
    EXPECT_EQ(after.witness_repairs, k.witness_repairs + (trusted ? 0 : 1));
    EXPECT_TRUE(!trusted || after == learn(k, v));
    EXPECT_EQ(accept_witness(after, v), after);
  });
}

TEST(WitnessMemory, WhatWasLetGoOfGrantsNothingUntilBothPutItRight) {
  EXPECT_EQ(let_go_of_witness(kNothing), kNothing);
  EXPECT_FALSE(has_taken_witness(kNothing));
  for_every_combination([](const Knowledge& k, const WitnessView& v) {
    if (k.witness_cluster == 0) return;
    EXPECT_TRUE(has_taken_witness(k));
    const Knowledge without = let_go_of_witness(k);
    EXPECT_FALSE(has_taken_witness(without));
    EXPECT_TRUE(k.may_become(without));
    EXPECT_EQ(last_seen(without), last_seen(k)) << "what it said still forbids";
    EXPECT_EQ(judge_witness(without, v), let_go);
    EXPECT_EQ(learn(without, v), without);
    const Knowledge after = accept_witness(without, v);
    EXPECT_TRUE(has_taken_witness(after));
    EXPECT_TRUE(without.may_become(after));
    EXPECT_EQ(judge_witness(after, v), ok);
  });
}

TEST(WitnessMemory, AnAnswerThatNamesNoClusterTeachesNothing) {
  for (const Knowledge& k : {kNothing, known(kNone), known(kSeen)}) {
    EXPECT_EQ(learn(k, view(kNewer, {9, 9}, 0)), k);
    EXPECT_EQ(accept_witness(k, view(kNewer, {9, 9}, 0)), k);
  }
}

}  // namespace
}  // namespace lockstep::replication
