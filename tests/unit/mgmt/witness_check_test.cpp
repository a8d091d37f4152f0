// A pair is made with a witness that can be used, or not at all.
#include "mgmt/control/witness_check.hpp"

#include <gtest/gtest.h>

#include "mgmt/control/secrets.hpp"
#include "mgmt/control/witness_place.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

Arbiter witness(std::vector<std::string> endpoints, replication::WitnessAccess access = {}) {
  return {true, std::move(endpoints), NodeSide::a, std::move(access)};
}
replication::WitnessAccess user() {
  return {.ca = "", .certificate = "", .key = "", .user = "lockstep", .password = "secret"};
}
std::string first(const Arbiter& arbiter) {
  const auto problems = problems_of(arbiter);
  return problems.empty() ? "" : problems.front().pointer + " " + problems.front().detail;
}

TEST(WitnessOfAPair, IsCheckedFieldByField) {
  EXPECT_EQ(first(witness({"http://10.0.0.1:2379", "http://etcd2:2379"})), "");
  EXPECT_EQ(first(witness({})), "/arbiter/endpoints Is required for a witness.");
  EXPECT_TRUE(first(witness({"http://10.0.0.1:2379", "http://10.0.0.2"})).starts_with("/arbiter/endpoints/1 Must be"));
  EXPECT_TRUE(first(witness({"https://10.0.0.1:2379"})).starts_with("/arbiter/ca Is required"));
  EXPECT_TRUE(first(witness({"http://10.0.0.1:2379"}, user())).starts_with("/arbiter/user Needs https://"));
  const std::string longest = "http://" + std::string(100, 'h') + ":2379";
  EXPECT_TRUE(first(witness({longest, longest, longest})).starts_with("/arbiter/endpoints Must be at most 255"));
}

TEST(WitnessOfAPair, IsNotDescribedWhereAPreferredNodeDecides) {
  Arbiter preferred;
  preferred.access = user();
  EXPECT_EQ(first(preferred), "/arbiter/user Belongs to the kind witness.");
  preferred.access = {};
  EXPECT_EQ(first(preferred), "");
  preferred.endpoints = {"http://10.0.0.1:2379"};
  EXPECT_EQ(first(preferred), "/arbiter/endpoints Belongs to the kind witness.");
}

struct MakingAPair : testing::Test {
  test::TemporaryFolder folder;
  test::FakeDataPlane plane;
  Management node{folder.path(), plane, std::chrono::seconds(60)};

  Outcome<void> make(const Arbiter& arbiter, std::optional<Uuid> id = {}) {
    return node.pair.create({.name = "pair1",
                             .target_name = "",
                             .node = {.name = {},
                                      .portals = std::vector<std::string>{"127.0.0.1:3260"},
                                      .link_address = {},
                                      .management_address = {}},
                             .arbiter = arbiter,
                             .settings = {},
                             .id = id});
  }
};

TEST_F(MakingAPair, WithAWitnessThatAnswersOtherwiseThanAWitnessIsRefusedAndRecordsNothing) {
  plane.tried["http://10.0.0.2:2379"] = "10.0.0.2:2379: it does not speak TLS there";
  const auto made = make(witness({"http://10.0.0.1:2379", "http://10.0.0.2:2379"}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, RefusalKind::invalid);
  ASSERT_EQ(made.error().fields.size(), 1u);
  EXPECT_EQ(made.error().fields[0].pointer, "/arbiter/endpoints/1");
  EXPECT_EQ(made.error().fields[0].detail, "The witness was asked: 10.0.0.2:2379: it does not speak TLS there.");
  EXPECT_FALSE(node.core->configuration()->pair);
}

TEST_F(MakingAPair, AsksTheWitnessForTheKeysOfTheIdThatItIsGiven) {
  const auto id = Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950e");
  ASSERT_TRUE(make(witness({"http://10.0.0.1:2379"}), id));
  EXPECT_EQ(plane.last_try["pair"], id->to_string());
  EXPECT_EQ(node.core->configuration()->pair->id, id);
}

TEST_F(MakingAPair, AsksTheWitnessForTheKeysOfTheIdThatItMakes) {
  ASSERT_TRUE(make(witness({"http://10.0.0.1:2379"})));
  EXPECT_EQ(plane.last_try["pair"], node.core->configuration()->pair->id.to_string());
}

TEST_F(MakingAPair, WithTheIdOfZerosIsRefused) {
  const auto made = make(witness({"http://10.0.0.1:2379"}), Uuid{});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().fields.at(0).pointer, "/id");
}

TEST_F(MakingAPair, WithAWitnessThatIsAwayIsDone) {
  plane.tried["http://10.0.0.1:2379"] = "";
  EXPECT_TRUE(make(witness({"http://10.0.0.1:2379"})));
}

TEST_F(MakingAPair, WithoutALockstepdThatCouldAskIsDone) {
  plane.away = true;
  EXPECT_TRUE(make(witness({"http://10.0.0.1:2379"})));
}

TEST_F(MakingAPair, WithoutAWitnessAsksNobody) {
  EXPECT_TRUE(make({}));
  EXPECT_EQ(plane.count("witness.try"), 0);
}

/// Both nodes, on networks of their own.
std::vector<Node> two_nodes() {
  std::vector<Node> nodes{
      {random_uuid(), NodeSide::a, "node-a", {"10.0.0.11:3260"}, "10.0.1.11:3261", "10.0.0.11:8443", ""},
      {random_uuid(), NodeSide::b, "node-b", {"0.0.0.0:3260"}, "[fd00::12]:3261", "10.0.0.12:8443", ""}};
  nodes[0].more_link_addresses = {"10.9.0.11:3261"};
  return nodes;
}

TEST(PlaceOfTheWitness, OnTheMachinesThatItDecidesAboutIsRefusedWithWhereItIs) {
  for (const char* own :
       {"http://10.0.0.11:2379", "http://10.0.1.11:2379", "http://10.9.0.11:2379", "http://node-a:2379"}) {
    const auto problems = problems_of_place(witness({own}), two_nodes());
    ASSERT_EQ(problems.size(), 1U) << own;
    EXPECT_EQ(problems[0].pointer, "/arbiter/endpoints");
    EXPECT_NE(problems[0].detail.find(std::string(own) + " on node-a"), std::string::npos) << problems[0].detail;
  }
  EXPECT_EQ(own_machines_of(witness({"http://[fd00:0::12]:2379"}), two_nodes()), "http://[fd00:0::12]:2379 on node-b");
  EXPECT_EQ(own_machines_of(witness({"http://10.0.0.11:2379", "http://10.0.0.12:2379"}), two_nodes()),
            "http://10.0.0.11:2379 on node-a, http://10.0.0.12:2379 on node-b");
  for (const char* loopback : {"http://localhost:2379", "http://127.0.0.5:2379", "http://[::1]:2379"})
    EXPECT_EQ(own_machines_of(witness({loopback}), two_nodes()), std::string(loopback) + " on each node itself");
}

TEST(PlaceOfTheWitness, WithAMemberElsewhereOrAPairOnOneMachineIsAnybodysChoice) {
  EXPECT_FALSE(own_machines_of(witness({"http://10.0.0.10:2379"}), two_nodes()));
  EXPECT_FALSE(own_machines_of(witness({"http://0.0.0.0:2379"}), two_nodes())) << "a portal at all addresses is none";
  EXPECT_FALSE(own_machines_of(witness({"http://10.0.0.11:2379", "http://10.0.0.12:2379", "http://10.0.0.10:2379"}),
                               two_nodes()));
  EXPECT_FALSE(own_machines_of(witness({"http://etcd1:2379"}), two_nodes()));
  EXPECT_FALSE(own_machines_of({}, two_nodes()));
  auto trial = two_nodes();
  for (auto& node : trial) node.management_address = "127.0.0.1:8443";
  EXPECT_FALSE(own_machines_of(witness({"http://127.0.0.1:2379"}), trial));
}

TEST_F(MakingAPair, WithItsWitnessOnTheNodeItselfIsRefused) {
  const auto made = node.pair.create({.name = "pair1",
                                      .target_name = "",
                                      .node = {.name = {},
                                               .portals = std::vector<std::string>{"10.0.0.11:3260"},
                                               .link_address = "10.0.1.11:3261",
                                               .management_address = "10.0.0.11:8443"},
                                      .arbiter = witness({"http://10.0.0.11:2379"}),
                                      .settings = {}});
  ASSERT_FALSE(made);
  ASSERT_EQ(made.error().fields.size(), 1U);
  EXPECT_NE(made.error().fields[0].detail.find("a third machine"), std::string::npos) << made.error().fields[0].detail;
  EXPECT_FALSE(node.core->configuration()->pair);
}

}  // namespace
}  // namespace lockstep::mgmt
