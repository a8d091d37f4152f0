// A node leaves its pair: when that is refused, what the job does in which order, and that a node which ends at any
// step of it goes on to one of two ends: the pair as it was, or a node that is alone and one that is out.
#include "mgmt/control/leave_jobs.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "mgmt/control/leave_verdict.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

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
  bool restarted = false;    ///< A's lockstepd: it was told nothing since
  bool forget_fails = false;
  std::vector<std::string> orders;
};

class LeaveJobsTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::chrono::seconds patience_{60};
  Others others_;
  std::unique_ptr<NodeCore> core_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<LeaveJobs> jobs_;

  void SetUp() override {
    open();
    const auto changed = core_->revisions.change(
        "A pair with a volume",
        [this](Configuration& c) -> Outcome<void> {
          c.pair = Pair{};
          c.pair->id = random_uuid();
          c.pair->name = "pair1";
          c.pair->link = {"link", "secret"};
          c.pair->arbiter.witness = true;
          c.pair->arbiter.endpoints = {"http://10.0.0.10:2379"};
          c.nodes = {{core_->node_id, kA, "node-a", {}, "", "", ""}, {random_uuid(), kB, "node-b", {}, "", "", "bb"}};
          c.tokens = {{random_uuid(), "admin", "digest", Role::admin, 1, 0}};
          Volume v;
          v.id = random_uuid();
          v.name = "vm1";
          v.serial = "LS1";
          v.lun = 3;
          v.size = 1 << 30;
          v.first_epoch = random_uuid();
          v.any_initiator = true;
          v.lifecycle = Lifecycle::ready;
          c.volumes = {v};
          return {};
        },
        nullptr);
    ASSERT_TRUE(changed) << changed.error().detail;
    start();
  }
  void open() {
    LocalSettings local;
    local.data_folder = folder_.path() / "mgmt";
    local.volume_folder = folder_.path() / "volumes";
    local.node_name = "node-a";
    local.management_address = "127.0.0.1:8443";
    local.create_patience = patience_;
    auto core = NodeCore::open(local);
    ASSERT_TRUE(core) << core.error().message;
    core_ = std::move(*core);
  }
  [[nodiscard]] std::unexpected<Refusal> away() const {
    return refuse(RefusalKind::not_current, "The partner cannot be reached.");
  }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (side == kB && others_.b_away) return away();
    const auto configuration = core_->configuration();
    NodeReport report;
    report.running = true;
    report.status = DataPlaneStatus{};
    if (side == kA && others_.restarted) return report;
    report.status->revision = core_->revisions.state().head.n;
    for (const auto& v : configuration->volumes) {
      if (v.copy(side).retired || v.lifecycle != Lifecycle::ready) continue;
      const bool solo =
          side == kA ? others_.left && !others_.never_alone && !others_.a_failed : others_.b_alone || others_.a_failed;
      ReplicaStatus replica;
      replica.volume = v.id;
      replica.state = solo                             ? "solo"
                      : side == kA && others_.a_failed ? "failed"
                      : others_.left && side == kB     ? "left"
                                                       : "in_sync";
      replica.serving = true;
      replica.size = v.size;
      replica.epoch = EpochView{7, v.first_epoch.to_string(), solo ? side_name(side) : "both", "a", ""};
      report.status->volumes.push_back(replica);
    }
    return report;
  }
  void start() {
    runner_ = std::make_unique<JobRunner>(*core_, [](const Job&) { return true; });
    LeaveHands hands;
    hands.look = [this](NodeSide side) { return look(side); };
    hands.carry_out = [this](NodeSide side, const ReplicaOrder& order) -> Outcome<void> {
      if (side == kB && others_.b_away) return away();
      others_.orders.push_back(order.kind == Kind::leave ? "leave" : order.kind == Kind::discard ? "discard" : "other");
      if (order.kind == Kind::leave) others_.left = true;
      return {};
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) {
      return core_->revisions.change(summary, edit, nullptr);
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
    runner_.reset();
    core_.reset();
    open();
    start();
  }
  [[nodiscard]] Outcome<Job> leave(bool lost = false, const std::string& confirm = "node-b") {
    return jobs_->leave({.side = kB, .lost = lost, .confirm = confirm});
  }
  void turns(int n = 12) {
    for (int i = 0; i < n; ++i) runner_->turn();
  }
  [[nodiscard]] Job job(const Uuid& id) const { return core_->jobs.get(id).value_or(Job{}); }
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

TEST_F(LeaveJobsTest, CopiesLeaveAndAreLetGoBeforeItIsDecided) {
  const Configuration before = configuration();
  EXPECT_EQ(leave(false, "").error().kind, RefusalKind::confirmation_needed);
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  EXPECT_FALSE(leave()) << "a job is at work";
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(others_.orders, (std::vector<std::string>{"leave", "retire", "release", "forget http://10.0.0.10:2379"}));
  expect_out(before);
  restart();
  expect_out(before);
}

TEST_F(LeaveJobsTest, WhateverEndsWherever_TheJobGoesOnToOneOfTwoEnds) {
  const std::filesystem::path kept = folder_.path() / "kept";
  const Configuration before = configuration();
  core_.reset();
  std::filesystem::copy(folder_.path() / "mgmt", kept, std::filesystem::copy_options::recursive);
  for (int steps = 0; steps < 12; ++steps) {
    jobs_.reset();
    runner_.reset();
    core_.reset();
    std::filesystem::remove_all(folder_.path() / "mgmt");
    std::filesystem::remove_all(folder_.path() / "volumes");
    std::filesystem::copy(kept, folder_.path() / "mgmt", std::filesystem::copy_options::recursive);
    others_ = {};
    open();
    start();
    const auto begun = leave();
    ASSERT_TRUE(begun) << begun.error().detail;
    others_.b_away = true;  // nothing moves but what needs nobody
    turns(steps % 3);
    others_.b_away = false;
    turns(steps / 3);
    others_.b_away = steps % 2 == 0;
    restart();
    turns(2);
    others_.b_away = false;
    restart();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << steps << ": " << job(begun->id).message;
    expect_out(before);
  }
}

TEST_F(LeaveJobsTest, ARestartBetweenTheDecisionAndItsNoteDecidesNothingAnew) {
  const Configuration before = configuration();
  others_.b_forgets = false;
  const auto begun = leave();
  ASSERT_TRUE(begun);
  turns();
  Job at = job(begun->id);
  ASSERT_EQ(at.step, "release") << at.message;
  at.step = "decide";  // as it was stored last
  core_->jobs.put(at);
  const auto head = core_->revisions.state().head;
  restart();
  others_.b_forgets = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(core_->revisions.state().head, head);
  expect_out(before);
}

TEST_F(LeaveJobsTest, ANodeThatDoesNotServeAloneInTimeKeepsItsPartner) {
  patience_ = std::chrono::seconds(0);
  restart();
  const Configuration before = configuration();
  others_.never_alone = true;
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).error->detail.find("Nothing was changed"), std::string::npos);
  EXPECT_EQ(others_.orders.back(), "put back");
  expect_as_before(before);
}

/// The link is cut, and an operator has forced B: each has what the other lacks.
TEST_F(LeaveJobsTest, ANodeThatServesAVolumeAloneIsNotLetGoWithWhatItHas) {
  others_.left = others_.b_alone = true;
  const auto begun = leave();
  ASSERT_FALSE(begun) << "its copies would be deleted";
  EXPECT_NE(begun.error().detail.find("volume give-up vm1"), std::string::npos) << begun.error().detail;
}

/// It left, and A went away; B was forced; the job goes on when A is back.
TEST_F(LeaveJobsTest, ANodeThatWasForcedOnTheWayKeepsItsCopiesAndGoesOnServing) {
  for (const char* step : {"leave", "retire"}) {
    others_ = {};
    const Configuration before = configuration();
    const auto begun = leave();
    ASSERT_TRUE(begun) << begun.error().detail;
    Job at = job(begun->id);
    at.step = step;
    core_->jobs.put(at);
    others_.left = others_.b_alone = true;
    restart();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed) << step;
    EXPECT_NE(job(begun->id).message.find("volume give-up vm1"), std::string::npos) << job(begun->id).message;
    EXPECT_TRUE(others_.orders.empty()) << step << ": " << others_.orders.front();
    expect_as_before(before);
  }
}

/// A's disk fails while the copies leave: B alone has the volume.
TEST_F(LeaveJobsTest, TheWayBackTakesNoCopyOutOfServiceThatAloneServes) {
  patience_ = std::chrono::seconds(0);
  restart();
  const Configuration before = configuration();
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  others_.a_failed = true;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(std::ranges::count(others_.orders, "retire"), 0) << "nobody would serve it";
  EXPECT_NE(job(begun->id).message.find("restarted"), std::string::npos) << job(begun->id).message;
  expect_as_before(before);
}

TEST_F(LeaveJobsTest, AChangeThatOneNodeLacksIsWaitedForBeforeItIsDecided) {
  const Configuration before = configuration();
  others_.b_has_more = true;
  const auto begun = leave();
  ASSERT_TRUE(begun);
  turns();
  EXPECT_EQ(job(begun->id).step, "decide");
  EXPECT_EQ(configuration().nodes.size(), 2U);
  others_.b_has_more = false;
  turns();
  expect_out(before);
}

TEST_F(LeaveJobsTest, ItIsRefusedWhileTheVolumesAreNotWhole) {
  others_.b_away = true;
  const auto away = leave();
  ASSERT_FALSE(away);
  EXPECT_NE(away.error().detail.find("--lost"), std::string::npos) << away.error().detail;
  others_.b_away = false;
  EXPECT_FALSE(jobs_->leave({.side = kA, .lost = false, .confirm = "node-a"})) << "who stays decides";
  Volume v = configuration().volumes.front();
  const Configuration c = configuration();
  CopyView stays{&c.nodes[0], *look(kA)}, leaves{&c.nodes[1], *look(kB)};
  EXPECT_FALSE(why_not_left(stays, leaves, v));
  EXPECT_TRUE(why_not_alone(stays, v)) << "the other one is a member";
  for (const char* state : {"syncing_target", "failed", "left", "suspended", "split_brain", "waiting"}) {
    stays.report.status->volumes.front().state = state;
    EXPECT_TRUE(why_not_left(stays, leaves, v)) << state;
    EXPECT_TRUE(why_not_alone(stays, v)) << state;
  }
  stays = {&c.nodes[0], *look(kA)};
  v.lifecycle = Lifecycle::creating;
  EXPECT_TRUE(why_not_left(stays, leaves, v));
}

TEST_F(LeaveJobsTest, OneThatIsLostIsLetGoByWhoeverServesAlone) {
  const Configuration before = configuration();
  others_.b_away = true;
  EXPECT_FALSE(leave(true)) << "it answers somebody";
  others_.b_answers_with_a_pair = false;
  const auto not_alone = leave(true);
  ASSERT_FALSE(not_alone) << "it may have what this node lacks";
  EXPECT_NE(not_alone.error().detail.find("force-solo vm1 --node node-a"), std::string::npos);
  others_.left = true;  // the arbiter let it go on
  EXPECT_EQ(leave(true, "").error().kind, RefusalKind::confirmation_needed);
  const auto begun = leave(true);
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(others_.orders, std::vector<std::string>{"forget http://10.0.0.10:2379"});
  EXPECT_GT(core_->revisions.state().head.n, 40) << "beyond whatever the lost node may have decided";
  expect_out(before);
}

TEST_F(LeaveJobsTest, AJobThatWaitsForALostNodeGivesWayToOneThatLetsItGo) {
  const Configuration before = configuration();
  const auto first = leave();
  ASSERT_TRUE(first);
  others_.b_away = true;
  others_.b_answers_with_a_pair = false;
  turns(2);
  others_.left = true;
  const auto second = leave(true);
  ASSERT_TRUE(second) << second.error().detail;
  turns();
  EXPECT_EQ(job(first->id).state, JobState::failed);
  EXPECT_EQ(job(second->id).state, JobState::done) << job(second->id).message;
  expect_out(before);
}

TEST_F(LeaveJobsTest, WhatCouldNotBeToldIsSaid) {
  patience_ = std::chrono::seconds(0);
  others_.left = true;
  restart();
  others_.b_forgets = false;
  others_.forget_fails = true;
  const auto begun = leave();
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  const Job done = job(begun->id);
  EXPECT_EQ(done.state, JobState::done) << done.message;
  EXPECT_NE(done.message.find("pair leave b` there"), std::string::npos) << done.message;
  EXPECT_NE(done.message.find("etcdctl del --prefix /lockstep/"), std::string::npos) << done.message;
}

// ---- the node that is out ----

TEST_F(LeaveJobsTest, ANodeWhoseCopiesAreInServiceDoesNotForgetItsPair) {
  const Uuid pair = configuration().pair->id;
  EXPECT_FALSE(jobs_->on_release(pair, false)) << "only the partner may say so";
  EXPECT_FALSE(jobs_->on_release(pair, true)) << "a copy is in service";
  turns();
  EXPECT_TRUE(configuration().pair);
  EXPECT_TRUE(jobs_->on_release(random_uuid(), false)) << "it is in no such pair";
}

TEST_F(LeaveJobsTest, ANodeThatIsOutForgetsItsPairWhereverItEnds) {
  const Uuid pair = configuration().pair->id;
  const auto tokens = configuration().tokens;
  const auto retired = core_->revisions.change(
      "Retired",
      [](Configuration& c) -> Outcome<void> {
        c.volumes.front().copy(kA).retired = true;
        return {};
      },
      nullptr);
  ASSERT_TRUE(retired);
  ASSERT_TRUE(core_->saved_file.exists());
  EXPECT_EQ(jobs_->on_release(pair, true).error().kind, RefusalKind::not_current) << "it is under way";
  for (int i = 0; i < 6; ++i) {
    runner_->turn();
    restart();
  }
  EXPECT_TRUE(jobs_->on_release(pair, false)) << "it is done";
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(configuration().tokens, tokens) << "nobody is locked out";
  EXPECT_FALSE(core_->saved_file.exists()) << "nor is it there to be recovered";
  EXPECT_FALSE(core_->forgets_pair());
  EXPECT_EQ(std::ranges::count(others_.orders, "discard"), 1);
  EXPECT_EQ(others_.orders.front(), "end lockstepd") << "a lockstepd takes a pair once";
}

TEST_F(LeaveJobsTest, WhatThePartnerSaysOfAPairThatWasLeftMeanwhileKeepsTheNodeFromNothing) {
  const Uuid pair = configuration().pair->id;
  EXPECT_TRUE(core_->note_standing(pair, true));
  EXPECT_FALSE(core_->note_standing(pair, true)) << "it is known";
  EXPECT_FALSE(core_->note_standing(pair, false));
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0) << "it is the partner again";
  core_->revisions.commit_new_epoch({random_uuid(), core_->revisions.state().head.n + 1, random_uuid()},
                                    "Left the pair", {});
  EXPECT_FALSE(core_->note_standing(pair, true)) << "it was asked before, and answered after";
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0);
  const auto another = core_->change("Another pair", [](Configuration& c) -> Outcome<void> {
    c.pair = Pair{};
    c.pair->id = random_uuid();
    return {};
  });
  EXPECT_TRUE(another) << another.error().detail;
  EXPECT_FALSE(core_->note_standing(pair, true)) << "nor does it count for another pair";
}

TEST_F(LeaveJobsTest, AMachineThatIsKnownToBeOutForgetsThePairWhenItIsToldTo) {
  const auto ask = [this](const std::string& confirm) {
    return jobs_->leave({.side = kA, .lost = false, .confirm = confirm});
  };
  EXPECT_EQ(ask("node-a").error().kind, RefusalKind::conflict) << "it is in the pair";
  core_->replaced.set_replaced_here(true);
  EXPECT_FALSE(leave()) << "it has no say over the other one";
  EXPECT_EQ(ask("node-a").error().kind, RefusalKind::conflict) << "its lockstepd serves: perhaps it is alone in that";
  others_.restarted = true;
  EXPECT_EQ(ask("").error().kind, RefusalKind::confirmation_needed);
  const auto begun = ask("node-a");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(core_->replaced.replaced_here_ms(), 0);
}

// ---- the end of the pair ----

TEST_F(LeaveJobsTest, APairWithVolumesEndsOnlyWhenTheyAreToBeDeleted) {
  const auto kept = jobs_->dissolve({.delete_volumes = false, .confirm = "pair1"});
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().detail.find("--delete-volumes"), std::string::npos);
  EXPECT_EQ(jobs_->dissolve({.delete_volumes = true, .confirm = "node-b"}).error().kind,
            RefusalKind::confirmation_needed);
  runner_->teach("volume.delete", [this](Job& job) {
    EXPECT_EQ(configuration().volume(*job.volume)->lifecycle, Lifecycle::deleting);
    const auto gone = core_->revisions.change(
        "Gone",
        [&](Configuration& c) -> Outcome<void> {
          std::erase_if(c.volumes, [&](const Volume& v) { return v.id == *job.volume; });
          return {};
        },
        nullptr);
    EXPECT_TRUE(gone);
    return finish(job, "Deleted.");
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_FALSE(configuration().pair);
  EXPECT_EQ(others_.orders, (std::vector<std::string>{"release", "forget http://10.0.0.10:2379", "end lockstepd"}));
}

TEST_F(LeaveJobsTest, APairIsNotDissolvedWhenAVolumeCannotBeDeleted) {
  runner_->teach("volume.delete", [this](Job& job) {
    return fail(*core_, job, {RefusalKind::conflict, "Its disk hangs.", {}});
  });
  const auto begun = jobs_->dissolve({.delete_volumes = true, .confirm = "pair1"});
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_NE(job(begun->id).message.find("Its disk hangs."), std::string::npos) << job(begun->id).message;
  EXPECT_EQ(configuration().nodes.size(), 2U);
}

}  // namespace
}  // namespace lockstep::mgmt
