// A pair in use gets an arbiter of another kind, or prefers the other side: what the job does in which order, and that
// at no moment two arbiters could let both nodes go on alone, whatever dies at whatever step.
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/witness_jobs.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
constexpr NodeSide kSides[] = {kA, kB};
const std::string kEtcd = "http://10.0.0.1:2379";

const Arbiter kWitness{.witness = true, .endpoints = {kEtcd}, .preferred = kA, .access = {}};
const Arbiter kPreferA{.witness = false, .endpoints = {}, .preferred = kA, .access = {}};
const Arbiter kPreferB{.witness = false, .endpoints = {}, .preferred = kB, .access = {}};
const Arbiter kFence{
    .witness = false, .endpoints = {}, .preferred = kA, .access = {}, .changing = false, .fence = true};

/// Both nodes' lockstepds, and their copies of one volume: A orders, and records the next epoch first. Where both wish
/// the same, it names another arbiter, by the rule of replication/core/verdict.hpp.
struct Lockstepds {
  struct Node {
    bool runs = true, is_told = true;
    std::int64_t revision = 0;
    bool asks = false;     ///< the witness
    bool fences = false;   ///< the command is used
    std::string wish;      ///< "" none, "nobody", "preferred_a", "preferred_b", "fence"
    std::string named;     ///< in its copy's record
    bool limited = false;  ///< the witness is not known to hold it
  };
  NodeCore* core = nullptr;
  std::array<Node, 2> nodes;
  bool in_sync = true, b_answers = true;
  std::string proposed;  ///< recorded by A, not yet by B
  unsigned forgotten = 0;
  std::array<std::string, 2> fence_problems;
  std::array<unsigned, 2> fence_trials{};

  Node& at(NodeSide side) { return nodes[static_cast<std::size_t>(side)]; }
  [[nodiscard]] const Node& at(NodeSide side) const { return nodes[static_cast<std::size_t>(side)]; }
  void tell(NodeSide side) {
    Node& node = at(side);
    if (!node.runs || !node.is_told || (side == kB && !b_answers)) return;
    const Arbiter& arbiter = core->configuration()->pair->arbiter;
    node.asks = arbiter.witness && !arbiter.changing;
    node.fences = arbiter.fence && !arbiter.changing;
    node.wish = arbiter.changing ? "nobody" : arbiter.witness ? "" : arbiter_name(arbiter);
    node.revision = core->revisions.state().head.n;
  }
  void turn() {
    for (const NodeSide side : kSides) {
      tell(side);
      judge();
    }
    const bool both = nodes[0].runs && nodes[1].runs;
    in_sync = in_sync && both;
    if (!in_sync) return;
    if (!proposed.empty()) nodes[1].named = std::exchange(proposed, "");
    const std::string wish = nodes[0].wish == nodes[1].wish ? nodes[0].wish : "";
    const std::string next = wish == "nobody" ? "witness" : nodes[0].named == "witness" ? wish : "";
    if (!next.empty() && next != nodes[0].named) nodes[0].named = proposed = next;
    for (Node& node : nodes) node.limited = node.named == "witness" && !node.asks;
    judge();
  }
  /// By whom this node could go on alone now.
  [[nodiscard]] std::string decider(NodeSide side) const {
    const Node& node = at(side);
    if (node.named == "witness") return node.asks ? "witness" : "";
    if (node.named == "fence") return node.fences ? "fence" : "";
    return node.named == std::string("preferred_") + side_name(side) ? node.named : "";
  }
  void judge() const {
    const std::string a = decider(kA), b = decider(kB);
    EXPECT_TRUE(a.empty() || b.empty() || a == b) << "both could go on: A by " << a << ", B by " << b;
    for (const NodeSide side : kSides) EXPECT_FALSE(at(side).asks && at(side).wish.starts_with("preferred"));
    for (const NodeSide side : kSides) EXPECT_FALSE(at(side).fences && at(side).wish == "nobody");
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) const {
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    const Node& node = at(side);
    if (!node.runs) return refuse(RefusalKind::data_plane_away, "lockstepd does not answer.");
    NodeReport report;
    report.running = true;
    report.status = DataPlaneStatus{};
    report.status->version = "1";
    report.status->revision = node.revision;
    report.status->partner_connected = nodes[0].runs && nodes[1].runs;
    report.status->witness_changing = node.wish == "nobody";
    report.status->witness_reachable = node.asks;
    ReplicaStatus replica;
    replica.volume = core->configuration()->volumes.at(0).id;
    replica.state = in_sync ? "in_sync" : "suspended";
    replica.failover_limited = node.limited;
    replica.epoch = EpochView{1, "", "both", "a", node.named};
    report.status->volumes = {replica};
    return report;
  }
};

class ArbiterJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<WitnessJobs> jobs_;

  void SetUp() override {
    open();
    make_pair([](Configuration& c) {
      c.pair->arbiter = kPreferA;
      c.volumes = {ready_volume()};
    });
  }
  void open() {
    open_core();
    plane_.core = core_.get();
    WitnessHands hands;
    hands.look = [this](NodeSide side) { return plane_.look(side); };
    hands.try_endpoints = [](NodeSide, const Arbiter& arbiter) -> Outcome<WitnessTrial> {
      return WitnessTrial{{arbiter.endpoints.at(0), true, false, "", "a1"}};
    };
    hands.try_fence = [this](NodeSide side) -> Outcome<void> {
      const auto i = static_cast<std::size_t>(side);
      ++plane_.fence_trials[i];
      if (plane_.fence_problems[i].empty()) return {};
      return refuse(RefusalKind::invalid, plane_.fence_problems[i], {{"/arbiter/kind", plane_.fence_problems[i]}});
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) {
      return change_with(plane_.b_answers, summary, edit);
    };
    hands.forget = [this](const std::string&, const auto&, const std::string& keep) -> Outcome<void> {
      EXPECT_EQ(keep, "") << "no other one is in use";
      ++plane_.forgotten;
      return {};
    };
    jobs_ = std::make_unique<WitnessJobs>(*core_, *runner_, std::move(hands), [] {});
    jobs_->teach();
  }
  void restart() {
    jobs_.reset();
    open();
  }
  /// The pair by that arbiter, in sync.
  void begin_with(const Arbiter& arbiter) {
    plane_ = {};
    plane_.core = core_.get();
    for (auto& node : plane_.nodes) node.named = arbiter_name(arbiter);
    edit([&](Configuration& c) {
      c.pair->arbiter = arbiter;
      c.pair->created_ms += 1;  // some change, whichever arbiter there was
    });
    for (int i = 0; i < 3; ++i) plane_.turn();
  }
  void turns(int n) {
    for (int i = 0; i < n; ++i) {
      runner_->turn();
      plane_.turn();
    }
  }
  [[nodiscard]] Arbiter arbiter() const { return core_->configuration()->pair->arbiter; }
  void age(const Uuid& id) {
    Job j = job(id);
    auto parameters = nlohmann::json::parse(j.parameters);
    parameters["step_since_ms"] = 0;
    j.parameters = parameters.dump();
    core_->jobs.put(j);
  }
};

const std::pair<const Arbiter*, const Arbiter*> kChanges[] = {
    {&kPreferA, &kPreferB}, {&kPreferB, &kPreferA}, {&kPreferA, &kWitness}, {&kPreferB, &kWitness},
    {&kWitness, &kPreferA}, {&kWitness, &kPreferB}, {&kWitness, &kFence},   {&kFence, &kWitness},
    {&kPreferB, &kFence},   {&kFence, &kPreferA}};

TEST_F(ArbiterJobsTest, EveryKindIsChangedToEveryOtherByWayOfNone) {
  for (const auto& [from, to] : kChanges) {
    begin_with(*from);
    const unsigned forgotten = plane_.forgotten;
    const auto begun = jobs_->change_arbiter(*to);
    ASSERT_TRUE(begun) << begun.error().detail;
    turns(1);
    EXPECT_TRUE(arbiter().changing);
    turns(10);
    EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
    EXPECT_EQ(arbiter(), *to);
    for (const auto& node : plane_.nodes) EXPECT_EQ(node.named, arbiter_name(*to));
    EXPECT_EQ(plane_.forgotten - forgotten, from->witness ? 1u : 0u);
    EXPECT_EQ(job(begun->id).parameters, "{}");
    EXPECT_FALSE(jobs_->change_arbiter(*to)) << "it is this one already";
  }
}

TEST_F(ArbiterJobsTest, TheNewOneIsNotNamedBeforeEachCopyNamesNobodyOnBothNodes) {
  begin_with(kPreferA);
  const auto begun = jobs_->change_arbiter(kPreferB);
  ASSERT_TRUE(begun);
  plane_.at(kB).is_told = false;
  turns(5);
  EXPECT_EQ(job(begun->id).step, "stopped");
  EXPECT_EQ(plane_.at(kA).named, "preferred_a") << "B was not told";
  plane_.at(kB).is_told = true;
  turns(10);
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
}

/// Nobody is powered off by that: each node's device is asked whether the other machine is on.
TEST_F(ArbiterJobsTest, AFenceIsTakenOnlyIfEachNodesWasTriedAndAnswered) {
  for (const auto& [a, b] : {std::pair<const char*, const char*>{"No answer.", ""}, {"", "No answer."}}) {
    begin_with(kWitness);
    plane_.fence_problems = {a, b};
    const auto refused = jobs_->change_arbiter(kFence);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, RefusalKind::invalid);
    ASSERT_EQ(refused.error().fields.size(), 1u);
    EXPECT_EQ(refused.error().fields[0].detail, *a ? "node-a: No answer." : "node-b: No answer.");
    EXPECT_EQ(plane_.fence_trials, (std::array<unsigned, 2>{1, 1})) << "both, so that both are mended at once";
    EXPECT_EQ(arbiter(), kWitness);
  }
}

TEST_F(ArbiterJobsTest, WaitsForVolumesThatAreBeingMadeAndForVersionsThatCanDoIt) {
  begin_with(kPreferA);
  plane_.at(kB).named = "";
  const auto old = jobs_->change_arbiter(kPreferB);
  ASSERT_FALSE(old);
  EXPECT_NE(old.error().detail.find("lockstepd on node-b runs version 1"), std::string::npos) << old.error().detail;
  plane_.at(kB).named = "preferred_a";
  ASSERT_TRUE(core_->revisions.change(
      "A volume",
      [](Configuration& c) -> Outcome<void> {
        Volume v = c.volumes.front();
        v.id = random_uuid();
        v.name = "vm2";
        v.lun = 1;
        v.serial = "x";
        v.lifecycle = Lifecycle::creating;
        c.volumes.push_back(v);
        return {};
      },
      nullptr));
  const auto begun = jobs_->change_arbiter(kPreferB);
  ASSERT_TRUE(begun) << begun.error().detail;
  turns(3);
  EXPECT_EQ(job(begun->id).step, "stop");
  EXPECT_EQ(job(begun->id).message, "The volume vm2 is being made: wait until it is.");
  EXPECT_FALSE(arbiter().changing);
}

/// Whatever comes before whichever turn, and goes some turns later: the judge of Lockstepds is content at every moment,
/// and in the end all name the arbiter that the job says.
TEST_F(ArbiterJobsTest, NoTroubleLetsBothGoOnAndEveryChangeEnds) {
  struct Trouble {
    const char* name;
    std::function<void()> comes, goes;
  };
  const auto back = [this] {
    for (auto& node : plane_.nodes) node.runs = node.is_told = true;
    plane_.b_answers = plane_.in_sync = true;
  };
  const Trouble troubles[] = {{"management killed", [this] { restart(); }, back},
                              {"a's lockstepd dies", [this] { plane_.at(kA).runs = false; }, back},
                              {"b's lockstepd dies", [this] { plane_.at(kB).runs = false; }, back},
                              {"b's management is away", [this] { plane_.b_answers = false; }, back},
                              {"the link breaks", [this] { plane_.in_sync = false; }, back},
                              {"a is told late", [this] { plane_.at(kA).is_told = false; }, back},
                              {"b is told late", [this] { plane_.at(kB).is_told = false; }, back}};
  unsigned done = 0, failed = 0;
  for (const auto& [from, to] : kChanges)
    for (const Trouble& trouble : troubles)
      for (int at = 0; at < 7; ++at)
        for (const bool cancelled : {false, true}) {
          SCOPED_TRACE(arbiter_name(*from) + " to " + arbiter_name(*to) + ", " + trouble.name + " before turn " +
                       std::to_string(at) + (cancelled ? ", cancelled" : ""));
          begin_with(*from);
          const auto begun = jobs_->change_arbiter(*to);
          ASSERT_TRUE(begun) << begun.error().detail;
          turns(at);
          trouble.comes();
          turns(1);
          if (cancelled) (void)cancel_job(*core_, begun->id);
          for (int i = 0; i < 2; ++i) {
            if (!job(begun->id).finished()) age(begun->id);
            turns(2);
          }
          trouble.goes();
          for (int i = 0; i < 12 && !job(begun->id).finished(); ++i) turns(2);
          turns(3);
          const Job ended = job(begun->id);
          ASSERT_TRUE(ended.finished()) << ended.step << ": " << ended.message;
          const Arbiter& named = ended.state == JobState::done ? *to : *from;
          EXPECT_EQ(arbiter(), named) << ended.message;
          for (const auto& node : plane_.nodes) EXPECT_EQ(node.named, arbiter_name(named));
          if (HasFailure()) return;
          ++(ended.state == JobState::done ? done : failed);
        }
  EXPECT_GT(done, 50u);
  EXPECT_GT(failed, 50u);
}

}  // namespace
}  // namespace lockstep::mgmt
