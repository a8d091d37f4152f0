#include "mgmt/control/revision_tables.hpp"

#include <sstream>
#include <stdexcept>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

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

// Epochs of before there was such a table are not in it: they are of both nodes.
ConfigurationEpoch load_epoch(SQLite::Database& db, const Uuid& id) {
  ConfigurationEpoch epoch{.id = id};
  SQLite::Statement q(db, "SELECT number, members, forced, ancestors FROM configuration_epochs WHERE id = ?");
  q.bind(1, id.to_string());
  if (!q.executeStep()) return epoch;
  epoch.number = static_cast<std::uint64_t>(q.getColumn(0).getInt64());
  epoch.members.bits = static_cast<std::uint8_t>(q.getColumn(1).getInt());
  epoch.forced = q.getColumn(2).getInt() != 0;
  std::istringstream ancestors(q.getColumn(3).getString());
  RevisionId last;
  for (std::string one, change; ancestors >> one >> last.n >> change;)
    epoch.ancestors.push_back({parsed(one), last.n, parsed(change)});
  return epoch;
}

void save_epoch(SQLite::Database& db, const ConfigurationEpoch& epoch) {
  std::string ancestors;
  for (const auto& one : epoch.ancestors)
    ancestors += fmt::format("{} {} {} ", one.epoch.to_string(), one.n, one.change.to_string());
  SQLite::Statement q(db,
                      "INSERT OR REPLACE INTO configuration_epochs (id, number, members, forced, ancestors) "
                      "VALUES (?, ?, ?, ?, ?)");
  q.bind(1, epoch.id.to_string());
  q.bind(2, static_cast<std::int64_t>(epoch.number));
  q.bind(3, static_cast<int>(epoch.members.bits));
  q.bind(4, epoch.forced ? 1 : 0);
  q.bind(5, ancestors);
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

ConfigurationEpoch RevisionTables::epoch() {
  ConfigurationEpoch epoch;
  const Uuid id = head().epoch;
  database_.use([&](SQLite::Database& db) { epoch = load_epoch(db, id); });
  return epoch;
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
    if (!q.executeStep()) return;
    found = Tentative{id_of(q), q.getColumn(3).getString(), q.getColumn(4).getString()};
    found->epoch = load_epoch(db, found->id.epoch);
  });
  return found;
}

void RevisionTables::put_tentative(const Tentative& revision) {
  database_.transact([&](SQLite::Database& db) {
    drop(db);
    insert(db, revision.id, "tentative", revision.summary, &revision.document);
    save_epoch(db, revision.epoch);
  });
}

void RevisionTables::drop_tentative() { database_.transact(drop); }

void RevisionTables::commit(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string& summary,
                            const Configuration& configuration) {
  database_.transact([&](SQLite::Database& db) {
    drop(db);
    insert(db, id, "committed", summary, nullptr);
    save_epoch(db, epoch);
    save_configuration(db, configuration);
    SQLite::Statement q(db, "DELETE FROM revisions WHERE seq <= (SELECT max(seq) FROM revisions) - ?");
    q.bind(1, kRevisionsKept);
    q.exec();
    db.exec("DELETE FROM configuration_epochs WHERE id NOT IN (SELECT epoch FROM revisions)");
  });
}

}  // namespace lockstep::mgmt
