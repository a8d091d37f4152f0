// What health says of the link: its encryption, its paths, each shard's.
#include <gtest/gtest.h>

#include "tests/unit/mgmt/viewed_pair.hpp"

namespace lockstep::mgmt {
namespace {

TEST(Health, ALinkWithoutTlsIsToldWithTheCommandThatEncryptsIt) {
  Pairs p;
  p.configuration->pair->link_protection = LinkProtection::off;
  const Health open = p.health();
  EXPECT_EQ(open.verdict, Verdict::degraded);
  EXPECT_NE(open.summary.find("not encrypted"), std::string::npos) << open.summary;
  ASSERT_EQ(open.problems.size(), 1U);
  EXPECT_NE(open.problems[0].advice.find("lockstep pair protect-link"), std::string::npos);
  p.configuration->pair->link_protection = LinkProtection::used;
  EXPECT_NE(p.health().summary.find("takes calls without TLS, too"), std::string::npos) << p.health().summary;
}

struct Paths : Pairs {
  Paths() {
    for (auto& n : configuration->nodes) {
      n.link_address = n.side == NodeSide::a ? "10.1.0.1:3261" : "10.1.0.2:3261";
      n.more_link_addresses = {n.side == NodeSide::a ? "10.9.0.1:3261" : "10.9.0.2:3261"};
    }
    view.nodes[0].report.status->partner_paths = {{"tcp", "proven", "", "10.1.0.2:3261"},
                                                  {"tcp", "proven", "", "10.9.0.2:3261"}};
    view.nodes[1].report.status->partner_paths = {{"tcp", "proven", "", "10.1.0.1:3261"},
                                                  {"tcp", "proven", "", "10.9.0.1:3261"}};
  }
  LinkPathStatus& path(std::size_t node, std::size_t i) { return view.nodes[node].report.status->partner_paths->at(i); }
  void down(std::size_t node, std::size_t i) {
    path(node, i).state = "down";
    path(node, i).problem = "It does not answer.";
  }
};

TEST(Health, APathThatIsDownIsToldOnceWithWhyWhileTheLinkIsUp) {
  Paths p;
  EXPECT_EQ(p.health().verdict, Verdict::ok);
  p.down(1, 1);
  EXPECT_EQ(p.health().summary,
            "Path 2 of the link, between 10.9.0.1:3261 and 10.9.0.2:3261, is down: It does not answer.");
  EXPECT_EQ(p.health().verdict, Verdict::degraded);
  p.down(0, 1);
  EXPECT_EQ(p.health().problems.size(), 1U) << "both nodes say so";
  EXPECT_NE(p.health().problems[0].advice.find("`lockstep link remove`"), std::string::npos);
  p.path(0, 1) = p.path(1, 1) = {.transport = "tcp", .state = "proving", .from = "", .to = ""};
  EXPECT_EQ(p.health().verdict, Verdict::ok) << "it is back";
  p.down(0, 0);
  EXPECT_NE(p.health().summary.find("Path 1 of the link"), std::string::npos);
}

struct Shards : Paths {
  /// Both nodes have two shards, and a volume in the second.
  Shards() {
    for (auto& n : view.nodes) {
      n.report.status->shards = {{.number = 0, .connected = true}, {.number = 1, .connected = true}};
      ReplicaStatus& replica = n.report.status->volumes.emplace_back();
      replica.volume = {{1}};
      replica.shard = 1;
      replica.serving = true;
      replica.state = "in_sync";
    }
  }
  ShardStatus& second(std::size_t node) { return view.nodes[node].report.status->shards[1]; }
  void lose(std::size_t node) {
    second(node).connected = false;
    view.nodes[node].report.status->partner_connected = false;
  }
  std::vector<HealthProblem> of_link() {
    auto all = health().problems;
    std::erase_if(all, [](const HealthProblem& p) { return p.subject != "link"; });
    return all;
  }
};

TEST(Health, AShardsLinkThatIsDownIsToldWithItsPorts) {
  Shards p;
  EXPECT_TRUE(p.of_link().empty());
  p.lose(1);
  p.second(1).problem = "Connection refused.";
  ASSERT_EQ(p.of_link().size(), 1U);
  EXPECT_NE(p.of_link()[0].message.find("for the volumes of shard 1."), std::string::npos) << p.of_link()[0].message;
  EXPECT_NE(p.of_link()[0].advice.find("through port 3262 of node-b and port 3262 of node-a"), std::string::npos)
      << p.of_link()[0].advice;
  EXPECT_NE(p.of_link()[0].advice.find("Connection refused."), std::string::npos);
}

TEST(Health, AShardsLinkIsNotMissedWhereItHasNoVolumesOrTheFirstIsDownToo) {
  Shards p;
  p.lose(0);
  p.view.nodes[0].report.status->shards[0].connected = false;
  ASSERT_EQ(p.of_link().size(), 1U);
  EXPECT_EQ(p.of_link()[0].message.find("shard"), std::string::npos) << p.of_link()[0].message;
  Shards unused;
  for (auto& n : unused.view.nodes)
    for (auto& v : n.report.status->volumes) v.shard = 0;
  unused.second(0).connected = false;
  EXPECT_TRUE(unused.of_link().empty());
}

TEST(Health, APathThatAShardLacksIsTold) {
  Shards p;
  p.second(0).paths_down = {"10.9.0.2:3261"};
  ASSERT_EQ(p.of_link().size(), 1U);
  EXPECT_EQ(p.of_link()[0].message,
            "Path 2 of the link, between 10.9.0.1:3261 and 10.9.0.2:3261, is down for the volumes of shard 1.");
}

TEST(Health, OfALinkThatIsLostAsAWholeNoPathIsTold) {
  Paths p;
  p.down(0, 0);
  p.down(0, 1);
  p.view.nodes[0].report.status->partner_connected = false;
  const Health lost = p.health();
  ASSERT_EQ(lost.problems.size(), 1U);
  EXPECT_NE(lost.summary.find("has no replication link"), std::string::npos);
}

TEST(Health, ALinkThatIsLostTellsWhatBothNodesSayOfEachPath) {
  Paths p;
  p.down(0, 0);
  p.path(0, 0).problem = "10.1.0.2:3261: the other end refuses this node's certificate";
  p.down(1, 0);
  p.path(1, 0).problem = "10.1.0.1:3261: the other end's certificate is not valid yet; correct the clocks.";
  p.down(0, 1);
  for (auto& n : p.view.nodes) n.report.status->partner_connected = false;
  const Health lost = p.health();
  ASSERT_EQ(lost.problems.size(), 1U);
  EXPECT_EQ(lost.problems[0].message, "node-a has no replication link to node-b.");
  EXPECT_EQ(lost.problems[0].advice,
            "Of path 1 node-a says: 10.1.0.2:3261: the other end refuses this node's certificate. "
            "Of path 1 node-b says: 10.1.0.1:3261: the other end's certificate is not valid yet; correct the clocks. "
            "Of path 2 node-a says: It does not answer. Check the network between 10.1.0.1:3261 and 10.1.0.2:3261; "
            "`lockstep link` shows what each node sees of each path.");
  for (auto& n : p.configuration->nodes) n.more_link_addresses.clear();
  EXPECT_NE(p.health().problems[0].advice.find("node-b says: 10.1.0.1:3261: the other end's certificate"),
            std::string::npos)
      << p.health().problems[0].advice;
  EXPECT_EQ(p.health().problems[0].advice.find("path 1"), std::string::npos) << "there is no other";
}

TEST(Health, OfAPartnersPathNothingIsToldWhileThePartnerCannotBeAsked) {
  Paths p;
  p.down(1, 1);
  p.view.nodes[1].reachable = false;
  for (const auto& problem : p.health().problems) EXPECT_NE(problem.subject, "link") << problem.message;
}

}  // namespace
}  // namespace lockstep::mgmt
