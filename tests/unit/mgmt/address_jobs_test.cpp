// A node's addresses change in use: at every moment each node listens where the other calls and lets in from where the
// other calls, whatever dies at whatever step, and what does not work is taken back.
#include "mgmt/control/address_jobs.hpp"

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
using Set = std::set<std::string>;
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;
constexpr const char* kNewPortal = "10.0.1.2:3260";
constexpr const char* kNewLink = "10.9.1.2:3261";
constexpr const char* kNewManagement = "10.0.1.2:8443";

std::string host(const std::string& address) { return address.substr(0, address.rfind(':')); }

/// Both lockstepds, as far as addresses go: each does as it was last told; either may be told late.
struct Lockstepds {
  struct Node {
    bool runs = true, is_told = true;
    std::int64_t revision = 0;
    Set portals, listens, calls, lets_in;  ///< of the link: all but the portals
    Set hosts;                             ///< from which it calls
  };
  NodeCore* core = nullptr;
  std::array<Node, 2> nodes;
  bool b_answers = true;
  Set broken;   ///< nobody gets through to these
  Set foreign;  ///< nobody can listen at these

  Node& at(NodeSide side) { return nodes[static_cast<std::size_t>(side)]; }
  void tell(NodeSide side) {
    Node& node = at(side);
    if (!node.runs || !node.is_told || (side == kB && !b_answers)) return;
    const std::int64_t n = core->revisions.state().head.n;
    const json told = json::parse(apply_parameters(*core->configuration(), n, side, "/v"));
    node.portals.clear();
    for (const auto& portal : told["target"]["portals"]) node.portals.insert(portal.get<std::string>());
    const json& link = told["partner"]["link"];
    const auto both = [&](const char* one, const char* beside) {
      Set all{link.at(one).get<std::string>()};
      if (link.contains(beside)) all.insert(link.at(beside).get<std::string>());
      return all;
    };
    node.listens = both("listen", "listen_beside");
    node.calls = both("connect", "connect_beside");
    node.hosts.clear();
    node.lets_in.clear();
    for (const auto& address : node.listens) node.hosts.insert(host(address));
    for (const auto& address : node.calls) node.lets_in.insert(host(address));
    node.revision = n;
  }
  void turn() {
    for (const NodeSide side : {kA, kB}) {
      tell(side);
      judge();
    }
  }
  [[nodiscard]] bool has_way(NodeSide from) {
    for (const auto& to : at(from).calls)
      for (const auto& source : at(from).hosts)
        if (at(engine::other(from)).listens.contains(to) && at(engine::other(from)).lets_in.contains(source) &&
            !broken.contains(to))
          return true;
    return false;
  }
  void judge() {
    if (nodes[0].revision == 0 || nodes[1].revision == 0) return;  // not told of any pair yet
    EXPECT_TRUE(has_way(kA)) << "A has no way to B";
    EXPECT_TRUE(has_way(kB)) << "B has no way to A";
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    NodeReport report;
    report.running = at(side).runs;
    if (report.running) report.status = DataPlaneStatus{};
    if (report.running) report.status->revision = at(side).revision;
    return report;
  }
  std::function<void()> meanwhile{};  ///< called once, while the next trial goes on
  [[nodiscard]] Outcome<AddressProblems> try_out(NodeSide side, const AddressTrial& trial) {
    if (const auto other = std::exchange(meanwhile, {})) other();
    if (side == kB && !b_answers) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    if (!at(side).runs) return refuse(RefusalKind::data_plane_away, "lockstepd does not run.");
    AddressProblems problems;
    for (const auto& address : trial.listen)
      if (foreign.contains(address)) problems.push_back({address, "It is not an address of this machine's."});
    if (foreign.contains(trial.management)) problems.push_back({trial.management, "It is not this machine's."});
    if (!trial.link_to.empty()) {
      Node& there = at(engine::other(side));
      const bool through = there.listens.contains(trial.link_to) && there.lets_in.contains(host(trial.link_from)) &&
                           !broken.contains(trial.link_to) && !broken.contains(trial.link_from);
      if (!through) problems.push_back({trial.link_to, "It did not answer."});
    }
    if (broken.contains(trial.partner)) problems.push_back({trial.partner, "It did not answer."});
    return problems;
  }
};

class AddressJobsTest : public test::JobTest {
 protected:
  Lockstepds plane_;
  std::unique_ptr<AddressJobs> jobs_;
  Node before_;
  std::string looked_for_;
  int lost_changes_ = 0;  ///< so many changes are made, and their answers lost

  void SetUp() override {
    open();
    make_pair([](Configuration& c) {
      make_link_secrets(*c.pair);
      for (Node& n : c.nodes) {
        const std::string host = n.side == kA ? "1" : "2";
        n.portals = {"10.0.0." + host + ":3260"};
        n.link_address = "10.9.0." + host + ":3261";
        n.management_address = "10.0.0." + host + ":8443";
      }
    });
    before_ = node();
    plane_.turn();
  }
  /// As after a kill: everything in memory is gone.
  void open() {
    jobs_.reset();
    open_core();
    plane_.core = core_.get();
    AddressHands hands;
    hands.look = [this](NodeSide side) { return plane_.look(side); };
    hands.try_out = [this](NodeSide side, const AddressTrial& trial) { return plane_.try_out(side, trial); };
    hands.look_for_partner_at = [this](const std::string& address) { looked_for_ = address; };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) -> Outcome<RevisionId> {
      auto changed = change_with(plane_.b_answers, summary, edit);
      if (lost_changes_ > 0 && lost_changes_-- > 0)
        return refuse(RefusalKind::not_current, "The partner did not answer.");
      return changed;
    };
    jobs_ = std::make_unique<AddressJobs>(*core_, *runner_, hands, [] {});
    jobs_->teach();
  }
  Node node(NodeSide side = kB) { return *core_->configuration()->node(side); }
  static AddressWish all() {
    return {.side = kB,
            .portals = std::vector<std::string>{kNewPortal},
            .link_address = kNewLink,
            .management_address = kNewManagement};
  }
  Uuid begin(const AddressWish& wish = all()) {
    const auto begun = jobs_->change(wish);
    EXPECT_TRUE(begun) << begun.error().detail;
    return begun.value_or(Job{}).id;
  }
  void turns(int n = 20) {
    for (int i = 0; i < n; ++i) {
      runner_->turn();
      plane_.turn();
    }
  }
  /// As if the job had been at its step for that much longer.
  void age(const Uuid& id, std::int64_t ms) {
    Job row = job(id);
    json parameters = json::parse(row.parameters);
    parameters["step_since_ms"] = parameters["step_since_ms"].get<std::int64_t>() - ms;
    row.parameters = parameters.dump();
    core_->jobs.put(row);
  }
  void expect_new() {
    EXPECT_EQ(addresses_of(node()), (Addresses{{kNewPortal}, kNewLink, kNewManagement}));
    EXPECT_TRUE(node().beside.empty());
    EXPECT_EQ(plane_.at(kB).portals, Set{kNewPortal});
    EXPECT_EQ(plane_.at(kB).listens, Set{kNewLink});
    EXPECT_EQ(plane_.at(kA).calls, Set{kNewLink});
    EXPECT_EQ(plane_.at(kA).lets_in, Set{host(kNewLink)});
  }
};

/// Each would wipe out what the other put beside the old addresses.
TEST_F(AddressJobsTest, OfTwoRequestsThatAreTriedAtTheSameTimeOneIsRefused) {
  std::optional<Outcome<Job>> other;
  plane_.meanwhile = [&] {
    std::thread([&] {
      other = jobs_->change(
          {.side = kB, .portals = std::vector<std::string>{kNewPortal}, .link_address = {}, .management_address = {}});
    }).join();
  };
  const auto first = jobs_->change(all());
  EXPECT_TRUE(first) << first.error().detail;
  ASSERT_TRUE(other);
  EXPECT_FALSE(*other) << "both would run";
  turns();
  EXPECT_EQ(job(first->id).state, JobState::done) << job(first->id).message;
}

TEST_F(AddressJobsTest, AllAddressesOfANodeAreNewAndTheOldOnesClosed) {
  const Uuid id = begin();
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  expect_new();
  EXPECT_EQ(looked_for_, kNewManagement) << "its partner may have to find it there";
}

TEST_F(AddressJobsTest, EachAddressOfEitherNodeChangesByItself) {
  for (const NodeSide side : {kA, kB}) {
    const std::string a = side == kA ? "10.0.7.1" : "10.0.7.2";
    AddressWish portals{.side = side, .portals = {}, .link_address = {}, .management_address = {}};
    portals.portals = {a + ":3260"};
    AddressWish link{.side = side, .portals = {}, .link_address = a + ":3261", .management_address = {}};
    AddressWish management{.side = side, .portals = {}, .link_address = {}, .management_address = a + ":8443"};
    for (const auto& wish : {portals, link, management}) {
      const Addresses then = addresses_of(node(side));
      const Uuid id = begin(wish);
      turns();
      EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
      EXPECT_EQ(addresses_of(node(side)), wished(then, wish));
      EXPECT_TRUE(node(side).beside.empty());
    }
  }
}

TEST_F(AddressJobsTest, ItWaitsAtEachStepForALockstepdThatIsBehind) {
  for (const NodeSide late : {kA, kB}) {
    AddressWish wish = all();
    wish.link_address = late == kA ? "10.9.5.2:3261" : "10.9.6.2:3261";
    const Uuid id = begin(wish);
    for (int i = 0; i < 12 && !job(id).finished(); ++i) {
      plane_.at(late).is_told = false;
      const auto before = core_->revisions.state().head.n;
      turns(5);
      EXPECT_LE(core_->revisions.state().head.n, before + 1) << "no second step before both took the first";
      plane_.at(late).is_told = true;
      plane_.turn();
    }
    turns();
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  }
}

TEST_F(AddressJobsTest, AKillBeforeOrAfterWhateverWasStoredIsRepeatedHarmlessly) {
  const Uuid id = begin();
  for (int i = 0; i < 30 && !job(id).finished(); ++i) {
    const Job before = job(id);
    runner_->turn();
    plane_.judge();
    if (i % 2 == 0) core_->jobs.put(before);  // what was changed is stored, but not that the job has taken the step
    open();
    plane_.turn();
  }
  turns();
  EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
  expect_new();
}

TEST_F(AddressJobsTest, AnAnswerThatIsLostAtAnyStepIsMadeUpFor) {
  for (int lost = 1; lost <= 3; ++lost) {
    AddressWish wish = all();
    wish.link_address = "10.9." + std::to_string(lost) + ".9:3261";
    const Uuid id = begin(wish);
    for (int i = 0; i < 30 && !job(id).finished(); ++i) {
      lost_changes_ = i == lost ? 1 : lost_changes_;
      turns(1);
    }
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    EXPECT_EQ(node().link_address, *wish.link_address);
    EXPECT_TRUE(node().beside.empty());
  }
}

TEST_F(AddressJobsTest, WhereNobodyCanListenNothingIsChangedAndTheNodeIsNamed) {
  for (const char* address : {kNewPortal, kNewLink, kNewManagement}) {
    plane_.foreign = {address};
    const auto begun = jobs_->change(all());
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind, RefusalKind::conflict);
    EXPECT_NE(begun.error().detail.find("node-b"), std::string::npos) << begun.error().detail;
    EXPECT_NE(begun.error().detail.find(address), std::string::npos) << begun.error().detail;
    EXPECT_EQ(node(), before_);
  }
}

TEST_F(AddressJobsTest, WhatDoesNotWorkBeforeTheMoveIsTakenBackAndTheTrialTold) {
  for (const char* address : {kNewLink, kNewManagement}) {
    plane_.broken = {address};
    const Uuid id = begin();
    turns();
    EXPECT_EQ(job(id).step, "try") << "it is tried for a while";
    EXPECT_EQ(node().link_address, before_.link_address);
    age(id, AddressJobs::kTriesForMs);
    turns();
    EXPECT_EQ(job(id).state, JobState::failed);
    EXPECT_NE(job(id).error->detail.find(address), std::string::npos) << job(id).error->detail;
    EXPECT_NE(job(id).error->detail.find("node-"), std::string::npos) << job(id).error->detail;
    EXPECT_EQ(node(), before_);
  }
}

TEST_F(AddressJobsTest, WhatCeasesToWorkAfterTheMoveIsTakenBackToo) {
  const Uuid id = begin();
  for (int i = 0; i < 10 && job(id).step != "close"; ++i) turns(1);
  ASSERT_EQ(job(id).step, "close");
  plane_.broken = {kNewLink};
  turns();
  EXPECT_FALSE(job(id).finished()) << "the old way is there meanwhile";
  age(id, AddressJobs::kSettlesInMs);
  turns();
  EXPECT_EQ(job(id).state, JobState::failed);
  EXPECT_EQ(node(), before_);
}

TEST_F(AddressJobsTest, AKillOnTheWayBackIsRepeatedHarmlessly) {
  plane_.broken = {kNewLink};
  const Uuid id = begin();
  turns(3);
  age(id, AddressJobs::kTriesForMs);
  for (int i = 0; i < 20 && !job(id).finished(); ++i) {
    const Job before = job(id);
    runner_->turn();
    if (i % 2 == 0) core_->jobs.put(before);
    open();
    plane_.turn();
  }
  turns();
  EXPECT_EQ(job(id).state, JobState::failed);
  EXPECT_EQ(node(), before_);
}

TEST_F(AddressJobsTest, APartnerThatGoesAwayAfterTheMoveIsWaitedFor) {
  const Uuid id = begin();
  for (int i = 0; i < 10 && job(id).step != "close"; ++i) turns(1);
  plane_.b_answers = false;
  turns();
  EXPECT_FALSE(job(id).finished()) << job(id).message;
  plane_.b_answers = true;
  turns();
  EXPECT_EQ(job(id).state, JobState::done);
  expect_new();
}

TEST_F(AddressJobsTest, WhatALostJobLeftIsFinishedByTheNext) {
  const AddressChange change{kB, addresses_of(before_), {{kNewPortal}, kNewLink, kNewManagement}, before_.id};
  for (const auto how : {opened, moved}) {
    const auto leave = [&](Configuration& c) -> Outcome<void> {
      Node& n = *std::ranges::find(c.nodes, kB, &Node::side);
      n = how(n, change);
      return {};
    };
    ASSERT_TRUE(core_->revisions.change("left", leave, nullptr));
    plane_.turn();
    const Uuid id = begin();
    turns();
    EXPECT_EQ(job(id).state, JobState::done) << job(id).message;
    expect_new();
  }
}

TEST_F(AddressJobsTest, AMachineThatTookTheNodesPlaceKeepsItsOwnAddresses) {
  const Uuid id = begin();
  turns(1);
  ASSERT_TRUE(core_->revisions.change(
      "replaced",
      [](Configuration& c) -> Outcome<void> {
        Node& n = *std::ranges::find(c.nodes, kB, &Node::side);
        n.id = random_uuid();
        return {};
      },
      nullptr));
  plane_.turn();
  const Node then = node();
  turns();
  EXPECT_EQ(job(id).state, JobState::failed);
  EXPECT_EQ(node(), then);
}

TEST_F(AddressJobsTest, WhatMakesNoSenseIsRefusedByField) {
  const auto refused = [this](const AddressWish& wish) {
    const auto begun = jobs_->change(wish);
    EXPECT_FALSE(begun);
    EXPECT_EQ(begun.error().kind, RefusalKind::invalid);
    return begun ? "" : begun.error().fields.front().pointer;
  };
  AddressWish wish{.side = kB, .portals = {}, .link_address = {}, .management_address = {}};
  EXPECT_EQ(refused(wish), "");
  wish.portals = std::vector<std::string>{};
  EXPECT_EQ(refused(wish), "/portals");
  for (const char* bad : {"node-b:3260", "10.0.0.9", "10.0.0.9:0", "0.0.0.0:3260", "[::]:3260", "10.0.0.1:3260",
                          "10.9.0.1:3261", "10.0.0.1:8443", "10.9.0.2:3261", "10.0.0.2:8443"}) {
    wish.portals = std::vector<std::string>{"10.0.0.7:3260", bad};
    EXPECT_EQ(refused(wish), "/portals/1") << bad;
  }
  wish.portals = std::vector<std::string>{"10.0.0.7:3260", "10.0.0.7:3260"};
  EXPECT_EQ(refused(wish), "/portals/0");
  wish.portals = {};
  for (const char* bad : {"0.0.0.0:3261", "10.9.0.1:3261", "10.0.0.2:8443", "10.0.0.2:3260"}) {
    wish.link_address = bad;
    EXPECT_EQ(refused(wish), "/link_address") << bad;
  }
  wish.link_address = {};
  wish.management_address = "10.0.0.1:8443";
  EXPECT_EQ(refused(wish), "/management_address");
}

TEST_F(AddressJobsTest, OneJobAtATimeAndNoneForWhatIsThereAlready) {
  const AddressWish same{.side = kB, .portals = {}, .link_address = "10.9.0.2:3261", .management_address = {}};
  EXPECT_EQ(jobs_->change(same).error().kind, RefusalKind::conflict);
  begin();
  EXPECT_EQ(jobs_->change(all()).error().kind, RefusalKind::conflict);
}

TEST_F(AddressJobsTest, TheConfigurationOfEachStepTravelsAndIsStored) {
  const AddressChange change{kB, addresses_of(before_), {{kNewPortal}, kNewLink, kNewManagement}, before_.id};
  for (const auto how : {opened, moved, closed}) {
    ASSERT_TRUE(core_->revisions.change(
        "step",
        [&](Configuration& c) -> Outcome<void> {
          Node& n = *std::ranges::find(c.nodes, kB, &Node::side);
          n = how(n, change);
          return {};
        },
        nullptr));
    const Configuration now = *core_->configuration();
    EXPECT_EQ(document_version(now), how == closed ? 2 : 9);
    const auto back = from_document(to_document(now));
    ASSERT_TRUE(back) << back.error().detail;
    EXPECT_EQ(*back, now);
    open();
    EXPECT_EQ(*core_->configuration(), now);
  }
}

}  // namespace
}  // namespace lockstep::mgmt
