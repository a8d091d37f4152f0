#pragma once
// A Configuration's way into its tables and back. Both are called within a transaction of Database's.
#include "mgmt/control/configuration.hpp"

namespace SQLite {
class Database;
}

namespace lockstep::mgmt {

[[nodiscard]] Configuration load_configuration(SQLite::Database& db);
void save_configuration(SQLite::Database& db, const Configuration& configuration);

}  // namespace lockstep::mgmt
