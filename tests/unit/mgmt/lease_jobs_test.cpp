// The lease of a pair in use is changed: at every moment each node waits at least as long as the other may hold, and
// trusts nothing for longer, whatever dies at whatever step.
#include "mgmt/control/lease_jobs.hpp"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
constexpr std::int64_t kFirst = 1500, kLonger = 9000, kShorter = 600;

/// Both nodes' lockstepds, as far as the lease goes: each does as it was last told, and B may be told late.
struct Lockstepds {
  struct Node {
    bool runs = true, is_told = true, settled = true;
    std::int64_t revision = 0, lease = kFirst, other = 0;
    std::int64_t longest_held = kFirst;  ///< that may not have run out
    [[nodiscard]] std::int64_t trusts() const { return other == 0 ? lease : std::min(lease, other); }
    [[nodiscard]] std::int64_t waits() const { return std::max(lease, other); }
  };
  NodeCore* core = nullptr;
  std::array<Node, 2> nodes;
  bool b_answers = true, settles = true, tells = true;

  Node& at(NodeSide side) { return nodes[static_cast<std::size_t>(side)]; }
  void tell(NodeSide side) {
    Node& node = at(side);
    if (!node.runs || !node.is_told || (side == kB && !b_answers)) return;
    node.revision = core->revisions.state().head.n;
    const json told = json::parse(apply_parameters(*core->configuration(), node.revision, side, "/v"))["settings"];
    const std::int64_t before = std::exchange(node.lease, told["lease_ms"].get<std::int64_t>());
    node.other = told.value("other_lease_ms", std::int64_t{0});
    if (before != node.lease) node.settled = false;
    node.longest_held = std::max(node.longest_held, node.lease);
  }
  void turn() {
    for (const NodeSide side : {kA, kB}) {
      tell(side);
      judge();
    }
    if (!settles) return;
    for (Node& node : nodes) {
      node.settled = true;
      node.longest_held = node.lease;
    }
  }
  void judge() {
    for (const NodeSide side : {kA, kB}) {
      const Node &mine = at(side), &theirs = at(engine::other(side));
      EXPECT_GE(mine.waits(), theirs.longest_held) << "it would go on alone while its partner answers reads";
      EXPECT_LE(mine.trusts(), theirs.lease) << "it would begin what its partner has dropped";
    }
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    NodeReport report;
    report.running = at(side).runs;
    if (!report.running) return report;
    report.status = DataPlaneStatus{};
    report.status->version = "1";
    report.status->revision = at(side).revision;
    if (tells) report.status->lease_ms = at(side).lease;
    report.status->lease_settled = at(side).settled;
    return report;
  }
};

class LeaseJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<LeaseJobs> jobs_;

  void SetUp() override {
    open();
    make_pair();
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
    jobs_ = std::make_unique<LeaseJobs>(*core_, *runner_, hands, [] {});
    jobs_->teach();
  }
  PairSettings settings() { return core_->configuration()->pair->settings; }
  Uuid begin(std::int64_t lease) {
    const auto begun = jobs_->change(lease);
    EXPECT_TRUE(begun) << begun.error().detail;
    return begun.value_or(Job{}).id;
  }
  void set(std::int64_t lease, std::int64_t other) {
    store(lease, other);
    plane_.turn();
  }
  void store(std::int64_t lease, std::int64_t other) {
    edit([&](Configuration& c) {
      c.pair->settings.lease_ms = lease;
      c.pair->settings.other_lease_ms = other;
    });
  }
  void turns(int n = 20) {
    for (int i = 0; i < n; ++i) {
      runner_->turn();
      plane_.turn();
    }
  }
  void expect_alone(std::int64_t lease) {
    EXPECT_EQ(settings().lease_ms, lease);
    EXPECT_EQ(settings().other_lease_ms, 0);
    for (const auto& node : plane_.nodes) EXPECT_EQ(node.lease, lease);
  }
};

TEST_F(LeaseJobsTest, ALongerAndAShorterOneAreInForceAloneInTheEnd) {
  for (const std::int64_t lease : {kLonger, kShorter, kFirst}) {
    const Uuid id = begin(lease);
    turns();
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    EXPECT_EQ(job(id).message, "The lease is " + std::to_string(lease) + " ms now.");
    expect_alone(lease);
  }
}

TEST_F(LeaseJobsTest, EachStepWaitsForALockstepdThatIsBehindOrHoldsTheOldOneStill) {
  for (const std::int64_t lease : {kLonger, kShorter}) {
    const Uuid id = begin(lease);
    for (int i = 0; i < 12 && !job(id).finished(); ++i) {
      (i % 2 ? plane_.settles : plane_.at(kB).is_told) = false;
      const auto before = core_->revisions.state().head.n;
      turns(6);
      EXPECT_LE(core_->revisions.state().head.n, before + 2);
      plane_.settles = plane_.at(kB).is_told = true;
      plane_.turn();
    }
    turns();
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    expect_alone(lease);
  }
}

TEST_F(LeaseJobsTest, TheOldOneIsForgottenOnlyWhenNothingIsHeldByItAnyMore) {
  plane_.settles = false;
  const Uuid id = begin(kShorter);
  turns();
  EXPECT_EQ(settings().lease_ms, kShorter);
  EXPECT_EQ(settings().other_lease_ms, kFirst);
  EXPECT_EQ(job(id).message, "What node-a holds by the old one runs out.");
  plane_.settles = true;
  turns();
  EXPECT_EQ(job(id).state, JobState::done);
}

TEST_F(LeaseJobsTest, AKillBeforeOrAfterWhateverWasStoredIsRepeatedHarmlessly) {
  const Uuid id = begin(kLonger);
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
  expect_alone(kLonger);
}

TEST_F(LeaseJobsTest, APartnerThatGoesAwayOnTheWayIsWaitedForAndBothCountMeanwhile) {
  const Uuid id = begin(kLonger);
  runner_->turn();
  plane_.b_answers = false;
  turns();
  EXPECT_FALSE(job(id).finished()) << job(id).message;
  EXPECT_EQ(settings().other_lease_ms, kLonger);
  plane_.b_answers = true;
  turns();
  EXPECT_EQ(job(id).state, JobState::done);
}

TEST_F(LeaseJobsTest, WhatALostJobLeftIsFinishedOrTakenBackByTheNext) {
  for (const auto& [lease, other] : {std::pair{kFirst, kLonger}, {kLonger, kFirst}, {kShorter, kLonger}})
    for (const std::int64_t next : {kFirst, kLonger, kShorter}) {
      store(other, 0);
      for (auto& node : plane_.nodes) node = {.lease = other, .longest_held = other};
      plane_.turn();
      // As the job before left it, which began where that one was in force alone.
      set(other, lease);
      set(lease, other);
      const Uuid id = begin(next);
      turns();
      EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
      expect_alone(next);
    }
}

TEST_F(LeaseJobsTest, ItTakesBothNodesOneJobAtATimeAndVersionsThatCanDoIt) {
  plane_.b_answers = false;
  EXPECT_EQ(jobs_->change(kLonger).error().kind, RefusalKind::not_current);
  plane_.b_answers = true;
  plane_.at(kB).runs = false;
  EXPECT_EQ(jobs_->change(kLonger).error().kind, RefusalKind::data_plane_away);
  plane_.at(kB).runs = true;
  plane_.tells = false;
  const auto old = jobs_->change(kLonger);
  EXPECT_NE(old.error().detail.find("lockstepd on node-a runs version 1, which can't change its lease"),
            std::string::npos);
  plane_.tells = true;
  EXPECT_EQ(jobs_->change(kFirst).error().kind, RefusalKind::conflict) << "it is this one already";
  begin(kLonger);
  EXPECT_EQ(jobs_->change(kShorter).error().kind, RefusalKind::conflict);
}

TEST_F(LeaseJobsTest, ItsBoundsAreToldWithTheirReasons) {
  const auto why_not = [this](std::int64_t lease) {
    const auto refused = jobs_->change(lease);
    EXPECT_EQ(refused.error().kind, RefusalKind::invalid);
    return refused.error().fields.at(0).detail;
  };
  EXPECT_NE(why_not(499).find("hosts are cut off though nothing is broken"), std::string::npos);
  EXPECT_NE(why_not(20'001).find("most give a disk up after 30 s"), std::string::npos);
}

TEST_F(LeaseJobsTest, InAPairOfOneNodeItCountsAtOnce) {
  ASSERT_TRUE(core_->revisions.change(
      "alone",
      [](Configuration& c) -> Outcome<void> {
        c.nodes.pop_back();
        return {};
      },
      nullptr));
  const Uuid id = begin(kLonger);
  runner_->turn();
  runner_->turn();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  EXPECT_EQ(settings().lease_ms, kLonger);
  EXPECT_EQ(settings().other_lease_ms, 0);
}

TEST_F(LeaseJobsTest, TheConfigurationOfEachStepTravelsAndIsStored) {
  for (const std::int64_t other : {kLonger, std::int64_t{0}}) {
    set(kFirst, other);
    const Configuration now = *core_->configuration();
    EXPECT_EQ(document_version(now), other == 0 ? 2 : 9);
    const auto back = from_document(to_document(now));
    ASSERT_TRUE(back) << back.error().detail;
    EXPECT_EQ(*back, now);
    open();
    EXPECT_EQ(*core_->configuration(), now);
    plane_.turn();
  }
}

TEST_F(LeaseJobsTest, AnotherLeaseIsNotBegunWhileTheNodesAgreeOnTheConfiguration) {
  ASSERT_TRUE(core_->revisions.force(kA, "Alone"));
  const auto refused = jobs_->change(3000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_NE(refused.error().detail.find("agreeing on the configuration"), std::string::npos) << refused.error().detail;
}

}  // namespace
}  // namespace lockstep::mgmt
