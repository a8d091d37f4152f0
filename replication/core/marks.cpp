#include "replication/core/marks.hpp"

#include <map>

namespace lockstep::replication {
namespace {
Mark*& first_mark() {
  static Mark* first = nullptr;
  return first;
}
}  // namespace

Mark::Mark(const char* name) : name_(name), next_(first_mark()) { first_mark() = this; }

std::vector<std::pair<std::string_view, std::uint64_t>> all_marks() {
  std::map<std::string_view, std::uint64_t> sums;
  for (const Mark* at = first_mark(); at; at = at->next()) sums[at->name()] += at->count();
  return {sums.begin(), sums.end()};
}

}  // namespace lockstep::replication
