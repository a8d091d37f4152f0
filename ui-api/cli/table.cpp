#include "ui-api/cli/table.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep::cli {
namespace {

std::size_t width(const std::string& s) {
  return static_cast<std::size_t>(
      std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void append_row(std::string& out, const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                const std::vector<bool>& right) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - width(cells[i]), ' ');
    if (i > 0) out += "  ";
    out += right[i] ? pad + cells[i] : cells[i] + pad;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

}  // namespace

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return text;
}

Table::Table(std::initializer_list<std::string> headings) {
  for (const std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    headings_.push_back(right_.back() ? heading.substr(1) : heading);
  }
}

void Table::add(std::vector<std::string> cells) {
  assert(cells.size() == headings_.size());
  for (std::string& cell : cells) cell = printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    std::size_t widest = width(headings_[i]);
    for (const auto& row : rows_) widest = std::max(widest, width(row[i]));
    widths.push_back(widest);
  }
  std::string out;
  append_row(out, headings_, widths, right_);
  for (const auto& row : rows_) append_row(out, row, widths, right_);
  return out;
}

void Facts::add(std::string name, std::string value) {
  lines_.emplace_back(std::move(name), printable(std::move(value)));
}

std::string Facts::text() const {
  std::size_t widest = 0;
  for (const auto& [name, value] : lines_) widest = std::max(widest, width(name));
  std::string out;
  for (const auto& [name, value] : lines_) append_row(out, {name, value}, {widest, width(value)}, {false, false});
  return out;
}

}  // namespace lockstep::cli
