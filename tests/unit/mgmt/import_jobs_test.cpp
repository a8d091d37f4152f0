// Imports of another array's units: begun, cancelled, and what the volume is meanwhile.
#include "mgmt/control/import_jobs.hpp"

#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/foreign_array.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

// Nobody listens at port 1.
ImportWish from_nowhere() {
  return {.source = *parse_import_source("iscsi://mover%hidden@127.0.0.1:1/iqn.2005-10.org.example:d/0"),
          .initiator = "iqn.2026-11.io.lockstep:import",
          .volume = {.name = "moved", .access = {}}};
}

class ImportJobsTest : public ManagementTest {
 protected:
  /// Of a source that was looked at already; `volume` says what else is asked of the new one.
  Job import_of_a_mebibyte(const nlohmann::json& volume = nlohmann::json::object()) {
    Job job = make_job(*node_->core, kImportKind, "name", "");
    auto p = nlohmann::json::parse(import_parameters(from_nowhere()));
    p["size"] = p["source_size"] = 1 << 20;
    p["block_size"] = 512;
    p["volume"].update(volume);
    job.parameters = p.dump();
    return job;
  }
};

TEST_F(ImportJobsTest, AnImportFromNowhereFailsWithASentenceAndForgetsTheSecret) {
  const auto job = node_->volumes.import(from_nowhere());
  ASSERT_TRUE(job) << job.error().detail;
  for (int i = 0; i < 100 && !node_->job(job->id).finished(); ++i) node_->turns(1);
  const Job ended = node_->job(job->id);
  ASSERT_EQ(ended.state, JobState::failed);
  EXPECT_NE(ended.error->detail.find("can't be reached at 127.0.0.1:1"), std::string::npos) << ended.error->detail;
  EXPECT_EQ(ended.parameters.find("hidden"), std::string::npos);
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
}

TEST_F(ImportJobsTest, AnImportThatWasCancelledTakesBackTheVolumeItMade) {
  const Job job = import_of_a_mebibyte();
  node_->core->jobs.put(job);
  node_->turns(2);
  ASSERT_EQ(node_->core->configuration()->volumes.size(), 1u);
  EXPECT_FALSE(node_->core->configuration()->volumes[0].import_secret.empty());
  ASSERT_TRUE(cancel_job(*node_->core, job.id));
  node_->turns();
  EXPECT_EQ(node_->job(job.id).state, JobState::failed);
  EXPECT_NE(node_->job(job.id).error->detail.find("cancelled"), std::string::npos);
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
  EXPECT_TRUE(plane_.replicas.empty());
  EXPECT_FALSE(cancel_job(*node_->core, job.id));
}

TEST_F(ImportJobsTest, AnImportThatHadToWaitGoesOnToCopyAtTheNodesOwnPortal) {
  Job job = import_of_a_mebibyte();
  job.created_ms = 1;
  node_->core->jobs.put(job);
  node_->turns();
  EXPECT_EQ(node_->job(job.id).step, "copy") << node_->job(job.id).message;
  ASSERT_TRUE(cancel_job(*node_->core, job.id));
}

TEST_F(ImportJobsTest, NoneIsBegunByANodeThatHasChangedTheConfigurationAlone) {
  Revisions& revisions = node_->core->revisions;
  const auto joined = [](Configuration& c) -> Outcome<void> {
    Node second;
    second.id = random_uuid();
    second.side = NodeSide::b;
    second.name = "node-b";
    c.nodes.push_back(second);
    return {};
  };
  ASSERT_TRUE(revisions.change("A second node", joined, nullptr));
  ASSERT_TRUE(revisions.force(NodeSide::a, "Alone"));
  const auto refused = node_->volumes.import(from_nowhere());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::not_current);
  EXPECT_NE(refused.error().detail.find("imported by both nodes"), std::string::npos) << refused.error().detail;
}

TEST_F(ImportJobsTest, AnImportWhoseSourceHasBecomeAnotherUnitTakesBackTheVolumeItMade) {
  using test::ForeignArray;
  ForeignArray array({.bytes = ForeignArray::Bytes(1 << 20), .serial = "ABC1"});
  ImportWish wish = from_nowhere();
  wish.source = *parse_import_source(fmt::format("iscsi://127.0.0.1:{}/iqn.2005-10.org.example:array/0", array.port()));
  const auto job = node_->volumes.import(wish);
  ASSERT_TRUE(job) << job.error().detail;
  for (int i = 0; i < 100 && node_->job(job->id).step == "probe"; ++i) node_->turns(1);
  ASSERT_FALSE(node_->job(job->id).finished()) << node_->job(job->id).message;
  array.set({.bytes = ForeignArray::Bytes(1 << 20), .serial = "ABC2"});
  for (int i = 0; i < 1000 && !node_->job(job->id).finished(); ++i) {
    node_->turns(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Job ended = node_->job(job->id);
  ASSERT_EQ(ended.state, JobState::failed);
  EXPECT_NE(ended.error->detail.find("another unit now (serial ABC2)"), std::string::npos) << ended.error->detail;
  EXPECT_TRUE(node_->core->configuration()->volumes.empty());
}

TEST_F(ImportJobsTest, NothingIsCopiedOverAVolumeThatIsInServiceNorIsItTakenBack) {
  for (const bool cancelled : {false, true}) {
    const Job job = import_of_a_mebibyte({{"name", cancelled ? "cancelled" : "copied"}});
    node_->core->jobs.put(job);
    node_->turns();
    ASSERT_EQ(node_->job(job.id).step, "copy") << node_->job(job.id).message;
    const Uuid volume = *node_->job(job.id).volume;
    ASSERT_TRUE(node_->core->change("Volume imported", [&](Configuration& c) -> Outcome<void> {
      c.volume(volume)->import_secret.clear();
      return {};
    }));
    if (cancelled) {
      ASSERT_TRUE(cancel_job(*node_->core, job.id));
    }
    restart();
    node_->turns();
    EXPECT_EQ(node_->job(job.id).state, JobState::failed);
    EXPECT_NE(node_->job(job.id).message.find("in service"), std::string::npos) << node_->job(job.id).message;
    ASSERT_NE(node_->core->configuration()->volume(volume), nullptr);
    EXPECT_EQ(node_->core->configuration()->volume(volume)->lifecycle, Lifecycle::ready);
  }
}

TEST_F(ImportJobsTest, AnImportMakesItsVolumeEncryptedIfThatWasAskedFor) {
  for (const bool asked : {true, false}) {
    ImportWish wish = from_nowhere();
    wish.volume.name = asked ? "secret" : "plain";
    wish.volume.encrypted = asked;
    Job job = make_job(*node_->core, kImportKind, "name", "");
    auto p = nlohmann::json::parse(import_parameters(wish));
    p["size"] = 1 << 20;
    p["block_size"] = 512;
    if (!asked) p["volume"].erase("encrypted");  // as it was begun by an older program
    job.parameters = p.dump();
    node_->runner.submit(job);
    node_->turns(3);
    const Volume* volume = node_->core->configuration()->volume(*node_->job(job.id).volume);
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(volume->encrypted, asked);
    EXPECT_EQ(plane_.created.value("encrypted", false), asked);
  }
}

TEST_F(ImportJobsTest, WhileAVolumeIsImportedOnlyThisNodeMayUseIt) {
  const Job job = import_of_a_mebibyte({{"read_only", true}});
  node_->core->jobs.put(job);
  node_->turns(3);
  const Volume volume = node_->core->configuration()->volumes.at(0);
  const auto& wanted = plane_.applied["volumes"].at(0);
  ASSERT_EQ(wanted["access"].size(), 1u);
  EXPECT_EQ(wanted["access"][0]["initiator"], importer_of(volume).initiator);
  EXPECT_EQ(wanted["access"][0]["chap_secret"], volume.import_secret);
  EXPECT_EQ(wanted["read_only"], false) << "not before it is filled";
}

}  // namespace
}  // namespace lockstep::mgmt
