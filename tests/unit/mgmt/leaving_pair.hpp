#pragma once
// A pair in use of which side B leaves, seen from side A: its jobs are real, lockstepds and the partner are played.
#include <algorithm>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/leave_verdict.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt::leaving {

using Kind = ReplicaOrder::Kind;
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;

/// Both lockstepds, and B's management, as this node, A, sees them.
struct Others {
  bool b_away = false;
  bool b_answers_with_a_pair = true;  ///< for whoever wants to call it lost
  bool b_forgot = false;
  bool b_forgets = true;
  bool b_has_more = false;   ///< a change that A does not have yet
  bool never_alone = false;  ///< A's lockstepd does not go on by itself
  bool left = false;         ///< by agreement
  bool b_alone = false;      ///< B's lockstepd serves alone: it was forced, or A's disk failed
  bool a_failed = false;     ///< A's disk
  bool a_missing = false;    ///< the files of A's copies
  bool split = false;        ///< what A's lockstepd last heard of B's copy is that it went on alone, too
  bool restarted = false;    ///< A's lockstepd: it was told nothing since
  bool forget_fails = false;
  std::function<void()> while_asked{};  ///< called once, by the first look
  std::function<void()> meanwhile{};    ///< called when a change was made, but is not in force yet
  std::vector<std::string> orders;
};

class LeaveJobsTest : public test::JobTest {
 protected:
  Others others_;
  std::unique_ptr<LeaveJobs> jobs_;

  void SetUp() override {
    open_core();
    make_pair([](Configuration& c) {
      c.pair->link = {"link", "secret"};
      c.pair->arbiter.witness = true;
      c.pair->arbiter.endpoints = {"http://10.0.0.10:2379"};
      c.nodes[1].fingerprint = "bb";
      c.tokens = {{random_uuid(), "admin", "digest", Role::admin, 1, 0}};
      Volume v = ready_volume();
      v.serial = "LS1";
      v.lun = 3;
      v.any_initiator = true;
      c.volumes = {v};
    });
    start();
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (const auto once = std::exchange(others_.while_asked, {})) once();
    if (side == kB && others_.b_away) return away();
    const auto configuration = core_->configuration();
    NodeReport report;
    report.running = true;
    report.status = DataPlaneStatus{};
    if (side == kA && others_.restarted) return report;
    report.status->revision = core_->revisions.state().head.n;
    for (const auto& v : configuration->volumes) {
      if (side == kA && others_.a_missing) {
        report.problems.push_back({"volume " + v.name, "The replica's data is missing."});
        continue;
      }
      if (v.copy(side).retired || v.lifecycle != Lifecycle::ready) continue;
      const bool solo =
          side == kA ? others_.left && !others_.never_alone && !others_.a_failed : others_.b_alone || others_.a_failed;
      ReplicaStatus replica;
      replica.volume = v.id;
      replica.state = solo                             ? "solo"
                      : side == kA && others_.a_failed ? "failed"
                      : others_.left && side == kB     ? "left"
                                                       : "in_sync";
      if (side == kA && others_.split) replica.state = "split_brain";
      replica.serving = true;
      replica.size = v.size;
      replica.epoch = EpochView{7, v.first_epoch.to_string(), solo ? side_name(side) : "both", "a", ""};
      report.status->volumes.push_back(replica);
    }
    return report;
  }
  void start() {
    LeaveHands hands;
    hands.look = [this](NodeSide side) { return look(side); };
    hands.carry_out = [this](NodeSide side, const ReplicaOrder& order) -> Outcome<void> {
      if (side == kB && others_.b_away) return away();
      others_.orders.push_back(order.kind == Kind::leave ? "leave" : order.kind == Kind::discard ? "discard" : "other");
      if (order.kind == Kind::leave) others_.left = true;
      return {};
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) -> Outcome<RevisionId> {
      if (others_.b_away && configuration().nodes.size() == 2) return away();
      const auto edited = [&](Configuration& c) {
        auto done = edit(c);
        if (others_.meanwhile) others_.meanwhile();
        return done;
      };
      return core_->revisions.change(summary, edited, nullptr);
    };
    hands.ask_partner = [this]() -> Outcome<CurrentRevision> {
      if (others_.b_away) return away();
      CurrentRevision theirs = core_->revisions.current();
      if (others_.b_has_more) ++theirs.state.head.n;
      return theirs;
    };
    hands.retire = [this](NodeSide side, bool retired) -> Outcome<void> {
      if (others_.b_away) return away();
      others_.orders.push_back(retired ? "retire" : "put back");
      const auto changed = core_->revisions.change(
          "Copies",
          [&](Configuration& c) -> Outcome<void> {
            for (auto& v : c.volumes) v.copy(side).retired = retired;
            return {};
          },
          nullptr);
      if (!changed) return std::unexpected(changed.error());
      if (!retired) others_.left = false;  // attached anew, and in sync again
      return {};
    };
    hands.delete_cut_off = [] {};
    hands.look_for_lost = [this](const Node& node) -> Outcome<LostNode> {
      if (others_.b_answers_with_a_pair) return refuse(RefusalKind::conflict, node.name + " answers.");
      return LostNode{.found = node.name + " cannot be reached", .certain = false, .changes = {}, .reached = 40};
    };
    hands.release = [this](const Node& node, const Uuid&) -> Outcome<void> {
      EXPECT_FALSE(core_->configuration()->node(kB)) << "not before it was decided";
      EXPECT_EQ(node.name, "node-b");
      if (others_.b_away) return away();
      others_.orders.emplace_back("release");
      if (!others_.b_forgets) return refuse(RefusalKind::not_current, "is forgetting the pair");
      others_.b_forgot = true;
      return {};
    };
    hands.forget = [this](const std::string& endpoint, const Configuration& c) -> Outcome<void> {
      EXPECT_FALSE(c.node(kB)) << "an old copy must be out before the witness forgets it";
      others_.orders.push_back("forget " + endpoint);
      if (others_.forget_fails) return refuse(RefusalKind::conflict, "It does not answer.");
      return {};
    };
    hands.end_lockstepd = [this]() -> Outcome<void> {
      others_.orders.emplace_back("end lockstepd");
      others_.restarted = true;
      return {};
    };
    jobs_ = std::make_unique<LeaveJobs>(*core_, *runner_, std::move(hands), [] {});
    jobs_->teach();
  }
  /// lockstep-mgmtd ends and is there again; all else runs on.
  void restart() {
    jobs_.reset();
    open_core();
    start();
  }
  [[nodiscard]] Outcome<Job> leave(bool lost = false, const std::string& confirm = "node-b") {
    return jobs_->leave({.side = kB, .lost = lost, .confirm = confirm});
  }
  void turns(int n = 12) {
    for (int i = 0; i < n; ++i) runner_->turn();
  }
  /// `node replace` here and `pair join` on another machine, while a job that is about side B is at that step.
  void replace_b(Job at, const char* step) {
    at.step = step;
    core_->jobs.put(at);
    edit([](Configuration& c) {
      c.nodes[1].id = random_uuid();
      c.nodes[1].name = "node-c";
    });
  }
  [[nodiscard]] Configuration configuration() const { return *core_->configuration(); }
  void expect_out(const Configuration& before) const {
    const Configuration now = configuration();
    ASSERT_EQ(now.nodes.size(), 1U);
    EXPECT_EQ(now.nodes.front().side, kA);
    ASSERT_EQ(now.volumes.size(), 1U);
    const Volume &was = before.volumes.front(), &is = now.volumes.front();
    EXPECT_EQ(is.id, was.id);
    EXPECT_EQ(is.serial, was.serial);
    EXPECT_EQ(is.lun, was.lun);
    EXPECT_EQ(is.copy(kA), was.copy(kA)) << "the data stays where it is";
    EXPECT_GT(is.copy(kB).number, was.copy(kB).number) << "files of the old copy are never taken for a later one's";
    EXPECT_FALSE(is.copy(kB).retired);
    EXPECT_NE(now.pair->link.secret, before.pair->link.secret) << "the old machine logs in nowhere";
    EXPECT_EQ(now.pair->target_name, before.pair->target_name);
    const auto refused = core_->replaced.find(before.nodes[1].id.to_string(), "");
    ASSERT_TRUE(refused) << "it is refused by name";
    EXPECT_TRUE(refused->left);
  }
  void expect_as_before(const Configuration& before) const { EXPECT_EQ(configuration(), before); }
};

}  // namespace lockstep::mgmt::leaving
