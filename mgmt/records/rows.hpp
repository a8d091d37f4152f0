#pragma once
// A record as a row of a table, in a form (fields.hpp), and back: columns by name. A nested record's columns begin with
// its field's name; what is not there is NULL; a list of words is one text. Of a form's rules `hidden` and `renamed`
// count, and it may have, for a record that has a column of its own words:
//   static void wrote(Row&, const std::string& prefix, const R&);  static void read(const Row&, const std::string&,
//   R&);
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mgmt/records/fields.hpp"

namespace lockstep::records {

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

class Row {
 public:
  void put(std::string column, Cell cell) { cells_.emplace_back(std::move(column), std::move(cell)); }
  void drop(std::string_view column) {
    std::erase_if(cells_, [&](const auto& cell) { return cell.first == column; });
  }
  [[nodiscard]] const Cell& at(std::string_view column) const {
    const auto found = std::ranges::find(cells_, column, &std::pair<std::string, Cell>::first);
    if (found == cells_.end()) throw std::runtime_error("There is no column " + std::string(column));
    return found->second;
  }
  [[nodiscard]] bool is_null(std::string_view column) const { return at(column).index() == 0; }
  [[nodiscard]] std::int64_t number(std::string_view column) const { return get<std::int64_t>(column); }
  [[nodiscard]] double real(std::string_view column) const { return get<double>(column); }
  [[nodiscard]] const std::string& text(std::string_view column) const { return get<std::string>(column); }
  [[nodiscard]] const std::vector<std::pair<std::string, Cell>>& cells() const { return cells_; }

 private:
  template <class T>
  const T& get(std::string_view column) const {
    const T* value = std::get_if<T>(&at(column));
    if (!value) throw std::runtime_error("The database holds something else in " + std::string(column));
    return *value;
  }
  std::vector<std::pair<std::string, Cell>> cells_;
};

[[nodiscard]] inline engine::Uuid uuid_in(const Row& row, std::string_view column) {
  const auto id = engine::Uuid::parse(row.text(column));
  if (!id) throw std::runtime_error("The database holds a malformed UUID: " + row.text(column));
  return *id;
}

template <class Form, class T>
void put(Row& row, const std::string& column, const T* value);
template <class Form, class T>
void take(const Row& row, const std::string& column, T& value);

[[nodiscard]] inline std::string prefix_of(const std::string& column) {
  return column.empty() || column.ends_with('_') ? column : column + "_";
}

/// `record` null: every column of it, NULL.
template <class Form, Record R>
void put_record(Row& row, const std::string& prefix, const R* record) {
  constexpr Rules how = rules<Form, R>();
  each_field<R>([&]<class Member>() {
    if constexpr (!lists(how.hidden, Member::name))
      put<Form, Field<R, Member>>(row, prefix + std::string(name_in<Form, R, Member>()),
                                  record ? &(record->*Member::pointer) : nullptr);
  });
  if constexpr (requires { Form::wrote(row, prefix, *record); })
    if (record) Form::wrote(row, prefix, *record);
}

template <class Form, class T>
void put(Row& row, const std::string& column, const T* value) {
  if constexpr (requires { Form::cell(*value); }) {
    row.put(column, value ? Cell(Form::cell(*value)) : Cell());
  } else if constexpr (is_optional<T>) {
    put<Form, typename T::value_type>(row, column, value && *value ? &**value : nullptr);
  } else if constexpr (Record<T>) {
    put_record<Form>(row, prefix_of(column), value);
  } else if (!value) {
    row.put(column, {});
  } else if constexpr (is_list<T>) {
    std::string words;
    for (const auto& word : *value) words += (words.empty() ? "" : " ") + word;
    row.put(column, words);
  } else if constexpr (std::is_same_v<T, engine::Uuid>) {
    row.put(column, value->to_string());
  } else if constexpr (Enumeration<T>) {
    row.put(column, word_of(*value));
  } else if constexpr (std::is_integral_v<T>) {
    row.put(column, static_cast<std::int64_t>(*value));
  } else {
    row.put(column, *value);
  }
}

template <class Form, Record R>
void take_record(const Row& row, const std::string& prefix, R& record) {
  constexpr Rules how = rules<Form, R>();
  each_field<R>([&]<class Member>() {
    if constexpr (!lists(how.hidden, Member::name))
      take<Form>(row, prefix + std::string(name_in<Form, R, Member>()), record.*Member::pointer);
  });
  if constexpr (requires { Form::read(row, prefix, record); }) Form::read(row, prefix, record);
}

/// The first column of a value: NULL in it says that there is none.
template <class Form, class T>
[[nodiscard]] std::string first_column(const std::string& column) {
  Row row;
  put<Form, T>(row, column, nullptr);
  return row.cells().front().first;
}

template <class Form, class T>
void take(const Row& row, const std::string& column, T& value) {
  if constexpr (requires { Form::take(row.text(column), value); }) {
    Form::take(row.text(column), value);
  } else if constexpr (is_optional<T>) {
    value.reset();
    if (!row.is_null(first_column<Form, typename T::value_type>(column))) take<Form>(row, column, value.emplace());
  } else if constexpr (Record<T>) {
    take_record<Form>(row, prefix_of(column), value);
  } else if constexpr (is_list<T>) {
    std::istringstream words(row.text(column));
    value = {std::istream_iterator<std::string>(words), {}};
  } else if constexpr (std::is_same_v<T, engine::Uuid>) {
    value = uuid_in(row, column);
  } else if constexpr (Enumeration<T>) {
    const auto found = from_word<T>(row.text(column));
    if (!found) throw std::runtime_error("The database holds an unknown word: " + row.text(column));
    value = *found;
  } else if constexpr (std::is_floating_point_v<T>) {
    value = row.real(column);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = row.number(column) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(row.number(column));
  } else {
    value = row.text(column);
  }
}

/// `record`'s row; `Form::wrote` puts what a description does not have.
template <class Form, Record R>
[[nodiscard]] Row row_of(const R& record) {
  Row row;
  put_record<Form>(row, "", &record);
  return row;
}

/// The columns of a record, of whatever value.
template <class Form, Record R>
[[nodiscard]] std::vector<std::string> columns_of() {
  std::vector<std::string> columns;
  const Row row = row_of<Form>(R());
  for (const auto& [column, cell] : row.cells()) columns.push_back(column);
  return columns;
}

template <class Form, Record R>
[[nodiscard]] R record_of(const Row& row) {
  R record;
  take_record<Form>(row, "", record);
  return record;
}

}  // namespace lockstep::records
