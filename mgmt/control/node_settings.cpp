#include "mgmt/control/node_settings.hpp"

#include <SQLiteCpp/SQLiteCpp.h>

#include "mgmt/control/database.hpp"

namespace lockstep::mgmt {

std::optional<std::string> NodeSettings::get(const std::string& key) const {
  std::optional<std::string> value;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, "SELECT value FROM settings WHERE key = ?");
    q.bind(1, key);
    if (q.executeStep()) value = q.getColumn(0).getString();
  });
  return value;
}

void NodeSettings::set(const std::string& key, const std::string& value) {
  database_.transact([&](SQLite::Database& db) {
    SQLite::Statement q(db,
                        "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value");
    q.bind(1, key);
    q.bind(2, value);
    q.exec();
  });
}

void NodeSettings::erase(const std::string& key) {
  database_.transact([&](SQLite::Database& db) {
    SQLite::Statement q(db, "DELETE FROM settings WHERE key = ?");
    q.bind(1, key);
    q.exec();
  });
}

}  // namespace lockstep::mgmt
