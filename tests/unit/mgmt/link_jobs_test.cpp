// The link's secrets are replaced in use: at every moment each node lets in what the other shows, and both seal the
// witness's records alike, whatever dies at whatever step.
#include "mgmt/control/link_jobs.hpp"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
using Secrets = std::pair<std::string, std::string>;  ///< of who calls, of who answers
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;

Secrets two_of(const json& j, const char* one, const char* other) {
  return {j.at(one).get<std::string>(), j.at(other).get<std::string>()};
}
Secrets secrets_of(const json& link) { return two_of(link, "chap_secret", "mutual_secret"); }

/// Both nodes' lockstepds, as far as the link goes: each does as it was last told, and B may be told late.
struct Lockstepds {
  struct Node {
    bool runs = true, is_told = true;
    std::int64_t revision = 0;
    Secrets shows, seal;
    std::set<Secrets> lets_in;
  };
  NodeCore* core = nullptr;
  std::array<Node, 2> nodes;
  bool b_answers = true;

  Node& at(NodeSide side) { return nodes[static_cast<std::size_t>(side)]; }
  void tell(NodeSide side) {
    Node& node = at(side);
    if (!node.runs || !node.is_told || (side == kB && !b_answers)) return;
    const std::int64_t n = core->revisions.state().head.n;
    const json told = json::parse(apply_parameters(*core->configuration(), n, side, "/v"));
    const json& link = told["partner"]["link"];
    node.revision = n;
    node.shows = secrets_of(link);
    node.lets_in = {node.shows};
    if (link.contains("also")) node.lets_in.insert(secrets_of(link["also"]));
    const json& arbiter = told["arbiter"];
    node.seal = arbiter.contains("seal") ? two_of(arbiter["seal"], "one", "other") : node.shows;
  }
  void turn() {
    for (const NodeSide side : {kA, kB}) {
      tell(side);
      judge();
    }
  }
  void judge() {
    if (nodes[0].revision == 0 || nodes[1].revision == 0) return;  // not told of any pair yet
    EXPECT_TRUE(nodes[1].lets_in.contains(nodes[0].shows)) << "A can't log in at B";
    EXPECT_TRUE(nodes[0].lets_in.contains(nodes[1].shows)) << "B can't log in at A";
    EXPECT_EQ(nodes[0].seal, nodes[1].seal) << "one believes no record of the other's";
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    NodeReport report;
    report.running = at(side).runs;
    if (report.running) report.status = DataPlaneStatus{};
    if (report.running) report.status->revision = at(side).revision;
    return report;
  }
};

class LinkJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<LinkJobs> jobs_;
  Secrets first_;

  void SetUp() override {
    open();
    make_pair([](Configuration& c) {
      c.pair->arbiter.witness = true;
      c.pair->arbiter.endpoints = {"http://10.0.0.1:2379"};
      make_link_secrets(*c.pair);
    });
    first_ = in_force();
    plane_.turn();
  }
  /// As after a kill: everything in memory is gone.
  void open() {
    jobs_.reset();
    open_core();
    plane_.core = core_.get();
    PairHands hands;
    hands.look = [this](NodeSide side) { return plane_.look(side); };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) {
      return change_with(plane_.b_answers, summary, edit);
    };
    jobs_ = std::make_unique<LinkJobs>(*core_, *runner_, hands, [] {});
    jobs_->teach();
  }
  Secrets in_force() {
    const Pair& pair = *core_->configuration()->pair;
    return {pair.link.secret, pair.link_mutual.secret};
  }
  bool has_beside() { return core_->configuration()->pair->link_beside.has_value(); }
  Uuid begin() {
    const auto begun = jobs_->rotate();
    EXPECT_TRUE(begun) << begun.error().detail;
    return begun.value_or(Job{}).id;
  }
  void turns(int n = 20) {
    for (int i = 0; i < n; ++i) {
      runner_->turn();
      plane_.turn();
    }
  }
};

TEST_F(LinkJobsTest, TheNewOnesAreInForceAloneAndTheSealIsOfTheFirst) {
  const Uuid id = begin();
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  const Secrets second = in_force();
  EXPECT_NE(second.first, first_.first);
  EXPECT_NE(second.second, first_.second);
  EXPECT_FALSE(has_beside());
  EXPECT_FALSE(plane_.nodes[0].lets_in.contains(first_));
  EXPECT_FALSE(plane_.nodes[1].lets_in.contains(first_));
  const Uuid again = begin();
  turns();
  EXPECT_EQ(job(again).state, JobState::done);
  EXPECT_NE(in_force(), second);
  EXPECT_EQ(plane_.nodes[0].seal, first_) << "that of the first link secrets for good";
}

TEST_F(LinkJobsTest, ItWaitsAtEachStepForALockstepdThatIsBehind) {
  const Uuid id = begin();
  std::set<std::string> waited;
  for (int i = 0; i < 12 && !job(id).finished(); ++i) {
    plane_.at(kB).is_told = false;
    const auto before = core_->revisions.state().head.n;
    turns(5);
    EXPECT_LE(core_->revisions.state().head.n, before + 1) << "no second step before both took the first";
    waited.insert(job(id).step);
    plane_.at(kB).is_told = true;
    plane_.turn();
  }
  turns();
  EXPECT_EQ(job(id).state, JobState::done);
  EXPECT_TRUE(waited.contains("send") && waited.contains("forget"));
}

TEST_F(LinkJobsTest, AKillBeforeOrAfterWhateverWasStoredIsRepeatedHarmlessly) {
  const Uuid id = begin();
  // A step whose change was stored, but not that the job has taken it: the row is put back.
  for (int i = 0; i < 30 && !job(id).finished(); ++i) {
    const Job before = job(id);
    runner_->turn();
    plane_.judge();
    if (i % 2 == 0) core_->jobs.put(before);
    open();
    plane_.turn();
  }
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  EXPECT_FALSE(has_beside());
  EXPECT_NE(in_force(), first_);
}

TEST_F(LinkJobsTest, APartnerThatGoesAwayOnTheWayIsWaitedFor) {
  const Uuid id = begin();
  runner_->turn();
  plane_.b_answers = false;
  turns();
  EXPECT_FALSE(job(id).finished()) << job(id).message;
  EXPECT_TRUE(has_beside());
  plane_.b_answers = true;
  turns();
  EXPECT_EQ(job(id).state, JobState::done);
}

TEST_F(LinkJobsTest, WhatALostJobLeftIsFinishedByTheNext) {
  for (const auto& left : {add_link_secrets, swap_link_secrets}) {
    ASSERT_TRUE(core_->revisions.change("add", add_link_secrets, nullptr));
    plane_.turn();
    ASSERT_TRUE(core_->revisions.change("left", left, nullptr));
    plane_.turn();
    const Secrets then = in_force();
    const Uuid id = begin();
    turns();
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    EXPECT_FALSE(has_beside());
    EXPECT_NE(in_force(), then) << "the link has new secrets, as was asked for";
  }
}

TEST_F(LinkJobsTest, ItTakesBothNodesAndOneJobAtATime) {
  plane_.b_answers = false;
  EXPECT_EQ(jobs_->rotate().error().kind, RefusalKind::not_current);
  plane_.b_answers = true;
  plane_.at(kB).runs = false;
  EXPECT_EQ(jobs_->rotate().error().kind, RefusalKind::data_plane_away);
  plane_.at(kB).runs = true;
  begin();
  EXPECT_EQ(jobs_->rotate().error().kind, RefusalKind::conflict);
}

TEST_F(LinkJobsTest, TheConfigurationOfEachStepTravelsAndIsStored) {
  for (const auto& edit : {add_link_secrets, swap_link_secrets}) {
    ASSERT_TRUE(core_->revisions.change("step", edit, nullptr));
    const Configuration now = *core_->configuration();
    EXPECT_EQ(document_version(now), 8);
    const auto back = from_document(to_document(now));
    ASSERT_TRUE(back) << back.error().detail;
    EXPECT_EQ(*back, now);
    open();
    EXPECT_EQ(*core_->configuration(), now);
    plane_.turn();
  }
}

TEST_F(LinkJobsTest, NewSecretsAreNotBegunWhileTheNodesAgreeOnTheConfiguration) {
  ASSERT_TRUE(core_->revisions.force(kA, "Alone"));
  const auto refused = jobs_->rotate();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_NE(refused.error().detail.find("agreeing on the configuration"), std::string::npos) << refused.error().detail;
}

}  // namespace
}  // namespace lockstep::mgmt
