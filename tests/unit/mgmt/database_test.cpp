// The database: made, migrated, refused; and what is kept in it.
#include "mgmt/control/database.hpp"

#include <fstream>

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "mgmt/control/event_log.hpp"
#include "mgmt/control/job.hpp"
#include "mgmt/control/migrations.hpp"
#include "mgmt/control/node_settings.hpp"
#include "mgmt/control/peer.hpp"
#include "mgmt/control/revision_tables.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

class DatabaseTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "mgmt.db";

  std::unique_ptr<Database> open() {
    auto database = Database::open(path_);
    EXPECT_TRUE(database) << database.error().message;
    return database ? std::move(*database) : nullptr;
  }
  int pragma(Database& database, const char* name) {
    int value = -1;
    database.use([&](SQLite::Database& db) { value = db.execAndGet(std::string("PRAGMA ") + name).getInt(); });
    return value;
  }
};

TEST_F(DatabaseTest, ANewOneHasTheNewestSchemaAndIsDurableAndPrivate) {
  const auto database = open();
  EXPECT_EQ(pragma(*database, "user_version"), static_cast<int>(migrations().size()));
  EXPECT_EQ(pragma(*database, "synchronous"), 2);
  EXPECT_EQ(pragma(*database, "foreign_keys"), 1);
  database->use([](SQLite::Database& db) { EXPECT_EQ(db.execAndGet("PRAGMA journal_mode").getString(), "wal"); });
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((path_.string() + "-wal").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(DatabaseTest, OpeningAgainKeepsWhatIsThere) {
  { NodeSettings(*open()).set("x", "1"); }
  EXPECT_EQ(NodeSettings(*open()).get("x"), "1");
}

TEST_F(DatabaseTest, VolumesFromBeforeThereWasEncryptionAreNotEncryptedAndOtherwiseAsTheyWere) {
  int application = 0;
  open()->use([&](SQLite::Database& db) { application = db.execAndGet("PRAGMA application_id").getInt(); });
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_.string() + suffix);
  const Volume before{.id = random_uuid(),
                      .name = "vm1",
                      .serial = "s1",
                      .lun = 7,
                      .size = 1 << 20,
                      .removable = true,
                      .write_cache = true,
                      .lifecycle = Lifecycle::ready,
                      .first_epoch = random_uuid(),
                      .any_initiator = true,
                      .access = {},
                      .import_secret = "",
                      .created_ms = 3};
  {
    SQLite::Database old(path_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    for (std::size_t version = 0; version < 2; ++version) old.exec(std::string(migrations()[version]));
    old.exec("PRAGMA application_id = " + std::to_string(application));
    old.exec("PRAGMA user_version = 2");
    SQLite::Statement q(old,
                        "INSERT INTO volumes (id, name, serial, lun, size, block_size, thin, lifecycle, first_epoch, "
                        "created_ms, removable, write_cache) VALUES (?, 'vm1', 's1', 7, 1048576, 512, 1, 'ready', ?, "
                        "3, 1, 1)");
    q.bind(1, before.id.to_string());
    q.bind(2, before.first_epoch.to_string());
    q.exec();
  }
  const auto database = open();
  EXPECT_EQ(pragma(*database, "user_version"), static_cast<int>(migrations().size()));
  RevisionTables tables(*database);
  ASSERT_EQ(tables.configuration().volumes.size(), 1u);
  const ConfigurationEpoch epoch = tables.epoch();
  EXPECT_TRUE(epoch.id == tables.head().epoch && epoch.number == 1 && epoch.members.is_both());
  EXPECT_EQ(tables.configuration().volumes[0], before);
  EXPECT_FALSE(before.encrypted);
  database->use([](SQLite::Database& db) { EXPECT_ANY_THROW(db.exec("UPDATE volumes SET encrypted = 2")); });
}

TEST_F(DatabaseTest, OneOfANewerVersionIsRefusedByNameAndLeftAlone) {
  open()->use([](SQLite::Database& db) { db.exec("PRAGMA user_version = 99"); });
  const auto refused = Database::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, engine::Errc::wrong_version);
  EXPECT_NE(refused.error().message.find("version 99"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("newer lockstep-mgmtd"), std::string::npos);
  SQLite::Database raw(path_.string());
  EXPECT_EQ(raw.execAndGet("PRAGMA user_version").getInt(), 99);
}

TEST_F(DatabaseTest, AnotherProgramsDatabaseIsRefusedAndLeftAlone) {
  { SQLite::Database(path_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE x (y)"); }
  const auto refused = Database::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, engine::Errc::foreign);
}

TEST_F(DatabaseTest, AFileThatIsNoDatabaseIsRefusedWithWhatToDo) {
  std::ofstream(path_) << std::string(8192, 'x');
  const auto refused = Database::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, engine::Errc::corrupt);
  for (const char* command : {"lockstep node replace", "lockstep pair join", "lockstep pair recover"})
    EXPECT_NE(refused.error().message.find(command), std::string::npos) << refused.error().message;
}

TEST_F(DatabaseTest, ADamagedPageIsFoundAtStart) {
  {
    const auto database = open();
    EventLog log(*database);
    for (int i = 0; i < 2000; ++i)
      log.append({.at_ms = 1, .kind = "x", .side = {}, .volume = {}, .message = std::string(100, 'm')});
    database->use([](SQLite::Database& db) { db.exec("PRAGMA wal_checkpoint(TRUNCATE)"); });
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(path_);
    file.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
    file << std::string(4096, '\xff');
  }
  const auto refused = Database::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, engine::Errc::corrupt);
}

TEST_F(DatabaseTest, AFolderThatIsNotThereIsAnErrorThatNamesTheFile) {
  const auto refused = Database::open(folder_.path() / "none" / "mgmt.db");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("none/mgmt.db"), std::string::npos);
}

TEST_F(DatabaseTest, ATransactionThatThrowsChangesNothing) {
  const auto database = open();
  NodeSettings settings(*database);
  EXPECT_THROW(database->transact([&](SQLite::Database&) {
    settings.set("x", "1");
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_FALSE(settings.get("x"));
  settings.set("x", "2");
  EXPECT_EQ(settings.get("x"), "2");
}

void append(EventLog& log, const std::string& kind, const std::string& message) {
  log.append({.at_ms = 1, .kind = kind, .side = {}, .volume = {}, .message = message});
}

TEST_F(DatabaseTest, EventsBeyondTheBoundPushTheOldestOut) {
  const auto database = open();
  EventLog log(*database);
  database->transact([&](SQLite::Database&) {  // one transaction: ten thousand flushes would take their time
    for (int i = 0; i < kMaxEvents + 10; ++i) append(log, "kind" + std::to_string(i % 10), std::to_string(i));
  });
  const auto all = log.list(0, kMaxEvents + 100);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kMaxEvents));
  EXPECT_EQ(all.front().message, "10");
  EXPECT_EQ(log.list(std::nullopt, 2).back().id, log.last_id());
}

TEST_F(DatabaseTest, WhatStrangersCausePushesOutNothingButItsOwnKind) {
  const auto database = open();
  EventLog log(*database);
  append(log, "volume.deleted", "The one that is looked for.");
  database->transact([&](SQLite::Database&) {
    for (int i = 0; i < kMaxEvents + 10; ++i)
      append(log, i % 2 ? "session.refused" : "session.opened", std::to_string(i));
  });
  const auto all = log.list(0, kMaxEvents + 100);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kMaxEventsOfFamily) + 1);
  EXPECT_EQ(all.front().message, "The one that is looked for.");
  EXPECT_EQ(all.back().message, std::to_string(kMaxEvents + 9)) << "of its own kind the newest stay";
}

TEST_F(DatabaseTest, AnEventSaysHowOftenItHappened) {
  const auto database = open();
  EventLog log(*database);
  log.append({.at_ms = 1, .kind = "x", .side = {}, .volume = {}, .message = "m", .times = 791});
  EXPECT_EQ(log.list(std::nullopt, 1).at(0).times, 791);
  EXPECT_EQ(wire::events_from(wire::to_text(log.own(0, 10)))->at(0).times, 791) << "the partner is told, too";
}

TEST_F(DatabaseTest, APartnersEventThatWasPushedOutIsNotTakenOverAgain) {
  const auto database = open();
  EventLog log(*database);
  log.append_from_partner({{.id = 7, .at_ms = 1, .kind = "session.refused", .side = {}, .volume = {}, .message = "t"}});
  database->transact([&](SQLite::Database&) {
    for (int i = 0; i < kMaxEventsOfFamily; ++i) append(log, "session.refused", "mine");
  });
  EXPECT_EQ(log.last_from_partner(), 7);
  log.forget_partner_ids();
  EXPECT_EQ(log.last_from_partner(), 0);
}

TEST_F(DatabaseTest, ThePartnersEventsAreTakenOverOnceAndAreNotThisNodesOwn) {
  const auto database = open();
  EventLog log(*database);
  log.append({.at_ms = 1, .kind = "mine", .side = {}, .volume = {}, .message = "m"});
  Event theirs{.id = 7, .at_ms = 1, .kind = "theirs", .side = engine::NodeSide::b, .volume = {}, .message = "t"};
  log.append_from_partner({theirs});
  log.append_from_partner({theirs});
  EXPECT_EQ(log.list(std::nullopt, 10).size(), 2u);
  EXPECT_EQ(log.own(0, 10).size(), 1u);
  EXPECT_EQ(log.last_from_partner(), 7);
}

TEST_F(DatabaseTest, AJobSurvivesARestartAsItWas) {
  Job job;
  job.id = random_uuid();
  job.runner = random_uuid();
  job.kind = "volume.create";
  job.state = JobState::running;
  job.step = "sync";
  job.progress = 0.5;
  job.message = "m";
  job.error = Refusal{RefusalKind::conflict, "no", {{"/name", "taken"}}};
  job.volume = random_uuid();
  job.parameters = "{}";
  job.created_ms = 5;
  { JobTable(*open()).put(job); }
  const auto database = open();
  const auto kept = JobTable(*database).unfinished();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].step, "sync");
  EXPECT_EQ(kept[0].volume, job.volume);
  ASSERT_TRUE(kept[0].error);
  EXPECT_EQ(kept[0].error->kind, RefusalKind::conflict);
  EXPECT_EQ(kept[0].error->fields.at(0).pointer, "/name");
  const auto travelled = job_from(to_json_text(kept[0]));
  ASSERT_TRUE(travelled);
  EXPECT_EQ(travelled->parameters, "{}");
  EXPECT_EQ(travelled->runner, job.runner);
}

TEST_F(DatabaseTest, FinishedJobsAreBoundedAndUnfinishedOnesNeverHidden) {
  const auto database = open();
  JobTable jobs(*database);
  Job job;
  job.kind = "k";
  job.parameters = "{}";
  job.id = random_uuid();
  job.created_ms = 1;
  jobs.put(job);
  const Uuid unfinished = job.id;
  database->transact([&](SQLite::Database&) {
    for (int i = 0; i < kMaxFinishedJobs + 5; ++i) {
      job.id = random_uuid();
      job.state = JobState::done;
      job.created_ms = job.finished_ms = 10 + i;
      jobs.put(job);
    }
  });
  EXPECT_EQ(jobs.newest(5000).size(), static_cast<std::size_t>(kMaxFinishedJobs) + 1);
  EXPECT_EQ(jobs.newest(3).back().id, unfinished);
}

}  // namespace
}  // namespace lockstep::mgmt
