#pragma once
// A pair in use that asks a witness, and gets another: its jobs are real, both lockstepds are played.
#include <functional>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/witness_jobs.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt::witnessed {

constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
inline const std::string kOld = "http://10.0.0.1:2379", kNew = "http://10.0.0.2:2379", kThird = "http://10.0.0.3:2379";

inline std::size_t index(NodeSide side) { return static_cast<std::size_t>(side); }

/// Both nodes' lockstepds, as far as witnesses go: each asks the one that it was last told of, knows the one that it
/// saw its epoch at in sync, and goes on alone by the word of one that it knows.
struct Lockstepds {
  struct Node {
    bool runs = true;
    bool is_told = true;  ///< of a new revision, within a turn
    std::int64_t revision = 0;
    std::string asks = kOld, knows = kOld;
    bool alone = false;
  };
  NodeCore* core = nullptr;
  std::array<Node, 2> nodes;
  bool in_sync = true;
  bool b_answers = true;       ///< its management
  std::set<std::string> dead;  ///< witnesses
  std::map<std::string, std::string> clusters{{kOld, "a1"}, {kNew, "b2"}, {kThird, "c3"}};
  std::vector<std::string> told;  ///< what the lockstepds came to ask, in order
  std::set<std::string> records{kOld};

  void turn() {
    const Arbiter& arbiter = core->configuration()->pair->arbiter;
    for (const NodeSide side : {kA, kB}) {
      Node& node = nodes[index(side)];
      const bool hears = side == kA || b_answers;
      if (!node.runs || !node.is_told || !hears) continue;
      const std::string asks = arbiter.changing ? "" : arbiter.endpoints.front();
      if (asks != node.asks) told.push_back(side_name(side) + std::string(" ") + (asks.empty() ? "none" : asks));
      node.asks = asks;
      node.revision = core->revisions.state().head.n;
    }
    const bool both = nodes[0].runs && nodes[1].runs;
    for (Node& node : nodes) {
      const bool answers = !node.asks.empty() && !dead.contains(node.asks);
      if (!both && node.runs && answers && node.knows == node.asks) node.alone = true;
      if (!both) in_sync = false;
      if (in_sync && answers) {
        node.knows = node.asks;
        records.insert(node.asks);
      }
    }
    judge();
  }
  void come_back() {
    nodes[0].runs = nodes[1].runs = in_sync = true;
    nodes[0].alone = nodes[1].alone = false;
  }
  void judge() const {
    std::set<std::string> asked;
    for (const Node& node : nodes)
      if (!node.asks.empty()) asked.insert(node.asks);
    EXPECT_LE(asked.size(), 1u) << "both nodes could win";
    EXPECT_FALSE(nodes[0].alone && nodes[1].alone) << "split brain";
    for (const Node& node : nodes) {
      const bool by_this_one = asked.empty() || asked.contains(node.knows);
      EXPECT_TRUE(!node.alone || by_this_one) << "another one may let the other go on, too";
    }
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) const {
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    const Node& node = nodes[index(side)];
    if (!node.runs) return refuse(RefusalKind::data_plane_away, "lockstepd does not answer.");
    NodeReport report;
    report.running = true;
    report.status = DataPlaneStatus{};
    report.status->revision = node.revision;
    report.status->partner_connected = nodes[0].runs && nodes[1].runs;
    report.status->witness_changing = node.asks.empty();
    report.status->witness_reachable = !node.asks.empty() && !dead.contains(node.asks);
    ReplicaStatus replica;
    replica.volume = core->configuration()->volumes.at(0).id;
    replica.state = in_sync ? "in_sync" : node.alone ? "solo" : "suspended";
    replica.failover_limited = node.knows != node.asks;
    report.status->volumes = {replica};
    return report;
  }
  [[nodiscard]] Outcome<WitnessTrial> try_endpoints(NodeSide side, const Arbiter& arbiter) const {
    if (const auto seen = look(side); !seen) return std::unexpected(seen.error());
    WitnessTrial trial;
    for (const auto& endpoint : arbiter.endpoints) {
      const bool answers = !dead.contains(endpoint);
      const auto cluster = clusters.find(endpoint);
      trial.push_back({endpoint, answers, false, answers ? "" : endpoint + ": no route to it",
                       answers && cluster != clusters.end() ? cluster->second : ""});
    }
    return trial;
  }
};

class WitnessJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<WitnessJobs> jobs_;

  void SetUp() override { begin(); }
  void begin() {
    jobs_.reset();
    runner_.reset();
    core_.reset();
    folder_ = std::make_unique<test::TemporaryFolder>();
    plane_ = {};
    open();
    make_pair([](Configuration& c) {
      c.pair->arbiter.witness = true;
      c.pair->arbiter.endpoints = {kOld};
      c.volumes = {ready_volume()};
    });
    plane_.turn();
  }
  void open() {
    open_core();
    plane_.core = core_.get();
    WitnessHands hands;
    hands.look = [this](NodeSide side) { return plane_.look(side); };
    hands.try_endpoints = [this](NodeSide side, const Arbiter& arbiter) {
      if (side == kA && while_tried_) std::exchange(while_tried_, {})();
      return plane_.try_endpoints(side, arbiter);
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) {
      return change_with(plane_.b_answers, summary, edit);
    };
    hands.forget = [this](const std::string& endpoint, const auto&, const std::string& keep) -> Outcome<void> {
      EXPECT_NE(plane_.clusters.at(endpoint), keep);
      plane_.records.erase(endpoint);
      return {};
    };
    jobs_ = std::make_unique<WitnessJobs>(*core_, *runner_, std::move(hands), [] {});
    jobs_->teach();
  }
  /// lockstep-mgmtd is killed and is there again; both lockstepds run on.
  void restart() {
    jobs_.reset();
    open();
  }
  void turn() {
    runner_->turn();
    plane_.turn();
  }
  void turns(int n = 6) {
    for (int i = 0; i < n; ++i) turn();
  }
  [[nodiscard]] Outcome<Job> change(const std::string& endpoint = kNew) {
    return jobs_->change({.endpoints = {endpoint}});
  }
  [[nodiscard]] const Arbiter& arbiter() const {
    in_force_ = core_->configuration();
    return in_force_->pair->arbiter;
  }
  /// The patience of a step has run out.
  void age(const Uuid& id) {
    Job j = job(id);
    auto parameters = nlohmann::json::parse(j.parameters);
    parameters["step_since_ms"] = 0;
    j.parameters = parameters.dump();
    core_->jobs.put(j);
  }
  mutable std::shared_ptr<const Configuration> in_force_;
  std::function<void()> while_tried_;  ///< once, while a new witness is asked
};

}  // namespace lockstep::mgmt::witnessed
