// What a change of the witness makes of the arbiter, and what trials of the new one say: rules without a job.
#include <gtest/gtest.h>

#include "mgmt/control/witness_check.hpp"
#include "mgmt/control/witness_jobs.hpp"

namespace lockstep::mgmt {
namespace {

TEST(ArbiterAfterAChange, IsSaidAnewWithEndpointsAndElseKeepsWhatIsNotSaid) {
  Arbiter now{true,
              {"https://a:1"},
              NodeSide::a,
              {.ca = "CA", .certificate = "", .key = "", .user = "u", .password = "p"},
              true};
  const Arbiter rotated = arbiter_after({.endpoints = {}, .password = "q"}, now);
  EXPECT_EQ(rotated.endpoints, now.endpoints);
  EXPECT_EQ(rotated.access.ca, "CA");
  EXPECT_EQ(rotated.access.user, "u");
  EXPECT_EQ(rotated.access.password, "q");
  EXPECT_FALSE(rotated.changing);
  const Arbiter another = arbiter_after({.endpoints = {"https://b:1"}, .ca = "CB"}, now);
  EXPECT_EQ(another.access.ca, "CB");
  EXPECT_TRUE(another.access.user.empty() && another.access.password.empty()) << "told to nobody else";
}

EndpointTrial answered(std::string endpoint, std::string cluster) {
  return {std::move(endpoint), true, false, "", std::move(cluster)};
}

TEST(VerdictOnTrials, AsksForOneClusterThatAnswersEachNode) {
  const EndpointTrial away{"e2", false, false, "e2: no route", ""},
      wrong{"e2", false, true, "e2: a wrong password", ""};
  const auto problems = [](WitnessTrial by_a, WitnessTrial by_b) {
    std::string all;
    for (const auto& p : problems_of({{"node-a", std::move(by_a)}, {"node-b", std::move(by_b)}}))
      all += p.pointer + " " + p.detail + "|";
    return all;
  };
  const EndpointTrial good = answered("e1", "c1");
  EXPECT_EQ(problems({good, away}, {good, away}), "");
  EXPECT_EQ(problems({good, away}, {{"e1", false, false, "e1: no route", ""}, away}),
            "/endpoints/0 node-b: e1: no route|/endpoints/1 node-b: e2: no route|");
  EXPECT_EQ(problems({good, wrong}, {good}), "/endpoints/1 node-a: e2: a wrong password|");
  EXPECT_NE(problems({good, answered("e2", "c2")}, {good})
                .find("/endpoints/1 node-a: It is of another etcd cluster (c2) "
                      "than e1 (c1)"),
            std::string::npos);
  EXPECT_NE(problems({good}, {answered("e1", "c2")}).find("/endpoints/0 node-b: It is of another"), std::string::npos)
      << "the same address leads each node to another one";
  EXPECT_NE(problems({answered("e1", "")}, {good}).find("does not tell which etcd"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::mgmt
