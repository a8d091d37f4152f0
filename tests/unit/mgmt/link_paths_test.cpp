// The link's further paths: what is refused, what is told to lockstepd, what the partner and the disk are told.
#include "mgmt/control/link_paths.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

const LinkPathWish kMore{{"10.9.0.11:3261", "10.9.0.12:3261"}, false};
const LinkPathWish kLast{{"10.0.0.11:3262", "10.0.0.12:3262"}, true};

Configuration pair() {
  Configuration c;
  c.pair.emplace();
  c.pair->name = "pair1";
  c.nodes = {{random_uuid(), NodeSide::a, "node-a", {"10.0.0.11:3260"}, "10.1.0.11:3261", "10.0.0.11:8443", "aa"},
             {random_uuid(), NodeSide::b, "node-b", {"10.0.0.12:3260"}, "10.1.0.12:3261", "10.0.0.12:8443", "bb"}};
  return c;
}

Configuration with_paths() {
  Configuration c = pair();
  EXPECT_TRUE(add_link_path(c, kLast));
  EXPECT_TRUE(add_link_path(c, kMore));
  return c;
}

json told(const Configuration& c, NodeSide side) {
  return json::parse(apply_parameters(c, 1, side, "/v"))["partner"]["link"];
}

std::string complaint(const Configuration& c, const LinkPathWish& wish, const char* pointer) {
  for (const auto& problem : problems_of(wish, c))
    if (problem.pointer == pointer) return problem.detail;
  return "";
}

std::string why_not(Outcome<void> done) { return done ? "" : done.error().detail; }

TEST(LinkPaths, BothNodesAreToldOfThemInOneOrderTheLastResortsAtTheEnd) {
  const Configuration c = with_paths();
  EXPECT_EQ(told(c, NodeSide::a)["more_paths"],
            json::parse(R"([{"listen": "10.9.0.11:3261", "connect": "10.9.0.12:3261", "last_resort": false},
                            {"listen": "10.0.0.11:3262", "connect": "10.0.0.12:3262", "last_resort": true}])"));
  EXPECT_EQ(told(c, NodeSide::b)["more_paths"],
            json::parse(R"([{"listen": "10.9.0.12:3261", "connect": "10.9.0.11:3261", "last_resort": false},
                            {"listen": "10.0.0.12:3262", "connect": "10.0.0.11:3262", "last_resort": true}])"));
  EXPECT_FALSE(told(pair(), NodeSide::a).contains("more_paths")) << "an older lockstepd refuses what it does not know";
}

TEST(LinkPaths, OnlyThenTheDocumentIsOneThatOlderProgramsRefuse) {
  Configuration c = pair();
  EXPECT_LT(document_version(c), 9);
  EXPECT_FALSE(json::parse(to_document(c))["nodes"][0].contains("more_link_addresses"));
  c.nodes[0].beside.link_address = "10.1.0.13:3261";
  EXPECT_EQ(document_version(c), 9);
  EXPECT_TRUE(add_link_path(c, kMore));
  EXPECT_EQ(document_version(c), 10);
  EXPECT_EQ(from_document(to_document(c)), c);
  EXPECT_TRUE(remove_link_path(c, "10.9.0.12:3261"));
  EXPECT_EQ(document_version(c), 9);
  EXPECT_TRUE(add_link_path(c, kLast));
  EXPECT_EQ(document_version(c), 10);
  EXPECT_EQ(from_document(to_document(c)), c);
}

TEST(LinkPaths, AnAddressIsRefusedThatIsNoneOrInUseOrNobodysToCall) {
  const Configuration c = with_paths();
  const auto with_a = [](const char* address) { return LinkPathWish{{address, "10.8.0.12:3261"}, false}; };
  EXPECT_EQ(problems_of(with_a("10.8.0.11:3261"), c).size(), 0U);
  EXPECT_NE(complaint(c, with_a("node-a:3261"), "/a"), "");
  EXPECT_NE(complaint(c, with_a("10.8.0.11"), "/a"), "");
  EXPECT_NE(complaint(c, with_a(""), "/a"), "");
  EXPECT_EQ(complaint(c, with_a("0.0.0.0:3261"), "/a"),
            "0.0.0.0:3261 is no address that the partner could connect to.");
  EXPECT_EQ(complaint(c, with_a("[::]:3261"), "/a"), "[::]:3261 is no address that the partner could connect to.");
  for (const char* used :
       {"10.1.0.11:3261", "10.1.0.12:3261", "10.0.0.11:3260", "10.0.0.12:8443", "10.9.0.12:3261", "10.0.0.11:3262"})
    EXPECT_NE(complaint(c, with_a(used), "/a").find("is used by node-"), std::string::npos) << used;
  EXPECT_EQ(complaint(c, with_a("10.8.0.12:3261"), "/b"), "The other node has the same address.");
  EXPECT_EQ(complaint(c, {{"10.8.0.11:3261", "10.0.0.12:3260"}, false}, "/b"),
            "10.0.0.12:3260 is used by node-b already.");
}

TEST(LinkPaths, AnAddressIsRefusedWhosePortsMeetOthersWhereVolumesAreInFurtherShards) {
  Configuration c = pair();
  c.volumes.emplace_back().shard = 2;
  const auto with_a = [](const char* address) { return LinkPathWish{{address, "10.8.0.12:3261"}, false}; };
  EXPECT_EQ(complaint(c, with_a("10.0.0.11:3261"), "/a"), "") << "a portal at 3260 has no ports above its own";
  EXPECT_NE(complaint(c, with_a("10.0.0.11:3258"), "/a").find("one of the 2 ports above it"), std::string::npos);
  EXPECT_NE(complaint(c, with_a("10.0.0.11:8441"), "/a"), "") << "management is at 8443";
  EXPECT_NE(complaint(c, with_a("10.1.0.11:3263"), "/a"), "") << "the link has the two ports above its own";
  EXPECT_NE(complaint(c, with_a("10.1.0.11:3259"), "/a"), "");
  EXPECT_EQ(complaint(c, with_a("10.1.0.11:3264"), "/a"), "");
  EXPECT_NE(complaint(c, with_a("10.8.0.11:65534"), "/a").find("there are not so many"), std::string::npos);
  EXPECT_EQ(complaint(c, with_a("10.8.0.11:65533"), "/a"), "");
  EXPECT_EQ(document_version(c), 11);
  EXPECT_EQ(from_document(to_document(c)), c);
}

TEST(LinkPaths, AnIPv6AddressIsTheSameHoweverItIsWritten) {
  Configuration c = pair();
  ASSERT_TRUE(add_link_path(c, {{"[fd00::1]:3261", "[fd00::2]:3261"}, false}));
  EXPECT_NE(complaint(c, {{"[fd00:0::1]:3261", "[fd00::3]:3261"}, false}, "/a"), "");
  EXPECT_TRUE(remove_link_path(c, "[fd00:0:0::2]:3261"));
  EXPECT_TRUE(c.nodes[0].more_link_addresses.empty());
}

TEST(LinkPaths, ThereAreFourAtTheMost) {
  Configuration c = with_paths();
  EXPECT_TRUE(add_link_path(c, {{"10.8.0.11:3261", "10.8.0.12:3261"}, false}));
  const Configuration full = c;
  EXPECT_EQ(why_not(add_link_path(c, {{"10.7.0.11:3261", "10.7.0.12:3261"}, true})),
            "The link has 4 paths already, which is the most there can be. Remove one first.");
  EXPECT_EQ(c, full);
}

TEST(LinkPaths, APathIsRemovedByEitherNodesAddressAtBoth) {
  for (const char* address : {"10.9.0.11:3261", "10.9.0.12:3261"}) {
    Configuration c = with_paths();
    const auto removed = remove_link_path(c, address);
    ASSERT_TRUE(removed) << removed.error().detail;
    EXPECT_EQ(removed->addresses, kMore.addresses);
    for (const auto& n : c.nodes) EXPECT_TRUE(n.more_link_addresses.empty());
    EXPECT_EQ(c.nodes[0].last_link_addresses, std::vector{kLast.addresses[0]});
    EXPECT_EQ(c.nodes[1].last_link_addresses, std::vector{kLast.addresses[1]});
  }
}

TEST(LinkPaths, TheFirstOneStaysAndAStrangersIsNotFound) {
  Configuration c = with_paths();
  const Configuration before = c;
  const auto first = remove_link_path(c, "10.1.0.12:3261");
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().kind, RefusalKind::conflict);
  EXPECT_NE(first.error().detail.find("`lockstep node set b --link-address ADDRESS:PORT` moves it"), std::string::npos);
  const auto unknown = remove_link_path(c, "10.7.0.1:1");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, RefusalKind::not_found);
  EXPECT_EQ(c, before);
}

TEST(LinkPaths, APairOfOneHasNone) {
  Configuration c = pair();
  c.nodes.pop_back();
  EXPECT_NE(why_not(add_link_path(c, kMore)).find("one node"), std::string::npos);
  EXPECT_FALSE(remove_link_path(c, "10.1.0.11:3261"));
  Configuration nothing;
  const auto none = add_link_path(nothing, kMore);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, RefusalKind::no_pair);
}

TEST(LinkPaths, AreForgottenWithTheNodeThatLeavesOrIsReplacedAndNoNodeBringsAny) {
  const Configuration c = with_paths();
  Node joining = c.nodes[1];
  joining.id = random_uuid();
  const Token token{random_uuid(), "t", "d", Role::admin, 1, 0};
  const Configuration left = with_node_left(c, NodeSide::b);
  for (const auto& next : {left, with_node_replaced(c, joining, token), with_second_node(left, joining, token)})
    for (const auto& n : next.nodes) {
      EXPECT_TRUE(n.more_link_addresses.empty());
      EXPECT_TRUE(n.last_link_addresses.empty());
    }
}

struct Views {
  std::shared_ptr<Configuration> configuration = std::make_shared<Configuration>(with_paths());
  PairView view;

  Views() {
    view.configuration = configuration;
    for (std::size_t i = 0; i < 2; ++i) {
      view.nodes[i].node = &configuration->nodes[i];
      view.nodes[i].report.running = true;
      view.nodes[i].report.status.emplace().partner_paths.emplace();
    }
  }
  std::vector<LinkPathStatus>& of(std::size_t node) { return *view.nodes[node].report.status->partner_paths; }
};

TEST(LinkPaths, EachNodesOwnViewIsFoundByWhereItGoesWhateverTheOrder) {
  Views v;
  v.of(0) = {{.transport = "tcp", .state = "down", .from = "10.0.0.11", .to = "10.0.0.12:3262"},
             {.transport = "tcp", .state = "proven", .from = "10.1.0.11", .to = "10.1.0.12:3261"}};
  v.of(1) = {{.transport = "tcp", .state = "proving", .from = "10.9.0.12", .to = "10.9.0.11:3261"}};
  const auto paths = link_paths_of(v.view);
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[0].number, 1U);
  EXPECT_EQ(paths[0].ends[0].status->state, "proven");
  EXPECT_FALSE(paths[0].ends[1].status);
  EXPECT_EQ(paths[1].ends[1].address, "10.9.0.12:3261");
  EXPECT_EQ(paths[1].ends[1].status->state, "proving");
  EXPECT_FALSE(paths[1].ends[0].status);
  EXPECT_TRUE(paths[2].last_resort);
  EXPECT_EQ(paths[2].ends[0].status->state, "down");
}

TEST(LinkPaths, TheFirstIsFoundWhileItMoves) {
  Views v;
  v.configuration->nodes[1].beside.link_address = "10.1.0.13:3261";
  v.of(0) = {{.transport = "tcp", .state = "proven", .from = "", .to = "10.1.0.13:3261"}};
  EXPECT_EQ(link_paths_of(v.view)[0].ends[0].status->state, "proven");
}

TEST(LinkPaths, OfANodeThatCantBeAskedNothingIsSaid) {
  Views v;
  v.of(0) = {{.transport = "tcp", .state = "proven", .from = "", .to = "10.1.0.12:3261"}};
  v.view.nodes[0].reachable = false;
  EXPECT_FALSE(link_paths_of(v.view)[0].ends[0].status);
  v.view.nodes[1].node = nullptr;
  const auto alone = link_paths_of(v.view);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].ends[1].node, nullptr);
}

TEST(LinkPaths, ALockstepdThatSaysNothingOfPathsIsTooOldForThem) {
  Views v;
  EXPECT_TRUE(know_several_paths(v.view));
  v.view.nodes[1].report.status->partner_paths.reset();
  EXPECT_NE(why_not(know_several_paths(v.view)).find("lockstepd on node-b does not know of several paths"),
            std::string::npos);
  v.view.nodes[1].report.running = false;
  EXPECT_TRUE(know_several_paths(v.view)) << "what it is of is not known";
}

TEST(LinkPaths, WhatLockstepdSaysOfThemIsReadWithWhatItDoesNotSayLeftOut) {
  const auto status = status_from(R"({"partner": {"connected": true, "paths": [
    {"transport": "tcp", "from": "10.1.0.11", "to": "10.1.0.12:3261", "state": "proven", "last_resort": false,
     "cipher": null, "problem": ""},
    {"transport": "tcp", "from": "", "to": "10.9.0.12:3261", "state": "down", "last_resort": true, "cipher": "X", "kernel_tls": true,
     "problem": "It does not answer.", "round_trip_us": 87, "bytes_out": 5, "bytes_in": 6, "losses": 7}]}})");
  ASSERT_TRUE(status) << status.error().detail;
  ASSERT_TRUE(status->partner_paths);
  const auto& paths = *status->partner_paths;
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].cipher, "");
  EXPECT_FALSE(paths[0].round_trip_us);
  EXPECT_EQ(paths[0].bytes_out, 0);
  EXPECT_EQ(paths[1],
            (LinkPathStatus{"tcp", "down", "", "10.9.0.12:3261", true, "X", true, "It does not answer.", 87, 5, 6, 7}));
  NodeReport report;
  report.status = *status;
  const auto again = report_from(to_json_text(report));
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(again->status->partner_paths, status->partner_paths);
  EXPECT_FALSE(status_from(R"({"partner": {"connected": true}})")->partner_paths);
  EXPECT_FALSE(status_from(R"({"partner": null})")->partner_paths);
}

}  // namespace
}  // namespace lockstep::mgmt
