#pragma once
// Marks on rare branches: a test batch that never reaches one proves nothing about it. One increment of a static
// counter each. Mirrors on several threads may lose a count to one another; exact ones nobody needs.
#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::replication {

/// One rare branch. Declared by LOCKSTEP_MARK, lives for ever, found through all_marks().
class Mark {
 public:
  explicit Mark(const char* name);
  void hit() { count_.store(count() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] Mark* next() const { return next_; }

 private:
  const char* name_;
  std::atomic<std::uint64_t> count_{0};
  Mark* next_;
};

/// Every mark of the program with its count, reached or not, sorted by name; equal names are summed.
[[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> all_marks();

/// The static counter of one name. A template over the name makes it exist before main(), so that marks that were never
/// reached are listed too.
template <std::size_t N>
struct MarkName {
  char text[N];
  constexpr MarkName(const char (&from)[N]) {  // NOLINT: made from a literal
    for (std::size_t i = 0; i < N; ++i) text[i] = from[i];
  }
};
template <MarkName Name>
inline Mark mark_of{Name.text};

/// `mark<"apply.duplicate">()` counts one visit.
template <MarkName Name>
inline void mark() {
  mark_of<Name>.hit();
}

}  // namespace lockstep::replication
