#pragma once
// Aligned columns for a terminal.
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::cli {

class Table {
 public:
  /// A heading that begins with '>' makes its column right-aligned (figures).
  explicit Table(std::initializer_list<std::string> headings);
  /// As many cells as there are headings. Control characters are shown as '?': what comes from outside must not move
  /// the cursor.
  void add(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Columns two spaces apart, no spaces at line ends; widths count characters, not bytes (UTF-8).
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// "name   value" lines, values aligned.
class Facts {
 public:
  void add(std::string name, std::string value);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

/// `text` with control characters shown as '?'.
[[nodiscard]] std::string printable(std::string text);

}  // namespace lockstep::cli
