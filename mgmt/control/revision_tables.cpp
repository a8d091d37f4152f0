#include "mgmt/control/revision_tables.hpp"

#include <stdexcept>

#include <SQLiteCpp/SQLiteCpp.h>

#include "mgmt/control/configuration_tables.hpp"
#include "mgmt/control/database.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

constexpr int kRevisionsKept = 1000;

Uuid parsed(const std::string& text) {
  const auto id = Uuid::parse(text);
  if (!id) throw std::runtime_error("The database holds a malformed UUID: " + text);
  return *id;
}

RevisionId id_of(SQLite::Statement& q) {
  return {parsed(q.getColumn(0).getString()), q.getColumn(1).getInt64(), parsed(q.getColumn(2).getString())};
}

void insert(SQLite::Database& db, const RevisionId& id, const char* state, const std::string& summary,
            const std::string* document) {
  SQLite::Statement q(
      db, "INSERT INTO revisions (epoch, n, change, state, summary, at_ms, document) VALUES (?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, id.epoch.to_string());
  q.bind(2, id.n);
  q.bind(3, id.change.to_string());
  q.bind(4, state);
  q.bind(5, summary);
  q.bind(6, wall_clock_ms());
  if (document) q.bind(7, *document);
  q.exec();
}

void drop(SQLite::Database& db) { db.exec("DELETE FROM revisions WHERE state = 'tentative'"); }

}  // namespace

RevisionTables::RevisionTables(Database& database) : database_(database) {
  database_.transact([](SQLite::Database& db) {
    if (db.execAndGet("SELECT count(*) FROM revisions WHERE state = 'committed'").getInt() == 0)
      insert(db, {random_uuid(), 0, random_uuid()}, "committed", "The beginning", nullptr);
  });
}

RevisionId RevisionTables::head() {
  RevisionId id;
  database_.use([&](SQLite::Database& db) {
    // By age, not by n: a node that joins a pair takes over the pair's numbers, which may be lower than its own.
    SQLite::Statement q(db,
                        "SELECT epoch, n, change FROM revisions WHERE state = 'committed' ORDER BY seq DESC LIMIT 1");
    if (!q.executeStep()) throw std::runtime_error("The database has no revision in force.");
    id = id_of(q);
  });
  return id;
}

Configuration RevisionTables::configuration() {
  Configuration configuration;
  database_.transact([&](SQLite::Database& db) { configuration = load_configuration(db); });
  return configuration;
}

std::optional<RevisionStore::Tentative> RevisionTables::tentative() {
  std::optional<Tentative> found;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, "SELECT epoch, n, change, summary, document FROM revisions WHERE state = 'tentative'");
    if (q.executeStep()) found = Tentative{id_of(q), q.getColumn(3).getString(), q.getColumn(4).getString()};
  });
  return found;
}

void RevisionTables::put_tentative(const Tentative& revision) {
  database_.transact([&](SQLite::Database& db) {
    drop(db);
    insert(db, revision.id, "tentative", revision.summary, &revision.document);
  });
}

void RevisionTables::drop_tentative() { database_.transact(drop); }

void RevisionTables::commit(const RevisionId& id, const std::string& summary, const Configuration& configuration) {
  database_.transact([&](SQLite::Database& db) {
    drop(db);
    insert(db, id, "committed", summary, nullptr);
    save_configuration(db, configuration);
    SQLite::Statement q(db, "DELETE FROM revisions WHERE seq <= (SELECT max(seq) FROM revisions) - ?");
    q.bind(1, kRevisionsKept);
    q.exec();
  });
}

}  // namespace lockstep::mgmt
