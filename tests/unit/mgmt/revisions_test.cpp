// The revision protocol between two nodes, with each message lost and each node ending at each step.
#include "tests/unit/mgmt/revisions_world.hpp"

namespace lockstep::mgmt {
namespace {

using namespace revisions_test;

TEST(Revisions, AChangeIsOnBothNodesWhenItIsAnswered) {
  World w;
  w.add_token("one");
  EXPECT_EQ(World::tokens(*w.a), std::set<std::string>{"one"});
  EXPECT_EQ(World::tokens(*w.b), std::set<std::string>{"one"});
  EXPECT_EQ(w.a->state().head.n, 1);
}

TEST(Revisions, WhatAnOlderPartnerWouldNotReadIsRefusedAndNotProposed) {
  World w;
  const auto add = [](Configuration& c) -> Outcome<void> {
    c.nodes = {{random_uuid(), NodeSide::a, "node-a", {}, "", "", ""}};
    c.nodes[0].more_link_addresses = {"10.9.0.1:3261"};
    return {};
  };
  w.to_b.reads = 9;
  const auto refused = w.a->change("a path", add, &w.to_b);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("Upgrade the partner, then try again."), std::string::npos);
  EXPECT_EQ(w.a->state().head, w.beginning);
  EXPECT_FALSE(w.b->state().tentative);
  w.add_token("one");
  EXPECT_EQ(World::tokens(*w.b), std::set<std::string>{"one"}) << "all else goes on as it did";
  w.to_b.reads = 10;
  EXPECT_TRUE(w.a->change("a path", add, &w.to_b));
  EXPECT_EQ(*w.b->configuration(), *w.a->configuration());
}

TEST(Revisions, ARefusedEditChangesNothingAndAsksNobody) {
  World w;
  const auto done = w.a->change(
      "no", [](Configuration&) -> Outcome<void> { return refuse(RefusalKind::conflict, "no"); }, &w.to_b);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, RefusalKind::conflict);
  EXPECT_EQ(w.faults.steps, 0);
}

// Node B as it was before its program knew documents of version 3.
class OlderPartner final : public RevisionPeer {
 public:
  explicit OlderPartner(RevisionPeer& b) : b_(b) {}
  int reads = 2;
  int proposals = 0;
  Outcome<PrepareAnswer> prepare(const Proposal& p) override {
    ++proposals;
    return b_.prepare(p);
  }
  Outcome<void> commit(const RevisionId& id) override { return b_.commit(id); }
  Outcome<void> discard(const RevisionId& id) override { return b_.discard(id); }
  Outcome<void> bring_up_to_date(const CurrentRevision& c) override { return b_.bring_up_to_date(c); }
  Outcome<CurrentRevision> ask() override {
    auto current = b_.ask();
    if (current) current->reads = reads;
    return current;
  }

 private:
  RevisionPeer& b_;
};

Outcome<void> add_encrypted_volume(Configuration& c) {
  c.volumes.push_back({.id = random_uuid(),
                       .name = "v",
                       .serial = "s",
                       .encrypted = true,
                       .first_epoch = random_uuid(),
                       .any_initiator = true,
                       .access = {},
                       .import_secret = ""});
  return {};
}

TEST(Revisions, WhatAnOlderPartnerCouldNotReadIsRefusedBeforeItIsProposed) {
  World w;
  OlderPartner older(w.to_b);
  const auto refused = w.a->change("x", add_encrypted_volume, &older);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("Upgrade the partner"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(older.proposals, 0);
  EXPECT_EQ(w.a->state().head, w.beginning);
  EXPECT_TRUE(w.a->change(
      "y", [](Configuration&) -> Outcome<void> { return {}; }, &older))
      << "all else may change meanwhile";
  older.reads = 3;
  EXPECT_TRUE(w.a->change("x", add_encrypted_volume, &older)) << "it was upgraded";
  w.expect_settled("encrypted");
  EXPECT_TRUE(w.b->configuration()->volumes.at(0).encrypted);
}

TEST(Revisions, APartnerThatCannotSayWhatItReadsIsAway) {
  World w;
  w.faults.at = 1;
  w.faults.kind = Faults::Kind::lost;
  const auto refused = w.a->change("x", add_encrypted_volume, &w.to_b);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_EQ(w.a->state().head, w.beginning);
}

TEST(Revisions, WithThePartnerAwayAChangeIsRefusedAndNothingIsChanged) {
  World w;
  w.faults.at = 1;
  w.faults.kind = Faults::Kind::lost;
  w.add_token("one");
  EXPECT_TRUE(w.refused.contains("one"));
  EXPECT_EQ(w.a->state().head, w.beginning);
}

TEST(Revisions, WhateverIsLostOrEndsOnceBothNodesAgreeAndPromisesAreKept) {
  using Kind = Faults::Kind;
  int runs = 0;
  for (const Kind kind : {Kind::lost, Kind::answer_lost, Kind::crash_before, Kind::crash_after}) {
    for (int at = 1;; ++at) {
      World w;
      w.faults.at = at;
      w.faults.kind = kind;
      w.add_token("one");
      w.add_token("two");
      w.compare_notes();
      w.add_token("three");
      const bool reached = w.faults.steps >= at;
      w.expect_settled("fault kind " + std::to_string(int(kind)) + " at step " + std::to_string(at));
      if (HasFatalFailure() || !reached) break;
      ++runs;
    }
  }
  EXPECT_GT(runs, 40);  // the faults were met
}

// The orderer waits for the follower, which is looking at the orderer meanwhile.
TEST(Revisions, AFollowerThatComparesNotesInTheMiddleOfAChangeKeepsTheTentativeRevision) {
  World w;
  struct Looking final : RevisionPeer {
    World& w;
    explicit Looking(World& world) : w(world) {}
    Outcome<PrepareAnswer> prepare(const Proposal& p) override {
      auto answer = w.to_b.prepare(p);
      if (answer && *answer == PrepareAnswer::kept) {
        const auto verdict = w.b->compare_notes(w.to_a);
        EXPECT_TRUE(verdict && *verdict == RevisionVerdict::wait);
        EXPECT_TRUE(w.store_b.tentative());
      }
      return answer;
    }
    Outcome<void> commit(const RevisionId& id) override { return w.to_b.commit(id); }
    Outcome<void> discard(const RevisionId& id) override { return w.to_b.discard(id); }
    Outcome<void> bring_up_to_date(const CurrentRevision& c) override { return w.to_b.bring_up_to_date(c); }
    Outcome<CurrentRevision> ask() override { return w.to_b.ask(); }
  } looking(w);
  ASSERT_TRUE(w.a->change(
      "x", [](Configuration&) -> Outcome<void> { return {}; }, &looking));
  EXPECT_EQ(w.b->state().head, w.a->state().head);
}

TEST(Revisions, AProposalThatWasHeldUpDoesNotReplaceALaterOne) {
  World w;
  w.add_token("one");
  Proposal late{
      w.b->state().head, {w.beginning.epoch, 2, random_uuid()}, "late", to_document({}), w.a->current().process, 1};
  EXPECT_EQ(w.b->on_prepare(late), PrepareAnswer::behind);
  EXPECT_FALSE(w.store_b.tentative());
}

// The follower has kept a proposal that is decided by then; what the orderer said before it comes late.
TEST(Revisions, AWordFromBeforeAProposalDoesNotDropIt) {
  World w;
  w.add_token("one");
  const CurrentRevision before = w.a->current();
  struct WithoutTheEnd final : RevisionPeer {
    World& w;
    explicit WithoutTheEnd(World& world) : w(world) {}
    Outcome<PrepareAnswer> prepare(const Proposal& p) override { return w.to_b.prepare(p); }
    Outcome<void> commit(const RevisionId&) override { return refuse(RefusalKind::not_current, "cannot be reached"); }
    Outcome<void> discard(const RevisionId& id) override { return w.to_b.discard(id); }
    Outcome<void> bring_up_to_date(const CurrentRevision& c) override { return w.to_b.bring_up_to_date(c); }
    Outcome<CurrentRevision> ask() override { return w.to_b.ask(); }
  } peer(w);
  const auto decided = w.a->change(
      "two", [](Configuration&) -> Outcome<void> { return {}; }, &peer);
  ASSERT_TRUE(decided);
  ASSERT_TRUE(w.b->on_bring_up_to_date(before));
  EXPECT_EQ(w.b->state().tentative, *decided);
  EXPECT_EQ(w.b->newest()->id(), *decided) << "what it would go on from alone";
}

// What a process of the partner said before it ended makes its proposals no newer than its successor's.
TEST(Revisions, WhatAnEndedProcessOfThePartnerSaidLastDoesNotReplaceWhatTheNextOneProposed) {
  World w;
  w.add_token("one");
  const CurrentRevision before = w.a->current();
  w.start_a();
  ASSERT_NE(w.a->current().process, before.process);
  ASSERT_TRUE(w.b->on_bring_up_to_date(w.a->current()));
  const RevisionId head = w.b->state().head;
  const auto proposal = [&](const CurrentRevision& of, std::int64_t attempt) {
    return Proposal{head, {head.epoch, head.n + 1, random_uuid()}, "", to_document({}), of.process, attempt};
  };
  const Proposal next = proposal(w.a->current(), 1);
  ASSERT_EQ(w.b->on_prepare(next), PrepareAnswer::kept);
  ASSERT_TRUE(w.b->on_bring_up_to_date(before));
  EXPECT_EQ(w.b->on_prepare(proposal(before, 1000)), PrepareAnswer::behind);
  EXPECT_EQ(w.b->state().tentative, next.id);
}

// While the partner is asked what it can read, its newer configuration is taken over.
TEST(Revisions, AChangeOfWhatWasInForceBeforeIsNotMadeOverWhatWasTakenOver) {
  World w;
  w.add_token("one");
  struct Ahead final : RevisionPeer {
    World& w;
    explicit Ahead(World& world) : w(world) {}
    Outcome<PrepareAnswer> prepare(const Proposal& p) override { return w.to_b.prepare(p); }
    Outcome<void> commit(const RevisionId& id) override { return w.to_b.commit(id); }
    Outcome<void> discard(const RevisionId& id) override { return w.to_b.discard(id); }
    Outcome<void> bring_up_to_date(const CurrentRevision& c) override { return w.to_b.bring_up_to_date(c); }
    Outcome<CurrentRevision> ask() override {
      auto answer = w.to_b.ask();
      EXPECT_TRUE(w.a->compare_notes(w.to_b));
      return answer;
    }
  } peer(w);
  const RevisionId id = w.b->state().head;
  Configuration two = *w.b->configuration();
  two.tokens.push_back({random_uuid(), "two", "two", Role::viewer, 1, 0});
  w.store_b.commit({id.epoch, id.n + 1, random_uuid()}, w.b->state().epoch, "", two);
  w.start_b();
  w.start_a();
  const auto made = w.a->change(
      "three",
      [](Configuration& c) -> Outcome<void> {
        c.tokens.push_back({random_uuid(), "three", "three", Role::viewer, 1, 0});
        return {};
      },
      &peer);
  EXPECT_FALSE(made);
  w.compare_notes();
  EXPECT_EQ(World::tokens(*w.a), (std::set<std::string>{"one", "two"}));
  EXPECT_EQ(World::tokens(*w.b), World::tokens(*w.a));
}

// Both were set back to the same backup and went on; then one of them is set back to one of the line before.
TEST(Revisions, ALongerLineOfBeforeASetBackIsNotTakenForANewerOne) {
  World w;
  w.add_token("one");
  const auto backup_a = w.store_a, backup_b = w.store_b;
  for (const char* name : {"two", "three", "four"}) w.add_token(name);
  const auto longer = w.store_a;
  w.store_a.set_to(backup_a);
  w.store_b.set_to(backup_b);
  w.start_a();
  w.start_b();
  w.compare_notes();
  w.add_token("five");
  w.store_a.set_to(longer);
  w.start_a();
  w.compare_notes();
  EXPECT_TRUE(w.a->conflict());
  EXPECT_TRUE(World::tokens(*w.b).contains("five"));
}

// Its copy of the configuration was set back with it, so that only the partner tells.
TEST(Revisions, AnOrdererThatWasSetBackKnowsItAfterItWasBroughtUpToDate) {
  World w;
  w.add_token("one");
  const auto backup = w.store_a;
  EXPECT_FALSE(w.a->compared().behind_in);
  for (const char* name : {"two", "three"}) w.add_token(name);
  w.start_a();
  for (int i = 0; i < 2; ++i) w.compare_notes();
  EXPECT_FALSE(w.a->compared().behind_in) << "it was only restarted";
  const auto epoch = w.a->state().epoch;
  w.store_a.set_to(backup);
  w.start_a();
  for (int i = 0; i < 2; ++i) w.compare_notes();
  EXPECT_EQ(World::tokens(*w.a).size(), 3U);
  ASSERT_TRUE(w.a->compared().behind_in);
  EXPECT_EQ(w.a->compared().behind_in, epoch);
}

/// Has B keep and commit a change that A's process makes after a snapshot of A's machine was taken: A, which knows
/// nothing of it, is what the snapshot puts back, memory and all.
void decide_after_the_snapshot(World& w, const std::string& name) {
  Configuration next = *w.b->configuration();
  next.tokens.push_back({random_uuid(), name, sha256_hex(name), Role::admin, 1, 0});
  const RevisionState base = w.b->state();
  const RevisionId id{base.head.epoch, base.head.n + 1, random_uuid()};
  const Proposal proposal{.base = base.head,
                          .id = id,
                          .summary = name,
                          .document = to_document(next),
                          .process = w.a->current().process,
                          .attempt = 1000 + base.head.n,
                          .epoch = base.epoch};
  ASSERT_EQ(w.b->on_prepare(proposal), PrepareAnswer::kept);
  ASSERT_TRUE(w.b->on_commit(id));
}

TEST(Revisions, AnOrdererThatWasSetBackWithItsMemoryTakesNothingOverAndTheNextProcessDoes) {
  World w;
  w.add_token("one");
  ASSERT_TRUE(w.a->compare_notes(w.to_b, NodeSide::a));
  decide_after_the_snapshot(w, "two");
  const RevisionId then = w.a->state().head;
  for (int i = 0; i < 2; ++i) {
    const auto verdict = w.a->compare_notes(w.to_b, NodeSide::a);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(*verdict, RevisionVerdict::wait);
    EXPECT_TRUE(w.a->compared().process_was_set_back);
    EXPECT_EQ(w.a->state().head, then) << "its jobs would go on in a configuration of now";
  }
  const auto epoch = w.a->state().epoch;
  w.start_a();
  ASSERT_TRUE(w.a->compare_notes(w.to_b, NodeSide::a));
  EXPECT_FALSE(w.a->compared().process_was_set_back);
  EXPECT_EQ(w.a->compared().behind_in, epoch) << "what it finds in its database is of the past";
  EXPECT_EQ(w.a->state().head, w.b->state().head);
  w.add_token("three");
  EXPECT_TRUE(w.promised.contains("three")) << "the partner remembers higher numbers, but of the process before";
  EXPECT_EQ(World::tokens(*w.b), (std::set<std::string>{"one", "two", "three"}));
}

TEST(Revisions, OneThatWasSetBackWithItsMemoryToBeforeItMetItsPartnerKnowsItByWhatItChanged) {
  World w;
  w.add_token("one");
  decide_after_the_snapshot(w, "two");
  ASSERT_TRUE(w.a->compare_notes(w.to_b, NodeSide::a));
  EXPECT_TRUE(w.a->compared().process_was_set_back);
}

TEST(Revisions, AFollowerThatIsBehindWasOnlyAway) {
  World w;
  w.add_token("one");
  ASSERT_TRUE(w.b->compare_notes(w.to_a, NodeSide::b));
  const auto before = w.store_b;
  w.add_token("two");
  w.store_b.set_to(before);
  w.start_b();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(w.b->compare_notes(w.to_a, NodeSide::b));
  EXPECT_FALSE(w.b->compared().process_was_set_back);
  EXPECT_EQ(World::tokens(*w.b), (std::set<std::string>{"one", "two"}));
}

TEST(Revisions, ANodeThatMissedManyRevisionsTakesOverTheNewest) {
  World w;
  RevisionId id = w.beginning;
  Configuration c;
  for (int i = 0; i < 5; ++i) {
    id = {id.epoch, id.n + 1, random_uuid()};
    c.tokens.push_back({random_uuid(), std::to_string(i), std::to_string(i), Role::viewer, 1, 0});
    w.store_a.commit(id, {.id = id.epoch}, "", c);
  }
  w.start_a();
  w.expect_settled("behind by five");
  EXPECT_EQ(World::tokens(*w.b).size(), 5u);
}

TEST(Revisions, TwoConfigurationsThatDoNotFollowFromOneAnotherAreBothKept) {
  World w;
  Configuration c;
  c.tokens.push_back({random_uuid(), "a", "a", Role::viewer, 1, 0});
  w.store_a.commit({w.beginning.epoch, 1, random_uuid()}, {.id = w.beginning.epoch}, "", c);
  w.store_b.commit({w.beginning.epoch, 1, random_uuid()}, {.id = w.beginning.epoch}, "", {});
  w.start_a();
  w.start_b();
  w.compare_notes();
  EXPECT_TRUE(w.a->conflict());
  EXPECT_TRUE(w.b->conflict());
  EXPECT_EQ(World::tokens(*w.a).size(), 1u);
  EXPECT_EQ(World::tokens(*w.b).size(), 0u);
}

}  // namespace
}  // namespace lockstep::mgmt
