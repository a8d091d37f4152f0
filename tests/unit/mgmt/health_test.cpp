// Verdicts and their sentences.
#include <gtest/gtest.h>

#include "tests/unit/mgmt/viewed_pair.hpp"

namespace lockstep::mgmt {
namespace {

TEST(Health, InSyncEverywhereIsInOrder) {
  Pairs p;
  EXPECT_EQ(p.volume().verdict, Verdict::ok);
  EXPECT_EQ(p.health().verdict, Verdict::ok);
  EXPECT_EQ(p.health().summary, "Everything is in order.");
}

TEST(Health, OneNodesOwnChangesAreNamedUntilTheOtherHasThem) {
  Pairs p;
  p.view.revision.epoch.members = engine::MemberSet::only(NodeSide::b);
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  EXPECT_EQ(p.health().summary,
            "node-b has changed the configuration alone: node-a does not carry out the changes yet.");
}

TEST(Health, AVolumeThatBothNodesServeAloneIsCritical) {
  Pairs p;
  p.states("solo", true, "solo", true);
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
  EXPECT_EQ(p.volume().summary, "Both node-a and node-b serve it alone: each takes writes that the other lacks.");
  EXPECT_LT(p.volume().advice.find("mend the link"), p.volume().advice.find("lockstep volume give-up vm1 --node NODE"))
      << "it is refused while the link is cut: " << p.volume().advice;
  p.states("solo", true, "solo", false);
  EXPECT_EQ(p.volume().verdict, Verdict::degraded) << "one of them alone is";
  p.states("solo", true, "syncing_target", true);
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
}

TEST(Health, AFullDiskUnderAVolumeInSyncIsDegradedAndNamesTheNode) {
  Pairs p;
  p.b().reason = "No space is left for /d/vm1.data.";
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_EQ(p.volume().summary, "In sync on both nodes, but node-b: No space is left for /d/vm1.data.");
}

TEST(Health, WhatALockstepdFindsWrongWithItsMachineIsToldWithTheNodesName) {
  Pairs p;
  p.view.nodes[1].report.status->findings = {"This machine has too little memory."};
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  EXPECT_EQ(p.health().summary, "On node-b: This machine has too little memory.");
  const auto travelled = report_from(to_json_text(p.view.nodes[1].report));
  ASSERT_TRUE(travelled);
  EXPECT_EQ(travelled->status->findings, p.view.nodes[1].report.status->findings);
}

TEST(Health, WhatALockstepdFindsOfItsRdmaIsToldWithWhatToDo) {
  Pairs p;
  p.view.nodes[1].report.status->rdma_findings = {
      {"port_down", "warning", "rxe0/1 is not active.", "Check the cable."}};
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  EXPECT_EQ(p.health().summary, "On node-b: rxe0/1 is not active.");
  EXPECT_EQ(p.health().problems.at(0).advice, "Check the cable.");
  const auto travelled = report_from(to_json_text(p.view.nodes[1].report));
  ASSERT_TRUE(travelled);
  EXPECT_EQ(travelled->status->rdma_findings, p.view.nodes[1].report.status->rdma_findings);
}

TEST(Health, AdviceOnRdmaIsToldAndAllIsInOrder) {
  Pairs p;
  p.view.nodes[0].report.status->rdma_findings = {{"small_mtu", "advice", "eth1 has an MTU of 1500.", "Set 9000."}};
  EXPECT_EQ(p.health().verdict, Verdict::ok);
  EXPECT_EQ(p.health().summary, "Everything is in order.");
  ASSERT_EQ(p.health().problems.size(), 1U);
  EXPECT_EQ(p.health().problems[0].severity, Severity::info);
  p.view.nodes[1].report.status->findings = {"It has too little memory."};
  EXPECT_EQ(p.health().summary, "On node-b: It has too little memory.") << "and nothing else is wrong";
  EXPECT_EQ(p.health().problems.size(), 2U);
}

TEST(Health, AVolumeWhoseImportNobodyIsAtWorkOnIsNotInOrder) {
  Pairs p;
  Volume& v = p.configuration->volumes[0];
  v.import_secret = "0123456789abcdef";
  p.view.at_work = std::vector<Uuid>{v.id};
  EXPECT_EQ(p.health().verdict, Verdict::ok);
  p.view.at_work = std::vector<Uuid>{};
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  EXPECT_NE(p.health().problems.at(0).advice.find("lockstep volume delete vm1"), std::string::npos);
  p.view.newer_copy = 1000;
  EXPECT_NE(p.volume().advice.find("Do not delete it yet"), std::string::npos) << "the database was set back";
  p.view.newer_copy = 0;
  v.import_secret.clear();
  EXPECT_EQ(p.health().verdict, Verdict::ok);
}

TEST(Health, AVolumeWhoseMakingOrDeletionNobodyIsAtWorkOnIsNotInOrder) {
  Pairs p;
  Volume& v = p.configuration->volumes[0];
  for (const Lifecycle lifecycle : {Lifecycle::creating, Lifecycle::deleting}) {
    v.lifecycle = lifecycle;
    p.view.at_work = std::vector<Uuid>{v.id};
    EXPECT_EQ(p.health().verdict, Verdict::ok);
    p.view.at_work = std::vector<Uuid>{random_uuid()};
    EXPECT_EQ(p.health().verdict, Verdict::degraded);
    EXPECT_NE(p.health().problems.at(0).advice.find("lockstep volume delete vm1"), std::string::npos);
    p.view.revision.epoch.members = engine::MemberSet::only(NodeSide::a);
    EXPECT_EQ(p.volume().verdict, Verdict::ok) << "the other node's part is to come";
    p.view.revision.epoch.members = engine::MemberSet::both();
    p.view.at_work.reset();
    EXPECT_EQ(p.health().verdict, Verdict::ok) << "the other node knows";
  }
  v.lifecycle = Lifecycle::ready;
  p.view.at_work.emplace();
  EXPECT_EQ(p.health().verdict, Verdict::ok);
}

TEST(Health, AVolumeThatNobodyServesIsCritical) {
  Pairs p;
  p.states("waiting", false, "waiting", false);
  p.a().reason = "The witness cannot be reached.";
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
  EXPECT_NE(p.volume().summary.find("The witness cannot be reached;"), std::string::npos) << p.volume().summary;
  EXPECT_EQ(p.health().verdict, Verdict::critical);
  EXPECT_EQ(p.health().problems.at(0).subject, "volume");
}

TEST(Health, AVolumeOfWhichItIsBeingDecidedWhoServesItIsNoAlarmYet) {
  Pairs p;
  p.states("waiting", false, "suspended", false);
  p.b().access = "transitioning";
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_TRUE(p.volume().summary.starts_with("Not served for the moment: ")) << p.volume().summary;
  EXPECT_EQ(p.volume().advice.find("force"), std::string::npos) << "nobody forces what decides itself";
  p.b().access = "unavailable";
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
}

TEST(Health, AResyncIsDegradedAndTellsHowFarItIs) {
  Pairs p;
  p.states("syncing_source", true, "syncing_target", true);
  p.a().resync_running = true;
  p.a().resync_total = 1000;
  p.a().resync_done = 460;
  p.a().resync_rate = 1;
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_EQ(p.volume().summary, "Served by node-a; node-b is being brought up to date (46 %, about 9 minutes left).");
  p.a().reason = "Block 10 of this copy, the only one, can't be read.";
  EXPECT_EQ(
      p.volume().summary,
      "Served by node-a; node-b is being brought up to date (46 %, about 9 minutes left). node-a: Block 10 of this "
      "copy, the only one, can't be read.");
}

/// Hosts read, and the partner may be about to take over.
TEST(Health, AnOnlyCopyThatTakesNoWritesIsCriticalAndSaysHowThatEnds) {
  Pairs p;
  p.states("solo", true, "left", true);
  p.a().reason = "A flush of this copy failed (/srv/vm1.data): … Look at that disk first.";
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
  EXPECT_EQ(
      p.volume().summary,
      "Hosts' writes are refused: node-a: A flush of this copy failed (/srv/vm1.data): … Look at that disk first.");
  p.states("syncing_source", true, "syncing_target", true);
  p.a().resync_running = true;
  p.a().resync_total = 1000;
  p.a().resync_done = 460;
  p.a().resync_rate = 1;
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
  EXPECT_TRUE(p.volume().summary.starts_with(
      "Hosts' writes are refused until node-b is up to date (46 %, about 9 minutes left): node-a: A flush"))
      << p.volume().summary;
}

TEST(Health, SplitBrainIsCriticalAndAsksForADecision) {
  Pairs p;
  p.states("split_brain", false, "solo", true);
  EXPECT_EQ(p.volume().verdict, Verdict::critical);
  EXPECT_FALSE(p.volume().advice.empty());
}

TEST(Health, FailoverLimitedIsDegraded) {
  Pairs p;
  p.a().failover_limited = true;
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_NE(p.volume().summary.find("has not been told yet"), std::string::npos) << "a clean rejoin takes a second";
}

TEST(Health, AWitnessThatIsBeingChangedIsToldOnceAndNotAsItsLoss) {
  Pairs p;
  for (auto& n : p.view.nodes) n.report.status->witness_reachable = false;
  EXPECT_EQ(p.health().problems.size(), 2u) << "each node tells of its loss";
  p.configuration->pair->arbiter.changing = true;
  const Health health = p.health();
  EXPECT_EQ(health.verdict, Verdict::degraded);
  ASSERT_EQ(health.problems.size(), 1u);
  EXPECT_EQ(health.problems[0].subject, "witness");
  EXPECT_NE(health.problems[0].message.find("is being changed"), std::string::npos);
}

TEST(Health, ALeaseThatIsBeingChangedIsToldUntilOnlyTheNewOneCounts) {
  Pairs p;
  auto& settings = p.configuration->pair->settings;
  settings.lease_ms = 3000;
  settings.other_lease_ms = 1500;
  const Health health = p.health();
  ASSERT_EQ(health.problems.size(), 1u);
  EXPECT_EQ(health.problems[0].message,
            "The lease is being changed: until that is done a node holds it for 1500 ms, and its partner waits 3000 ms "
            "before it goes on alone.");
  EXPECT_NE(health.problems[0].advice.find("lockstep job list"), std::string::npos);
  settings.other_lease_ms = 0;
  EXPECT_EQ(p.health().verdict, Verdict::ok);
}

TEST(Health, AVerdictDependsOnNeitherSide) {
  const char* states[] = {"starting",  "in_sync", "solo",        "syncing_source", "syncing_target",
                          "suspended", "waiting", "split_brain", "failed",         "left"};
  for (const char* one : states)
    for (const char* other : states)
      for (const int serving : {0, 1, 2, 3}) {
        Pairs p, q;
        p.states(one, serving & 1, other, serving & 2);
        q.states(other, serving & 2, one, serving & 1);
        ASSERT_EQ(p.volume().verdict, q.volume().verdict) << one << " " << other;
        ASSERT_FALSE(p.volume().summary.empty());
        if (serving == 0) {
          ASSERT_EQ(p.volume().verdict, Verdict::critical);
        }
        const bool synced = p.a().state == "in_sync" && p.b().state == "in_sync" && serving != 0;
        ASSERT_EQ(p.volume().verdict == Verdict::ok, synced) << one << " " << other << " " << serving;
      }
}

TEST(Health, APartnerThatCannotBeReachedIsNamedAndItsLastFiguresAreNotTrusted) {
  Pairs p;
  p.view.nodes[1].reachable = false;
  p.view.nodes[1].reason = "cannot be reached at 10.0.0.12:8443 (Connection refused)";
  p.view.nodes[1].since_ms = 1000;
  p.a().state = "solo";
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_EQ(p.volume().summary, "Served by node-a alone; the management of node-b cannot be reached.");
  EXPECT_EQ(p.health().problems.at(0).side, NodeSide::b);
  EXPECT_NE(p.health().problems.at(0).message.find("since 00:00:01 UTC"), std::string::npos);
}

TEST(Health, ASilentManagementIsNotTakenForANodeThatDoesNotServe) {
  Pairs p;
  p.view.nodes[1].reachable = false;
  p.view.nodes[1].reason = "did not answer at 10.0.0.12:8443 in time";
  EXPECT_EQ(p.volume().verdict, Verdict::degraded);
  EXPECT_EQ(p.volume().summary, "In sync, as node-a tells; the management of node-b cannot be reached.");
}

TEST(Health, LockstepdThatDoesNotRunIsCriticalOnlyWhenAVolumeIsNotServed) {
  Pairs p;
  p.view.nodes[0].report.running = false;
  p.view.nodes[0].report.message = "lockstepd does not answer.";
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  p.b().serving = false;
  EXPECT_EQ(p.health().verdict, Verdict::critical);
}

TEST(Health, ALostLinkAndALostWitnessAreWarnings) {
  Pairs p;
  p.view.nodes[0].report.status->partner_connected = false;
  p.view.nodes[1].report.status->witness_reachable = false;
  const Health health = p.health();
  EXPECT_EQ(health.verdict, Verdict::degraded);
  ASSERT_EQ(health.problems.size(), 2u);
  EXPECT_EQ(health.problems[0].subject, "link");
  EXPECT_EQ(health.problems[1].subject, "witness");
}

TEST(Health, AWitnessOnOneOfTheNodesIsAWarning) {
  Pairs p;
  p.configuration->pair->arbiter = {.witness = true, .endpoints = {"http://10.0.0.12:2379"}, .access = {}};
  p.configuration->nodes[1].management_address = "10.0.0.12:8443";
  const Health health = p.health();
  EXPECT_EQ(health.verdict, Verdict::degraded);
  EXPECT_NE(health.summary.find("The witness is on the pair's own machines (http://10.0.0.12:2379 on node-b)"),
            std::string::npos)
      << health.summary;
  p.configuration->pair->arbiter.endpoints.emplace_back("http://10.0.0.10:2379");
  EXPECT_EQ(p.health().verdict, Verdict::ok);
}

TEST(Health, ANodeWithoutAPairSaysWhatToDo) {
  PairView view;
  view.configuration = std::make_shared<Configuration>();
  const Health health = judge_pair(view);
  EXPECT_EQ(health.verdict, Verdict::degraded);
  EXPECT_FALSE(health.problems.at(0).advice.empty());
}

TEST(Health, ANodeWithoutAPairWhoseLockstepdServesVolumesSaysSoAndWhatToDo) {
  PairView view;
  view.configuration = std::make_shared<Configuration>();
  EXPECT_EQ(judge_pair(view).summary, "This node is not in a pair yet.");
  view.unpaired = Unpaired{.served = 2, .replicas = 2, .saved = true, .saved_of = "pair1", .saved_problem = ""};
  const Health health = judge_pair(view);
  EXPECT_EQ(health.verdict, Verdict::critical);
  EXPECT_NE(health.summary.find("its lockstepd serves 2 volumes that the management does not know"), std::string::npos);
  EXPECT_NE(health.summary.find("A copy of the configuration of pair1"), std::string::npos);
  for (const char* command : {"lockstep node replace", "lockstep pair join", "lockstep pair recover"})
    EXPECT_NE(health.problems.front().advice.find(command), std::string::npos) << command;
}

TEST(Health, APartnerThatHasLostItsDatabaseIsToldApartFromOneThatIsAway) {
  for (const auto trouble : {PartnerTrouble::has_no_pair, PartnerTrouble::other_certificate, PartnerTrouble::away}) {
    Pairs p;
    p.view.nodes[1].reachable = false;
    p.view.nodes[1].trouble = trouble;
    const Health health = p.health();
    ASSERT_FALSE(health.problems.empty());
    const bool says_replace = health.problems.front().advice.find("lockstep node replace b") != std::string::npos;
    EXPECT_EQ(says_replace, trouble != PartnerTrouble::away);
  }
}

TEST(Health, ANewCertificateBesideAnOldDatabaseIsToldOnBothNodesWithWhatToMoveAway) {
  Pairs seen_by_the_other;
  seen_by_the_other.view.nodes[1].reachable = false;
  seen_by_the_other.view.nodes[1].trouble = PartnerTrouble::other_certificate;
  EXPECT_NE(seen_by_the_other.health().problems.front().advice.find("move mgmt.db"), std::string::npos);
  Pairs itself;
  itself.view.nodes[1].reachable = false;
  itself.view.nodes[1].trouble = PartnerTrouble::away;
  itself.view.nodes[1].reason = "answers: This is for the partner node only";
  itself.view.nodes[1].refuses = true;
  const HealthProblem told = itself.health().problems.front();
  EXPECT_NE(told.message.find("The management of node-b does not take this node for its partner"), std::string::npos)
      << told.message;
  for (const char* command :
       {"tls.crt and tls.key", "move mgmt.db", "`lockstep node replace a` on node-b", "pair join"})
    EXPECT_NE(told.advice.find(command), std::string::npos) << command;
  EXPECT_EQ(told.advice.find("power"), std::string::npos) << "it answers";
}

TEST(Health, ASilentManagementWhoseLockstepdIsConnectedIsNoLostNode) {
  Pairs p;
  p.view.nodes[1].reachable = false;
  p.view.nodes[1].trouble = PartnerTrouble::away;
  EXPECT_NE(p.health().problems.front().advice.find("it is not lost"), std::string::npos);
  p.view.nodes[0].report.status->partner_connected = false;
  for (const HealthProblem& problem : p.health().problems)
    EXPECT_EQ(problem.advice.find("it is not lost"), std::string::npos) << problem.advice;
}

TEST(Health, AReplicaWhoseFilesAreMissingIsToldWithTheCommandThatMakesAnotherAndOnce) {
  Pairs p;
  const Uuid volume = p.configuration->volumes[0].id;
  p.states("solo", true, "", false);
  p.view.nodes[1].report.status->volumes.clear();
  p.view.nodes[1].report.missing = {volume};
  p.view.nodes[1].report.problems = {{"volume vm1", "The replica's data is missing."}};
  const Health health = p.health();
  ASSERT_EQ(health.problems.size(), 1U);
  EXPECT_EQ(health.problems[0].message,
            "vm1: Served by node-a alone; node-b has no replica of it: the files are missing there.");
  EXPECT_NE(health.problems[0].advice.find("`lockstep replica replace vm1 --node b`"), std::string::npos);
}

TEST(Health, NoCopyIsToBeReplacedFromOneThatDoesNotServe) {
  Pairs p;
  const Uuid volume = p.configuration->volumes[0].id;
  const auto lose = [&](std::size_t node) {
    p.view.nodes[node].report.status->volumes.clear();
    p.view.nodes[node].report.missing = {volume};
  };
  lose(1);
  p.a().state = "waiting";
  p.a().serving = false;
  EXPECT_NE(p.volume().advice.find("`lockstep volume force-solo vm1 --node a`, and then"), std::string::npos)
      << p.volume().advice;
  p.view.nodes[0].report.running = false;
  EXPECT_EQ(p.volume().advice.find("replica replace"), std::string::npos) << p.volume().advice;
  EXPECT_NE(p.volume().advice.find("bring node-a back first"), std::string::npos) << p.volume().advice;
  p.view.nodes[0].report.running = true;
  lose(0);
  EXPECT_EQ(p.volume().advice.find("replica replace"), std::string::npos) << "both are missing";
  EXPECT_NE(p.volume().advice.find("`lockstep volume delete vm1`"), std::string::npos) << p.volume().advice;
  p.view.nodes[1] = {};
  p.configuration->nodes.pop_back();
  EXPECT_EQ(p.volume().advice.find("replica replace"), std::string::npos) << "there is no other node";
  EXPECT_NE(p.volume().advice.find("`lockstep volume delete vm1`"), std::string::npos) << p.volume().advice;
}

TEST(Health, AMachineThatWasReplacedIsCritical) {
  Pairs p;
  p.view.replaced_ms = 1;
  EXPECT_EQ(p.health().verdict, Verdict::critical);
  EXPECT_NE(p.health().summary.find("took the place of this one"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::mgmt
