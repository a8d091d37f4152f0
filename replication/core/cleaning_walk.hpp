#pragma once
// Where the cleaner's look for dirty regions goes on: round and round, and in one turn of the reactor past so many at
// the most, whatever it finds; the volumes of a shard wait for it.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep::replication {

class CleaningWalk {
 public:
  static constexpr std::size_t kMostSeen = 262'144;

  /// Until `take` has said yes to `most`, or to as many as are worth a look, once around at the most. `next_dirty`: the
  /// first at a region or behind it, if there is one.
  template <class NextDirty, class Take>
  void look(std::size_t most, NextDirty next_dirty, Take take) {
    const std::size_t worth = std::min(4 * most, kMostSeen);
    const std::uint64_t start = cursor_;
    bool wrapped = false;
    std::size_t taken = 0;
    for (std::size_t seen = 0; seen < worth && taken < most; ++seen) {
      const auto next = next_dirty(cursor_);
      if (!next && wrapped) break;
      if (!next) {
        wrapped = true;
        cursor_ = 0;
        continue;
      }
      if (wrapped && *next >= start) break;
      cursor_ = *next + 1;
      if (take(*next)) ++taken;
    }
  }

 private:
  std::uint64_t cursor_ = 0;
};

}  // namespace lockstep::replication
