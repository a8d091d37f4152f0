// A pair in use gets another witness: when that is refused, what the job does in which order, and that no two nodes
// ever ask two witnesses, whatever dies at whatever step.
#include "mgmt/control/witness_jobs.hpp"

#include <functional>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
const std::string kOld = "http://10.0.0.1:2379", kNew = "http://10.0.0.2:2379", kThird = "http://10.0.0.3:2379";

std::size_t index(NodeSide side) { return static_cast<std::size_t>(side); }

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

class WitnessJobsTest : public ::testing::Test {
 protected:
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::chrono::seconds patience_{60};
  std::unique_ptr<NodeCore> core_;
  Lockstepds plane_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<WitnessJobs> jobs_;

  void SetUp() override { begin(); }
  void begin() {
    runner_.reset();
    jobs_.reset();
    core_.reset();
    folder_ = std::make_unique<test::TemporaryFolder>();
    plane_ = {};
    open();
    const auto changed = core_->revisions.change(
        "A pair with a volume",
        [this](Configuration& c) -> Outcome<void> {
          c.pair = Pair{};
          c.pair->id = random_uuid();
          c.pair->name = "pair1";
          c.pair->arbiter.witness = true;
          c.pair->arbiter.endpoints = {kOld};
          c.nodes = {{core_->node_id, kA, "node-a", {}, "", "", ""}, {random_uuid(), kB, "node-b", {}, "", "", ""}};
          Volume v;
          v.id = random_uuid();
          v.name = "vm1";
          v.size = 1 << 30;
          v.first_epoch = random_uuid();
          v.lifecycle = Lifecycle::ready;
          c.volumes = {v};
          return {};
        },
        nullptr);
    ASSERT_TRUE(changed) << changed.error().detail;
    plane_.turn();
  }
  void open() {
    LocalSettings local;
    local.data_folder = folder_->path() / "mgmt";
    local.volume_folder = folder_->path() / "volumes";
    local.node_name = "node-a";
    local.management_address = "127.0.0.1:8443";
    local.create_patience = patience_;
    auto core = NodeCore::open(local);
    ASSERT_TRUE(core) << core.error().message;
    core_ = std::move(*core);
    plane_.core = core_.get();
    runner_ = std::make_unique<JobRunner>(*core_, [](const Job&) { return true; });
    WitnessHands hands;
    hands.look = [this](NodeSide side) { return plane_.look(side); };
    hands.try_endpoints = [this](NodeSide side, const Arbiter& arbiter) {
      if (side == kA && while_tried_) std::exchange(while_tried_, {})();
      return plane_.try_endpoints(side, arbiter);
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) -> Outcome<RevisionId> {
      if (!plane_.b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
      return core_->revisions.change(summary, edit, nullptr);
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
    runner_.reset();
    core_.reset();
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
  [[nodiscard]] Job job(const Uuid& id) const { return core_->jobs.get(id).value_or(Job{}); }
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

TEST_F(WitnessJobsTest, BothNodesLetGoOfTheOldOneBeforeEitherIsToldOfTheNewOne) {
  const auto begun = change();
  ASSERT_TRUE(begun) << begun.error().detail;
  EXPECT_FALSE(change()) << "a job is at work";
  turns();
  const Job done = job(begun->id);
  EXPECT_EQ(done.state, JobState::done) << done.message;
  EXPECT_EQ(plane_.told, (std::vector<std::string>{"a none", "b none", "a " + kNew, "b " + kNew}));
  EXPECT_EQ(plane_.nodes[0].knows, kNew);
  EXPECT_EQ(plane_.nodes[1].knows, kNew);
  EXPECT_EQ(plane_.records, std::set<std::string>{kNew}) << "the old one's are gone";
  EXPECT_NE(done.message.find("were removed"), std::string::npos) << done.message;
  EXPECT_EQ(done.parameters, "{}") << "nobody needs the secrets any more";
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kNew});
  EXPECT_FALSE(arbiter().changing);
}

TEST_F(WitnessJobsTest, ItWaitsForALockstepdThatWasNotToldAndIsNotDoneBeforeBothKnowTheNewOne) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  plane_.nodes[1].is_told = false;
  turns();
  EXPECT_EQ(job(begun->id).step, "stopped");
  EXPECT_EQ(job(begun->id).message, "lockstepd on node-b has yet to be told.");
  plane_.nodes[1].is_told = true;
  turn();
  plane_.nodes[1].is_told = false;
  turns();
  EXPECT_EQ(job(begun->id).step, "learn");
  EXPECT_EQ(plane_.nodes[0].knows, kNew);
  plane_.nodes[1].is_told = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
}

TEST_F(WitnessJobsTest, NothingIsBegunWhileANodeIsAwayOrAVolumeNotInSync) {
  const auto refused = [this](RefusalKind kind, const std::string& words) {
    const auto begun = change();
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind, kind);
    EXPECT_NE(begun.error().detail.find(words), std::string::npos) << begun.error().detail;
    EXPECT_NE(begun.error().detail.find("both nodes"), std::string::npos) << begun.error().detail;
    EXPECT_TRUE(core_->jobs.unfinished().empty());
    EXPECT_FALSE(arbiter().changing);
  };
  plane_.b_answers = false;
  refused(RefusalKind::not_current, "The partner cannot be reached.");
  plane_.b_answers = true;
  plane_.in_sync = false;
  refused(RefusalKind::conflict, "vm1 on node-a is suspended, not in sync.");
  plane_.nodes[1].runs = false;
  refused(RefusalKind::data_plane_away, "lockstepd does not answer.");
}

TEST_F(WitnessJobsTest, AWitnessThatCannotBeUsedIsRefusedEndpointByEndpoint) {
  plane_.dead = {kNew};
  const auto away = change();
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().kind, RefusalKind::invalid);
  ASSERT_EQ(away.error().fields.size(), 2u);
  EXPECT_EQ(away.error().fields[0].pointer, "/endpoints/0");
  EXPECT_EQ(away.error().fields[0].detail, "node-a: " + kNew + ": no route to it");
  EXPECT_EQ(away.error().fields[1].detail, "node-b: " + kNew + ": no route to it");
  const auto one_answers = jobs_->change({.endpoints = {kNew, kOld}});
  EXPECT_TRUE(one_answers) << one_answers.error().detail;
}

TEST_F(WitnessJobsTest, WhatIsWrongWithTheRequestIsNamed) {
  const auto plain = jobs_->change({.endpoints = {}, .ca = "x"});
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().fields.at(0).pointer, "/ca");
  const auto same = change(kOld);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().kind, RefusalKind::conflict);
}

TEST_F(WitnessJobsTest, ANodeThatDiesWhileNoneIsAskedBringsTheOldOneBackSoonSoThatTheOtherGoesOn) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();  // both have let go
  ASSERT_TRUE(arbiter().changing);
  plane_.nodes[1].runs = false;
  turns();
  EXPECT_FALSE(plane_.nodes[0].alone) << "nobody is asked";
  age(begun->id);
  turns();
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kOld});
  EXPECT_TRUE(plane_.nodes[0].alone) << "by the word of the old one";
  plane_.come_back();
  turns();
  const Job failed = job(begun->id);
  EXPECT_EQ(failed.state, JobState::failed) << failed.message;
  EXPECT_NE(failed.error->detail.find("as before"), std::string::npos) << failed.error->detail;
}

/// A node may be alone by the new one's word: the old one must not be asked.
TEST_F(WitnessJobsTest, AfterTheNewOneWasNamedTheOldOneComesBackOnlyInSync) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();
  turn();  // both ask the new one
  ASSERT_EQ(plane_.nodes[0].asks, kNew);
  plane_.nodes[1].runs = false;
  turns();
  ASSERT_TRUE(plane_.nodes[0].alone);
  age(begun->id);
  turns();
  EXPECT_EQ(plane_.nodes[0].asks, kNew) << "late, and all the same";
  (void)cancel_job(*core_, begun->id);
  turns();
  EXPECT_EQ(plane_.nodes[0].asks, kNew) << "cancelled, and all the same";
  plane_.come_back();
  turns();
  EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{kOld}) << "now it is taken back";
  EXPECT_EQ(job(begun->id).state, JobState::failed);
}

TEST_F(WitnessJobsTest, ANewOneThatDiesIsGivenUpForTheOldOneByWayOfNone) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  turn();
  plane_.dead = {kNew};
  turns();
  EXPECT_EQ(job(begun->id).step, "learn");
  EXPECT_NE(job(begun->id).message.find("0 of 1 volumes"), std::string::npos) << job(begun->id).message;
  patience_ = std::chrono::seconds(0);
  restart();
  turns(10);
  const Job failed = job(begun->id);
  EXPECT_EQ(failed.state, JobState::failed) << failed.message;
  EXPECT_NE(failed.error->detail.find("The new witness is not taken"), std::string::npos) << failed.error->detail;
  const std::vector<std::string> way{"a none", "b none", "a " + kNew, "b " + kNew,
                                     "a none", "b none", "a " + kOld, "b " + kOld};
  EXPECT_EQ(plane_.told, way);
  EXPECT_EQ(failed.parameters, "{}");
}

TEST_F(WitnessJobsTest, CancelledBeforeAnythingWasChangedItChangesNothing) {
  const auto begun = change();
  ASSERT_TRUE(begun);
  ASSERT_TRUE(cancel_job(*core_, begun->id));
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).error->detail.find("was not changed"), std::string::npos);
  EXPECT_TRUE(plane_.told.empty());
}

TEST_F(WitnessJobsTest, RecordsStayWhereTheClusterIsTheSameOrCannotBeTold) {
  for (const std::string& cluster : {std::string("a1"), std::string()}) {
    begin();
    const auto begun = change();
    ASSERT_TRUE(begun);
    plane_.clusters[kNew] = cluster;
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
    EXPECT_TRUE(plane_.records.contains(kOld)) << job(begun->id).message;
  }
}

/// The old way to it answers no more: a password that was changed, for one.
TEST_F(WitnessJobsTest, RecordsStayWhereAnEndpointIsAskedStill) {
  const auto begun = jobs_->change({.endpoints = {kNew, kOld}});
  ASSERT_FALSE(begun) << "they are of two clusters";
  plane_.clusters[kNew] = plane_.clusters[kOld];
  const auto added = jobs_->change({.endpoints = {kNew, kOld}});
  ASSERT_TRUE(added) << added.error().detail;
  turn();
  plane_.dead = {kOld};
  turns();
  EXPECT_EQ(job(added->id).state, JobState::done) << job(added->id).message;
  EXPECT_NE(job(added->id).message.find("nothing is removed there"), std::string::npos) << job(added->id).message;
  EXPECT_EQ(job(added->id).message.find("etcdctl"), std::string::npos) << "they are in use";
}

TEST_F(WitnessJobsTest, AChangeWhoseJobIsLostIsGoneOnWithByAnother) {
  const auto lost = change();
  ASSERT_TRUE(lost);
  turn();
  ASSERT_TRUE(arbiter().changing);
  core_->jobs.erase(lost->id);
  const auto again = change(kOld);
  ASSERT_TRUE(again) << again.error().detail;
  turns();
  EXPECT_EQ(job(again->id).state, JobState::done) << job(again->id).message;
  EXPECT_EQ(plane_.nodes[0].asks, kOld);
  EXPECT_TRUE(plane_.records.contains(kOld)) << "it is the one in use";
}

/// Asking the new one may take seconds, and another operator, or the same one again, may want another one meanwhile.
TEST_F(WitnessJobsTest, OfTwoRequestsAtOnceOneIsRefused) {
  Outcome<Job> second;
  while_tried_ = [&] { second = change(kThird); };
  const auto first = change();
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_FALSE(first) << "both would go from the old one to theirs";
  EXPECT_EQ(core_->jobs.unfinished().size(), 1u);
  turns(10);
  EXPECT_EQ(job(second->id).state, JobState::done) << job(second->id).message;
  EXPECT_EQ(plane_.told, (std::vector<std::string>{"a none", "b none", "a " + kThird, "b " + kThird}));
}

TEST_F(WitnessJobsTest, ARequestThatWasOvertakenWhileItsWitnessWasAskedIsRefused) {
  while_tried_ = [&] {
    ASSERT_TRUE(change(kThird));
    turns(10);
  };
  const auto late = change();
  ASSERT_FALSE(late) << "what it would go back to is not in force any more";
  EXPECT_EQ(late.error().kind, RefusalKind::conflict);
  EXPECT_EQ(plane_.nodes[0].asks, kThird);
}

/// The database is one of earlier, in which the job is at some step still; its partner has the configuration of now.
TEST_F(WitnessJobsTest, AJobThatABackupBringsBackNamesNothingAndRemovesNothingThatIsInUse) {
  for (const std::string& now : {kThird, kOld})
    for (const char* step : {"stop", "stopped", "start", "learn", "clear"}) {
      if (now == kOld && std::string(step) == "stop") continue;  // it has not begun, and nobody has since
      SCOPED_TRACE(now + ", " + step);
      begin();
      const auto begun = change();
      ASSERT_TRUE(begun);
      Job old = job(begun->id);
      turns(10);
      ASSERT_EQ(job(begun->id).state, JobState::done);
      ASSERT_TRUE(change(now));
      turns(10);
      ASSERT_EQ(plane_.nodes[0].asks, now);
      plane_.told.clear();
      old.step = step;
      auto parameters = nlohmann::json::parse(old.parameters);
      parameters["named"] = step != std::string("stop");
      old.parameters = parameters.dump();
      core_->jobs.put(old);
      turns(10);
      EXPECT_EQ(job(begun->id).state, JobState::failed) << job(begun->id).message;
      EXPECT_EQ(arbiter().endpoints, std::vector<std::string>{now});
      EXPECT_TRUE(plane_.told.empty()) << plane_.told.front();
      EXPECT_TRUE(plane_.records.contains(now));
      EXPECT_EQ(job(begun->id).parameters, "{}");
    }
}

/// What may come before a turn, and go some turns later.
struct Trouble {
  const char* name;
  std::function<void()> comes;
  std::function<void()> goes = [] {};
};

class TroubledChange : public WitnessJobsTest {
 protected:
  std::vector<Trouble> troubles() {
    return {{"management killed", [this] { restart(); }},
            {"b dies", [this] { plane_.nodes[1].runs = false; }, [this] { plane_.come_back(); }},
            {"a's lockstepd dies", [this] { plane_.nodes[0].runs = false; }, [this] { plane_.come_back(); }},
            {"b's management is away", [this] { plane_.b_answers = false; }, [this] { plane_.b_answers = true; }},
            {"b is gone as a whole", [this] { plane_.nodes[1].runs = plane_.b_answers = false; },
             [this] {
               plane_.b_answers = true;
               plane_.come_back();
             }},
            {"b is told late", [this] { plane_.nodes[1].is_told = false; }, [this] { plane_.nodes[1].is_told = true; }},
            {"the new one dies for good", [this] { plane_.dead.insert(kNew); }},
            {"the old one dies for good", [this] { plane_.dead.insert(kOld); }}};
  }
  /// The pair of the beginning, without the cost of a new database.
  void renew() {
    plane_ = {};
    plane_.core = core_.get();
    ASSERT_TRUE(core_->revisions.change(
        "As before",
        [](Configuration& c) -> Outcome<void> {
          c.pair->arbiter.endpoints = {kOld};
          return {};
        },
        nullptr));
    plane_.turn();
  }
  void take_late_turns(const Uuid& id, int times) {
    for (int i = 0; i < times; ++i) {
      if (!job(id).finished()) age(id);
      turns(2);
    }
  }
  Job play(const Trouble& first, const Trouble& second, int at, bool cancelled) {
    renew();
    const auto begun = change();
    EXPECT_TRUE(begun) << begun.error().detail;
    if (!begun) return {};
    turns(at);
    first.comes();
    turn();
    second.comes();
    turn();
    if (cancelled) (void)cancel_job(*core_, begun->id);
    take_late_turns(begun->id, 2);
    first.goes();
    take_late_turns(begun->id, 2);
    second.goes();
    take_late_turns(begun->id, 5);
    return job(begun->id);
  }
};

/// Every two troubles, before each turn: no two witnesses are ever asked (Lockstepds::judge), and in the end both nodes
/// ask the one that the job names.
TEST_F(TroubledChange, LetsNoTwoNodesAskTwoWitnessesAndEnds) {
  const auto all = troubles();
  unsigned done = 0, failed = 0;
  for (std::size_t first = 0; first < all.size(); ++first)
    for (std::size_t second = first; second < all.size(); ++second)
      for (int at = 0; at < 3; ++at) {
        const bool cancelled = (first + second + static_cast<std::size_t>(at)) % 4 == 0;
        SCOPED_TRACE(std::string(all[first].name) + ", " + all[second].name + ", before turn " + std::to_string(at) +
                     (cancelled ? ", cancelled" : ""));
        const Job ended = play(all[first], all[second], at, cancelled);
        EXPECT_TRUE(ended.finished()) << ended.step << ": " << ended.message;
        EXPECT_FALSE(arbiter().changing);
        const std::string named = ended.state == JobState::done ? kNew : kOld;
        EXPECT_EQ(arbiter().endpoints.front(), named) << ended.message;
        EXPECT_EQ(plane_.nodes[0].asks, named);
        EXPECT_EQ(plane_.nodes[1].asks, named);
        if (HasFailure()) return;
        ++(ended.state == JobState::done ? done : failed);
      }
  EXPECT_GT(done, 10u);
  EXPECT_GT(failed, 10u);
}

}  // namespace
}  // namespace lockstep::mgmt
