// ConfigurationWitness on a real node: what it keeps, and how it asks lockstepd. Its protocol:
// configuration_world_test.
#include <algorithm>

#include <gtest/gtest.h>

#include "mgmt/control/configuration_witness_node.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

using engine::MemberSet;
using replication::WitnessRecord;

class ConfigurationWitnessOnANode : public ManagementTest {
 protected:
  Arbiter witness_{.witness = true, .endpoints = {"http://10.0.0.1:2379"}, .access = {}};
};

TEST_F(ConfigurationWitnessOnANode, WhatIsKnownOutlivesAProcessAndIsOfOnePair) {
  const Uuid pair = node_->core->configuration()->pair->id;
  ConfigurationKnowledge known{.partner_knows_epochs = true, .witness = {}, .reached = 12};
  known.witness.witness_cluster = 18446744073709551615u;
  known.witness.witness_revision = 41;
  known.witness.witness_repairs = 2;
  known.witness.record_number = 7;
  known.witness.record_members = MemberSet::both();
  known.witness.record_epoch = random_uuid();
  NodeWitnessSurroundings(*node_->core, plane_).keep(pair, known);
  restart();
  NodeWitnessSurroundings after(*node_->core, plane_);
  EXPECT_EQ(after.known(pair), known);
  EXPECT_EQ(after.known(random_uuid()), ConfigurationKnowledge{});
}

TEST_F(ConfigurationWitnessOnANode, LockstepdIsAskedForThePairsRecordAtTheWitnessInForce) {
  NodeWitnessSurroundings node(*node_->core, plane_);
  const auto nothing = node.read(witness_);
  ASSERT_TRUE(nothing) << nothing.error().detail;
  EXPECT_FALSE(nothing->record);
  const WitnessRecord record{5, random_uuid(), MemberSet::only(NodeSide::b), {3, 4}};
  const auto swapped = node.swap(witness_, *nothing, record);
  EXPECT_TRUE(swapped.known && swapped.won);
  EXPECT_EQ(plane_.witness_asked["endpoints"], nlohmann::json({"http://10.0.0.1:2379"}));
  const auto there = node.read(witness_);
  ASSERT_TRUE(there && there->record);
  EXPECT_EQ(*there->record, record);
  EXPECT_EQ(there->record->generations, record.generations);
  EXPECT_EQ(there->mod_revision, 1);
}

// One node may hold the change for made, and ask the new arbiter, while the other asks the old one.
TEST_F(ConfigurationWitnessOnANode, NobodyGoesOnWhileAChangeOfTheArbiterIsUndecided) {
  Revisions& revisions = node_->core->revisions;
  NodeWitnessSurroundings surroundings(*node_->core, plane_);
  ConfigurationWitness arbiter(revisions, surroundings);
  const Uuid pair = node_->core->configuration()->pair->id;
  surroundings.keep(pair, {.partner_knows_epochs = true, .witness = {}, .reached = 0});
  CurrentRevision partner = revisions.current();
  partner.process = random_uuid();
  ASSERT_TRUE(revisions.on_bring_up_to_date(partner));
  const auto why = [&](const Configuration& proposed, std::int64_t attempt) {
    const RevisionId base = revisions.state().head;
    const RevisionId id{base.epoch, base.n + 1, random_uuid()};
    EXPECT_EQ(revisions.on_prepare({base, id, "s", to_document(proposed), partner.process, attempt, {}}),
              PrepareAnswer::kept);
    const auto changed = revisions.change_alone(
        "x", [](Configuration&) -> Outcome<void> { return {}; }, arbiter);
    return changed ? "" : changed.error().detail;
  };
  Configuration same = *revisions.configuration();
  EXPECT_NE(why(same, 1).find("have not talked"), std::string::npos) << "only the preference counts";
  Configuration other = same;
  other.pair->arbiter = witness_;
  EXPECT_NE(why(other, 2).find("another arbiter"), std::string::npos);
}

// Else a database that is set back would make revisions of numbers that its partner has otherwise already.
TEST_F(ConfigurationWitnessOnANode, EachProcessBeginsAnEpochOfItsOwnAlsoWhereAnOperatorForcedIt) {
  Revisions& revisions = node_->core->revisions;
  NodeWitnessSurroundings surroundings(*node_->core, plane_);
  ASSERT_TRUE(revisions.force(NodeSide::a, "Forced"));
  const RevisionState forced = revisions.state();
  ConfigurationWitness arbiter(revisions, surroundings);
  const auto first = arbiter.claim(forced.epoch, forced.head, *revisions.configuration());
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->forced);
  EXPECT_TRUE(first->is_only(NodeSide::a));
  EXPECT_TRUE(first->descends_from(forced.head));
  const RevisionId next{first->id, forced.head.n + 1, random_uuid()};
  EXPECT_EQ(arbiter.claim(*first, next, *revisions.configuration())->id, first->id) << "it is this process's";
  ConfigurationWitness restarted(revisions, surroundings);
  const auto second = restarted.claim(*first, next, *revisions.configuration());
  ASSERT_TRUE(second);
  EXPECT_NE(second->id, first->id);
  EXPECT_TRUE(second->forced);
  EXPECT_TRUE(second->descends_from(next));
}

/// A partner that always has what this node has.
class Twin final : public RevisionPeer {
 public:
  explicit Twin(Revisions& revisions) : revisions_(revisions) {}
  Outcome<PrepareAnswer> prepare(const Proposal&) override { return PrepareAnswer::kept; }
  Outcome<void> commit(const RevisionId&) override { return {}; }
  Outcome<void> discard(const RevisionId&) override { return {}; }
  Outcome<void> bring_up_to_date(const CurrentRevision&) override { return {}; }
  Outcome<CurrentRevision> ask() override {
    CurrentRevision current = revisions_.current();
    current.process = process_;
    current.reads = reads;
    return current;
  }
  int reads = kNewestDocument;

 private:
  Revisions& revisions_;
  const Uuid process_ = random_uuid();
};

TEST_F(ConfigurationWitnessOnANode, WhatBothDatabasesLackIsToldWhenTheWitnessKnowsMore) {
  Revisions& revisions = node_->core->revisions;
  NodeWitnessSurroundings surroundings(*node_->core, plane_);
  ASSERT_TRUE(revisions.change(
      "A witness",
      [this](Configuration& c) -> Outcome<void> {
        c.pair->arbiter = witness_;
        return {};
      },
      nullptr));
  Twin twin(revisions);
  const auto agree = [&] {
    ConfigurationWitness started(revisions, surroundings);
    ASSERT_TRUE(revisions.compare_notes(twin));
    started.on_agreement(twin);
  };
  const auto told = [this] {
    const auto events = node_->core->events.list({}, 100);
    return std::ranges::count(events, "configuration.lost", &Event::kind);
  };
  agree();
  const std::int64_t n = revisions.state().head.n;
  ASSERT_EQ(plane_.witness_record["generations"]["a"], n);
  EXPECT_EQ(told(), 0);
  for (const char* side : {"a", "b"}) plane_.witness_record["generations"][side] = n + 3;
  agree();
  EXPECT_EQ(told(), 1) << "both were set back to one backup";
  EXPECT_EQ(plane_.witness_record["generations"]["a"], n);
  agree();
  EXPECT_EQ(told(), 1);
}

TEST_F(ConfigurationWitnessOnANode, WhatAnOlderPartnerCouldNotTakeOverIsNotChangedWhileItIsAway) {
  Revisions& revisions = node_->core->revisions;
  NodeWitnessSurroundings surroundings(*node_->core, plane_);
  Twin twin(revisions);
  const auto agree = [&](int reads) {
    twin.reads = reads;
    ASSERT_TRUE(revisions.compare_notes(twin));
    ConfigurationWitness(revisions, surroundings).on_agreement(twin);
  };
  ConfigurationWitness arbiter(revisions, surroundings);
  const auto change = [&](const Revisions::Edit& edit) { return revisions.change_alone("x", edit, arbiter); };
  const auto add_a_path = [](Configuration& c) -> Outcome<void> {
    c.nodes[0].more_link_addresses = {"10.9.0.1:3261"};
    return {};
  };
  ASSERT_TRUE(revisions.force(NodeSide::a, "Forced"));
  const auto unknown = change(add_a_path);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().detail.find("have not talked"), std::string::npos) << unknown.error().detail;
  agree(9);
  ASSERT_TRUE(revisions.force(NodeSide::a, "Forced"));
  const auto refused = change(add_a_path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("Upgrade the partner"), std::string::npos) << refused.error().detail;
  EXPECT_TRUE(change([](Configuration& c) -> Outcome<void> {
    c.pair->settings.resync_floor += 1;
    return {};
  })) << "all else goes on";
  agree(10);
  ASSERT_TRUE(revisions.force(NodeSide::a, "Forced"));
  EXPECT_TRUE(change(add_a_path));
}

TEST_F(ConfigurationWitnessOnANode, AWitnessThatDoesNotAnswerIsNamedAndItsOutcomeIsNotKnown) {
  NodeWitnessSurroundings node(*node_->core, plane_);
  plane_.witness_problem = "timed out";
  const auto refused = node.read(witness_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail, "timed out");
  EXPECT_FALSE(node.swap(witness_, {}, {}).known);
  plane_.away = true;
  EXPECT_FALSE(node.read(witness_));
  EXPECT_FALSE(node.swap(witness_, {}, {}).known);
}

}  // namespace
}  // namespace lockstep::mgmt
