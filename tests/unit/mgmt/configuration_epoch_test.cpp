#include "mgmt/control/configuration_epoch.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/peer.hpp"

namespace lockstep::mgmt {
namespace {

using engine::MemberSet;
using engine::NodeSide;
using engine::Uuid;
using replication::WitnessRecord;
using replication::WitnessView;

Uuid uuid(int n) {
  Uuid id;
  id.bytes[15] = static_cast<std::uint8_t>(n);
  return id;
}

const Uuid kFresh = uuid(99);
constexpr MemberSet kBoth = MemberSet::both();
constexpr MemberSet kA = MemberSet::only(NodeSide::a);
constexpr MemberSet kB = MemberSet::only(NodeSide::b);

RevisionId id(int epoch, std::int64_t n, int change = 0) { return {uuid(epoch), n, uuid(change)}; }

ConfigurationEpoch epoch(int of, std::uint64_t number, MemberSet members = kBoth) {
  return {.id = uuid(of), .number = number, .members = members};
}

WitnessView says(const WitnessRecord& record, std::int64_t revision = 10) {
  return {record, revision, 7, revision, 1, false};
}

// What A knows when both had revision 5 and the witness their epoch.
ConfigurationKnowledge known() {
  ConfigurationKnowledge known{.partner_knows_epochs = true, .witness = {}, .reached = 5};
  known.witness = replication::learn({}, says({4, uuid(1), kBoth, {5, 5}}));
  return known;
}

Claim claim(const WitnessView& view, const ConfigurationEpoch& mine = epoch(1, 4), std::int64_t n = 5,
            const Uuid& begun = {}) {
  ConfigurationKnowledge k = known();
  k.reached = n;
  return judge_claim(NodeSide::a, mine, {mine.id, n, uuid(50)}, k, view, begun, kFresh);
}

TEST(JudgeClaim, TheEpochOfBothGrantsTheNextOneToWhoAsksFirst) {
  const Claim granted = claim(says({4, uuid(1), kBoth, {5, 5}}));
  ASSERT_EQ(granted.verdict, ClaimVerdict::granted);
  EXPECT_EQ(granted.epoch.id, kFresh);
  EXPECT_EQ(granted.epoch.number, 5u);
  EXPECT_TRUE(granted.epoch.is_only(NodeSide::a));
  EXPECT_EQ(granted.epoch.ancestors, (std::vector<RevisionId>{{uuid(1), 5, uuid(50)}}));
  EXPECT_EQ(granted.record, (WitnessRecord{5, kFresh, kA, {}}));
  EXPECT_EQ(granted.record.generations, (std::array<std::uint64_t, 2>{6, 5})) << "A is about to make revision 6";
}

TEST(JudgeClaim, WhatWasGrantedIsGrantedAgainWithEachRevision) {
  const ConfigurationEpoch mine = epoch(2, 5, kA);
  const Claim granted = claim(says({5, uuid(2), kA, {6, 5}}, 11), mine, 6, mine.id);
  ASSERT_EQ(granted.verdict, ClaimVerdict::granted);
  EXPECT_EQ(granted.epoch, mine);
  EXPECT_EQ(granted.record.generations, (std::array<std::uint64_t, 2>{7, 5}));
}

TEST(JudgeClaim, AnotherProcessGoesOnInAnEpochOfItsOwn) {
  const ConfigurationEpoch mine = epoch(2, 5, kA);
  const Claim granted = claim(says({5, uuid(2), kA, {6, 5}}, 11), mine, 6);
  ASSERT_EQ(granted.verdict, ClaimVerdict::granted);
  EXPECT_EQ(granted.epoch.id, kFresh);
  EXPECT_EQ(granted.epoch.number, 6u);
  EXPECT_TRUE(granted.epoch.descends_from({mine.id, 6, uuid(50)}));
  EXPECT_EQ(granted.record, (WitnessRecord{6, kFresh, kA, {}}));
}

TEST(JudgeClaim, AWitnessThatHasNotHeardOfTheNextEpochOfBothLetsOneOfItsNodesGoOn) {
  ConfigurationEpoch next = epoch(2, 7);
  next.ancestors = {id(1, 5), id(7, 3)};
  const Claim granted = claim(says({4, uuid(1), kBoth, {5, 5}}), next, 6);
  ASSERT_EQ(granted.verdict, ClaimVerdict::granted);
  EXPECT_EQ(granted.epoch.number, 8u);
  EXPECT_TRUE(granted.epoch.descends_from(id(2, 6, 50)));
  const auto verdict = [&](const WitnessRecord& record) { return claim(says(record, 11), next, 6).verdict; };
  EXPECT_EQ(verdict({5, uuid(3), kBoth, {5, 5}}), ClaimVerdict::not_of_both) << "of another line";
  EXPECT_EQ(verdict({8, uuid(7), kBoth, {5, 5}}), ClaimVerdict::not_of_both) << "a newer number";
  EXPECT_EQ(verdict({5, uuid(7), kB, {5, 5}}), ClaimVerdict::partner_went_on);
}

TEST(JudgeClaim, AWinThatTheWinnerNeverKnewOfIsItsOwn) {
  const Claim granted = claim(says({9, uuid(3), kA, {5, 5}}, 11));
  ASSERT_EQ(granted.verdict, ClaimVerdict::granted);
  EXPECT_EQ(granted.epoch.number, 10u);
}

TEST(JudgeClaim, EverythingElseIsRefusedWithItsReason) {
  using enum ClaimVerdict;
  const std::pair<WitnessView, ClaimVerdict> cases[] = {
      {says({5, uuid(2), kB, {5, 6}}, 11), partner_went_on},
      {says({5, uuid(2), kBoth, {5, 5}}, 11), not_of_both},  // the two have begun another one
      {says({5, uuid(2), kA, {6, 5}}, 11), set_back},        // A was about to make revision 6, and knows of 5
      {says({4, uuid(1), kBoth, {6, 6}}), set_back},         // both had 6
      {says({4, uuid(1), kBoth, {5, 5}}, 9), distrusted},    // the witness is of an earlier time
      {{{}, 0, 7, 12, 0, false}, distrusted},                // it lost the record
      {{WitnessRecord{4, uuid(1), kBoth, {}}, 10, 8, 10, 1, false}, distrusted},  // it is another one
      {{WitnessRecord{4, uuid(1), kBoth, {}}, 10, 7, 10, 1, true}, distrusted},   // somebody wrote there
  };
  for (const auto& [view, verdict] : cases) {
    const Claim refused = claim(view);
    EXPECT_EQ(static_cast<int>(refused.verdict), static_cast<int>(verdict)) << &view - &cases[0].first;
    EXPECT_EQ(refused.record.number, 0u) << "nothing to be written";
  }
  const Claim unheard = judge_claim(NodeSide::a, epoch(1, 4), id(1, 5), {}, {{}, 0, 7, 12, 0, false}, {}, kFresh);
  EXPECT_EQ(unheard.verdict, not_of_both);
}

TEST(JudgeClaim, NoTwoNodesAreGrantedOneAnswerOfTheWitness) {
  for (const MemberSet members : {kBoth, kA, kB})
    for (const std::uint64_t number : {3, 4, 5, 6})
      for (const int of : {1, 2})
        for (const MemberSet a_has : {kBoth, kA})
          for (const MemberSet b_has : {kBoth, kB}) {
            const WitnessView view = says({number, uuid(of), members, {}});
            ConfigurationKnowledge k{.partner_knows_epochs = true, .witness = {}, .reached = 5};
            const bool a = judge_claim(NodeSide::a, epoch(1, 4, a_has), id(1, 5), k, view, {}, kFresh).verdict ==
                           ClaimVerdict::granted;
            const bool b = judge_claim(NodeSide::b, epoch(1, 4, b_has), id(1, 5), k, view, {}, kFresh).verdict ==
                           ClaimVerdict::granted;
            // Of both: whoever is first takes it from the other by compare-and-swap.
            if (!members.is_both()) {
              EXPECT_FALSE(a && b);
            }
          }
}

TEST(JudgeMend, TheWitnessIsToldWhatBothHave) {
  const ConfigurationEpoch mine = epoch(1, 4);
  const auto mend = [&](const WitnessView& view, bool orders = true) {
    return judge_mend(orders, mine, 6, known(), view).what;
  };
  EXPECT_EQ(mend(says({4, uuid(1), kBoth, {6, 6}})), Mending::none);
  EXPECT_EQ(mend(says({4, uuid(1), kBoth, {6, 6}}), false), Mending::none);
  EXPECT_EQ(mend(says({4, uuid(1), kBoth, {5, 5}})), Mending::write) << "a newer revision";
  EXPECT_EQ(mend(says({4, uuid(1), kBoth, {5, 5}}), false), Mending::none) << "the other one writes it";
  EXPECT_EQ(mend(says({3, uuid(2), kB, {}}, 11)), Mending::write) << "left over";
  EXPECT_EQ(mend(says({3, uuid(2), kB, {}}, 11), false), Mending::for_partner);
  EXPECT_EQ(mend({{}, 0, 7, 12, 0, false}), Mending::write) << "it lost the record";
  const WitnessView unknown_win = says({5, uuid(2), kB, {5, 7}}, 11);
  EXPECT_EQ(mend(unknown_win), Mending::next_epoch) << "B won and never knew";
  EXPECT_EQ(mend(unknown_win, false), Mending::for_partner);
  EXPECT_EQ(judge_mend(true, mine, 6, known(), unknown_win).record.number, 5u);
}

RevisionState at(const RevisionId& head, const ConfigurationEpoch& epoch) { return {head, epoch, {}, {}}; }

TEST(CompareRevisionsOfEpochs, WhatFollowsIsTakenOverAndTheOtherWaitsForThat) {
  using enum RevisionVerdict;
  const RevisionState before = at(id(1, 5, 50), epoch(1, 4));
  const ConfigurationEpoch alone = before.epoch.next(uuid(2), kA, before.head, 0);
  const RevisionState went_on = at(id(2, 7, 70), alone);
  EXPECT_EQ(compare_revisions(before, went_on), adopt_theirs);
  EXPECT_EQ(compare_revisions(went_on, before), they_are_behind);
  const RevisionState together = at(id(3, 7, 70), alone.next(uuid(3), kBoth, went_on.head, 0));
  EXPECT_EQ(compare_revisions(before, together), adopt_theirs) << "over two epochs";
  EXPECT_EQ(compare_revisions(together, before), they_are_behind);
  RevisionState undecided = before;
  undecided.tentative = id(1, 6, 60);
  EXPECT_EQ(compare_revisions(undecided, went_on), adopt_theirs);
}

TEST(CompareRevisionsOfEpochs, WhatDoesNotFollowIsAConflictOnBoth) {
  using enum RevisionVerdict;
  const RevisionState before = at(id(1, 5, 50), epoch(1, 4));
  const RevisionState a = at(id(2, 6, 60), before.epoch.next(uuid(2), kA, before.head, 0));
  const RevisionState b = at(id(3, 6, 61), before.epoch.next(uuid(3), kB, before.head, 0));
  const RevisionState more = at(id(1, 6, 62), epoch(1, 4));     // A's database was set back to 5 before it went on
  const RevisionState another = at(id(1, 5, 51), epoch(1, 4));  // another attempt at 5 was decided
  const RevisionState stranger = at(id(9, 9, 90), epoch(9, 9));
  for (const RevisionState& other : {b, more, another, stranger}) {
    EXPECT_EQ(compare_revisions(a, other), conflict);
    EXPECT_EQ(compare_revisions(other, a), conflict);
  }
}

TEST(ConfigurationEpoch, TravelsBetweenTheNodes) {
  const RevisionState before = at(id(1, 5, 50), epoch(1, 4));
  CurrentRevision sent;
  sent.document = to_document({});
  sent.state = at(id(2, 7, 70), before.epoch.next(uuid(2), kA, before.head, 8));
  sent.state.epoch.forced = true;
  const auto got = wire::current_revision_from(wire::to_text(sent));
  ASSERT_TRUE(got) << got.error().detail;
  EXPECT_EQ(got->state.epoch, sent.state.epoch);
  EXPECT_TRUE(got->knows_epochs);
  const Proposal proposal{before.head, id(2, 6, 60), "s", "d", uuid(7), 1, sent.state.epoch};
  EXPECT_EQ(wire::proposal_from(wire::to_text(proposal))->epoch, sent.state.epoch);
}

TEST(ConfigurationEpoch, OfAPartnerThatDoesNotKnowOfThemIsOfBothAndNonsenseIsRefused) {
  CurrentRevision sent;
  sent.document = to_document({});
  sent.state = at(id(1, 5, 50), epoch(1, 4));
  auto message = nlohmann::json::parse(wire::to_text(sent));
  const nlohmann::json said = message["epoch"];
  message.erase("epoch");
  const auto old = wire::current_revision_from(message.dump());
  ASSERT_TRUE(old);
  EXPECT_FALSE(old->knows_epochs);
  EXPECT_EQ(old->state.epoch, (ConfigurationEpoch{.id = uuid(1)}));
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, nlohmann::json>>{
           {"members", 0},
           {"members", 4},
           {"number", 0},
           {"forced", 1},
           {"ancestors", {1}},
           {"ancestors", nlohmann::json::array({{{"epoch", "x"}, {"n", 1}, {"change", "y"}}})}}) {
    message["epoch"] = said;
    message["epoch"][key] = value;
    EXPECT_FALSE(wire::current_revision_from(message.dump())) << key << " " << value;
  }
}

TEST(ConfigurationEpoch, RemembersOnlySoManyOfThoseBefore) {
  ConfigurationEpoch last = epoch(1, 1);
  for (int i = 0; i < 200; ++i) last = last.next(uuid(2), kBoth, {last.id, i, {}}, 0);
  EXPECT_EQ(last.ancestors.size(), ConfigurationEpoch::kMaxAncestors);
  EXPECT_EQ(last.ancestors.front().n, 199);
  EXPECT_EQ(last.number, 201u);
}

}  // namespace
}  // namespace lockstep::mgmt
