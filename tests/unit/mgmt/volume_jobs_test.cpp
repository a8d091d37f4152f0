// Volumes of a pair that has one node so far: made, deleted, taken back, and gone on with after a restart.
#include "mgmt/control/volume_jobs.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/configuration_witness_node.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"
#include "tests/unit/mgmt/ready_volume.hpp"

namespace lockstep::mgmt {
namespace {

class VolumeJobsTest : public ManagementTest {};

TEST_F(VolumeJobsTest, AVolumeIsInServiceWhenItsJobIsDone) {
  const Job job = make_volume();
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::creating);
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::done);
  EXPECT_EQ(node_->job(job.id).progress, 1);
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::ready);
  EXPECT_EQ(plane_.applied["volumes"].size(), 1u);
  EXPECT_EQ(plane_.replicas.size(), 1u);
}

TEST_F(VolumeJobsTest, AnEncryptedVolumeIsMadeAndServedAsSuchAndAnotherIsNot) {
  make_volume("plain");
  node_->turns();
  EXPECT_FALSE(plane_.created.contains("encrypted"));
  const auto job = node_->volumes.create(
      {.name = "secret", .size = 1 << 30, .encrypted = true, .any_initiator = true, .access = {}});
  ASSERT_TRUE(job) << job.error().detail;
  node_->turns();
  EXPECT_EQ(plane_.created["name"], "secret");
  EXPECT_EQ(plane_.created["encrypted"], true);
  for (const auto& wanted : plane_.applied["volumes"])
    EXPECT_EQ(wanted.value("encrypted", false), wanted["name"] == "secret") << wanted;
  restart();  // it is kept
  EXPECT_TRUE(node_->core->configuration()->volume(*job->volume)->encrypted);
}

TEST_F(VolumeJobsTest, AVolumeGrowsWhenThereIsRoomAndNeverShrinks) {
  make_volume();
  node_->turns();
  const Uuid id = node_->core->configuration()->volumes.at(0).id;
  const std::int64_t size = std::int64_t{2} << 30;
  for (const std::int64_t wrong : {std::int64_t{1} << 29, std::int64_t{1} << 30, size + 512}) {
    const auto refused = node_->volumes.grow(id, wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, RefusalKind::invalid);
    EXPECT_EQ(refused.error().fields.at(0).pointer, "/size_bytes");
  }
  const auto job = node_->volumes.grow(id, size);
  ASSERT_TRUE(job) << job.error().detail;
  EXPECT_FALSE(node_->volumes.grow(id, size)) << "while a job is at work";
  node_->turns();
  EXPECT_EQ(node_->job(job->id).state, JobState::done) << node_->job(job->id).message;
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).size, size);
  EXPECT_EQ(plane_.count("replica.grow"), 1);
  EXPECT_EQ(plane_.applied["volumes"][0]["size"], size);
}

TEST_F(VolumeJobsTest, AVolumeThatThereIsNoRoomForStaysAsItWasAndTheReasonIsSaid) {
  make_volume();
  node_->turns();
  const Volume before = node_->core->configuration()->volumes.at(0);
  plane_.fail["replica.grow"] = "The disk is full.";
  const auto job = node_->volumes.grow(before.id, before.size * 2);
  ASSERT_TRUE(job);
  node_->turns();
  EXPECT_EQ(node_->job(job->id).state, JobState::failed);
  EXPECT_EQ(node_->job(job->id).error->detail, "vm1 can't grow: The disk is full. Its size is as it was.");
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).size, before.size);
  EXPECT_EQ(plane_.applied["volumes"][0]["size"], before.size);
}

TEST_F(VolumeJobsTest, AReplicaThatCannotBeMadeLeavesNothingBehindAndSaysWhy) {
  plane_.fail["replica.create"] = "The disk is full.";
  const Job job = make_volume();
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
  EXPECT_EQ(node_->job(job.id).error->detail, "The disk is full.");
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
  EXPECT_TRUE(plane_.replicas.empty());
}

TEST_F(VolumeJobsTest, AVolumeThatDoesNotComeIntoServiceInTimeStaysAndTheReasonIsSaid) {
  plane_.problem = "The metadata is damaged.";
  const Job job = make_volume();
  node_->turns(3);
  ASSERT_EQ(node_->job(job.id).step, "sync");
  patience_ = std::chrono::seconds(0);
  restart();
  plane_.restart("p2");
  node_->turns(1);
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
  EXPECT_NE(node_->job(job.id).error->detail.find("The metadata is damaged."), std::string::npos)
      << node_->job(job.id).error->detail;
  plane_.problem.clear();
  node_->turns();
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::ready);
  EXPECT_EQ(plane_.replicas.size(), 1u);
}

TEST_F(VolumeJobsTest, AVolumeThatHostsMayHaveWrittenToIsNotTakenBackAfterARestart) {
  plane_.problem = "Not yet.";
  const Job job = make_volume();
  node_->turns(3);
  ASSERT_EQ(node_->job(job.id).step, "sync");
  patience_ = std::chrono::seconds(0);
  restart();
  plane_.problem.clear();
  node_->runner.turn();  // before anybody has asked lockstepd
  node_->turns();
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::ready);
  EXPECT_EQ(plane_.replicas.size(), 1u);
}

TEST_F(VolumeJobsTest, AJobThatFailsWhileItPublishesDoesNotTakeBackWhatIsInService) {
  const Job made = make_volume();
  node_->turns();
  Job job = make_job(*node_->core, "volume.create", "undo", "");
  job.volume = made.volume;
  job.error = Refusal{RefusalKind::conflict, "Somehow.", {}};
  node_->core->jobs.put(job);
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::ready);
  EXPECT_EQ(plane_.replicas.size(), 1u);
}

TEST_F(VolumeJobsTest, ADeletionThatWasNeverDecidedLeavesTheVolumeAlone) {
  const Job made = make_volume();
  node_->turns();
  Job job = make_job(*node_->core, "volume.delete", "begin", "");
  job.volume = made.volume;
  job.created_ms = 1;
  node_->core->jobs.put(job);
  plane_.away = true;
  node_->turns(1);
  plane_.away = false;
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
  EXPECT_NE(node_->job(job.id).message.find("nothing was changed"), std::string::npos) << node_->job(job.id).message;
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::ready);
  EXPECT_EQ(plane_.replicas.size(), 1u);
}

TEST_F(VolumeJobsTest, ADeletionThatWasNeverDecidedEndsThoughTheClockWasSetBack) {
  const Job made = make_volume();
  node_->turns();
  Job job = make_job(*node_->core, "volume.delete", "begin", "");
  job.volume = made.volume;
  job.created_ms += 3'600'000;
  node_->core->jobs.put(job);
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
}

TEST_F(VolumeJobsTest, ACreationThatWaitsIsTakenBackThoughTheClockWasSetBack) {
  const Job made = make_volume();
  ASSERT_TRUE(node_->core->change("The clock was ahead", [](Configuration& c) -> Outcome<void> {
    c.volumes.front().created_ms += 3'600'000;
    return {};
  }));
  plane_.away = true;
  node_->turns();
  EXPECT_TRUE(node_->job(made.id).error) << "it is being taken back: " << node_->job(made.id).message;
}

TEST_F(VolumeJobsTest, WorkThatBeganAloneBeforeTheClockWasSetBackKeepsTheTwoNodesApartNoLonger) {
  Job job = make_job(*node_->core, "volume.create", "publish", "");
  job.parameters = R"({"alone": true})";
  node_->core->jobs.put(job);
  NodeWitnessSurroundings surroundings(*node_->core, plane_);
  EXPECT_TRUE(surroundings.is_at_work_alone());
  job.created_ms += 3'600'000;
  node_->core->jobs.put(job);
  EXPECT_FALSE(surroundings.is_at_work_alone());
}

TEST_F(VolumeJobsTest, AnotherFolderIsNotTakenForTheOneThatTheVolumesAreIn) {
  const Job made = make_volume();
  node_->turns();
  LocalSettings local = node_->core->local;
  node_.reset();
  const auto before = replica_files(local.volume_folder, *made.volume).metadata;
  std::ofstream(before) << "metadata";
  local.volume_folder = folder_.path() / "elsewhere";
  const auto refused = NodeCore::open(local);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("vm1"), std::string::npos) << refused.error().message;
  std::filesystem::rename(before, replica_files(local.volume_folder, *made.volume).metadata);
  EXPECT_TRUE(NodeCore::open(local)) << "they were moved";
}

TEST_F(VolumeJobsTest, AFolderWhoseDiskIsAwayLeavesTheNodeManaged) {
  LocalSettings local = node_->core->local;
  node_.reset();
  std::ofstream(folder_.path() / "away") << "in the place of a mount point";
  local.volume_folder = local.copy_folder = folder_.path() / "away" / "volumes";
  EXPECT_TRUE(NodeCore::open(local));
}

TEST_F(VolumeJobsTest, ALunIsNotGivenAgainBeforeAllOthersWere) {
  for (std::int64_t lun = 0; lun < static_cast<std::int64_t>(kMaxVolumes) + 2; ++lun) {
    const Job made = make_volume();
    node_->turns();
    const Volume volume = node_->core->configuration()->volumes.at(0);
    EXPECT_EQ(volume.lun, lun % static_cast<std::int64_t>(kMaxVolumes));
    ASSERT_TRUE(node_->volumes.remove(volume.id, "vm1"));
    node_->turns();
    if (lun == 3) restart();  // it is kept
  }
}

TEST_F(VolumeJobsTest, ThePartnerIsToldOfAJobUntilItKnows) {
  bool away = true;
  std::vector<Job> told;
  const auto tell = [&](const Job& job) {
    if (!away) told.push_back(job);
    return !away;
  };
  Job job = make_job(*node_->core, "volume.create", "done", "");
  {
    JobRunner runner(*node_->core, tell);
    runner.submit(job);
    finish(job, "Done.");
    node_->core->jobs.put(job);
  }  // restarted with the last word unsaid
  JobRunner runner(*node_->core, tell);
  away = false;
  runner.tell_turn();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].id, job.id);
  EXPECT_EQ(told[0].state, JobState::done);
  runner.tell_turn();
  EXPECT_EQ(told.size(), 1u) << "once is enough";
}

TEST_F(VolumeJobsTest, LockstepdAwayIsWaitedForAndTheJobSaysSo) {
  plane_.away = true;
  const Job job = make_volume();
  node_->turns(2);
  EXPECT_EQ(node_->job(job.id).state, JobState::running);
  EXPECT_EQ(node_->job(job.id).message, "lockstepd does not answer.");
  plane_.away = false;
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::done);
}

TEST_F(VolumeJobsTest, AJobGoesOnAfterARestartWhereverItStood) {
  // One turn of the runner more each time before the restart, until the job is done before it.
  for (int turns = 0; turns < 5; ++turns) {
    const Job job = make_volume(("vm" + std::to_string(turns)).c_str());
    for (int i = 0; i < turns; ++i) node_->runner.turn();
    restart();
    node_->turns();
    EXPECT_EQ(node_->job(job.id).state, JobState::done) << "restarted after " << turns << " turns";
  }
  EXPECT_EQ(plane_.replicas.size(), 5u);
}

TEST_F(VolumeJobsTest, DeletingRemovesTheReplicaOnlyWhenItIsOutOfService) {
  make_volume();
  node_->turns();
  const Uuid id = node_->core->configuration()->volumes.at(0).id;
  const auto job = node_->volumes.remove(id, "vm1");
  ASSERT_TRUE(job);
  node_->runner.turn();  // lockstepd has not been told yet
  EXPECT_EQ(plane_.replicas.size(), 1u);
  node_->turns();
  EXPECT_EQ(node_->job(job->id).state, JobState::done);
  EXPECT_TRUE(plane_.replicas.empty());
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
}

TEST_F(VolumeJobsTest, AReplicaThatCannotBeRemovedLeavesAVolumeThatCanBeDeletedAgain) {
  make_volume();
  node_->turns();
  const Uuid id = node_->core->configuration()->volumes.at(0).id;
  plane_.fail["replica.delete"] = "Read-only file system.";
  const auto first = node_->volumes.remove(id, "vm1");
  node_->turns();
  EXPECT_EQ(node_->job(first->id).state, JobState::failed);
  EXPECT_NE(node_->job(first->id).error->detail.find("Read-only file system."), std::string::npos);
  EXPECT_EQ(node_->core->configuration()->volumes.at(0).lifecycle, Lifecycle::deleting);
  plane_.fail.clear();
  const auto second = node_->volumes.remove(id, "vm1");
  ASSERT_TRUE(second);
  node_->turns();
  EXPECT_EQ(node_->job(second->id).state, JobState::done);
}

TEST_F(VolumeJobsTest, DeletingNeedsTheVolumesName) {
  make_volume();
  node_->turns();
  const Uuid id = node_->core->configuration()->volumes.at(0).id;
  for (const std::optional<std::string>& confirm : {std::optional<std::string>(), std::optional<std::string>("vm2")}) {
    const auto refused = node_->volumes.remove(id, confirm);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, RefusalKind::confirmation_needed);
  }
  EXPECT_TRUE(node_->core->jobs.unfinished().empty());
}

TEST_F(VolumeJobsTest, AVolumeUnderAJobIsNotDeleted) {
  const Job job = make_volume();
  const auto refused = node_->volumes.remove(*job.volume, "vm1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
}

TEST_F(VolumeJobsTest, NamesAndLunsAreUnique) {
  make_volume("vm1");
  const auto refused = node_->volumes.create({.name = "vm1", .size = 1 << 30, .access = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_EQ(refused.error().fields.at(0).pointer, "/name");
  make_volume("vm2");
  EXPECT_EQ(node_->core->configuration()->volumes.at(1).lun, 1);
  EXPECT_EQ(node_->core->jobs.unfinished().size(), 2u);
}

TEST_F(VolumeJobsTest, AnAccessListNamesKnownInitiatorsOnly) {
  const auto refused =
      node_->volumes.create({.name = "vm1", .size = 1 << 30, .access = {"iqn.2000-01.com.example:h1", "x"}});
  ASSERT_FALSE(refused);
  ASSERT_EQ(refused.error().fields.size(), 2u);
  EXPECT_EQ(refused.error().fields[0].pointer, "/access/0");
  EXPECT_EQ(refused.error().fields[1].pointer, "/access/1");
}

TEST_F(VolumeJobsTest, ForcingNeedsTheVolumesNameAndReachesLockstepd) {
  const Job made = make_volume();
  node_->turns();
  VolumeActionWish wish{.kind = ReplicaOrder::Kind::force_solo, .side = NodeSide::a, .confirm = ""};
  const auto refused = node_->volumes.act(*made.volume, wish);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::confirmation_needed);
  wish.confirm = "vm1";
  const auto job = node_->volumes.act(*made.volume, wish);
  ASSERT_TRUE(job);
  node_->turns(1);
  EXPECT_EQ(node_->job(job->id).state, JobState::done);
  EXPECT_EQ(plane_.count("volume.force_solo"), 1);
}

/// It waited, for a disk or for other jobs, and the partner came back and went on meanwhile.
TEST_F(VolumeJobsTest, AForceIsNotCarriedOutBesideAPartnerThatServesByThen) {
  const Job made = make_volume();
  node_->turns();
  for (const bool despite : {false, true}) {
    node_->unserved = {};
    const auto asked = node_->volumes.act(
        *made.volume,
        {.kind = ReplicaOrder::Kind::force_solo, .side = NodeSide::a, .despite_partner = despite, .confirm = "vm1"});
    ASSERT_TRUE(asked);
    node_->unserved = refuse(RefusalKind::conflict, "node-b serves it.");
    node_->turns();
    const Job ended = node_->job(asked->id);
    EXPECT_EQ(ended.state, despite ? JobState::done : JobState::failed) << ended.message;
    EXPECT_EQ(plane_.count("volume.force_solo"), despite ? 1 : 0);
    EXPECT_EQ(ended.message == "node-b serves it.", !despite) << ended.message;
  }
}

/// The machine was off since then, or its database was set back: what was true when it was asked for may not be now.
/// Or the clock was set back, and says that it is yet to come.
TEST_F(VolumeJobsTest, AForceThatWasCutOffLongAgoIsNotCarriedOut) {
  const Job made = make_volume();
  node_->turns();
  using enum ReplicaOrder::Kind;
  for (const auto& [kind, age_ms] : std::vector<std::pair<ReplicaOrder::Kind, std::int64_t>>{
           {force_solo, 3'600'000}, {give_up, 3'600'000}, {force_solo, -3'600'000}}) {
    const auto asked = node_->volumes.act(*made.volume, {.kind = kind, .side = NodeSide::a, .confirm = "vm1"});
    ASSERT_TRUE(asked);
    Job late = *asked;
    late.created_ms -= age_ms;
    node_->core->jobs.put(late);
    restart();
    node_->turns();
    EXPECT_EQ(node_->job(late.id).state, JobState::failed);
    EXPECT_NE(node_->job(late.id).message.find("not repeated"), std::string::npos) << node_->job(late.id).message;
  }
  EXPECT_EQ(plane_.count("volume.force_solo"), 0);
  EXPECT_EQ(plane_.count("volume.give_up"), 0);
}

/// The other node told of its job, and was lost for good before it told of its end.
TEST_F(VolumeJobsTest, AJobOfANodeThatIsOutOfThePairHoldsNothingUp) {
  const Job made = make_volume();
  node_->turns();
  Job of_the_lost = made;  // as it was begun
  of_the_lost.id = random_uuid();
  of_the_lost.runner = random_uuid();
  of_the_lost.kind = "volume.grow";
  of_the_lost.step = "publish";
  node_->core->jobs.put_from_partner(of_the_lost);
  EXPECT_FALSE(node_->volumes.grow(*made.volume, std::int64_t{2} << 30)) << "it may be at work on it";
  node_->turns(1);
  EXPECT_EQ(node_->job(of_the_lost.id).state, JobState::failed);
  EXPECT_NE(node_->job(of_the_lost.id).message.find("not in the pair"), std::string::npos);
  const auto grown = node_->volumes.grow(*made.volume, std::int64_t{2} << 30);
  EXPECT_TRUE(grown) << grown.error().detail;
}

/// A job of the other node, which is lost, had it out of service.
TEST_F(VolumeJobsTest, ForcingReachesACopyThatALostJobLeftOutOfService) {
  const Job made = make_volume();
  node_->turns();
  const auto retired = node_->core->revisions.change(
      "A copy out of service",
      [](Configuration& c) -> Outcome<void> {
        c.volumes.front().copy(NodeSide::a).retired = true;
        return {};
      },
      nullptr);
  ASSERT_TRUE(retired);
  node_->turns(1);
  ASSERT_TRUE(plane_.applied["volumes"].empty());
  const auto job =
      node_->volumes.act(*made.volume, {.kind = ReplicaOrder::Kind::force_solo, .side = NodeSide::a, .confirm = "vm1"});
  ASSERT_TRUE(job);
  node_->runner.turn();
  EXPECT_EQ(plane_.count("volume.force_solo"), 0) << "lockstepd has not been told yet";
  node_->turns(2);
  EXPECT_EQ(node_->job(job->id).state, JobState::done) << node_->job(job->id).message;
  EXPECT_FALSE(node_->core->configuration()->volumes.front().copy(NodeSide::a).retired);
  EXPECT_EQ(plane_.applied["volumes"].size(), 1U);
  EXPECT_EQ(plane_.count("volume.force_solo"), 1);
}

/// As `pair leave --lost` leaves one that only the lost node had.
TEST_F(ManagementTest, AVolumeThatIsToBeDeletedAndHasNoCopyHereGoes) {
  const auto lost = [](Configuration& c) -> Outcome<void> {
    Volume v = ready_volume();
    v.lifecycle = Lifecycle::deleting;
    v.copy(NodeSide::a) = {.number = 1, .folder = "", .retired = true, .unmade = true};
    c.volumes.push_back(v);
    return {};
  };
  ASSERT_TRUE(node_->core->change("A node left", lost));
  node_->pair.begin_deleting_cut_off_volumes();
  node_->turns();
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
}

}  // namespace
}  // namespace lockstep::mgmt
