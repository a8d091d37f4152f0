// A pair is made with a witness that can be used, or not at all.
#include "mgmt/control/witness_check.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep::mgmt
