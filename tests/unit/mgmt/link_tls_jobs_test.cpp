// A pair in use comes to a link with TLS, and back: at every moment each node takes the calls that the other makes,
// whatever dies at whatever step.
#include "mgmt/control/link_tls_jobs.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;

/// Both nodes' lockstepds, as far as TLS on the link goes: each does as it was last told, and B may be told late.
struct Lockstepds {
  struct Node {
    bool runs = true;
    std::int64_t revision = 0;
    bool calls_with_tls = false, takes_tls = false, takes_plain = true;
  };
  NodeCore* core = nullptr;
  KeyAndCertificate shown{"certificate", "key"};
  std::array<Node, 2> nodes;
  bool b_answers = true, b_is_told = true;

  Node& at(NodeSide side) { return nodes[static_cast<std::size_t>(side)]; }
  void tell(NodeSide side) {
    Node& node = at(side);
    if (!node.runs || (side == kB && (!b_answers || !b_is_told))) return;
    node.revision = core->revisions.state().head.n;
    const json told = json::parse(apply_parameters(*core->configuration(), node.revision, side, "/v", 0, &shown));
    const json& link = told["partner"]["link"];
    const std::string mode = link.contains("tls") ? link["tls"]["mode"].get<std::string>() : "off";
    node.calls_with_tls = mode == "used" || mode == "required";
    node.takes_tls = mode != "off";
    node.takes_plain = mode != "required";
  }
  void turn() {
    for (const NodeSide side : {kA, kB}) {
      tell(side);
      judge(nodes[0], nodes[1], "A calls B");
      judge(nodes[1], nodes[0], "B calls A");
    }
  }
  static void judge(const Node& caller, const Node& called, const char* which) {
    EXPECT_TRUE(caller.calls_with_tls ? called.takes_tls : called.takes_plain) << which << " in vain";
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

class LinkTlsJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<LinkTlsJobs> jobs_;

  void SetUp() override {
    open();
    make_nodes(2);
    plane_.turn();
  }
  void make_nodes(std::size_t count) {
    make_pair([count](Configuration& c) {
      make_link_secrets(*c.pair);
      c.nodes[0].fingerprint = "aa";
      c.nodes[1].fingerprint = "bb";
      c.nodes.resize(count);
    });
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
    jobs_ = std::make_unique<LinkTlsJobs>(*core_, *runner_, hands, [] {});
    jobs_->teach();
  }
  LinkProtection now() { return core_->configuration()->pair->link_protection; }
  Uuid begin(bool with_tls) {
    const auto begun = jobs_->protect(with_tls);
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

TEST_F(LinkTlsJobsTest, GoesOneStepAtATimeToTlsAloneAndBackToNone) {
  const Uuid there = begin(true);
  turns();
  EXPECT_EQ(job(there).state, JobState::done) << job(there).message;
  EXPECT_EQ(now(), LinkProtection::required);
  EXPECT_FALSE(plane_.at(kB).takes_plain);
  const Uuid back = begin(false);
  turns();
  EXPECT_EQ(job(back).state, JobState::done) << job(back).message;
  EXPECT_EQ(now(), LinkProtection::off);
  EXPECT_FALSE(plane_.at(kA).takes_tls);
}

TEST_F(LinkTlsJobsTest, WaitsAtEachStepForANodeThatIsToldLate) {
  const Uuid id = begin(true);
  for (const LinkProtection step : {LinkProtection::accepted, LinkProtection::used, LinkProtection::required}) {
    plane_.b_is_told = false;
    turns();
    EXPECT_EQ(now(), step);
    EXPECT_EQ(job(id).state, JobState::running);
    plane_.b_is_told = true;
    plane_.tell(kB);
    runner_->turn();
  }
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
}

TEST_F(LinkTlsJobsTest, GoesOnAfterAKillAtAnyStepInEitherDirection) {
  for (const bool with_tls : {true, false}) {
    const Uuid id = begin(with_tls);
    for (int i = 0; i < 20; ++i) {
      runner_->turn();
      open();
      plane_.turn();
    }
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    EXPECT_EQ(now(), with_tls ? LinkProtection::required : LinkProtection::off);
  }
}

TEST_F(LinkTlsJobsTest, WaitsForAPartnerThatGoesAwayOnTheWay) {
  const Uuid id = begin(true);
  runner_->turn();
  plane_.turn();
  plane_.b_answers = false;
  turns();
  EXPECT_EQ(job(id).state, JobState::running);
  EXPECT_NE(now(), LinkProtection::required);
  plane_.b_answers = true;
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
}

TEST_F(LinkTlsJobsTest, IsRefusedWhileANodeIsAwayAndWhenThereIsNothingToDo) {
  EXPECT_FALSE(jobs_->protect(false));
  plane_.b_answers = false;
  const auto refused = jobs_->protect(true);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("nothing was changed"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(now(), LinkProtection::off);
  plane_.b_answers = true;
  (void)begin(true);
  EXPECT_FALSE(jobs_->protect(true)) << "one is under way";
}

TEST_F(LinkTlsJobsTest, APairOfOneNodeNeedsNobody) {
  ASSERT_TRUE(core_->revisions.change(
      "One node",
      [](Configuration& c) -> Outcome<void> {
        c.nodes.pop_back();
        return {};
      },
      nullptr));
  const Uuid id = begin(true);
  for (int i = 0; i < 10; ++i) runner_->turn();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  EXPECT_EQ(now(), LinkProtection::required);
}

TEST_F(LinkTlsJobsTest, AnotherProtectionIsNotBegunWhileTheNodesAgreeOnTheConfiguration) {
  ASSERT_TRUE(core_->revisions.force(kA, "Alone"));
  const auto refused = jobs_->protect(true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_NE(refused.error().detail.find("agreeing on the configuration"), std::string::npos) << refused.error().detail;
}

}  // namespace
}  // namespace lockstep::mgmt
