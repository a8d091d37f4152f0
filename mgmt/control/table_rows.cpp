#include "mgmt/control/table_rows.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

namespace lockstep::mgmt {
namespace {

void bind(SQLite::Statement& statement, int at, const records::Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) statement.bind(at, *number);
  if (const auto* real = std::get_if<double>(&cell)) statement.bind(at, *real);
  if (const auto* text = std::get_if<std::string>(&cell)) statement.bind(at, *text);
  // Nothing stays NULL.
}

records::Cell cell_of(const SQLite::Column& column) {
  if (column.isNull()) return {};
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  return column.getString();
}

}  // namespace

void insert_row(SQLite::Database& db, std::string_view table, const records::Row& row, std::string_view verb) {
  std::string columns, places;
  for (const auto& [column, cell] : row.cells()) {
    columns += (columns.empty() ? "" : ", ") + column;
    places += places.empty() ? "?" : ", ?";
  }
  SQLite::Statement statement(db, fmt::format("{} INTO {} ({}) VALUES ({})", verb, table, columns, places));
  int at = 0;
  for (const auto& [column, cell] : row.cells()) bind(statement, ++at, cell);
  statement.exec();
}

std::vector<records::Row> select_rows(SQLite::Database& db, const std::vector<std::string>& columns,
                                      std::string_view table, std::string_view rest,
                                      const std::vector<records::Cell>& parameters) {
  std::string list;
  for (const auto& column : columns) list += (list.empty() ? "" : ", ") + column;
  SQLite::Statement statement(db, fmt::format("SELECT {} FROM {} {}", list, table, rest));
  for (std::size_t i = 0; i < parameters.size(); ++i) bind(statement, static_cast<int>(i) + 1, parameters[i]);
  std::vector<records::Row> rows;
  while (statement.executeStep()) {
    records::Row row;
    for (std::size_t i = 0; i < columns.size(); ++i)
      row.put(columns[i], cell_of(statement.getColumn(static_cast<int>(i))));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::mgmt
