// A copy that is lost is made anew: when that is refused, what the job does in which order, and what takes it back.
#include "mgmt/control/replace_jobs.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using Kind = ReplicaOrder::Kind;
constexpr NodeSide kA = NodeSide::a, kB = NodeSide::b;

/// Both lockstepds: each uses the copy that the configuration names, if it is on its disk. A is the survivor, B's copy
/// is the one that is replaced.
struct Lockstepds {
  explicit Lockstepds(NodeCore& c) : core(c) {}

  NodeCore& core;
  std::string a_state = "solo", b_state = "failed", new_state = "syncing_target";
  std::set<std::int64_t> on_b = {1};  ///< numbers of the copies on B's disk
  std::string fail_create;
  bool b_away = false;
  /// Restarted as soon as that was ordered, once: as a member that is in sync.
  std::optional<Kind> b_comes_back_after;
  std::vector<std::string> orders;
  std::function<void()> while_asked;  ///< once

  [[nodiscard]] const Volume& volume() const { return core.configuration()->volumes.at(0); }
  [[nodiscard]] Outcome<NodeReport> look(NodeSide side) {
    if (const auto once = std::exchange(while_asked, {})) once();
    if (side == kB && b_away) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    const auto configuration = core.configuration();
    const Volume& v = configuration->volumes.at(0);
    const Copy& copy = v.copy(side);
    NodeReport report;
    report.running = true;
    report.status = DataPlaneStatus{};
    report.status->revision = core.revisions.state().head.n;
    const bool found = side == kA || on_b.contains(copy.number);
    if (!found) report.problems = {{"volume " + v.name, "The replica's data is missing."}};
    if (copy.retired || !found) return report;
    ReplicaStatus replica;
    replica.volume = v.id;
    replica.state = side == kA ? a_state : copy.number == 1 ? b_state : new_state;
    replica.serving = replica.state != "suspended" && replica.state != "waiting" && replica.state != "split_brain";
    replica.size = v.size;
    const bool b_alone = side == kB && replica.state == "solo";  // it was forced
    replica.epoch = EpochView{7, v.first_epoch.to_string(),
                              replica.state == "in_sync" ? "both"
                              : b_alone                  ? "b"
                                                         : "a",
                              "a", ""};
    report.status->volumes = {replica};
    return report;
  }
  Outcome<void> carry_out(NodeSide side, const ReplicaOrder& order) {
    if (side == kB && b_away) return refuse(RefusalKind::not_current, "The partner cannot be reached.");
    const std::int64_t number = order.volume.copy(side).number;
    if (order.kind == Kind::leave) {
      orders.push_back("leave");
      a_state = "solo";
      b_state = "left";
    } else if (order.kind == Kind::create) {
      orders.push_back("create " + std::to_string(number));
      if (!fail_create.empty()) return refuse(RefusalKind::conflict, fail_create);
      EXPECT_EQ(order.birth.joins->member, kA);
      EXPECT_EQ(order.birth.joins->number, 7);
      EXPECT_FALSE(order.birth.clean);
      on_b.insert(number);
    } else if (order.kind == Kind::discard) {
      orders.push_back("discard " + std::to_string(number));
      for (const auto& v : core.configuration()->volumes)
        EXPECT_FALSE(v.copy(kB).number == number && !v.copy(kB).retired) << "it is in use";
      on_b.erase(number);
    }
    if (b_comes_back_after == order.kind) {
      b_comes_back_after.reset();
      a_state = b_state = "in_sync";
    }
    return {};
  }
};

class ReplaceJobsTest : public test::JobTest {
 protected:
  std::unique_ptr<Lockstepds> plane_;
  std::unique_ptr<ReplaceJobs> jobs_;

  void SetUp() override {
    open_core();
    make_pair([](Configuration& c) { c.volumes = {ready_volume()}; });
    plane_ = std::make_unique<Lockstepds>(*core_);
    start();
  }
  void start() {
    PairHands hands;
    hands.look = [this](NodeSide side) { return plane_->look(side); };
    hands.carry_out = [this](NodeSide side, const ReplicaOrder& order) { return plane_->carry_out(side, order); };
    hands.last_seen = [this](NodeSide side) {
      auto seen = plane_->look(side);
      return seen ? std::optional(*seen) : std::nullopt;
    };
    hands.change = [this](const std::string& summary, const Revisions::Edit& edit) {
      return core_->revisions.change(summary, edit, nullptr);
    };
    jobs_ = std::make_unique<ReplaceJobs>(*core_, *runner_, std::move(hands), [] {});
    jobs_->teach();
  }
  /// lockstep-mgmtd ends and is there again; both lockstepds run on.
  void restart() {
    Lockstepds before = *plane_;
    jobs_.reset();
    plane_.reset();
    open_core();
    plane_ = std::make_unique<Lockstepds>(*core_);
    plane_->a_state = before.a_state;
    plane_->b_state = before.b_state;
    plane_->new_state = before.new_state;
    plane_->on_b = before.on_b;
    plane_->orders = before.orders;
    start();
  }
  [[nodiscard]] Volume volume() const { return core_->configuration()->volumes.at(0); }
  [[nodiscard]] Outcome<Job> replace(const std::string& store = "", const std::string& confirm = "") {
    return jobs_->replace(volume().id, {.side = kB, .store = store, .confirm = confirm});
  }
  void turns(int n = 8) {
    for (int i = 0; i < n; ++i) runner_->turn();
  }
  void become_in_sync() { plane_->a_state = plane_->new_state = "in_sync"; }
};

TEST_F(ReplaceJobsTest, ALostCopyIsMadeBesideTheOldOneAndPutInItsPlace) {
  const auto begun = replace();
  ASSERT_TRUE(begun) << begun.error().detail;
  EXPECT_FALSE(replace()) << "a job is at work";
  turns();
  EXPECT_EQ(job(begun->id).step, "sync");
  EXPECT_EQ(volume().copy(kB), (Copy{2, "", false}));
  EXPECT_EQ(volume().copy(kA), Copy{});
  restart();  // the configuration keeps it
  EXPECT_EQ(volume().copy(kB), (Copy{2, "", false}));
  become_in_sync();
  turns();
  const Job done = job(begun->id);
  EXPECT_EQ(done.state, JobState::done) << done.message;
  EXPECT_EQ(plane_->orders, std::vector<std::string>{"create 2"}) << "a disk that failed is left alone";
  EXPECT_NE(done.message.find(volume().id.to_string() + ".data"), std::string::npos) << done.message;
}

TEST_F(ReplaceJobsTest, ACopyThatLockstepdDoesNotFindIsLost) {
  plane_->on_b.clear();
  const auto begun = replace("/srv/new/");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  become_in_sync();
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(volume().copy(kB), (Copy{2, "/srv/new", false}));
  EXPECT_EQ(replica_files("/v", volume().id, volume().copy(kB)).data,
            "/srv/new/" + volume().id.to_string() + ".2.data");
  EXPECT_EQ(replica_files("/v", volume().id, volume().copy(kA)).data, "/v/" + volume().id.to_string() + ".data");
}

TEST_F(ReplaceJobsTest, ACopyInSyncIsMovedWhenThatIsConfirmed) {
  plane_->a_state = plane_->b_state = "in_sync";
  EXPECT_EQ(replace("", "vm1").error().kind, RefusalKind::conflict) << "nowhere else is named";
  EXPECT_EQ(replace("/srv/new").error().kind, RefusalKind::confirmation_needed);
  EXPECT_EQ(replace("srv/new", "vm1").error().kind, RefusalKind::invalid);
  const auto begun = replace("/srv/new", "vm1");
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  become_in_sync();
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(plane_->orders, (std::vector<std::string>{"leave", "create 2", "discard 1"}));
}

TEST_F(ReplaceJobsTest, ACopyThatLeftAndCameBackWithItsLockstepdLeavesAgain) {
  std::int64_t number = 1;
  for (const Kind after : {Kind::leave, Kind::create}) {
    plane_->a_state = plane_->b_state = plane_->new_state = "in_sync";
    plane_->orders.clear();
    plane_->b_comes_back_after = after;
    const auto begun = replace("/srv/new" + std::to_string(number), "vm1");
    ASSERT_TRUE(begun) << begun.error().detail;
    turns();
    become_in_sync();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
    EXPECT_EQ(std::ranges::count(plane_->orders, "leave"), 2);
    EXPECT_EQ(volume().copy(kB).number, ++number);
  }
}

TEST_F(ReplaceJobsTest, TheJobGoesOnAfterARestartWhereverItStood) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const std::int64_t number = volume().copy(kB).number;
    plane_->a_state = "solo";
    plane_->b_state = plane_->new_state = "failed";
    plane_->on_b = {number};
    const auto begun = replace();
    ASSERT_TRUE(begun) << begun.error().detail;
    plane_->new_state = "syncing_target";
    plane_->b_away = true;
    turns(turns_before);
    plane_->b_away = turns_before % 2 == 0;
    turns(1);
    restart();
    turns();
    become_in_sync();
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::done) << turns_before << ": " << job(begun->id).message;
    EXPECT_EQ(volume().copy(kB).number, number + 1);
  }
}

TEST_F(ReplaceJobsTest, ACopyThatCannotBeMadeChangesNothing) {
  plane_->fail_create = "There is no space left.";
  const auto begun = replace();
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(job(begun->id).error->detail, "There is no space left.");
  EXPECT_EQ(volume().copy(kB), Copy{});
  EXPECT_TRUE(plane_->on_b.contains(1));
}

TEST_F(ReplaceJobsTest, ACopyThatLeftForAMoveThatFailsComesBack) {
  plane_->a_state = plane_->b_state = "in_sync";
  plane_->fail_create = "There is no space left.";
  const auto begun = replace("/srv/new", "vm1");
  const std::int64_t before = core_->revisions.state().head.n;
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(volume().copy(kB), Copy{});
  EXPECT_EQ(core_->revisions.state().head.n, before + 2) << "out of service, and in again: so it is attached anew";
}

/// It was seen alone when the copy was made; when the old one could change nothing any more, it was not.
TEST_F(ReplaceJobsTest, ASurvivorThatIsNotAloneWhenTheOldCopyIsOutKeepsTheOldOne) {
  patience_ = std::chrono::seconds(0);
  restart();
  const auto begun = replace();
  ASSERT_TRUE(begun) << begun.error().detail;
  core_->on_change([this] {
    if (volume().copy(kB).retired) plane_->a_state = "suspended";
  });
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(volume().copy(kB), Copy{});
  EXPECT_EQ(plane_->on_b, std::set<std::int64_t>{1}) << "the new one is removed";
}

TEST_F(ReplaceJobsTest, ItIsCancelledBeforeAndAfterTheNewCopyIsInPlace) {
  plane_->b_away = false;
  auto begun = replace();
  ASSERT_TRUE(cancel_job(*core_, begun->id));
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(volume().copy(kB), Copy{});
  EXPECT_EQ(plane_->on_b, std::set<std::int64_t>{1});
  begun = replace();
  turns();
  ASSERT_EQ(job(begun->id).step, "sync");
  ASSERT_TRUE(cancel_job(*core_, begun->id));
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed);
  EXPECT_EQ(volume().copy(kB).number, 2) << "it goes on by itself";
  EXPECT_EQ(plane_->on_b, (std::set<std::int64_t>{1, 2}));
}

TEST_F(ReplaceJobsTest, ANewDiskThatFailsIsNamedAndMayBeReplacedAgain) {
  const auto first = replace();
  turns();
  plane_->new_state = "failed";
  turns();
  EXPECT_EQ(job(first->id).state, JobState::failed);
  const auto second = replace("/srv/other");
  ASSERT_TRUE(second) << second.error().detail;
  plane_->new_state = "syncing_target";
  turns();
  become_in_sync();
  turns();
  EXPECT_EQ(job(second->id).state, JobState::done) << job(second->id).message;
  EXPECT_EQ(volume().copy(kB), (Copy{3, "/srv/other", false}));
}

TEST_F(ReplaceJobsTest, NothingIsReplacedThatMayBeTheOnlyWholeCopy) {
  struct Case {
    const char* a_state;
    const char* b_state;
    const char* says;
  };
  for (const Case& c :
       {Case{"suspended", "failed", "force-solo vm1 --node node-a"},
        Case{"waiting", "failed", "force-solo vm1 --node node-a"}, Case{"split_brain", "solo", "give-up"},
        Case{"solo", "split_brain", "give-up"}, Case{"in_sync", "failed", "still counts"},
        Case{"solo", "syncing_target", "being brought up to date"}, Case{"solo", "left", "out for maintenance"},
        Case{"in_sync", "in_sync", "in sync"}}) {
    plane_->a_state = c.a_state;
    plane_->b_state = c.b_state;
    const auto refused = replace();
    ASSERT_FALSE(refused) << c.a_state << ", " << c.b_state;
    EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
    EXPECT_NE(refused.error().detail.find(c.says), std::string::npos) << refused.error().detail;
  }
  EXPECT_TRUE(plane_->orders.empty());
}

/// The database that the job was in is lost, and the copy is out of service.
TEST_F(ReplaceJobsTest, ACopyThatALostJobLeftOutOfServiceIsReplaced) {
  const auto retired = core_->revisions.change(
      "A copy out of service",
      [](Configuration& c) -> Outcome<void> {
        c.volumes.front().copy(kB).retired = true;
        return {};
      },
      nullptr);
  ASSERT_TRUE(retired);
  const auto begun = replace();
  ASSERT_TRUE(begun) << begun.error().detail;
  turns();
  become_in_sync();
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::done) << job(begun->id).message;
  EXPECT_EQ(volume().copy(kB), (Copy{2, "", false}));
}

/// Nobody but the job takes the copy back, but an operator who forces it while the job's node is away.
TEST_F(ReplaceJobsTest, ACopyThatIsInServiceAgainIsNotReplacedByTheJob) {
  const auto begun = replace();
  ASSERT_TRUE(begun);
  Job at = job(begun->id);
  at.step = "publish";
  core_->jobs.put(at);
  plane_->on_b.insert(2);
  turns();
  EXPECT_EQ(job(begun->id).state, JobState::failed) << job(begun->id).step;
  EXPECT_EQ(volume().copy(kB), Copy{});
  EXPECT_EQ(plane_->on_b, std::set<std::int64_t>{1}) << "the new one is removed";
}

TEST_F(ReplaceJobsTest, AnotherJobThatBeginsWhileBothNodesAreAskedComesFirst) {
  for (const char* kind : {"volume.delete", kLeaveKind}) {
    Job other = make_job(*core_, kind, "begin", "");
    if (other.kind != kLeaveKind) other.volume = volume().id;
    plane_->while_asked = [&] { core_->jobs.put(other); };
    const auto refused = replace();
    ASSERT_FALSE(refused) << kind;
    EXPECT_EQ(refused.error().kind, RefusalKind::conflict) << refused.error().detail;
    finish(other, "");
    core_->jobs.put(other);
  }
  EXPECT_TRUE(replace());
}

/// Nobody else knows of the files: they would stay for ever.
TEST_F(ReplaceJobsTest, WhatWasMadeForAVolumeThatIsGoneIsRemovedOrNamed) {
  for (const bool b_away : {false, true}) {
    const auto begun = replace("/srv/new");
    ASSERT_TRUE(begun) << begun.error().detail;
    plane_->on_b.insert(2);
    if (b_away) {
      patience_ = std::chrono::seconds(0);
      restart();
    }
    plane_->b_away = b_away;
    const auto before = core_->configuration()->volumes;
    edit([](Configuration& c) { c.volumes.clear(); });
    turns();
    const Job ended = job(begun->id);
    EXPECT_EQ(ended.state, JobState::failed) << ended.message;
    EXPECT_EQ(plane_->on_b.contains(2), b_away);
    const bool named = ended.message.find(before.at(0).id.to_string() + ".2.data") != std::string::npos &&
                       ended.message.find("in /srv/new") != std::string::npos;
    EXPECT_EQ(named, b_away) << ended.message;
    edit([&](Configuration& c) { c.volumes = before; });
  }
}

/// It has left the pair, and takes with it only what the configuration names.
TEST_F(ReplaceJobsTest, WhatWasMadeOnANodeThatIsGoneIsNamed) {
  const auto begun = replace();
  ASSERT_TRUE(begun) << begun.error().detail;
  edit([](Configuration& c) { c.nodes.pop_back(); });
  turns();
  const Job ended = job(begun->id);
  EXPECT_EQ(ended.state, JobState::failed);
  EXPECT_NE(ended.message.find(volume().id.to_string() + ".2.data"), std::string::npos) << ended.message;
  EXPECT_TRUE(plane_->orders.empty());
}

/// The link is cut, and an operator has forced one of the two: each has what the other lacks.
TEST_F(ReplaceJobsTest, ACopyThatServesAloneIsNotReplaced) {
  plane_->a_state = plane_->b_state = "solo";
  for (const char* store : {"", "/srv/new"}) {
    const auto refused = replace(store, "vm1");
    ASSERT_FALSE(refused) << "what was written there would be lost";
    EXPECT_NE(refused.error().detail.find("volume give-up vm1"), std::string::npos) << refused.error().detail;
  }
}

/// It had left to be moved, when its node was cut off, and was forced.
TEST_F(ReplaceJobsTest, ACopyThatWasForcedOnTheWayStaysInService) {
  for (const char* step : {"make", "retire"}) {
    plane_->a_state = plane_->b_state = "in_sync";
    const auto begun = replace("/srv/new", "vm1");
    ASSERT_TRUE(begun) << begun.error().detail;
    Job at = job(begun->id);
    at.step = step;
    core_->jobs.put(at);
    const std::int64_t before = core_->revisions.state().head.n;
    plane_->a_state = plane_->b_state = "solo";
    turns();
    EXPECT_EQ(job(begun->id).state, JobState::failed) << step;
    EXPECT_NE(job(begun->id).message.find("volume give-up vm1"), std::string::npos) << job(begun->id).message;
    EXPECT_EQ(volume().copy(kB), Copy{});
    EXPECT_EQ(core_->revisions.state().head.n, before) << "it was out of service for a moment";
    EXPECT_TRUE(plane_->on_b.contains(1));
  }
}

TEST(ReplaceVerdict, WhoIsNoMemberIsNoSurvivor) {
  const Node a{random_uuid(), kA, "node-a", {}, "", "", ""}, b{random_uuid(), kB, "node-b", {}, "", "", ""};
  Volume v;
  v.id = random_uuid();
  v.name = "vm1";
  v.lifecycle = Lifecycle::ready;
  const auto seen = [&](const Node& node, const char* state) {
    CopyView view{&node, {}};
    view.report.running = true;
    view.report.status = DataPlaneStatus{};
    ReplicaStatus replica;
    replica.volume = v.id;
    replica.state = state;
    replica.serving = true;
    replica.epoch = EpochView{3, random_uuid().to_string(), "b", "b", ""};
    view.report.status->volumes = {replica};
    return view;
  };
  for (const char* state : {"syncing_target", "failed"}) {
    const auto plan = plan_replacement(seen(b, "syncing_source"), seen(a, state), v, true);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().detail.find("the only whole one"), std::string::npos) << plan.error().detail;
  }
}

TEST_F(ReplaceJobsTest, AReplacementIsNotBegunWhileTheNodesAgreeOnTheConfiguration) {
  ASSERT_TRUE(core_->revisions.force(kA, "Alone"));
  const auto refused = replace();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_NE(refused.error().detail.find("agreeing on the configuration"), std::string::npos) << refused.error().detail;
}

}  // namespace
}  // namespace lockstep::mgmt
