#pragma once
// A Configuration's way into its tables and back. Both are called within a transaction of Database's.
#include <map>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"

namespace SQLite {
class Database;
}

namespace lockstep::mgmt {

[[nodiscard]] Configuration load_configuration(SQLite::Database& db);
void save_configuration(SQLite::Database& db, const Configuration& configuration);
/// Of each table that keeps records, the columns that their descriptions come to. The schema, which migrations made, is
/// held against it by a test.
[[nodiscard]] std::map<std::string, std::vector<std::string>> described_columns();

}  // namespace lockstep::mgmt
