#pragma once
// Records into the database's tables and out of them, columns by name (mgmt/records/rows.hpp). Within Database::use()
// or transact(); a statement that fails throws.
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/records/rows.hpp"

namespace SQLite {
class Database;
}

namespace lockstep::mgmt {

/// `verb`: "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE".
void insert_row(SQLite::Database& db, std::string_view table, const records::Row& row,
                std::string_view verb = "INSERT");
/// `rest`: what follows the table's name; its parameters ("?") are given in order.
[[nodiscard]] std::vector<records::Row> select_rows(SQLite::Database& db, const std::vector<std::string>& columns,
                                                    std::string_view table, std::string_view rest = "",
                                                    const std::vector<records::Cell>& parameters = {});

template <class Form, class Record>
[[nodiscard]] std::vector<Record> select_records(SQLite::Database& db, std::string_view table,
                                                 std::string_view rest = "",
                                                 const std::vector<records::Cell>& parameters = {}) {
  std::vector<Record> found;
  for (const auto& row : select_rows(db, records::columns_of<Form, Record>(), table, rest, parameters))
    found.push_back(records::record_of<Form, Record>(row));
  return found;
}

}  // namespace lockstep::mgmt
